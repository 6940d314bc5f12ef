"""Data directories made from others: salvage, forks, and restores from an archive (ADR 67).

It must never know a broker that runs. Begin with `salvage`.

Modules:

- `fitting`: Makes events behind a gap fit the remaining history before it (ADR 67).
- `fork`: Forks: a separate data directory that continues another one's history (ADR 67).
- `restoring`: Making a data directory from an archive alone, that a broker can start on.
- `salvage`: Salvage: a new data directory with all provably sound parts of a damaged one (ADR 67).
- `salvage_archive`: Segments of an archive that stand in for damaged or missing ones in a salvage
  (ADR 67).
- `salvage_gaps`: The gaps of a salvage: in the order of events, and before the first segment.
- `salvage_names`: Names for the report of a salvage: queues that gaps may concern, and messages
  that are not taken.
- `salvage_report`: The report of a salvage, with its gaps in readable form (ADR 67).
"""
