"""Checks of an index: by itself, against the journal, and against a fold.

It must never know how a damaged index is replaced. Begin with `index_check`.

Modules:

- `fold_comparison`: Comparing an index with the result of folding the journal up to the same event.
- `index_check`: Reading a whole index: checks every crc, every order, and every count.
- `journal_agreement`: Checks that the journal contains the events that the tables refer to: carried
  content, and chunks of bodies.
- `usability`: Deciding whether an index can be used for a journal, with the reason if not (ADR 8).
"""
