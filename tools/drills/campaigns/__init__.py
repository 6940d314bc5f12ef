"""Drills that are campaigns: rounds of work on scratch data that each end in a crash.

It must never know what a client asserts about the broker: that is for `clients`. Begin with
`campaign`.

Modules:

- `campaign`: A campaign: rounds of work that each end in a crash, on scratch data, with a ledger of
  clients.
- `derived_files`: Damaging what is derived from the journal, between a crash and the next start
  (ADR 69).
- `drills`: Running the drills that are campaigns on scratch data, and their reports.
- `hardships`: What a drill does to the broker and its disk: power cuts, and disks that are slow or
  full.
"""
