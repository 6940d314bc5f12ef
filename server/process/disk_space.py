"""How full the disk of the data directory is, and whether that is too full.

Fault model: the file system may return an error (the folder is gone, a network file system failed);
then the last judgement stays.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple


class Space(NamedTuple):
    """The size of a file system that ordinary processes can use, and its free part, in bytes."""

    total: int
    free: int

    @property
    def used_percent(self) -> float:
        """The used part in per cent, as `df` shows it."""
        return 100.0 * (self.total - self.free) / self.total if self.total else 100.0


def measure(path: Path) -> Space | None:
    """Measure the file system of a folder; None on an error."""
    try:
        told = os.statvfs(path)
    except OSError:
        return None
    reserved = told.f_bfree - told.f_bavail
    return Space(
        total=(told.f_blocks - reserved) * told.f_frsize, free=told.f_bavail * told.f_frsize
    )


class DiskSpace:
    """Judges the space on a disk by two limits, -1 for none. `space` is the last measurement."""

    def __init__(self, path: Path, look: Callable[[Path], Space | None] = measure) -> None:
        self.space: Space | None = None
        self._path: Final = path
        self._look: Final = look

    def judge(self, *, max_disk_usage: int, min_disk_free: int) -> str:
        """Measure, and return why the disk is too full; "" if it is not.

        `min_disk_free` (bytes) takes precedence over `max_disk_usage` (per cent), as in Artemis.
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
