"""Answering questions about history in SQL, with only what they need of it read.

Each question is planned (`pipeline.sql.planning`) and gets an engine of its own, which reads no
files and no network but history. A question that scans `events` once is answered while history is
decoded; one that does so several times has what it needs stored first. `events`, `milestones` and
the views end with the same LSN. Must never know who asks, or how answers are shown.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from difflib import get_close_matches
from typing import Final

import duckdb
import msgspec
import pyarrow as pa

from daybook.engine.events import BY_NAME as KINDS
from daybook.journal.segment import first_lsn_of
from daybook.pipeline.duck import DuckEngine
from daybook.pipeline.engines import History
from daybook.pipeline.naming import NO_NAMES, NameTables
from daybook.pipeline.planning import make_plan
from daybook.pipeline.schema import ALL_COLUMNS, LSN
from daybook.pipeline.selection import Selection
from daybook.pipeline.sql.planning import Catalog, Need, SqlError, explained, hull
from daybook.pipeline.views import EVENTS, MILESTONE_COLUMNS, MILESTONES, VIEWS, milestones_of

DECODED: Final = "daybook_events"
"""What was read of `events`, which has some of its columns."""
_END: Final = (1 << 63) - 1
_NOT_READ: Final = " was not read; please report this question"


class Answer(msgspec.Struct, frozen=True):
    """An answer: its columns, and its rows, which come while they are taken.

    `notes` are sentences for whoever asked, about names that history does not have.
    """

    schema: pa.Schema
    batches: Iterator[pa.RecordBatch]
    notes: tuple[str, ...] = ()


class Asking:
    """Asks one history; a context manager."""

    def __init__(self, history: History, memory: int = 0) -> None:
        """`memory` is in bytes: see `DuckEngine`. Raises SelectionError for an empty history."""
        history.check()
        self._history: Final = history
        self._memory: Final = memory
        self.catalog: Final = Catalog()
        self._types: Final = dict(self.catalog.columns(EVENTS))

    @contextmanager
    def answer(self, sql: str) -> Iterator[Answer]:
        """The answer to a question; it can be read as long as the context lasts.

        Raises SqlError and JournalError, also while it is read.
        """
        question = self.catalog.check(sql)
        need = self.catalog.need(question)
        with ExitStack() as held:
            engine, notes = self._engine(held, need)
            if _takes_what_was_not_read(engine, question):
                # Of a correlated subquery DuckDB carries all columns along, used or not.
                held.close()
                engine, notes = self._engine(
                    held, msgspec.structs.replace(need, columns=ALL_COLUMNS)
                )
            try:
                schema, batches = engine.reader(question)
            except duckdb.Error as error:
                raise SqlError(explained(error)) from error
            yield Answer(schema, _sentences(batches), notes)

    def _engine(self, held: ExitStack, need: Need) -> tuple[DuckEngine, tuple[str, ...]]:
        """An engine with what is needed, and nothing else in reach. Returns notes, too."""
        engine = held.enter_context(DuckEngine(self._memory))
        notes = self._provide(held, engine, need)
        for view in VIEWS:
            engine.define(view.name, view.sql)
        engine.close_off([self._history.parquet] if self._history.parquet else [])
        return engine, notes

    def _provide(self, held: ExitStack, engine: DuckEngine, need: Need) -> tuple[str, ...]:
        """Have the tables that are needed, and the others without rows. Returns notes."""
        notes: tuple[str, ...] = ()
        selections: Sequence[Selection] = ()
        end: int | None = None
        if need.scans or need.milestones:
            end, names = self._end(any(each.needs_names for each in need.selections))
            selections, notes = self._possible(need.selections, names)
            notes = (*notes, *self._beginning())
        chosen = [msgspec.structs.replace(each, to_lsn=_least(each.to_lsn, end))
                  for each in selections]  # fmt: skip
        self._decode(held, engine, need, chosen)
        if need.milestones:
            span = milestones_of(Selection(to_lsn=end))
            engine.load(MILESTONES, self._history, MILESTONE_COLUMNS, span)
        else:
            engine.define(MILESTONES, self._empty(MILESTONE_COLUMNS))
        return notes

    def _end(self, named: bool) -> tuple[int | None, NameTables]:
        """The last LSN that there is now, and if asked for, all names that there are."""
        source = self._history.source
        if not (source.directory or source.archive):
            return None, NO_NAMES
        plan = make_plan(source, Selection(from_lsn=_END), names=named)
        return plan.last_lsn, plan.names

    def _beginning(self) -> tuple[str, ...]:
        """A note about where history begins, if that is not its first event."""
        source = self._history.source
        if self._history.parquet or not (source.directory or source.archive):
            return ()
        first = first_lsn_of(source.disk())
        if first <= 1:
            return ()
        hint = "" if source.archive else "; --with-archive asks the archive, too"
        return (f"history begins with event {first} here, what was before it has left{hint}",)

    def _possible(
        self, selections: Sequence[Selection], names: NameTables
    ) -> tuple[list[Selection], tuple[str, ...]]:
        """The selections without names that nobody has, and those left out that have only such."""
        notes: dict[str, None] = {}
        found = []
        for each in selections:
            kinds = _known(each.kinds, list(KINDS), "kind of event", notes)
            if self._history.parquet:
                # Conditions on names are applied to Parquet files as to everything else.
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
        self, held: ExitStack, engine: DuckEngine, need: Need, selections: Sequence[Selection]
    ) -> None:
        """Have `events`, with what is needed of them."""
        history = self._history
        if not selections:
            engine.define(EVENTS, self._empty(ALL_COLUMNS))
            return
        if need.scans == 1:
            held.enter_context(engine.attached(DECODED, history, need.columns, selections[0]))
        elif history.parquet or len(selections) == 1:
            engine.load(DECODED, history, need.columns, hull(selections))
        else:
            _load_all(engine, history, need.columns, selections)
        # Were a column read that is said to be not needed, the answer would be wrong in silence.
        columns = (
            f'"{name}"' if name in need.columns
            else f"CAST(error('column {name}{_NOT_READ}') AS {self._types[name]})"
            for name in ALL_COLUMNS
        )  # fmt: skip
        # Named from outside: an explanation tells an expression that has a name by that alone.
        named = ", ".join(f'"{name}"' for name in ALL_COLUMNS)
        asked = f"SELECT {', '.join(columns)} FROM {DECODED}"
        engine.define(EVENTS, f"SELECT * FROM ({asked}) AS decoded({named})")

    def _empty(self, columns: Sequence[str]) -> str:
        """A question whose answer has these columns and no rows."""
        typed = (f'CAST(NULL AS {self._types[name]}) AS "{name}"' for name in columns)
        return f"SELECT {', '.join(typed)} WHERE false"

    def close(self) -> None:
        """Let go of everything."""
        self.catalog.close()

    def __enter__(self) -> "Asking":
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def _takes_what_was_not_read(engine: DuckEngine, question: str) -> bool:
    """Whether an engine would look at columns that the question does not need."""
    try:
        explanation = engine.ask("EXPLAIN (FORMAT JSON)\n" + question)
    except duckdb.Error:
        # What is wrong with the question is told when it is asked.
        return False
    return _NOT_READ in explanation.column(explanation.num_columns - 1)[-1].as_py()


def _load_all(
    engine: DuckEngine, history: History, columns: Sequence[str], selections: Sequence[Selection]
) -> None:
    """Load what any of the selections has, once."""
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
    """The names that are there; of the others a note is taken."""
    known = set(there)
    for name in asked:
        if name not in known:
            close = get_close_matches(name, sorted(known), n=1, cutoff=0.5)
            hint = f"; did you mean '{close[0]}'?" if close else ""
            notes[f"history has no {what} '{name}'{hint}"] = None
    return tuple(name for name in asked if name in known)


def _sentences(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same, with what is wrong with a question told in sentences."""
    try:
        yield from batches
    except (duckdb.Error, pa.ArrowException) as error:
        raise SqlError(explained(error)) from error
