"""Writing the answer to a question: as a table for people, as CSV, JSON or Parquet for programs.

Bodies and other bytes are shown as text where they are UTF-8, else as `\\x` and hexadecimal digits.
Answers of any size are written while they are read; only a table is completely in memory, and is
bounded. Must never know the question.
"""

import csv
import math
import sys
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import IO, Any, Final, TextIO, cast

import click
import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from daybook.pipeline.sql.asking import Answer
from daybook.tools.jobs.output import written_whole
from daybook.tools.terminal.printing import for_output, show_table

TABLE_ROWS: Final = 1000
"""The most rows of a table by default: it is completely in memory, and read by people."""


class _Whole(int):
    """A number that is shown without separators, so that it can be copied into a question."""

    def __format__(self, spec: str) -> str:
        return str(int(self))


class _Fraction(float):
    """A number that is shown with all its digits."""

    def __format__(self, spec: str) -> str:
        return format(float(self), ".15g")


class _Harmless:
    """Standard output, where text cannot control a terminal."""

    def write(self, text: str) -> int:
        """Write as a file does."""
        return sys.stdout.write(for_output(text))


def write(answer: Answer, form: str, output: Path | None, limit: int | None) -> None:
    """Write an answer to a file, or to standard output.

    Raises OSError, and the errors of reading.
    """
    for note in answer.notes:
        click.echo(f"note: {note}", err=True)
    if form == "table" and output is None:
        _show(answer, limit)
        return
    rows = limited(answer.batches, limit)
    if form == "parquet":
        assert output is not None
        with written_whole(output) as unfinished, unfinished.open("wb") as content:
            _write_parquet(answer.schema, rows, content)
    elif output is None:
        _WRITERS[form](answer.schema, rows, cast("TextIO", _Harmless()))
    else:
        with (
            written_whole(output) as unfinished,
            unfinished.open("w", encoding="utf-8", newline="") as file,
        ):
            _WRITERS[form](answer.schema, rows, file)


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


def _show(answer: Answer, limit: int | None) -> None:
    most = limit or TABLE_ROWS
    rows: list[list[Any]] = []
    # One more, to know whether there are more rows.
    for batch in limited(answer.batches, most + 1):
        rows.extend(_rows(batch, _cell))
    cut = len(rows) > most
    show_table(answer.schema.names, rows[:most])
    if cut and limit is None:
        click.echo(
            f"only the first {most:,} rows are shown; --limit shows more, --format csv all of them",
            err=True,
        )
    elif not rows:
        click.echo("no rows", err=True)


def _rows(batch: pa.RecordBatch, shown: Callable[[Any], Any]) -> Iterator[list[Any]]:
    columns = [_values(column, shown) for column in batch.columns]
    yield from map(list, zip(*columns, strict=True))


def _values(column: pa.Array, shown: Callable[[Any], Any]) -> Iterable[Any]:
    """Return the values of a column; columns of simple types are converted at once."""
    kind = column.type
    if pa.types.is_timestamp(kind) and kind.tz == "UTC":
        return cast("list[Any]", pc.strftime(column, format="%Y-%m-%dT%H:%M:%SZ").to_pylist())
    values: list[Any] = column.to_pylist()
    if shown is not _cell and (pa.types.is_integer(kind) or pa.types.is_string(kind)):
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


def _text(value: Any) -> Any:
    """The same for a cell: values with parts become JSON."""
    value = plain(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    return msgspec.json.encode(value).decode() if isinstance(value, dict | list) else value


def _cell(value: Any) -> Any:
    """The same for a table."""
    if isinstance(value, bool) or value is None:
        return value
    value = _text(value)
    if isinstance(value, int):
        return _Whole(value)
    return _Fraction(value) if isinstance(value, float) else value


def _write_csv(schema: pa.Schema, batches: Iterator[pa.RecordBatch], file: TextIO) -> None:
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(schema.names)
    for batch in batches:
        writer.writerows(_rows(batch, _text))


def _write_lines(schema: pa.Schema, batches: Iterator[pa.RecordBatch], file: TextIO) -> None:
    for text in _objects(schema, batches):
        file.write(text + "\n")


def _write_json(schema: pa.Schema, batches: Iterator[pa.RecordBatch], file: TextIO) -> None:
    separator = "["
    for text in _objects(schema, batches):
        file.write(f"{separator}\n{text}")
        separator = ","
    file.write("[]\n" if separator == "[" else "\n]\n")


def _objects(schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> Iterator[str]:
    """Each row as an object in JSON."""
    names = _distinct(schema.names)
    for batch in batches:
        for row in _rows(batch, plain):
            yield msgspec.json.encode(dict(zip(names, row, strict=True))).decode()


def _distinct(names: list[str]) -> list[str]:
    """Return names of columns, with numbers where a question has one twice."""
    found: list[str] = []
    for name in names:
        candidate, number = name, 1
        while candidate in found:
            number += 1
            candidate = f"{name}_{number}"
        found.append(candidate)
    return found


def _write_parquet(schema: pa.Schema, batches: Iterator[pa.RecordBatch], file: IO[bytes]) -> None:
    named = pa.schema(
        [field.with_name(name) for field, name in zip(schema, _distinct(schema.names), strict=True)]
    )
    with pq.ParquetWriter(file, named, compression="zstd") as writer:
        for batch in batches:
            writer.write_batch(pa.RecordBatch.from_arrays(batch.columns, schema=named))


_WRITERS: Final[dict[str, Callable[[pa.Schema, Iterator[pa.RecordBatch], TextIO], None]]] = {
    "table": _write_csv, "csv": _write_csv, "json": _write_json, "jsonl": _write_lines,
}  # fmt: skip
