"""The fold: advances tables by the blocks of the journal.

It must never know why it is asked for a moment. Begin with `fold`, then `index`.

Modules:

- `batches`: Folding a journal into an index in batches that are each worth a commit.
- `fold`: Folding blocks into the tables: plain events as sets, all others by the engine's `apply`.
- `index`: The index: tables with the state at some LSN of the journal, advanced batch by batch.
- `index_digest`: The digest of the state in the tables: of a loaded state, or read one record at a
  time.
- `upgrade`: Converts tables of formats 1 and 2 to the current format: for a base, which cannot be
  derived again.
"""
