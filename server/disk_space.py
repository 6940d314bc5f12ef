"""How full the disk of the data directory is, and whether that is too full.

Fault model: the file system may not answer (the folder is gone, a network file system hangs up);
then nothing is known, and nothing is changed by it.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple


class Space(NamedTuple):
    """Bytes of a file system: all that ordinary processes can have, and what of it is free."""

    total: int
    free: int

    @property
    def used_percent(self) -> float:
        """How much is in use, as `df` tells it."""
        return 100.0 * (self.total - self.free) / self.total if self.total else 100.0


def measure(path: Path) -> Space | None:
    """Ask the file system that holds a folder; None if it does not answer."""
    try:
        told = os.statvfs(path)
    except OSError:
        return None
    reserved = told.f_bfree - told.f_bavail
    return Space(
        total=(told.f_blocks - reserved) * told.f_frsize, free=told.f_bavail * told.f_frsize
    )


class DiskSpace:
    """Judges the space on a disk by two limits, each -1 for none. `space` is what was seen last."""

    def __init__(self, path: Path, look: Callable[[Path], Space | None] = measure) -> None:
        self.space: Space | None = None
        self._path: Final = path
        self._look: Final = look

    def judge(self, *, max_disk_usage: int, min_disk_free: int) -> str:
        """Look, and say in what way the disk is too full; empty if it is not.

        `min_disk_free` (bytes) goes before `max_disk_usage` (per cent), as in Artemis.
        """
        space = self._look(self._path)
        if space is None:
            return ""
        self.space = space
        if min_disk_free >= 0:
            if space.free >= min_disk_free:
                return ""
            return f"{space.free} bytes are free, and min-disk-free is {min_disk_free}"
        if 0 <= max_disk_usage < space.used_percent:
            return f"{space.used_percent:.1f} % are in use, and max-disk-usage is {max_disk_usage}"
        return ""
