"""The indexer: a process or a thread that advances the index of a running broker.

It must never know connections. Begin with `indexer`, then `indexers`.

Modules:

- `indexer`: The indexer: follows the durable journal and updates the index (ADR 8).
- `indexers`: How a broker has its index written and read: with an indexer beside it, or within it
  (ADR 42).
- `ownership`: Exclusive write access to the index of a data directory: one process at a time, and
  no orphan.
- `process`: The handle of the indexer in the broker: starting it, sending to it and receiving from
  it.
- `thread`: The indexer as a thread of the broker, for brokers of one process (ADR 42).
"""
