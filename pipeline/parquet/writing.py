"""Writing events as Parquet: one file for each day of a segment, in the order of their LSNs.

Bodies are compressed as they are; numbers that grow slowly are stored as differences, repeated
values as dictionaries. Memory holds one row group. Must never know where the files are stored in
the end.
"""

from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from daybook.pipeline.parquet.archive import file_path
from daybook.pipeline.schema import LSN, STORED_COLUMNS, arrow_schema

GROUP_ROWS: Final = 500_000
GROUP_BYTES: Final = 128 << 20
"""A row group ends when it has this many rows, or this many bytes in memory."""
COMPRESSION: Final = "zstd"
COMPRESSION_LEVEL: Final = 3
DAY: Final = np.int64(86_400_000_000)
"""Microseconds of a day."""

_DIFFERENCES: Final = (LSN, "time", "message", "related", "block_offset")
_DICTIONARIES: Final = (
    "kind", "reason", "address", "queue", "queues.list.element", "consumer", "connection",
    "delivery_count", "priority", "kind_id", "reason_id", "address_id", "queue_id", "flags",
    "headers.key_value.key", "headers.key_value.value", "detail", "detail_raw", "headers_raw",
    "segment", "headers_bytes", "body_bytes",
)  # fmt: skip
SCHEMA: Final = arrow_schema(STORED_COLUMNS)


class Written(NamedTuple):
    """A written file: its local path, its path in an archive, and the span of its events."""

    local: Path
    path: str
    first_lsn: int
    last_lsn: int
    time_min: int
    time_max: int


def write_days(batches: Iterable[pa.RecordBatch], folder: Path) -> list[Written]:
    """Write events as files in an empty local folder. Raises OSError."""
    files: list[_DayFile] = []
    for batch in batches:
        days = batch.column("time").cast(pa.int64()).to_numpy() // DAY
        starts = [0, *(np.flatnonzero(np.diff(days)) + 1).tolist(), len(days)]
        for start, end in pairwise(starts):
            day = str(np.datetime64(int(days[start]), "D"))
            if not files or files[-1].day != day:
                if files:
                    files[-1].close()
                files.append(_DayFile(folder / f"{len(files)}.parquet", day))
            files[-1].take(batch.slice(start, end - start))
    if files:
        files[-1].close()
    return [file.written() for file in files]


class _DayFile:
    """A Parquet file that is written in row groups."""

    def __init__(self, local: Path, day: str) -> None:
        self.day: Final = day
        self._local: Final = local
        self._writer: Final = pq.ParquetWriter(
            local, SCHEMA, compression=COMPRESSION, compression_level=COMPRESSION_LEVEL,
            use_dictionary=list(_DICTIONARIES),
            column_encoding=dict.fromkeys(_DIFFERENCES, "DELTA_BINARY_PACKED"),
        )  # fmt: skip
        self._gathered: list[pa.RecordBatch] = []
        self._rows = self._bytes = 0
        self._first_lsn = self._last_lsn = 0
        self._times: list[int] = []

    def take(self, batch: pa.RecordBatch) -> None:
        """Append rows."""
        lsns = batch.column(LSN)
        times = batch.column("time").cast(pa.int64()).to_numpy()
        self._first_lsn = self._first_lsn or lsns[0].as_py()
        self._last_lsn = lsns[-1].as_py()
        self._times += [int(times.min()), int(times.max())]
        self._gathered.append(batch)
        self._rows += batch.num_rows
        self._bytes += batch.nbytes
        if self._rows >= GROUP_ROWS or self._bytes >= GROUP_BYTES:
            self._flush()

    def _flush(self) -> None:
        if self._gathered:
            self._writer.write_table(pa.Table.from_batches(self._gathered), self._rows)
        self._gathered = []
        self._rows = self._bytes = 0

    def close(self) -> None:
        """Write the rest and the footer."""
        self._flush()
        self._writer.close()

    def written(self) -> Written:
        """Describe the file."""
        path = file_path(self.day, self._first_lsn, self._last_lsn)
        return Written(
            self._local, path, self._first_lsn, self._last_lsn,
            min(self._times), max(self._times),
        )  # fmt: skip
