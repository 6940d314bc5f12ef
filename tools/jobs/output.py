"""The output of a job: a table on the terminal, or CSV, JSON lines or Parquet to any place.

A file appears complete or not at all: it is written under another name and renamed. CSV has no
lists, maps or bytes; there they are JSON.
"""

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Final, cast

import click
import msgspec
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
from rich.console import Console

from daybook.tools.terminal.printing import show_table

BY_SUFFIX: Final = {
    ".csv": "csv", ".json": "json", ".jsonl": "json", ".ndjson": "json", ".parquet": "parquet",
}  # fmt: skip
TABLE_ROWS: Final = 1000
"""The most rows that a table shows; files and the other formats have all rows."""


class Output(msgspec.Struct, frozen=True):
    """A format, and the file to write; without a path, standard output."""

    format: str = "table"
    path: str = ""


def output_of(flags: dict[str, Any]) -> Output:
    """Read the options; removes them from `flags`. Raises click.UsageError."""
    chosen, path = flags.pop("format_"), flags.pop("output") or ""
    if path and chosen == "table":
        raise click.UsageError("a table is for the terminal; with --output use csv, json, parquet")
    if path:
        return Output(chosen or format_of(path, "--output"), path)
    if chosen == "parquet":
        raise click.UsageError("Parquet is not for standard output; add --output FILE")
    return Output(chosen or "table")


def format_of(path: str, option: str) -> str:
    """The format for a file's ending; raises click.UsageError if the ending is unknown."""
    found = BY_SUFFIX.get(Path(path).suffix.lower())
    if found is None:
        raise click.UsageError(
            f"{option} {path}: the ending does not say how to write it; "
            f"end it with one of {', '.join(BY_SUFFIX)}"
        )
    return found


def write(
    output: Output,
    schema: pa.Schema,
    batches: Iterable[pa.RecordBatch],
    *,
    title: str = "",
    optional: Sequence[str] = (),
) -> int:
    """Write rows to the output; return how many. Raises OSError.

    A narrow terminal may omit `optional` columns.
    """
    if output.path:
        return write_file(Path(output.path), schema, batches, output.format)
    if output.format == "table":
        return _show(schema, batches, title, optional)
    sys.stdout.flush()
    return _write_to(sys.stdout.buffer, schema, batches, output.format)


def write_file(
    path: Path, schema: pa.Schema, batches: Iterable[pa.RecordBatch], format_: str
) -> int:
    """Write rows as a file, not as a table; return how many. Raises OSError."""
    with written_whole(path) as partial, partial.open("wb") as file:
        return _write_to(file, schema, batches, format_)


@contextmanager
def written_whole(path: Path) -> Iterator[Path]:
    """Yield a file to write, which gets this path when it is complete; errors name this path,
    too."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        yield partial
        partial.replace(path)
    except OSError as error:
        if error.filename == str(partial):
            error.filename = str(path)
        raise
    finally:
        partial.unlink(missing_ok=True)


def _write_to(
    file: IO[bytes], schema: pa.Schema, batches: Iterable[pa.RecordBatch], format_: str
) -> int:
    count = 0
    if format_ == "json":
        for batch in batches:
            rows = batch.to_pylist(maps_as_pydicts="lossy")
            file.writelines(msgspec.json.encode(row) + b"\n" for row in rows)
            count += batch.num_rows
        file.flush()
        return count
    plain = _flat_schema(schema) if format_ == "csv" else schema
    writer = (
        pyarrow.csv.CSVWriter(file, plain)
        if format_ == "csv"
        else pq.ParquetWriter(file, plain, compression="zstd")
    )
    with writer:
        for batch in batches:
            writer.write_batch(_flat(batch, plain) if format_ == "csv" else batch)
            count += batch.num_rows
    return count


def _is_flat(type_: pa.DataType) -> bool:
    return not (pa.types.is_nested(type_) or pa.types.is_binary(type_))


def _flat_schema(schema: pa.Schema) -> pa.Schema:
    return pa.schema(
        [field if _is_flat(field.type) else pa.field(field.name, pa.string()) for field in schema]
    )


def _flat(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    arrays = [
        column if _is_flat(column.type) else pa.array(map(_as_text, _values(column)), pa.string())
        for column in batch.columns
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _values(column: pa.Array) -> list[Any]:
    return cast("list[Any]", column.to_pylist(maps_as_pydicts="lossy"))


def _as_text(value: Any) -> str | None:
    return None if value is None else msgspec.json.encode(value).decode()


def _show(
    schema: pa.Schema, batches: Iterable[pa.RecordBatch], title: str, optional: Sequence[str]
) -> int:
    shown: list[list[Any]] = []
    count = 0
    for batch in batches:
        room = TABLE_ROWS - len(shown)
        if room > 0:
            rows = batch.slice(0, room).to_pylist()
            shown += [[_in_table(value) for value in row.values()] for row in rows]
        count += batch.num_rows
    show_table(schema.names, shown, title, optional)
    if count > len(shown):
        click.echo(
            f"{count - len(shown):,} more rows are not shown; "
            "--format csv or --output FILE has all",
            err=True,
        )
    return count


def _in_table(value: Any) -> Any:
    if isinstance(value, list):
        return ", ".join(str(each) for each in value)
    return f"{value:%Y-%m-%d %H:%M:%S.%f}" if hasattr(value, "strftime") else value


@contextmanager
def working(label: str) -> Iterator[Callable[[str], None]]:
    """Show on a terminal that work continues; yields a function that names the current step."""
    if not sys.stderr.isatty():
        yield lambda now: None
        return
    with Console(stderr=True).status(label) as status:
        yield lambda now: status.update(f"{label}: {now}")
