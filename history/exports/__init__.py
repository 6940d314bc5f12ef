"""Exports: a range of history in a directory of its own, with what proves that it is a part of it
(ADR 66).

An export must never change the journal that it is made of. Begin with `export`.

Modules:

- `addresses`: The addresses that an export shows although it is redacted, by their names.
- `export`: Running `journal export`: copies a range of history with its proof (ADR 66).
- `export_descriptions`: Checking the files of an export that describe it: the id of the data
  directory, and the manifest of each segment. They are not signed, so they must agree with the
  segments. Only reads.
- `export_keys`: The changes of the signing key that an export takes along, so that one key of its
  journal proves it, whichever was in use in its range (ADR 66).
- `export_verification`: Verifies an export: that it is unchanged, and how it is proven to be a part
  of a history (ADR 66).
"""
