"""Opening data directories: repair, fold, invariants.

Modules:

- `checkpoint`: The state to start from: the checkpoint in the index, brought up to the end of the
  journal.
- `collector`: Python's garbage collector, where states are built: it looks rarely, and at little.
- `directory`: Opening a data directory: lock, journal, repair of a torn tail, checkpoint, fold,
  invariants.
- `fold`: Folding blocks of the journal into the state, with the engine's own `apply`.
- `last_words`: The file `last-words`: why a broker distrusted its index. The next broker then reads
  all of it.
- `moments`: The state of a data directory at any event of its history: for readers, without a lock
  (ADR 63).
- `readonly`: The state of a data directory for other processes than its broker: read-only, without
  a lock.
- `salvage`: Data directories made from others: salvage, forks, and restores from an archive (ADR
  67).
- `signing`: Signatures over history: keys, statements, and what a statement covers (ADR 66).
- `starting`: The first command of a broker, which depends on how the broker before it ended.
- `strangers`: Foreign files: a folder that has any cannot become a data directory.
- `tag_key`: The file `tag-key`: the secret by which the broker recognises tags that it gave to
  deliveries.
"""
