"""Data directories made from others: salvage, forks, and restores from an archive (ADR 67).

It must never know a broker that runs. Begin with `salvage`.

Modules:

- `fitting`: Making events behind a gap fit what is left of the history before it (ADR 67).
- `fork`: Forks: a data directory of its own that continues another one's history (ADR 67).
- `restoring`: Making a data directory from an archive alone, that a broker can start on.
- `salvage`: Salvage: a new data directory with all that is provably good of a damaged one (ADR 67).
- `salvage_archive`: Segments of an archive that stand in for damaged or missing ones in a salvage
  (ADR 67).
- `salvage_gaps`: The gaps of a salvage: in the order of events, and what is missing before the
  first segment.
- `salvage_names`: Names of what a salvage reports: queues that gaps may concern, and messages that
  are not taken.
- `salvage_report`: What a salvage found: the report, and the gaps in it as people read of them (ADR
  67).
"""
