"""Drills: rehearsing crashes and losses on real journals and scratch brokers (ADR 69).

Modules:

- `bit_rot`: Running `daybook drill bit-rot`: turns bits in the files of a copy, one at a time.
- `broker`: The broker process of a drill: started on scratch data, killed with all its processes,
  started again. Ends only processes that it started.
- `campaign`: A campaign: rounds of work that each end in a crash, on scratch data, with a ledger of
  clients.
- `campaigns`: Running the drills that are campaigns on scratch data, and their reports.
- `clients`: What a drill's workload needs of a STOMP client, and the client of this package behind
  that face.
- `command`: The commands `daybook drill`: rehearsals of crashes and losses, for staging and for
  auditors.
- `crash_points`: Running `daybook drill crash-points`: rehearses a crash at the blocks of a real
  journal.
- `derived`: Damaging what is derived from the journal, between a crash and the next start (ADR 69).
- `hardships`: What a drill does to the broker and its disk: power cuts, and disks that are slow or
  full.
- `ledger`: What clients saw, and what the broker's promises forbid them to see.
- `missing`: Counting what a journal lacks of the messages that clients have receipts for.
- `noting`: A disk that notes what a power cut would take away, that is slow, or that has little
  room.
- `overlay`: A disk of a journal as it was at an earlier moment: the files of another disk, seen
  through a layer of changes in memory.
- `page`: The report of a drill as one HTML page that needs nothing else: no scripts, no files, no
  network.
- `plots`: Plots as SVG within a page, without scripts, fonts or files from elsewhere.
- `points`: The points of a journal at which a machine may have died: its blocks, found by footers.
- `questions`: What `journal trail` answers about a sample of messages, to see that damage changes
  no answer.
- `reckoning`: What clients had been told by an event of the journal: which entries exist, and their
  delivery counts.
- `rehearsal`: One rehearsal: a virtual copy of a journal with a torn tail is recovered, as a start
  does, and held against what must come out.
- `report`: The report of a drill: what was asked, where, what was tried, what was found, and what
  could not be tried.
- `restore`: Running `daybook drill restore`: proves that the archive alone is enough to rebuild the
  broker.
- `serving`: The process of a drill's broker: the broker of this installation with the operator's
  configuration, on scratch data.
- `shape`: The structs of a drill's report, which are also its JSON. Fields are only ever added.
- `startable`: Whether a broker would start on a data directory as it is: found out without touching
  it.
- `tails`: What a disk may have of the block that was being written when the machine died.
- `witness`: A client that looks at a broker under a hardship, when its disk hangs or is full.
- `workload`: Clients at work on a broker that may die at any moment: producers, consumers,
  forwarders.
"""
