"""The journal: append-only segments of hash-chained blocks. Knows bytes and LSNs, not messages.

| to | use |
|---|---|
| say what a row looks like | `RowLayout` |
| begin, open and append | `Journal.create`, `Journal.open` (with a `Repair`), `Batch` |
| write while the next batch fills | `ProcessWriter`; `InlineWriter` for simulators and tests |
| read from an LSN on, or follow | `read_blocks`, which gives `Block`s |
| check everything | `verify`, which gives a `Report` of `Fault`s |
| get sizes and ratios | `stat`, which gives a `JournalStat` |
| lock the data directory | `DirectoryLock` |
| say where the files are | `RealDisk`, `MemoryDisk`; `Disk` and `File` to make another |
| tell what went wrong | `JournalError` and its kinds, in `journal.errors` |

The bytes are described in docs/journal-format.md; `journal.format` is the only module that knows
them.
"""

from journal.batch import Batch, BatchLike
from journal.block import Block
from journal.disk import Disk, File, MemoryDisk, RealDisk
from journal.errors import (
    Corruption,
    DiskFull,
    JournalError,
    JournalFailed,
    Locked,
    NewerFormat,
    NoJournal,
    WrongLayout,
)
from journal.journal import Journal
from journal.layout import RowLayout
from journal.lock import DirectoryLock
from journal.process_writer import ProcessWriter
from journal.reader import read_blocks
from journal.repair import Repair
from journal.stat import JournalStat, SegmentStat
from journal.verify import Fault, Report
from journal.writer import InlineWriter, WriterStats

__all__ = [
    "Batch",
    "BatchLike",
    "Block",
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
    "Locked",
    "MemoryDisk",
    "NewerFormat",
    "NoJournal",
    "ProcessWriter",
    "RealDisk",
    "Repair",
    "Report",
    "RowLayout",
    "SegmentStat",
    "WriterStats",
    "WrongLayout",
    "read_blocks",
]
