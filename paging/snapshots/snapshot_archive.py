"""Putting the snapshots of a data directory into its archive, before their segments leave (ADR 70).

Fault model: a snapshot may be damaged, and is not archived then; the store may fail, which is tried
again, or hang, which `tick` lets the caller notice. Snapshots that were not archived are reported
in a sentence. Must never know the use of the state, or when segments leave.
"""

import hashlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from daybook.journal.archive.snapshots import SNAPSHOT_FORMAT, ArchivedSnapshots, SnapshotEntry
from daybook.journal.blocks.format import snapshot_name
from daybook.journal.disk import Disk
from daybook.journal.errors import ArchiveError, JournalError
from daybook.journal.segments.segment import first_lsn_of
from daybook.paging.checks.usability import why_not_of
from daybook.paging.snapshots.snapshots import Snapshot, known_snapshots

PAUSES: Final = (1.0, 4.0)
"""Seconds before the second and the third attempt to archive a snapshot."""
_PIECE_BYTES: Final = 1 << 20


def archive_snapshots(
    archived: ArchivedSnapshots,
    folder: Path,
    disk: Disk,
    data_id: bytes,
    last_lsn: int,
    every: int,
    *,
    now: int,
    tick: Callable[[], object],
) -> Iterator[str]:
    """Archive the snapshots in a folder that are due, up to an event that ends a segment.

    The segments up to there must be archived, and still be on the disk. Yield a sentence for each
    snapshot that could not be archived; behind a failure of the store there is only one. `tick` is
    called after each piece of work. Raises JournalError.
    """
    first = first_lsn_of(disk)
    taken = {
        known.lsn: known for known in known_snapshots(folder, data_id)
        if first - 1 <= known.lsn <= last_lsn
    }  # fmt: skip
    for lsn in archived.due([(each.lsn, each.bytes) for each in taken.values()], every):
        try:
            wrong = why_not_of(disk, lsn, bytes.fromhex(taken[lsn].block_hash))
            if not wrong:
                _put(archived, folder, taken[lsn], now, tick)
        except ArchiveError as error:
            yield _not_archived(folder, lsn, str(error))
            return
        except JournalError as error:
            wrong = str(error)
        if wrong:
            yield _not_archived(folder, lsn, wrong)


def _not_archived(folder: Path, lsn: int, why: str) -> str:
    return (
        f"the snapshot at event {lsn} in {folder} was not archived: {why}. No events are lost: "
        f"questions about that time begin at an earlier one"
    )


def _put(
    archived: ArchivedSnapshots, folder: Path, taken: Snapshot, now: int, tick: Callable[[], object]
) -> None:
    """Archive a snapshot, in several attempts. Raises ArchiveError, and JournalError if the
    snapshot is damaged."""
    entry = SnapshotEntry(
        SNAPSHOT_FORMAT, snapshot_name(taken.lsn), taken.lsn, 0, "", taken.bytes, taken.sha256,
        taken.data_id, taken.block_hash, now,
    )  # fmt: skip
    for pause in PAUSES:
        try:
            archived.put(entry, _checked(folder / taken.file, taken, tick), tick)
        except ArchiveError:
            time.sleep(pause)
        else:
            return
    archived.put(entry, _checked(folder / taken.file, taken, tick), tick)


def _checked(path: Path, taken: Snapshot, tick: Callable[[], object]) -> Iterator[bytes]:
    """Read the tables of a snapshot; raises JournalError if they are not those of its
    description."""
    digest = hashlib.sha256()
    try:
        with path.open("rb") as file:
            while piece := file.read(_PIECE_BYTES):
                digest.update(piece)
                tick()
                yield piece
    except OSError as error:
        raise JournalError(f"it cannot be read: {error}") from error
    if digest.hexdigest() != taken.sha256:
        raise JournalError("its SHA-256 is not that of the description")
