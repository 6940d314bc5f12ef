"""Runs SQL queries over history, reading only the events and columns that they need.

Each query is planned (`pipeline.sql.planning`) and gets its own engine, which can access no files
and no network except the history. A query that scans `events` once runs while history is decoded;
for a query that scans it several times, the needed events are stored first. `events`, `milestones`
and the views end with the same LSN. Must never know the caller, or how results are shown.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from difflib import get_close_matches
from typing import Final

import duckdb
import msgspec
import pyarrow as pa

from daybook.engine.facts.events import BY_NAME as KINDS
from daybook.journal.segments.segment import first_lsn_of
from daybook.pipeline.duck import NO_LIMITS, DuckEngine, Limits
from daybook.pipeline.engines import History
from daybook.pipeline.naming import NO_NAMES, NameTables
from daybook.pipeline.planning import make_plan
from daybook.pipeline.schema import ALL_COLUMNS, LSN
from daybook.pipeline.selection import Selection
from daybook.pipeline.sql.errors import SqlError, explained
from daybook.pipeline.sql.planning import Catalog, Need, hull
from daybook.pipeline.views import EVENTS, MILESTONE_COLUMNS, MILESTONES, VIEWS, milestones_of

DECODED: Final = "daybook_events"
"""The table with the decoded events, which has only some of the columns."""
_END: Final = (1 << 63) - 1
_NOT_READ: Final = " was not read; please report this query"


class Answer(msgspec.Struct, frozen=True):
    """The result of a query: its schema, and its rows, which are computed while they are read.

    `notes` are sentences for the user about names that history does not have.
    """

    schema: pa.Schema
    batches: Iterator[pa.RecordBatch]
    notes: tuple[str, ...] = ()


class Asking:
    """Runs queries over one history; a context manager."""

    def __init__(self, history: History, memory: int = 0, limits: Limits = NO_LIMITS) -> None:
        """`memory` is in bytes: see `DuckEngine`. Raises SelectionError for an empty history."""
        history.check()
        self._history: Final = history
        self._memory: Final = memory
        self._limits: Final = limits
        self.catalog: Final = Catalog()
        self._types: Final = dict(self.catalog.columns(EVENTS))

    @contextmanager
    def answer(self, sql: str) -> Iterator[Answer]:
        """Run a query; the result can be read as long as the context lasts.

        Raises SqlError and JournalError, also while the result is read.
        """
        question = self.catalog.check(sql)
        need = self.catalog.need(question)
        with ExitStack() as resources:
            engine, notes = self._engine(resources, need)
            if _takes_what_was_not_read(engine, question):
                # For a correlated subquery DuckDB passes all columns, used or not.
                resources.close()
                engine, notes = self._engine(
                    resources, msgspec.structs.replace(need, columns=ALL_COLUMNS)
                )
            try:
                schema, batches = engine.reader(question)
            except (duckdb.Error, pa.ArrowException) as error:
                raise SqlError(explained(error)) from error
            yield Answer(schema, _sentences(batches), notes)

    def _engine(self, resources: ExitStack, need: Need) -> tuple[DuckEngine, tuple[str, ...]]:
        """Return an engine that can access only the needed tables, and notes."""
        engine = resources.enter_context(DuckEngine(self._memory, self._limits))
        notes = self._provide(resources, engine, need)
        for view in VIEWS:
            engine.define(view.name, view.sql)
        engine.close_off([self._history.parquet] if self._history.parquet else [])
        return engine, notes

    def _provide(self, resources: ExitStack, engine: DuckEngine, need: Need) -> tuple[str, ...]:
        """Provide the needed tables, and the others without rows. Returns notes."""
        notes: tuple[str, ...] = ()
        selections: Sequence[Selection] = ()
        end: int | None = None
        if need.scans or need.milestones:
            end, names = self._end(any(each.needs_names for each in need.selections))
            selections, notes = self._possible(need.selections, names)
            notes = (*notes, *self._beginning())
        chosen = [msgspec.structs.replace(each, to_lsn=_least(each.to_lsn, end))
                  for each in selections]  # fmt: skip
        self._decode(resources, engine, need, chosen)
        if need.milestones:
            span = milestones_of(Selection(to_lsn=end))
            engine.load(MILESTONES, self._history, MILESTONE_COLUMNS, span)
        else:
            engine.define(MILESTONES, self._empty(MILESTONE_COLUMNS))
        return notes

    def _end(self, named: bool) -> tuple[int | None, NameTables]:
        """Return the current last LSN, and all names if `named`."""
        source = self._history.source
        if not (source.directory or source.archive):
            return None, NO_NAMES
        plan = make_plan(source, Selection(from_lsn=_END), names=named)
        return plan.last_lsn, plan.names

    def _beginning(self) -> tuple[str, ...]:
        """Return a note about the beginning of the history, if it does not begin with event 1."""
        source = self._history.source
        if self._history.parquet or not (source.directory or source.archive):
            return ()
        first = first_lsn_of(source.disk())
        if first <= 1:
            return ()
        hint = "" if source.archive else "; --with-archive reads the archive too"
        return (f"history begins with event {first} here, earlier events have left{hint}",)

    def _possible(
        self, selections: Sequence[Selection], names: NameTables
    ) -> tuple[list[Selection], tuple[str, ...]]:
        """Remove unknown names from selections, and selections that have only unknown names."""
        notes: dict[str, None] = {}
        found = []
        for each in selections:
            kinds = _known(each.kinds, list(KINDS), "kind of event", notes)
            if self._history.parquet:
                # DuckDB applies conditions on names to Parquet files too.
                queues: tuple[str, ...] = ()
                addresses: tuple[str, ...] = ()
                lists = [(each.kinds, kinds)]
            else:
                queues = _known(each.queues, names.queues.names, "queue", notes)
                addresses = _known(each.addresses, names.addresses.names, "address", notes)
                lists = [
                    (each.kinds, kinds), (each.queues, queues), (each.addresses, addresses)
                ]  # fmt: skip
            if all(left or not asked for asked, left in lists):
                found.append(
                    msgspec.structs.replace(each, kinds=kinds, queues=queues, addresses=addresses)
                )
        return found, tuple(notes)

    def _decode(
        self, resources: ExitStack, engine: DuckEngine, need: Need, selections: Sequence[Selection]
    ) -> None:
        """Provide `events`, with the needed columns and rows."""
        history = self._history
        if not selections:
            engine.define(EVENTS, self._empty(ALL_COLUMNS))
            return
        if need.scans == 1:
            resources.enter_context(engine.attached(DECODED, history, need.columns, selections[0]))
        elif history.parquet or len(selections) == 1:
            engine.load(DECODED, history, need.columns, hull(selections))
        else:
            _load_all(engine, history, need.columns, selections)
        # If a query used a column that was not read, the result would be silently wrong, so that is
        # an error.
        columns = (
            f'"{name}"' if name in need.columns
            else f"CAST(error('column {name}{_NOT_READ}') AS {self._types[name]})"
            for name in ALL_COLUMNS
        )  # fmt: skip
        # Named in an outer query, because EXPLAIN shows only the name of an expression that has
        # one.
        named = ", ".join(f'"{name}"' for name in ALL_COLUMNS)
        asked = f"SELECT {', '.join(columns)} FROM {DECODED}"
        engine.define(EVENTS, f"SELECT * FROM ({asked}) AS decoded({named})")

    def _empty(self, columns: Sequence[str]) -> str:
        """Return a query whose result has these columns and no rows."""
        typed = (f'CAST(NULL AS {self._types[name]}) AS "{name}"' for name in columns)
        return f"SELECT {', '.join(typed)} WHERE false"

    def close(self) -> None:
        """Close the catalog."""
        self.catalog.close()

    def __enter__(self) -> "Asking":
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def _takes_what_was_not_read(engine: DuckEngine, question: str) -> bool:
    """Return whether an engine would use columns that were not read."""
    try:
        explanation = engine.ask("EXPLAIN (FORMAT JSON)\n" + question)
    except duckdb.Error:
        # An error in the query is reported when it runs.
        return False
    return _NOT_READ in explanation.column(explanation.num_columns - 1)[-1].as_py()


def _load_all(
    engine: DuckEngine, history: History, columns: Sequence[str], selections: Sequence[Selection]
) -> None:
    """Load the union of the selections, without duplicates."""
    names = tuple(dict.fromkeys((LSN, *columns)))
    parts: list[str] = []
    for number, selection in enumerate(selections):
        engine.load(f"{DECODED}_{number}", history, names, selection)
        part = f"SELECT * FROM {DECODED}_{number}"
        for before in range(number):
            part += f" ANTI JOIN {DECODED}_{before} USING ({LSN})"
        parts.append(part)
    engine.define(DECODED, " UNION ALL ".join(f"({part})" for part in parts))


def _least(one: int | None, other: int | None) -> int | None:
    if one is None or other is None:
        return one if other is None else other
    return min(one, other)


def _known(
    asked: tuple[str, ...], there: Sequence[str], what: str, notes: dict[str, None]
) -> tuple[str, ...]:
    """Return the known names; add a note about each other name."""
    known = set(there)
    for name in asked:
        if name not in known:
            close = get_close_matches(name, sorted(known), n=1, cutoff=0.5)
            hint = f"; did you mean '{close[0]}'?" if close else ""
            notes[f"history has no {what} '{name}'{hint}"] = None
    return tuple(name for name in asked if name in known)


def _sentences(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the batches; translate errors of the query into SqlError."""
    try:
        yield from batches
    except (duckdb.Error, pa.ArrowException) as error:
        raise SqlError(explained(error)) from error
