"""Making segments ready to leave: archived, and folded into the base.

Run by the broker as `python -m paging.retiring DATA LAST_LSN BROKER [ARCHIVE]`, because both may
take minutes. It removes nothing. Fault model: it may be killed at any moment and be run again; what
is wrong is one sentence on the error output and exit code 1.
"""

import sys
import time
from pathlib import Path
from typing import Final

from journal.archive import Archive
from journal.disk import RealDisk
from journal.errors import JournalError
from journal.format import segment_first_lsn
from journal.segment import segment_names
from paging.base import BaseDamaged, advance
from paging.ownership import end_with
from paging.tables import IndexDamaged, IndexUnwritable

BASE: Final = "base"


def retire(data: Path, last_lsn: int, archive_url: str) -> None:
    """Archive the segments up to an event, and bring the base up to it.

    Raises JournalError, BaseDamaged, IndexDamaged, IndexUnwritable and OSError.
    """
    disk = RealDisk(data / "journal")
    data_id = bytes.fromhex((data / "data-id").read_text("ascii").strip())
    if archive_url:
        archive = Archive(archive_url)
        for name in segment_names(disk):
            if (segment_first_lsn(name) or 0) <= last_lsn:
                archive.put(disk, name, now=time.time_ns() // 1000)
    advance(data / BASE, disk, data_id, last_lsn)


def main(arguments: list[str]) -> int:
    """Be the process; answers its exit code."""
    data, last_lsn, broker, *url = arguments
    if not end_with(int(broker)):
        return 0
    try:
        retire(Path(data), int(last_lsn), url[0] if url else "")
    except (JournalError, BaseDamaged, IndexDamaged, IndexUnwritable, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
