"""Rows of a table of events as the events that the library of history takes (ADR 92).

Jobs select rows with an engine, and ask the library about them. Must never know which engine made
the table, or what the library answers.
"""

from collections.abc import Iterator
from typing import Final, cast

import pyarrow as pa

from daybook.engine.facts.events import Row
from daybook.history.scan import Event
from daybook.pipeline.schema import ROW_COLUMNS

COLUMNS: Final = ("lsn", *ROW_COLUMNS, "detail_raw", "headers_raw", "body_bytes")
"""The columns that `events_in` needs."""


def events_in(batch: pa.RecordBatch) -> Iterator[Event]:
    """Yield the events of a batch that has these columns, without their bodies."""
    rows = zip(*(_integers(batch.column(name)) for name in ROW_COLUMNS), strict=True)
    others = (
        batch.column(name).to_pylist()
        for name in ("lsn", "detail_raw", "headers_raw", "body_bytes")
    )
    for row, lsn, detail, headers, body_bytes in zip(rows, *others, strict=True):
        yield Event(lsn, cast("Row", row), detail, headers, body_bytes, None)


def _integers(values: pa.Array) -> list[int]:
    if pa.types.is_timestamp(values.type):
        values = values.cast(pa.int64())
    found: list[int] = values.to_pylist()
    return found
