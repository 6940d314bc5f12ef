"""Queues out of memory: the index, its tables and pages, and the fold that fills them.

Modules:

- `agreeing`: Whether the journal has what the tables say: content where it was carried to, chunks
  of bodies.
- `base`: The base: the state before the first live event, kept when retention takes segments away.
- `batches`: Reading a journal in batches that are each worth a commit of an index.
- `carrying`: Where content is that was carried forward: the tables that say it, kept and asked.
- `checked`: Transactions and cursors whose every row is checked: the one way in which tables are
  read.
- `checking`: Reading a whole index: every crc, every order, and every count against what it counts.
- `children`: Processes of our own that this one starts: with the same package, and from nowhere
  else.
- `clustering`: Making clusters while the index is folded, counting what is live in their ranges,
  removing them.
- `clusters`: Clusters: files with the content of messages in the order of their queues (ADR 12).
- `columns`: The events of several blocks as columns: one numpy array for each column, over all
  blocks.
- `comparing`: Comparing an index with what folding the journal comes to, at the same event.
- `content`: Content by LSN: headers, bodies and whole events, read from the segments of the
  journal.
- `copying`: A copy of the index as of one moment, whether or not it is being written, for who
  checks it.
- `digesting`: The digest of the state that the tables stand for: of one that is loaded, or a record
  at a time.
- `finding`: Finding single ready entries in the pages while a batch is folded, and noting which.
- `fold`: Folding blocks into the tables: what is plain by sets, everything else by the engine's
  `apply`.
- `id_pages`: Ids of messages that addresses remember, in the tables: pages of keys by their
  numbers.
- `index`: The index: tables that are the state at some LSN of the journal, moved forward batch by
  batch.
- `indexer`: The indexer: a process that follows the durable journal and keeps the index (ADR 8).
- `judging`: Whether an index can be used for a journal, and why not, in words (ADR 8).
- `layout`: How the journal lays out the rows of events: the table of `engine.events` in the
  journal's terms.
- `leaving`: A round of retention as a sequence of steps: what comes next, whoever carries it out.
- `levels`: Changing the pages of many levels at once: entries go in and come out in their order.
- `loading`: The state that the tables stand for: everything but ready entries, which stay where
  they are.
- `messages`: What broker and indexer say to each other, over a pair of connected sockets (ADR 8).
- `names`: Addresses and queues of which a fold has objects: not all that there are (ADR 38).
- `ownership`: Who may write the index of a data directory: one process at a time, and none that is
  orphaned.
- `pages`: A page: entries of one level of a queue, in order, as columns behind a header.
- `plain`: The pass before `apply`: messages whose events say no more than that they came, or came
  and went.
- `process`: The indexer as the broker sees it: a process to be started, told and heard.
- `records`: What the index knows beside ready entries, as records: queues, peers, what is in
  flight.
- `retiring`: Making segments ready to leave: what is queued in them, the archive, and the base.
- `store`: The store of the engine: entries from the index, content from its clusters and the
  journal.
- `structure`: Judging the structure of tables without LMDB, which believes it: damage there ends a
  process.
- `surveying`: What segments still hold that is queued: to be carried forward before they can leave.
- `tables`: The tables of the index: one LMDB environment, its keys, and what can be wrong with it.
- `upgrading`: Tables of formats 1 and 2 as tables of this format: for a base, which cannot be
  derived again.
"""
