"""Archived segments as a Disk that fetches only the parts of an object that are read.

For readers that need only footers and some ranges of blocks. Blocks and footers are checked by
their own crcs when they are read; only `Archive.verify`, and `ArchiveDisk`, which fetches whole
objects, check that the whole object is unchanged.

Fault model: as `journal.archive.store`; an object that is shorter than its manifest says looks like
a file that is cut short, which readers of segments report. Must never know: what a column means.
"""

import errno
import os
from collections.abc import Mapping
from typing import Final

from daybook.journal.archive.store import Store
from daybook.journal.disk import File
from daybook.journal.read_only import ReadOnly, refuse

PIECE_BYTES_MIN: Final = 1 << 16
PIECE_BYTES_MAX: Final = 4 << 20


class RangedFile:
    """An object to read from; sequential reads fetch ever larger pieces, up to PIECE_BYTES_MAX."""

    def __init__(self, store: Store, name: str, size: int) -> None:
        self._store: Final = store
        self._name: Final = name
        self._size: Final = size
        self._start = 0
        self._piece = b""
        self._ahead = PIECE_BYTES_MIN

    def pread(self, count: int, offset: int) -> bytes:
        """Read up to `count` bytes at `offset`; fewer only at the end. Raises ArchiveError."""
        start = offset - self._start
        if start < 0 or start + count > len(self._piece):
            self._fetch(count, offset)
            start = 0
        return self._piece[start : start + count]

    def _fetch(self, count: int, offset: int) -> None:
        end = self._start + len(self._piece)
        reads_on = bool(self._piece) and self._start <= offset <= end
        self._ahead = min(2 * self._ahead, PIECE_BYTES_MAX) if reads_on else PIECE_BYTES_MIN
        wanted = min(max(count, self._ahead), self._size - offset)
        self._piece = self._store.read_range(self._name, offset, wanted) if wanted > 0 else b""
        self._start = offset

    def size(self) -> int:
        """Return the size in bytes, as given by the manifest."""
        return self._size

    def forget(self) -> None:
        """Nothing to do: archived objects do not change."""

    def links(self) -> int:
        """Return 1: objects are never removed from an archive."""
        return 1

    def close(self) -> None:
        """Discard the fetched parts."""
        self._piece = b""

    def pwrite(self, data: bytes, offset: int) -> int:
        """Archives are written by `Archive.put` alone."""
        refuse(self._name)

    def fdatasync(self) -> None:
        """Nothing to do: the disk is read-only."""

    def truncate(self, size: int) -> None:
        """Archives are written by `Archive.put` alone."""
        refuse(self._name)

    def allocate(self, size: int) -> None:
        """Archives are written by `Archive.put` alone."""
        refuse(self._name)


class RangedDisk(ReadOnly):
    """Archived segments by name, for reading only."""

    def __init__(self, store: Store, sizes: Mapping[str, int]) -> None:
        """`sizes` are the sizes of the segments in bytes, by name."""
        self._store: Final = store
        self._sizes: Final = dict(sizes)

    def open(self, name: str) -> File:
        """Open a segment; raises FileNotFoundError if it is not archived."""
        size = self._sizes.get(name)
        if size is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
        return RangedFile(self._store, name, size)

    def names(self) -> list[str]:
        """Names of all segments."""
        return sorted(self._sizes)

    def holds(self, name: str) -> bool:
        """Whether a segment is archived."""
        return name in self._sizes
