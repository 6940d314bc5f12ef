"""Queues out of memory: the index, its tables and pages, and the fold that fills them.

Modules:

- `catalogs`: Catalogs: files that say where in a run of blocks something is (ADR 64).
- `checks`: Checks of an index: by itself, against the journal, and against a fold.
- `content`: Content by LSN: headers and bodies from the journal or from clusters, and the engine's
  store.
- `fold`: The fold: advances tables by the blocks of the journal.
- `indexer`: The indexer: a process or a thread that advances the index of a running broker.
- `retention`: Retention: the messages to carry and the segments to archive before segments leave.
- `snapshots`: Snapshots: copies of tables at moments of history, in the data directory and in its
  archive.
- `tables`: The tables of the index, their records and pages.
"""
