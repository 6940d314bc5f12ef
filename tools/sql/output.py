"""Writing the answer to a question: as a table for people, as CSV, JSON or Parquet for programs.

Answers of any size are written while they are read; only a table is completely in memory, and is
bounded. Must never know the question.
"""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, Final, TextIO, cast

import click
import pyarrow as pa
import pyarrow.parquet as pq

from daybook.pipeline.sql.asking import Answer
from daybook.pipeline.sql.writing import (
    distinct,
    limited,
    rows,
    text,
    write_csv,
    write_json,
    write_lines,
)
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
    batches = limited(answer.batches, limit)
    if form == "parquet":
        assert output is not None
        with written_whole(output) as unfinished, unfinished.open("wb") as content:
            _write_parquet(answer.schema, batches, content)
    elif output is None:
        _WRITERS[form](answer.schema, batches, cast("TextIO", _Harmless()))
    else:
        with (
            written_whole(output) as unfinished,
            unfinished.open("w", encoding="utf-8", newline="") as file,
        ):
            _WRITERS[form](answer.schema, batches, file)


def _show(answer: Answer, limit: int | None) -> None:
    most = limit or TABLE_ROWS
    shown: list[list[Any]] = []
    # One more, to know whether there are more rows.
    for batch in limited(answer.batches, most + 1):
        shown.extend(rows(batch, _cell, each=True))
    cut = len(shown) > most
    show_table(answer.schema.names, shown[:most])
    if cut and limit is None:
        click.echo(
            f"only the first {most:,} rows are shown; --limit shows more, --format csv all of them",
            err=True,
        )
    elif not shown:
        click.echo("no rows", err=True)


def _cell(value: Any) -> Any:
    """Return a value for a table."""
    if isinstance(value, bool) or value is None:
        return value
    value = text(value)
    if isinstance(value, int):
        return _Whole(value)
    return _Fraction(value) if isinstance(value, float) else value


def _write_parquet(schema: pa.Schema, batches: Iterator[pa.RecordBatch], file: IO[bytes]) -> None:
    named = pa.schema(
        [field.with_name(name) for field, name in zip(schema, distinct(schema.names), strict=True)]
    )
    with pq.ParquetWriter(file, named, compression="zstd") as writer:
        for batch in batches:
            writer.write_batch(pa.RecordBatch.from_arrays(batch.columns, schema=named))


_WRITERS: Final[dict[str, Callable[[pa.Schema, Iterator[pa.RecordBatch], TextIO], None]]] = {
    "table": write_csv, "csv": write_csv, "json": write_json, "jsonl": write_lines,
}  # fmt: skip
