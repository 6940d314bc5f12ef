"""The remains of unsynced writes after a power cut: the model of all disks that misbehave.

A sector is written as a whole or not at all, each by itself and in any order. Changes of sizes and
of names happen in the order in which they were made, up to some point. The simulated disk of the
tests, the platter behind the black box and the undo log of a drill follow this model. Must never
know how a disk keeps its bytes.
"""

from collections.abc import Iterator
from typing import Final

SECTOR_BYTES: Final = 512
LIKELIHOODS: Final = (0.1, 0.5, 0.9, 1.0)
"""How likely the power cut takes a sector: one of these for all sectors of a file."""


def sectors(start: int, end: int) -> Iterator[tuple[int, int]]:
    """Divide the bytes of a file from `start` to `end` where a sector ends."""
    while start < end:
        stop = min(end, (start // SECTOR_BYTES + 1) * SECTOR_BYTES)
        yield start, stop
        start = stop
