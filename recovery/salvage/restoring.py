"""Making a data directory from an archive alone, that a broker can start on.

All archived segments are fetched, and an empty one is added behind them. Events of the live journal
behind the archive are lost. An attempt that was interrupted may be repeated. Must never know which
process calls it.
"""

from collections.abc import Callable
from pathlib import Path

from daybook.journal.archive.archive import Archive
from daybook.journal.archive.manifest import ArchiveEntry
from daybook.journal.blocks.format import FIRST_LSN, manifest_name
from daybook.journal.continuing import continue_journal
from daybook.journal.data_directory import DATA_ID, JOURNAL
from daybook.journal.disk import RealDisk
from daybook.journal.errors import ArchiveError
from daybook.recovery.directory import RecoveryError


def restore_archive(
    archive: Archive, directory: Path, progress: Callable[[int], None] | None = None
) -> tuple[ArchiveEntry, ...]:
    """Restore a data directory; return the segments that were archived.

    `progress` gets the number of bytes just copied. Raises ArchiveError, also if the archive does
    not begin with the first event, RecoveryError if a broker was there, JournalError and OSError.
    """
    if (directory / DATA_ID).exists():
        raise RecoveryError(
            f"{directory} is the data directory of a broker: name an empty or a new folder. "
            "Nothing was changed"
        )
    entries = archive.chosen()
    if entries[0].first_lsn != FIRST_LSN:
        raise ArchiveError(
            archive.url,
            f"the archive begins with event {entries[0].first_lsn}: without the events before, it "
            "is not enough to rebuild a broker",
        )
    disk = RealDisk(directory / JOURNAL)
    disk.create()
    archive.fetch(disk, progress=progress)
    continue_journal(disk)
    # Last, because they say that all this comes from an archive and may be fetched again.
    for entry in entries:
        disk.remove(manifest_name(entry.segment))
    disk.sync_directory()
    return entries
