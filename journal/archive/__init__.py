"""Segments that left the live journal: kept as objects with manifests, verified, and read again.

| module | job |
|---|---|
| `archive` | what an archive holds; adding to it, verifying it, fetching from it |
| `store`, `place` | where objects are kept, and where they may be kept |
| `manifest` | what the small JSON object beside each segment says |
| `disk`, `ranges` | archived segments read like those of a journal, whole or in ranges |
"""
