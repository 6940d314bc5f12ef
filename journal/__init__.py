"""The journal: append-only segments of hash-chained blocks. Knows bytes and LSNs, not messages.

| to | use |
|---|---|
| say what a row looks like | `RowLayout` |
| begin, open and append | `Journal.create`, `Journal.open` (with a `Repair`), `Batch` |
| write while the next batch fills | `ProcessWriter`; `InlineWriter` for simulators and tests |
| read from an LSN on, or follow | `read_blocks`, which gives `Block`s |
| check everything | `verify`, which gives a `Report` of `Fault`s |
| get sizes and ratios | `stat`, which gives a `JournalStat` |
| keep what leaves, and get it back | `Archive`, in `journal.archive.archive` |
| choose what leaves, and take it out | `choose`, `remove`, in `journal.retention` |
| hold what is being read | `Pin`; `Lease` where several processes read |
| lock the data directory | `DirectoryLock` |
| say where the files are | `RealDisk`, `MemoryDisk`; `Disk` and `File` to make another |
| tell what went wrong | `JournalError` and its kinds, in `journal.errors` |

The bytes are described in docs/journal-format.md; `journal.format` is the only module that knows
them.
"""

from daybook.journal.archive.archive import Archive, ArchiveFault, ArchiveReport
from daybook.journal.archive.manifest import ArchiveEntry
from daybook.journal.batch import Batch, BatchLike
from daybook.journal.block import Block
from daybook.journal.disk import Disk, File, MemoryDisk, RealDisk
from daybook.journal.errors import (
    ArchiveError,
    Corruption,
    DiskFull,
    JournalError,
    JournalFailed,
    Locked,
    NewerFormat,
    NoJournal,
    WrongLayout,
)
from daybook.journal.journal import Journal
from daybook.journal.layout import RowLayout
from daybook.journal.lock import DirectoryLock
from daybook.journal.pins import Lease, Pin
from daybook.journal.process_writer import ProcessWriter
from daybook.journal.reader import read_blocks
from daybook.journal.repair import Repair
from daybook.journal.retention import Choice, Limits, SealedSegment
from daybook.journal.stat import JournalStat, SegmentStat
from daybook.journal.verify import Fault, Report
from daybook.journal.writer import InlineWriter, WriterStats

__all__ = [
    "Archive",
    "ArchiveEntry",
    "ArchiveError",
    "ArchiveFault",
    "ArchiveReport",
    "Batch",
    "BatchLike",
    "Block",
    "Choice",
    "Corruption",
    "DirectoryLock",
    "Disk",
    "DiskFull",
    "Fault",
    "File",
    "InlineWriter",
    "Journal",
    "JournalError",
    "JournalFailed",
    "JournalStat",
    "Lease",
    "Limits",
    "Locked",
    "MemoryDisk",
    "NewerFormat",
    "NoJournal",
    "Pin",
    "ProcessWriter",
    "RealDisk",
    "Repair",
    "Report",
    "RowLayout",
    "SealedSegment",
    "SegmentStat",
    "WriterStats",
    "WrongLayout",
    "read_blocks",
]
