"""Rehearsing a crash at the blocks of a real journal, on virtual copies.

It must never write to the journal. Begin with `drill`.

Modules:

- `drill`: Running `daybook drill crash-points`: rehearses a crash at the blocks of a real journal.
- `points`: The points of a journal at which a machine may have died: its blocks, found by footers.
- `reckoning`: The facts that clients know at an event of the journal: the entries that exist, and
  their delivery counts.
- `rehearsal`: One rehearsal: a virtual copy of a journal with a torn tail is recovered as by a
  start, and compared with the required result.
- `tails`: The possible states on disk of the block that was being written when the machine died.
"""
