"""Plans a query: which tables, columns and events it needs, before any event is read.

DuckDB explains the query over empty tables; the columns and conditions of each scan become columns
and a selection. Conditions that are not understood are ignored here. DuckDB applies all conditions
again, so the result is the same as over all events. Must never know where events are, or run a
query.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any, Final

import duckdb
import msgspec
import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from daybook.pipeline.duck import NO_EXTENSIONS
from daybook.pipeline.schema import ALL_COLUMNS, LSN, arrow_schema
from daybook.pipeline.schema import BY_NAME as COLUMNS
from daybook.pipeline.selection import Selection
from daybook.pipeline.sql.errors import SqlError, explained
from daybook.pipeline.sql.fence import Fence
from daybook.pipeline.views import EVENTS, MILESTONE_COLUMNS, MILESTONES, VIEWS
from daybook.times import EPOCH

SCAN: Final = "PYTHON_ARROW_SCAN"
FILTER: Final = "FILTER"
RECURSION: Final = "REC_CTE"
MARK: Final = "milestones_"
"""Prefix of the columns of `milestones` in explanations, because scans do not name their tables."""
_LEAST: Final = 1
_MOST: Final = (1 << 63) - 1
_NAMED: Final = {"kind": "kinds", "queue": "queues", "address": "addresses", "message": "messages"}
"""Columns whose values a selection can list, and the names of those lists."""
_FLIPPED: Final[dict[type[exp.Expr], type[exp.Expr]]] = {
    exp.GT: exp.LT, exp.GTE: exp.LTE, exp.LT: exp.GT, exp.LTE: exp.GTE, exp.EQ: exp.EQ,
}  # fmt: skip
_EXPLAIN: Final = "EXPLAIN (FORMAT JSON)\n"


class Need(msgspec.Struct, frozen=True):
    """The needs of a query.

    `scans` is how often it reads `events` (2 or more for a recursion), `columns` which columns of
    it. It reads the union of the `selections`; if there are none, no event can match. `milestones`
    says whether it reads that table.
    """

    scans: int = 0
    columns: tuple[str, ...] = ()
    selections: tuple[Selection, ...] = ()
    milestones: bool = False


class Catalog:
    """Empty tables and the views over them, to explain queries; a context manager."""

    def __init__(self) -> None:
        self._connection: Final = duckdb.connect(config={"threads": 1, **NO_EXTENSIONS})
        self._connection.execute("SET TimeZone = 'UTC'")
        self._connection.execute("SET python_enable_replacements = false")
        self._connection.execute("SET enable_external_access = false")
        # It replaces a long list of values by a join, which hides the condition on the scan.
        self._connection.execute("SET disabled_optimizers = 'in_clause'")
        whole = arrow_schema(ALL_COLUMNS)
        self._connection.register(EVENTS, whole.empty_table())
        marked = arrow_schema(MILESTONE_COLUMNS).empty_table()
        marked = marked.rename_columns([MARK + name for name in MILESTONE_COLUMNS])
        self._connection.register("marked", marked)
        named = ", ".join(f"{MARK}{name} AS {name}" for name in MILESTONE_COLUMNS)
        self._connection.execute(f"CREATE VIEW {MILESTONES} AS SELECT {named} FROM marked")
        for view in VIEWS:
            self._connection.execute(f"CREATE VIEW {view.name} AS {view.sql}")
        self._connection.execute("SET lock_configuration = true")
        self._fence: Final = Fence(self._connection)

    def check(self, sql: str) -> str:
        """Return the one query in a text; raises SqlError if there is not exactly one, or if it
        uses more than the history (`pipeline.sql.fence`)."""
        try:
            statements = self._connection.extract_statements(sql)
        except duckdb.Error as error:
            raise SqlError(explained(error)) from error
        if not statements:
            raise SqlError("there is no query; write one like: SELECT count(*) FROM events")
        if len(statements) > 1:
            raise SqlError("there are several queries; run one at a time")
        kind = statements[0].type.name
        if kind == _PIVOT:
            raise SqlError(_NO_PIVOT)
        if kind != "SELECT":
            raise SqlError(
                f"{kind} is not possible: history can be read, not changed; SELECT, WITH, FROM, "
                "VALUES, DESCRIBE and SUMMARIZE are possible" + _INSTEAD.get(kind, ""),
                options=_OPTIONS.get(kind, ""),
            )
        question = statements[0].query.strip().rstrip(";")
        self._fence.check(question)
        return question

    def need(self, sql: str) -> Need:
        """Return what a query needs. Raises SqlError if it is invalid."""
        try:
            rows = self._connection.execute(_EXPLAIN + sql).fetchall()
        except duckdb.Error as error:
            raise SqlError(explained(error, lines_before=1)) from error
        try:
            trees = json.loads(rows[-1][1])
            scans = [scan for tree in trees for scan in _scans(tree, ())]
        except RecursionError:
            raise SqlError("the query is nested too deeply; write it in fewer levels") from None
        events = [scan for scan in scans if not scan.is_milestones]
        columns = {name for scan in events for name in scan.columns}
        # Each round of a recursion scans the tables again.
        rounds = 2 if any(_recurs(tree) for tree in trees) else 1
        return Need(
            len(events) * rounds,
            tuple(name for name in ALL_COLUMNS if name in columns),
            widest([selection_of(scan.conditions) for scan in events]),
            len(events) < len(scans),
        )

    def columns(self, table: str) -> list[tuple[str, str]]:
        """Return names and types of the columns of a table or view. Raises SqlError."""
        quoted = table.replace('"', '""')
        try:
            rows = self._connection.execute(f'DESCRIBE "{quoted}"').fetchall()
        except duckdb.Error as error:
            raise SqlError(explained(error)) from error
        return [(row[0], row[1]) for row in rows]

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def __enter__(self) -> "Catalog":
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


_PIVOT: Final = "MULTI"
"""What DuckDB makes of a PIVOT that has to find its columns first: several statements."""
_NO_PIVOT: Final = (
    "PIVOT needs to know its columns here; name them: PIVOT events ON queue IN ('orders', 'bills')"
    " USING count(*), or write sums: count(*) FILTER (WHERE queue = 'orders')"
)
_OPTIONS: Final = {
    "COPY": "; --format and --output write the result to a file",
    "EXPORT": "; --format and --output write the result to a file",
    "ATTACH": "; --parquet and --archive add more history",
}
"""Options of the command line instead of some statements."""
_INSTEAD: Final = {
    "CREATE": "; name parts of a query with WITH name AS (SELECT ...)",
}
"""Alternatives to some statements."""


class _Scan(msgspec.Struct, frozen=True):
    columns: tuple[str, ...]
    conditions: tuple[str, ...]
    is_milestones: bool


def _scans(node: dict[str, Any], conditions: tuple[str, ...]) -> Iterator[_Scan]:
    """Yield the scans under a node of an explanation; `conditions` are those of the nodes above."""
    info = node["extra_info"]
    if node["name"] == SCAN:
        names = _texts(info.get("Projections"))
        marked = bool(names) and all(name.startswith(MARK) for name in names)
        known = tuple(names) if all(name in COLUMNS for name in names) and names else ALL_COLUMNS
        found = conditions + tuple(_texts(info.get("Filters")))
        extra = () if marked else tuple(name for each in found for name in _named_in(each))
        yield _Scan(tuple(dict.fromkeys((*known, *extra))), found, marked)
        return
    # Columns have their own names only directly above a scan.
    above: tuple[str, ...] = ()
    if node["name"] == FILTER:
        texts = _texts(info.get("Expression"))
        # A condition with a line feed is split into several texts, which cannot be parsed alone.
        above = tuple(texts) if len(texts) == 1 else ()
    for child in node["children"]:
        yield from _scans(child, above)


def _recurs(node: dict[str, Any]) -> bool:
    return node["name"] == RECURSION or any(_recurs(child) for child in node["children"])


def _texts(value: Any) -> list[str]:
    """Return the texts of an entry of an explanation, which may be nothing, one or several."""
    if value is None:
        return []
    return [value] if isinstance(value, str) else list(value)


def _parsed(condition: str) -> exp.Expr | None:
    try:
        return sqlglot.parse_one(condition, read="duckdb")
    except (SqlglotError, ValueError, RecursionError):
        return None


def _named_in(condition: str) -> Iterator[str]:
    """Yield the columns of events in a condition; all columns if it cannot be parsed."""
    tree = _parsed(condition)
    if tree is None:
        yield from ALL_COLUMNS
        return
    for column in tree.find_all(exp.Column):
        if column.name in COLUMNS:
            yield column.name


class _Span:
    """Bounds that get narrower; the span is empty when they cross."""

    def __init__(self, least: int, most: int) -> None:
        self.least = least
        self.most = most

    def at_least(self, value: int) -> None:
        self.least = max(self.least, value)

    def at_most(self, value: int) -> None:
        self.most = min(self.most, value)


def selection_of(conditions: Iterable[str]) -> Selection | None:
    """Return a selection that includes all events that fulfil these conditions, None if none can.

    Only parts joined by AND that compare one column with values are used.
    """
    narrowing = _Narrowing()
    for text in conditions:
        tree = _parsed(text)
        if tree is not None:
            # A condition that is nested too deeply narrows nothing; those before it hold.
            with suppress(RecursionError):
                for each in _joined(tree, exp.And):
                    narrowing.take(each)
    return narrowing.selection()


def _joined(tree: exp.Expr, by: type[exp.And | exp.Or]) -> Iterator[exp.Expr]:
    tree = tree.unnest()
    if isinstance(tree, by):
        yield from _joined(tree.left, by)
        yield from _joined(tree.right, by)
    else:
        yield tree


class _Narrowing:
    """A selection that is narrowed condition by condition."""

    def __init__(self) -> None:
        self._spans: Final = {LSN: _Span(_LEAST, _MOST), "time": _Span(-_MOST, _MOST)}
        self._values: Final[dict[str, set[str | int]]] = {}

    def take(self, tree: exp.Expr) -> None:
        """Narrow by a condition, if it is understood."""
        if isinstance(tree, exp.Between):
            self._compare(tree.this, exp.GTE, tree.args["low"])
            self._compare(tree.this, exp.LTE, tree.args["high"])
        elif isinstance(tree, exp.Binary) and type(tree) in _FLIPPED:
            if _column(tree.left):
                self._compare(tree.left, type(tree), tree.right)
            else:
                self._compare(tree.right, _FLIPPED[type(tree)], tree.left)
        elif isinstance(tree, exp.In | exp.Or):
            self._take_any(tree)

    def _compare(self, column: exp.Expr, how: type[exp.Expr], value: exp.Expr) -> None:
        name, number = _column(column), _value(value)
        if number is None:
            return
        if how is exp.EQ:
            self._among(name, {number})
        elif name in self._spans and isinstance(number, int):
            span = self._spans[name]
            # Bounds are always inclusive here: explanations do not always show which; DuckDB checks
            # again.
            if how in (exp.GT, exp.GTE):
                span.at_least(number)
            else:
                span.at_most(number)

    def _take_any(self, tree: exp.In | exp.Or) -> None:
        """Narrow by a list of values of one column: as IN, or as comparisons joined by OR."""
        if isinstance(tree, exp.In):
            pairs = [(_column(tree.this), _value(each)) for each in tree.expressions]
        else:
            pairs = [
                (_column(each.left), _value(each.right)) if isinstance(each, exp.EQ) else ("", None)
                for each in _joined(tree, exp.Or)
            ]
        names = {name for name, _ in pairs}
        values = {value for _, value in pairs if value is not None}
        if len(names) == 1 and pairs and all(value is not None for _, value in pairs):
            self._among(names.pop(), values)

    def _among(self, name: str, values: set[str | int]) -> None:
        """Narrow to values of a column."""
        kinds = {type(value) for value in values}
        numbers = [value for value in values if isinstance(value, int)]
        if name in self._spans and kinds == {int}:
            self._spans[name].at_least(min(numbers))
            self._spans[name].at_most(max(numbers))
        elif (name == "message" and kinds == {int} and min(numbers) > 0) or (
            # `#id` stands for an id without a known name, so it cannot be searched by name.
            name in _NAMED
            and kinds == {str}
            and not any(str(value).startswith("#") for value in values)
        ):
            self._values[name] = self._values.get(name, values) & values

    def selection(self) -> Selection | None:
        """Return the selection, None if it is empty."""
        lsn, time = self._spans[LSN], self._spans["time"]
        crossed = lsn.least > lsn.most or time.least > time.most
        if crossed or any(not values for values in self._values.values()):
            return None
        listed: dict[str, Any] = {
            _NAMED[name]: tuple(sorted(values, key=str)) for name, values in self._values.items()
        }
        return Selection(
            from_lsn=lsn.least,
            to_lsn=lsn.most if lsn.most < _MOST else None,
            since=time.least if time.least > -_MOST else None,
            until=time.most if time.most < _MOST else None,
            **listed,
        )


def _column(tree: exp.Expr) -> str:
    """Return the name of a column of events, "" for other expressions."""
    tree = tree.unnest()
    return tree.name if isinstance(tree, exp.Column) and not tree.table else ""


def _value(tree: exp.Expr) -> str | int | None:
    """Return a text, an integer, or a time in microseconds; None for other expressions."""
    tree = tree.unnest()
    if isinstance(tree, exp.Literal):
        if tree.is_string:
            return str(tree.this)
        return int(tree.this) if tree.is_int else None
    if isinstance(tree, exp.Neg):
        number = _value(tree.this)
        return -number if isinstance(number, int) else None
    if isinstance(tree, exp.Cast) and tree.to.is_type(exp.DataType.Type.TIMESTAMPTZ):
        return _time(tree.this)
    return None


def _time(tree: exp.Expr) -> int | None:
    if not (isinstance(tree, exp.Literal) and tree.is_string):
        return None
    try:
        when = datetime.fromisoformat(tree.this)
    except ValueError:
        return None
    if when.tzinfo is None:
        return None
    since = when - EPOCH
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


def widest(selections: Iterable[Selection | None]) -> tuple[Selection, ...]:
    """Return the selections that no other one covers."""
    found: list[Selection] = []
    for each in selections:
        if each is None or any(hull([other, each]) == other for other in found):
            continue
        found = [other for other in found if hull([other, each]) != each]
        found.append(each)
    return tuple(found)


def hull(selections: Sequence[Selection]) -> Selection:
    """Return the smallest selection that covers all of these; there must be at least one."""
    tos = [each.to_lsn for each in selections]
    earliest = [each.since for each in selections]
    latest = [each.until for each in selections]
    return Selection(
        kinds=_united([each.kinds for each in selections]),
        queues=_united([each.queues for each in selections]),
        addresses=_united([each.addresses for each in selections]),
        messages=_united([each.messages for each in selections]),
        from_lsn=min(each.from_lsn for each in selections),
        to_lsn=None if None in tos else max(each for each in tos if each is not None),
        since=None if None in earliest else min(each for each in earliest if each is not None),
        until=None if None in latest else max(each for each in latest if each is not None),
    )


def _united(lists: Sequence[tuple[Any, ...]]) -> tuple[Any, ...]:
    """Return the union of lists; an empty list stands for everything."""
    if not all(lists):
        return ()
    return tuple(sorted({value for each in lists for value in each}))
