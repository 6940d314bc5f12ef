"""Drills: rehearsing crashes and losses on real journals and scratch brokers (ADR 69).

Modules:

- `command`: The commands `daybook drill`: rehearsals of crashes and losses, for staging and for
  auditors.
- `crash_points`: Running `daybook drill crash-points`: rehearses a crash at the blocks of a real
  journal.
- `overlay`: A disk of a journal as it was at an earlier moment: the files of another disk, seen
  through a layer of changes in memory.
- `page`: The report of a drill as one HTML page that needs nothing else: no scripts, no files, no
  network.
- `plots`: Plots as SVG within a page, without scripts, fonts or files from elsewhere.
- `points`: The points of a journal at which a machine may have died: its blocks, found by footers.
- `reckoning`: What clients had been told by an event of the journal: which entries exist, and their
  delivery counts.
- `rehearsal`: One rehearsal: a virtual copy of a journal with a torn tail is recovered, as a start
  does, and held against what must come out.
- `report`: The report of a drill: what was asked, where, what was tried, what was found, and what
  could not be tried.
- `shape`: The structs of a drill's report, which are also its JSON. Fields are only ever added.
- `tails`: What a disk may have of the block that was being written when the machine died.
"""
