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

The bytes are described in docs/journal-format.md; `journal.format` is the only module that knows
them.

Modules:

- `archive`: Segments that left the live journal: kept as objects with manifests, verified, and read
  again.
- `batch`: A batch: the rows that become one block, and the byte strings that belong to them.
- `block`: A block: the rows and byte strings of one batch, as two compressed frames behind a
  header.
- `commit_choice`: Chooses where each block is written: in the broker's own process, or by the
  writer's (ADR 41).
- `commit_writer`: Commits each block where it is cheapest: in the broker's own process, or in the
  writer's.
- `continuing`: Making a journal that ends with a sealed segment one that a broker can continue.
- `copying`: Writing a journal with the blocks of another one: for forks, and for what was salvaged.
- `data_directory`: The names of the files and folders of a data directory, each defined here and
  only here.
- `disk`: The journal's only access to files: the Disk protocol, a real disk and one in memory.
- `errors`: The errors of a journal; each text says what happened, where, and what to do.
- `extras`: The command that installs the packages of one of Daybook's extras.
- `format`: Every byte of the journal on disk. The only module that knows an offset.
- `journal`: The journal: appending blocks to the newest segment, and rolling over to the next one.
- `layout`: The layout of a row: all that the journal knows about what it stores.
- `leading_rows`: The first columns of many blocks: decompresses only the needed parts, all in one
  call.
- `lifeline`: Makes a child process end with its parent, and keeps signals away from threads.
- `links`: How many names an open file has, asked for without its times.
- `lock`: The lock of a data directory: one broker at a time.
- `near_writer`: Writes blocks in the broker's own process: a thread writes and syncs, its owner
  waits a moment.
- `pin_folder`: Secure access to the folder `pins` of a data directory.
- `pins`: Pins: readers mark the part of a journal that they need, so that retention does not remove
  it.
- `process_writer`: Group commit in a process of its own: one block is written and synced while the
  next batch fills.
- `read_only`: The writing methods of a read-only Disk: all are refused.
- `reader`: Reading blocks from any LSN on, also while another process appends.
- `repair`: Judging the newest segment at open: where the journal ends, and whether a tail was torn.
- `retention`: Retention: chooses which of the oldest segments may leave the live set, and removes
  them.
- `rows_frame`: The rows frame of a block: one zstd frame whose first columns can be decompressed
  alone.
- `segment`: Segments: opening, reading and checking them.
- `segment_check`: Checks one segment by itself: crcs, the hash chain in it, LSNs, its footer
  against its blocks.
- `sound`: Everything sound in a damaged journal: blocks in the order of their events, and what is
  missing.
- `spares`: Spare descriptors: journal files can be opened even when sockets have used up all
  descriptors.
- `stat`: Sizes, ratios and counts of a journal, segment by segment, as data.
- `succession`: Checks that the segments of a journal follow each other, so that none between them
  is missing.
- `summaries`: Summaries of many blocks, for checking a journal: the same as `BlockCodec.summarise`,
  in numpy.
- `thread_writer`: Group commit in a thread of the broker, for brokers of one process (ADR 42).
- `trust`: The limit on what a block from an untrusted source may decompress to.
- `verify`: Checks a whole journal: crcs, the hash chain across segments, LSNs, footers against
  blocks.
- `writer`: The common core of journal writers, and a writer that writes synchronously.
- `written`: What one process wrote to the journal, for the copy of the journal in another process
  (ADR 41).
"""
