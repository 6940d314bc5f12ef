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
