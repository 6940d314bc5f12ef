"""Answers to queries in SQL, for a page and for a file: limited in rows, text, memory and disk.

Needs DuckDB and Arrow, which belong to the extra `sql`: `console.jobs.queries` imports it when the
first query is asked. Fault model: any query is hostile (`pipeline.sql.fence`); it may ask for more
than there is of anything, and the pool ends it when its time is over.
"""

import io
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeAlias

import duckdb
import pyarrow as pa

from daybook.pipeline.duck import Limits
from daybook.pipeline.engines import History
from daybook.pipeline.planning import Source
from daybook.pipeline.schema import DUCK, type_name
from daybook.pipeline.sql.asking import Answer, Asking
from daybook.pipeline.sql.errors import SqlError, explained
from daybook.pipeline.sql.planning import Catalog
from daybook.pipeline.sql.tables import TABLES, columns_of
from daybook.pipeline.sql.writing import harmless, rows, text, write_csv, write_json
from daybook.recovery.signing.export_proof import redacted_in

MEMORY: Final = 768 << 20
"""What DuckDB may take; the rest of what a worker may take is for decoding."""
LIMITS: Final = Limits(threads=2, spill_bytes=1 << 30, batch_rows=2048)
Cell: TypeAlias = str | tuple[str, int] | None
"""A value as a page shows it: text, the beginning of one with its length, or null."""
COLUMNS_MAX: Final = 100
CELL_CHARS_MAX: Final = 300
PAGE_CHARS_MAX: Final = 2 << 20
COUNTED_MAX: Final = 100_000
"""So many rows are counted behind those that are shown, for COUNT_SECONDS at most."""
COUNT_SECONDS: Final = 3.0
FILE_CHARS_MAX: Final = 16 << 20


def answer(directory: str, sql: str, most: int) -> dict[str, Any]:
    """Return the first rows of an answer, as text, with names and types of its columns, and how
    many rows follow. Raises SqlError."""
    with _asked(directory, sql) as found:
        fields = list(found.schema)
        if len(fields) > COLUMNS_MAX:
            raise SqlError(
                f"the answer has {len(fields):,} columns; a page shows at most {COLUMNS_MAX}"
            )
        shown, more, is_counted = _first(found.batches, most)
        return {
            "columns": [
                {"name": each.name, "type": _type(each.type), "kind": _kind(each.type)}
                for each in fields
            ],
            "rows": shown,
            "more": more,
            "is_counted": is_counted,
            "notes": _notes(directory, found),
        }


def export(directory: str, sql: str, form: str) -> str:
    """Return an answer as CSV or JSON. Raises SqlError, also if it is too long for a file of the
    console."""
    file = _Bounded()
    with _asked(directory, sql) as found:
        if form == "csv":
            write_csv(found.schema, found.batches, file, shown=harmless)
        else:
            write_json(found.schema, found.batches, file)
    return file.getvalue()


def tables() -> list[dict[str, Any]]:
    """Return the tables, with their columns, and the meaning of each."""
    with Catalog() as catalog:
        return [
            {"name": name, "doc": doc, "columns": columns_of(catalog, name)}
            for name, doc in TABLES.items()
        ]


@contextmanager
def _asked(directory: str, sql: str) -> Iterator[Answer]:
    """Ask a query over the journal of a data directory. Raises SqlError and JournalError."""
    try:
        with (
            Asking(History(Source(directory)), MEMORY, LIMITS) as asking,
            asking.answer(sql) as found,
        ):
            yield found
    except SqlError as error:
        # A page has no options of the command line.
        raise SqlError(error.text) from error
    except (duckdb.Error, pa.ArrowException) as error:
        raise SqlError(explained(error)) from error
    except RecursionError:
        raise SqlError("the query is nested too deeply; write it in fewer levels") from None


def _notes(directory: str, found: Answer) -> list[str]:
    note = redacted_in(Path(directory)).note
    return [*found.notes, *([note] if note else [])]


def _first(batches: Iterator[pa.RecordBatch], most: int) -> tuple[list[list[Cell]], int, bool]:
    """Return the first rows, how many others follow, and whether that is all of them."""
    shown: list[list[Cell]] = []
    chars = count = 0
    until = float("inf")
    for batch in batches:
        count += batch.num_rows
        for row in rows(batch.slice(0, most - len(shown)), text, each=True):
            if chars > PAGE_CHARS_MAX:
                break
            shown.append([_cell(value) for value in row])
            chars += sum(map(_length, shown[-1]))
        if count > len(shown):
            until = min(until, time.monotonic() + COUNT_SECONDS)
            if count - len(shown) >= COUNTED_MAX or time.monotonic() > until:
                return shown, count - len(shown), False
    return shown, count - len(shown), True


def _cell(value: Any) -> Cell:
    """Return a value as text, None for null, and the beginning of a long one with its length."""
    if value is None:
        return None
    shown = format(value, ".15g") if isinstance(value, float) else str(value)
    if len(shown) > CELL_CHARS_MAX:
        return shown[:CELL_CHARS_MAX], len(shown)
    return shown


def _length(cell: Cell) -> int:
    return len(cell[0] if isinstance(cell, tuple) else cell or "")


def _type(kind: pa.DataType) -> str:
    """Return the name that people know a type by; that of Arrow where `events` has none like it."""
    try:
        return type_name(kind, DUCK)
    except KeyError:
        return str(kind)


def _kind(kind: pa.DataType) -> str:
    """Return what a chart can do with a column: it has numbers, times, or texts."""
    types = pa.types
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        return "number"
    return "time" if types.is_timestamp(kind) or types.is_date(kind) else "text"


class _Bounded(io.StringIO):
    """A file that refuses to become too long."""

    def write(self, text: str) -> int:
        """Write; raises SqlError."""
        if self.tell() + len(text) > FILE_CHARS_MAX:
            raise SqlError(
                f"the answer is longer than {FILE_CHARS_MAX >> 20} MiB, which is the most for a"
                " file from the console; ask for less, or use the command line with --output"
            )
        return super().write(text)
