"""Segments that left the live journal: kept as objects with manifests, verified, and read again.

Modules:

- `archive`: The archive: sealed segments that leave the live journal, kept as objects with
  manifests.
- `disk`: Archived segments as a Disk, so that everything that reads a journal reads an archive,
  too.
- `manifest`: Manifests: the small JSON object beside each archived segment that says what the
  segment is.
- `place`: Where an archive may lie: apart from the data directory whose segments it takes.
- `ranges`: Archived segments as a Disk that fetches no more of an object than is read.
- `store`: Stores: where the objects of an archive lie, on a local file system or behind any fsspec
  URL.
"""
