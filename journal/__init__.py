"""The journal: append-only segments of hash-chained blocks. Knows bytes and LSNs, not messages.

| to | use | in |
|---|---|---|
| describe the columns of a row | `RowLayout` | `layout` |
| create, open and append | `Journal.create`, `Journal.open`, `Batch` | `journal`, `batch` |
| see what opening repaired | `Repair` | `repair` |
| write while the next batch fills, small batches at once | `CommitWriter` | `commit_writer` |
| write in simulators and tests | `InlineWriter` | `writer` |
| read from an LSN on, or follow | `read_blocks`, which yields `Block`s | `reader`, `block` |
| check everything | `verify`, which returns a `Report` of `Fault`s | `verify` |
| get sizes and ratios | `stat`, which returns a `JournalStat` | `stat` |
| archive segments that leave, and fetch them back | `Archive` | `archive.archive` |
| choose the segments that leave, and remove them | `choose`, `remove` | `retention` |
| protect history while it is read | `Pin`; `Lease` where several processes read | `pins` |
| lock the data directory | `DirectoryLock` | `lock` |
| find files in a data directory | the names of all of them | `data_directory` |
| access files | `RealDisk`, `MemoryDisk`; the protocols `Disk` and `File` for others | `disk` |
| handle errors | `JournalError` and its subclasses | `errors` |

The bytes are described in docs/journal-format.md; `journal.blocks.format` is the only module that
knows them.

Modules:

- `archive`: Segments that left the live journal: kept as objects with manifests, verified, and read
  again.
- `blocks`: A block: the rows and byte strings of one batch, as bytes.
- `confirmed`: How far a cluster has confirmed the journal of a node, for readers in other processes
  (ADR 118).
- `continuing`: Making a journal that ends with a sealed segment one that a broker can continue.
- `copying`: Writing a journal with the blocks of another one: for forks and salvages.
- `cutting`: Cutting the end of a journal off, where another machine's history goes another way (ADR
  118).
- `data_directory`: The names of the files and folders of a data directory, each defined here and
  only here.
- `disk`: The journal's only access to files: the Disk protocol, a real disk and one in memory.
- `errors`: The errors of a journal; each text names the event, its place, and the remedy.
- `extras`: The command that installs the packages of one of Daybook's extras.
- `groups`: Groups of blocks that are written and synced at once (ADR 118).
- `journal`: The journal: appending blocks to the newest segment, and rolling over to the next one.
- `links`: How many names an open file has, asked for without its times.
- `lock`: The lock of a data directory: one broker at a time.
- `pins`: Pins: readers mark the part of a journal that they need, so that retention does not remove
  it.
- `places`: Places in a journal: where a block begins, or the next one will (ADR 118).
- `read_only`: The writing methods of a read-only Disk: all are refused.
- `reader_folder`: Secure access to a folder of a data directory that its readers write to: pins,
  and reports.
- `replica`: A journal whose blocks another machine made: the same bytes at the same places (ADR
  118).
- `retention`: Retention: chooses which of the oldest segments may leave the live set, and removes
  them.
- `segments`: Segments: files of blocks that follow each other; reading, checking and repairing
  them.
- `spares`: Spare descriptors: journal files can be opened even when sockets have used up all
  descriptors.
- `writing`: Writing: blocks become durable, in this process or in another one.
"""
