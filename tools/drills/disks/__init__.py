"""Disks that misbehave: power cuts, slow and full disks, and views of an earlier moment.

It must never know the meaning of the bytes. Begin with `overlay`.

Modules:

- `fault_model`: The remains of unsynced writes after a power cut: the model of all disks that
  misbehave.
- `overlay`: A disk of a journal as it was at an earlier moment: the files of another disk, seen
  through a layer of changes in memory.
- `undo_log`: A disk that records unsynced writes for a power cut, that is slow, or that has little
  room.
"""
