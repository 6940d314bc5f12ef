"""Drills that are campaigns: rounds of work on scratch data that each end in a crash.

It must never know the assertions of clients about the broker: those are in `clients`. Begin with
`campaign`.

Modules:

- `campaign`: A campaign: rounds of work that each end in a crash, on scratch data, with a ledger of
  clients.
- `derived_files`: Damages derived files between a crash and the next start (ADR 69).
- `drills`: Running the drills that are campaigns on scratch data, and their reports.
- `hardships`: The hardships of drills: power cuts, and disks that are slow or full.
"""
