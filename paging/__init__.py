"""Queues out of memory: the index, its tables and pages, and the fold that fills them.

Modules:

- `agreeing`: Checks that the journal contains what the tables refer to: carried content, and chunks
  of bodies.
- `archived`: Archived snapshots, restored from the Disk that has the archived segments (ADR 70).
- `archiving`: Putting the snapshots of a data directory into its archive, before their segments
  leave (ADR 70).
- `base`: The base: the state before the first live event, kept when retention takes segments away.
- `batches`: Reading a journal in batches that are each worth a commit of an index.
- `carrying`: Where carried content is: keeping and reading the tables that record it.
- `catalog_file`: The file of a catalog: tables of sorted pairs that say where in a run of blocks
  something is (ADR 64).
- `catalog_keeper`: The catalogs of a data directory, for the owner of its index: makes them when
  there is time (ADR 64).
- `catalog_keys`: The keys of catalogs: what is looked up instead of headers, bodies and ids (ADR
  64).
- `cataloging`: Making catalogs: reads blocks, and collects what a catalog says of them (ADR 64).
- `checked`: Transactions and cursors that check every row: the only way to read tables.
- `checking`: Reading a whole index: checks every crc, every order, and every count.
- `children`: Starting child processes from the same package, and from nowhere else.
- `clustering`: Writing clusters while the index is folded, counting live entries in their ranges,
  removing them.
- `clusters`: Clusters: files with the content of messages in the order of their queues (ADR 12).
- `columns`: The events of several blocks as columns: one numpy array for each column, over all
  blocks.
- `comparing`: Comparing an index with the result of folding the journal up to the same event.
- `content`: Content by LSN: headers, bodies and whole events, read from the segments of the
  journal.
- `copying`: A copy of the index at one moment, for checks, even while the index is being written.
- `derived`: Removing derived files that are bad, when a broker starts: snapshots, catalogs and
  clusters.
- `digesting`: The digest of the state in the tables: of a loaded state, or read one record at a
  time.
- `finding`: Finding single ready entries in the pages during a fold of a batch, and recording
  which.
- `fold`: Folding blocks into the tables: plain events as sets, all others by the engine's `apply`.
- `id_pages`: Ids of messages that addresses remember, in the tables: pages of keys by their
  numbers.
- `index`: The index: tables with the state at some LSN of the journal, advanced batch by batch.
- `indexer`: The indexer: follows the durable journal and updates the index (ADR 8).
- `indexers`: How a broker has its index written and read: with an indexer beside it, or within it
  (ADR 42).
- `judging`: Deciding whether an index can be used for a journal, with the reason if not (ADR 8).
- `last_values`: The newest message for each last value key of each queue, in the index.
- `layout`: The layout of event rows for the journal, derived from the table in `engine.events`.
- `leaving`: A round of retention as a sequence of steps, independent of how they are performed.
- `levels`: Changing the pages of many levels at once: inserts and removes entries in their order.
- `loading`: Loading the state from the tables: everything except ready entries, which stay in the
  tables.
- `messages`: The messages between broker and indexer, over a pair of connected sockets (ADR 8).
- `missing_content`: Finding queued messages whose content is in a part of the journal that is
  missing.
- `names`: The addresses and queues that a fold keeps as objects: not all that exist (ADR 38).
- `ownership`: Exclusive write access to the index of a data directory: one process at a time, and
  no orphan.
- `pages`: A page: entries of one level of a queue, in order, as columns after a header.
- `plain`: The pass before `apply`: finds messages that only arrived, or arrived and left, in a run
  of events.
- `process`: The handle of the indexer in the broker: starting it, sending to it and receiving from
  it.
- `records`: The records of the index for everything except ready entries: queues, peers, entries in
  flight.
- `retiring`: Preparing segments to leave: finding queued messages, the archive, and the base.
- `snapshots`: Snapshots: copies of the tables at earlier events, so that a fold need not begin at
  the first one (ADR 63).
- `store`: The store of the engine: entries from the index, content from its clusters and the
  journal.
- `structure`: Checking the structure of tables without LMDB, which trusts it: damage there ends a
  process.
- `surveying`: Finding the queued messages in segments: they must be carried forward before the
  segments leave.
- `tables`: The tables of the index: one LMDB environment, its keys, and the errors it can have.
- `thread`: The indexer as a thread of the broker, for brokers of one process (ADR 42).
- `upgrading`: Converts tables of formats 1 and 2 to the current format: for a base, which cannot be
  derived again.
"""
