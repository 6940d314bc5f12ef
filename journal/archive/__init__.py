"""Segments that left the live journal: kept as objects with manifests, verified, and read again.

Modules:

- `archive`: The archive: sealed segments that leave the live journal, kept as objects with
  manifests.
- `disk`: Archived segments as a Disk, so that whatever reads a journal can also read an archive.
- `joint`: Whether an archive and a live journal are one history, and how far: one rule for all
  readers.
- `manifest`: Manifests: the small JSON object beside each archived segment that describes it.
- `place`: Where an archive may be: outside the data directory whose segments it stores.
- `ranges`: Archived segments as a Disk that fetches only the parts of an object that are read.
- `snapshots`: Snapshots in an archive: compressed copies of tables at an event, each with a
  manifest (ADR 70).
- `store`: Stores: where the objects of an archive are, on a local file system or behind any fsspec
  URL.
"""
