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

Modules:

- `archive`: Segments that left the live journal: kept as objects with manifests, verified, and read
  again.
- `batch`: What the journal stores in one go: rows, and the byte strings that belong to them.
- `block`: A block: the rows and byte strings of one batch, as two compressed frames behind a
  header.
- `data_directory`: What the files and folders of a data directory are called: each name stands
  here, and only here.
- `disk`: The journal's only way to files: the Disk protocol, a real one and one in memory.
- `errors`: What can be wrong with a journal, each with what, where, and what would be right.
- `extras`: The command that installs what an extra of Daybook brings, wherever Daybook came from.
- `format`: Every byte of the journal on disk. The only module that knows an offset.
- `journal`: The journal: appending blocks to the newest segment, and rolling over to the next one.
- `layout`: How a row is laid out: the only thing the journal is told about what it stores.
- `leading_rows`: The first columns of many blocks: only what is needed is decompressed, all of it
  in one call.
- `lifeline`: Ending with one's parent: a process that works for another must not outlive it.
- `lock`: The lock of a data directory: one broker at a time.
- `pin_folder`: The folder `pins` of a data directory, held open.
- `pins`: Pins: readers say which part of a journal they hold, so that retention leaves it alone.
- `process_writer`: Group commit in a process of its own: one block is written and synced while the
  next batch fills.
- `read_only`: What a Disk says that is for reading only: everything that would change it is
  refused.
- `reader`: Reading blocks from any LSN on, also while another process appends.
- `repair`: Judging the newest segment at open: where the journal ends, and whether a tail was torn.
- `retention`: Retention: which of the oldest segments may leave the live set, and taking them out
  of it.
- `rows_frame`: The rows frame of a block: one zstd frame whose first columns can be had without the
  others.
- `segment`: Segments: creating, walking and judging them.
- `spares`: Spare descriptors: a file of the journal opens even when sockets have used up all
  descriptors.
- `stat`: Sizes, ratios and counts of a journal, segment by segment, as data.
- `succession`: Whether the segments of a journal follow each other: none between the first and the
  last is lost.
- `trust`: How much a block of somebody else's may decompress to.
- `verify`: Checking a journal whole: crcs, the hash chain across segments, LSNs, footers against
  blocks.
- `writer`: What writers of a journal do with a batch, and the writer that does it at once.
"""
