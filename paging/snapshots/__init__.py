"""Snapshots: copies of tables at moments of history, in the data directory and in its archive.

It must never know the broker. Begin with `snapshots`.

Modules:

- `archived_snapshots`: Archived snapshots, restored from the Disk that has the archived segments
  (ADR 70).
- `base`: The base: the state before the first live event, kept when retention takes segments away.
- `derived_files`: Removing derived files that are bad, when a broker starts: snapshots, catalogs
  and clusters.
- `index_copy`: A copy of the index at one moment, for checks, even while the index is being
  written.
- `snapshot_archive`: Putting the snapshots of a data directory into its archive, before their
  segments leave (ADR 70).
- `snapshots`: Snapshots: copies of the tables at earlier events, so that a fold need not begin at
  the first one (ADR 63).
"""
