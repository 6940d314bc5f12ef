"""The journal: append-only segments of hash-chained blocks. Knows bytes and LSNs, not messages.

| to | use | in |
|---|---|---|
| say what a row looks like | `RowLayout` | `layout` |
| begin, open and append | `Journal.create`, `Journal.open`, `Batch` | `journal`, `batch` |
| know what an open repaired | `Repair` | `repair` |
| write while the next batch fills | `ProcessWriter` | `process_writer` |
| write in simulators and tests | `InlineWriter` | `writer` |
| read from an LSN on, or follow | `read_blocks`, which gives `Block`s | `reader`, `block` |
| check everything | `verify`, which gives a `Report` of `Fault`s | `verify` |
| get sizes and ratios | `stat`, which gives a `JournalStat` | `stat` |
| keep what leaves, and get it back | `Archive` | `archive.archive` |
| choose what leaves, and take it out | `choose`, `remove` | `retention` |
| hold what is being read | `Pin`; `Lease` where several processes read | `pins` |
| lock the data directory | `DirectoryLock` | `lock` |
| find files in a data directory | the names of all of them | `data_directory` |
| say where the files are | `RealDisk`, `MemoryDisk`; `Disk` and `File` to make another | `disk` |
| report what went wrong | `JournalError` and its kinds | `errors` |

The bytes are described in docs/journal-format.md; `journal.format` is the only module that knows
them.
"""
