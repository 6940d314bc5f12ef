"""Content by LSN: headers and bodies from the journal or from clusters, and the engine's store.

It must never know how tables are written. Begin with `store`.

Modules:

- `cluster_writer`: Writing clusters while the index is folded, counting live entries in their
  ranges, removing them.
- `clusters`: Clusters: files with the content of messages in the order of their queues (ADR 12).
- `content`: Content by LSN: headers, bodies and whole events, read from the segments of the
  journal.
- `store`: The store of the engine: entries from the index, content from its clusters and the
  journal.
"""
