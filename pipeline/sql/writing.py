"""Answers in forms for programs: CSV and JSON, written while they are read.

Bodies and other bytes are text where they are UTF-8, else `\\x` and hexadecimal digits; times are
ISO 8601 in UTC. Must never know the query, or where the text goes.
"""

import csv
import math
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any, Final, TextIO, cast

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

FORMULA: Final = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""Beginnings of texts that spreadsheets take for formulas, also in full width."""


def limited(batches: Iterator[pa.RecordBatch], limit: int | None) -> Iterator[pa.RecordBatch]:
    """Yield at most `limit` rows, and read no more than needed."""
    left = limit
    for batch in batches:
        if left is None:
            yield batch
            continue
        yield batch.slice(0, left)
        left -= min(left, batch.num_rows)
        if not left:
            return


def rows(
    batch: pa.RecordBatch, shown: Callable[[Any], Any], *, each: bool = False
) -> Iterator[list[Any]]:
    """Yield the rows of a batch, with each value as `shown` returns it.

    Integers and texts are the same to `plain` and `text`, so only `each` passes them, too.
    """
    columns = [_values(column, shown, each) for column in batch.columns]
    yield from map(list, zip(*columns, strict=True))


def _values(column: pa.Array, shown: Callable[[Any], Any], each: bool) -> Iterable[Any]:
    """Return the values of a column; columns of simple types are converted at once."""
    kind = column.type
    if pa.types.is_timestamp(kind) and kind.tz == "UTC":
        return cast("list[Any]", pc.strftime(column, format="%Y-%m-%dT%H:%M:%SZ").to_pylist())
    values: list[Any] = column.to_pylist()
    if not each and (pa.types.is_integer(kind) or pa.types.is_string(kind)):
        return values
    return map(shown, values)


def as_text(value: bytes) -> str:
    """Return bytes as text if they are UTF-8, else as hexadecimal digits."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return "\\x" + value.hex()


def iso(when: datetime) -> str:
    """Return a point in time as ISO 8601 in UTC."""
    if when.tzinfo is None:
        return when.isoformat()
    return when.astimezone(UTC).isoformat().replace("+00:00", "Z")


def span(months: int, days: int, nanoseconds: int) -> str:
    """Return a span of time as ISO 8601; each number in it has its own sign."""
    minutes, rest = divmod(abs(nanoseconds), 60 * 10**9)
    seconds = f"{rest // 10**9}.{rest % 10**9:09}".rstrip("0").rstrip(".")
    dated = _signed(months < 0, (abs(months) // 12, "Y"), (abs(months) % 12, "M"))
    dated += _signed(days < 0, (abs(days), "D"))
    timed = _signed(nanoseconds < 0, (minutes // 60, "H"), (minutes % 60, "M"), (seconds, "S"))
    return f"P{dated}T{timed}" if timed else f"P{dated or 'T0S'}"


def _signed(negative: bool, *parts: tuple[int | str, str]) -> str:
    """Return those of these numbers that are not zero, each with its unit."""
    sign = "-" if negative else ""
    return "".join(f"{sign}{number}{unit}" for number, unit in parts if number not in (0, "0"))


def plain(value: Any) -> Any:
    """Return a value of Arrow in a form for JSON."""
    if isinstance(value, bytes):
        return as_text(value)
    if isinstance(value, datetime):
        return iso(value)
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, pa.MonthDayNano):
        return span(*value)
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {str(name): plain(each) for name, each in value.items()}
    if isinstance(value, list):
        return _plain_list(value)
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return str(value)


def _plain_list(value: list[Any]) -> Any:
    """A list, or a map: Arrow gives its pairs as tuples."""
    if value and all(isinstance(each, tuple) and len(each) == 2 for each in value):
        return {str(plain(name)): plain(each) for name, each in value}
    return [plain(each) for each in value]


def text(value: Any) -> Any:
    """Return the same for a cell: values with parts become JSON."""
    value = plain(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    return msgspec.json.encode(value).decode() if isinstance(value, dict | list) else value


def harmless(value: Any) -> Any:
    """Return a value for CSV that spreadsheets open: a text that they would take for a formula gets
    an apostrophe before it. Numbers stay numbers."""
    shown = text(value)
    return f"'{shown}" if isinstance(shown, str) and shown.startswith(FORMULA) else shown


def write_csv(
    schema: pa.Schema, batches: Iterator[pa.RecordBatch], file: TextIO,
    shown: Callable[[Any], Any] = text,
) -> None:  # fmt: skip
    """Write rows as CSV, with a line of names; `shown` makes each value a cell."""
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(map(shown, schema.names))
    for batch in batches:
        writer.writerows(rows(batch, shown, each=shown is not text))


def write_lines(schema: pa.Schema, batches: Iterator[pa.RecordBatch], file: TextIO) -> None:
    """Write each row as an object of JSON in a line."""
    for text in _objects(schema, batches):
        file.write(text + "\n")


def write_json(schema: pa.Schema, batches: Iterator[pa.RecordBatch], file: TextIO) -> None:
    """Write rows as one array of objects."""
    separator = "["
    for text in _objects(schema, batches):
        file.write(f"{separator}\n{text}")
        separator = ","
    file.write("[]\n" if separator == "[" else "\n]\n")


def _objects(schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> Iterator[str]:
    """Each row as an object in JSON."""
    names = distinct(schema.names)
    for batch in batches:
        for row in rows(batch, plain):
            yield msgspec.json.encode(dict(zip(names, row, strict=True))).decode()


def distinct(names: list[str]) -> list[str]:
    """Return names of columns, with numbers where a question has one twice."""
    found: list[str] = []
    for name in names:
        candidate, number = name, 1
        while candidate in found:
            number += 1
            candidate = f"{name}_{number}"
        found.append(candidate)
    return found
