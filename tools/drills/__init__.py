"""Drills: rehearsing crashes and losses on real journals and scratch brokers (ADR 69).

Modules:

- `bit_rot`: Running `daybook drill bit-rot`: turns bits in the files of a copy, one at a time.
- `campaigns`: Drills that are campaigns: rounds of work on scratch data that each end in a crash.
- `clients`: Clients at work on a broker that may die at any moment, and the ledger of the answers
  they got.
- `command`: The commands `daybook drill`: rehearsals of crashes and losses, for staging and for
  auditors.
- `crash_points`: Rehearsing a crash at the blocks of a real journal, on virtual copies.
- `disks`: Disks that misbehave: power cuts, slow and full disks, and views of an earlier moment.
- `failover`: Rehearsing the loss of nodes on a cluster of scratch brokers.
- `reports`: The report of a drill: its structs, which are also its JSON, and its page.
- `restore`: Running `daybook drill restore`: proves that the archive alone is enough to rebuild the
  broker.
- `scratch`: Scratch data and its broker: the folder of a drill, and the process that serves there.
  there.
"""
