"""Opening data directories: repair, fold, invariants.

Modules:

- `checkpoint`: The state to start from: the checkpoint in the index, brought up to the end of the
  journal.
- `directory`: Opening a data directory: lock, journal, repair of a torn tail, checkpoint, fold,
  invariants.
- `fold`: Folding blocks of the journal into the state, with the engine's own `apply`.
- `last_words`: What a broker left behind that had a reason to distrust its index: the next one
  reads all of it.
- `readonly`: The state of a data directory as somebody else sees it: read, never written, never
  locked.
- `starting`: What a broker decides first, by how the one before it ended.
- `strangers`: What lies in a folder that is to become a data directory: nothing of anybody else's.
"""
