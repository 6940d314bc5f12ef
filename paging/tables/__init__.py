"""The tables of the index, their records and pages.

It must never know the position of the index, or the process that advances it. Begin with `tables`,
then `pages`.

Modules:

- `annotations`: The annotations of entries in the pages, by queue and message (ADR 100).
- `carried_content`: Where carried content is: keeping and reading the tables that record it.
- `checked`: Transactions and cursors that check every row: the only way to read tables.
- `child_processes`: Starting child processes from the same package only.
- `columns`: The events of several blocks as columns: one numpy array for each column, over all
  blocks.
- `entry_search`: Finding single ready entries in the pages during a fold of a batch, and recording
  which.
- `id_pages`: Ids of messages that addresses remember, in the tables: pages of keys by their
  numbers.
- `last_values`: The newest message for each last value key of each queue, in the index.
- `layout`: The layout of event rows for the journal, derived from the table in
  `engine.facts.events`.
- `levels`: Changing the pages of many levels at once: inserts and removes entries in their order.
- `loading`: Loading the state from the tables: everything except ready entries, which stay in the
  tables.
- `messages`: The messages between broker and indexer, over a pair of connected sockets (ADR 8).
- `names`: The addresses and queues that a fold keeps as objects: not all that exist (ADR 38).
- `pages`: A page: entries of one level of a queue, in order, as columns after a header.
- `plain_events`: The pass before `apply`: finds messages that only arrived, or arrived and left, in
  a run of events.
- `records`: The records of the index for everything except ready entries: queues, peers, entries in
  flight.
- `structure`: Checking the structure of tables without LMDB, which trusts it: damage there ends a
  process.
- `tables`: The tables of the index: one LMDB environment, its keys, and the errors it can have.
"""
