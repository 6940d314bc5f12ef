"""Exports: a range of history in a directory of its own, with what proves that it is a part of it
(ADR 66).

An export must never change the journal that it is made of. Begin with `export`.

Modules:

- `export`: Running `journal export`: copies a range of history with its proof (ADR 66).
- `export_descriptions`: Checking the files of an export that describe it: the id of the data
  directory, and the manifest of each segment. Nobody signs them, so they have to say what the
  segments say. Changes nothing.
- `export_keys`: The changes of the signing key that an export takes along, so that one key of its
  journal proves it, whichever was in use in its range (ADR 66).
- `export_verification`: Verifying an export: that it is what it was, and what proves that it is a
  part of a history (ADR 66).
"""
