"""A Parquet archive as a Delta table: the same files, with Delta's log beside them.

Each segment is one version: its files are added in one commit, with an application transaction
named after the segment, so that committing it again adds nothing. Versions are never changed, and
reading the table at a version gives the events up to its segment.

Fault model: that of Delta; errors of its package become an ArchiveError. Must never know the
journal.
"""

from typing import Final

import msgspec
import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.exceptions import DeltaError
from deltalake.transaction import AddAction, RemoveAction

from daybook.journal.errors import ArchiveError
from daybook.pipeline.parquet.archive import (
    ArchivedSegment,
    ParquetArchive,
    ParquetFile,
    local_path,
)
from daybook.pipeline.schema import STORED_COLUMNS, arrow_schema

DAY: Final = "day"
APPLICATION: Final = "daybook"


def commit(archive: ParquetArchive) -> int:
    """Commit the segments that the table lacks; return their number. Raises ArchiveError."""
    segments = archive.segments()
    try:
        if not segments:
            return 0
        table = _opened(archive)
        return sum(_commit(table, segment) for segment in segments)
    except (DeltaError, OSError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise ArchiveError(archive.url, f"its Delta table cannot be written: {reason}") from error


def delta_schema() -> pa.Schema:
    """Return the columns of the table: those of events, and the day of the file."""
    return arrow_schema(STORED_COLUMNS).append(pa.field(DAY, pa.string()))


def _opened(archive: ParquetArchive) -> DeltaTable:
    base = local_path(archive.base) or archive.base
    if DeltaTable.is_deltatable(base):
        return DeltaTable(base)
    return DeltaTable.create(
        base, Schema.from_arrow(delta_schema()), mode="ignore", partition_by=[DAY],
        name="events", description="History of a Daybook broker",
    )  # fmt: skip


def _commit(table: DeltaTable, segment: ArchivedSegment) -> int:
    """Commit one segment; return 1, or 0 if the table already has it."""
    application = f"{APPLICATION}/{segment.data_id}/{segment.segment}"
    if table.transaction_version(application) is not None:
        return 0
    actions: list[AddAction | RemoveAction] = [_added(file) for file in segment.files]
    once = Transaction(application, segment.last_lsn)
    table.create_write_transaction(
        actions, "append", Schema.from_arrow(delta_schema()), [DAY],
        commit_properties=CommitProperties(app_transactions=[once]),
    )  # fmt: skip
    table.update_incremental()
    return 1


def _added(file: ParquetFile) -> AddAction:
    stats = {
        "numRecords": file.last_lsn - file.first_lsn + 1,
        "minValues": {"lsn": file.first_lsn},
        "maxValues": {"lsn": file.last_lsn},
        "nullCount": {"lsn": 0},
    }
    return AddAction(
        path=file.path, size=file.bytes, partition_values={DAY: file.day},
        # Derived from the events and not from a clock, so that a repeated run writes the same.
        modification_time=file.time_max // 1000, data_change=True,
        stats=msgspec.json.encode(stats).decode(),
    )  # fmt: skip
