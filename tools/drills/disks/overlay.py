"""A disk of a journal as it was at an earlier moment: the files of another disk, seen through a
layer of changes in memory.

The disk below is only read. Writes are kept page by page, so memory grows with the changes, not
with the journal. Everything is durable at once: an overlay shows a disk after a crash. Must never
know the meaning of the bytes.
"""

import errno
import os
from typing import Final

from daybook.journal.disk import Disk, File

PAGE_BYTES: Final = 4096


class OverlayFile:
    """A file of an overlay: bytes of the file below up to a limit, zeros behind it, and the pages
    that were changed. All users of it share it, so only the overlay closes the file below."""

    def __init__(self, disk: Disk | None, name: str, visible: int, size: int) -> None:
        self._disk: Final = disk
        self._name: Final = name
        self._below: File | None = None
        self._visible = visible
        self._pages: dict[int, bytearray] = {}
        self._size = size

    def pread(self, count: int, offset: int) -> bytes:
        """Read up to `count` bytes; fewer only at the end of the file."""
        end = min(offset + count, self._size)
        if end <= offset:
            return b""
        first, last = offset // PAGE_BYTES, (end - 1) // PAGE_BYTES
        changed = [page for page in range(first, last + 1) if page in self._pages]
        if not changed:
            return self._read_below(end - offset, offset)
        data = bytearray(self._read_below(end - offset, offset))
        for page in changed:
            start = page * PAGE_BYTES
            low, high = max(start, offset), min(start + PAGE_BYTES, end)
            data[low - offset : high - offset] = self._pages[page][low - start : high - start]
        return bytes(data)

    def pwrite(self, data: bytes, offset: int) -> int:
        """Write all bytes into the layer."""
        end = offset + len(data)
        self._size = max(self._size, end)
        position = offset
        while position < end:
            page, inside = divmod(position, PAGE_BYTES)
            count = min(PAGE_BYTES - inside, end - position)
            piece = data[position - offset : position - offset + count]
            self._page(page)[inside : inside + count] = piece
            position += count
        return len(data)

    def fdatasync(self) -> None:
        """Do nothing: everything is durable."""

    def forget(self) -> None:
        """Do nothing: there is no cache."""

    def truncate(self, size: int) -> None:
        """Cut the file to this size, or extend it with zeros."""
        if size < self._size:
            self._visible = min(self._visible, size)
            for page in [page for page in self._pages if (page + 1) * PAGE_BYTES > size]:
                inside = max(0, size - page * PAGE_BYTES)
                if inside:
                    self._pages[page][inside:] = bytes(PAGE_BYTES - inside)
                else:
                    del self._pages[page]
        self._size = size

    def allocate(self, size: int) -> None:
        """Extend with zeros up to `size` bytes."""
        self._size = max(size, self._size)

    def size(self) -> int:
        """Size in bytes."""
        return self._size

    def links(self) -> int:
        """Return 1: nobody else can delete it."""
        return 1

    def close(self) -> None:
        """Do nothing: others may have it open."""

    def close_below(self) -> None:
        """Close the file below."""
        if self._below is not None:
            self._below.close()
            self._below = None

    def _page(self, number: int) -> bytearray:
        page = self._pages.get(number)
        if page is None:
            below = self._read_below(PAGE_BYTES, number * PAGE_BYTES)
            page = self._pages[number] = bytearray(below)
        return page

    def _read_below(self, count: int, offset: int) -> bytes:
        """Return exactly `count` bytes: those of the file below, then zeros."""
        wanted = min(count, self._visible - offset)
        if wanted <= 0 or self._disk is None:
            return bytes(count)
        if self._below is None:
            self._below = self._disk.open(self._name)
        found = self._below.pread(wanted, offset)
        return found + bytes(count - len(found))


class Overlay:
    """A directory whose files lie on another disk, and whose changes lie in memory."""

    def __init__(self, disk: Disk) -> None:
        self._disk: Final = disk
        self._files: Final[dict[str, OverlayFile | None]] = {}
        """By name; None for a file that was not opened yet and is as it is below."""

    def show(self, name: str) -> None:
        """Show a file as it is below."""
        self._files[name] = None

    def show_part(self, name: str, visible: int, size: int) -> None:
        """Show the first `visible` bytes of a file, and zeros behind them up to `size`."""
        self._files[name] = OverlayFile(self._disk, name, visible, size)

    def make(self, name: str, size: int) -> None:
        """Make a file of zeros that is not below."""
        self._files[name] = OverlayFile(None, name, 0, size)

    def write(self, name: str, data: bytes, offset: int) -> None:
        """Change a file that is shown."""
        self.open(name).pwrite(data, offset)

    def flip(self, name: str, bit: int) -> None:
        """Turn one bit of a file that is shown."""
        file = self.open(name)
        byte = file.pread(1, bit // 8)
        file.pwrite(bytes([byte[0] ^ 1 << bit % 8]), bit // 8)

    def close(self) -> None:
        """Close the files below."""
        for file in self._files.values():
            if file is not None:
                file.close_below()

    def open(self, name: str) -> OverlayFile:
        """Open an existing file; raises FileNotFoundError if there is none."""
        if name not in self._files:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
        file = self._files[name]
        if file is None:
            below = self._disk.open(name)
            size = below.size()
            below.close()
            file = self._files[name] = OverlayFile(self._disk, name, size, size)
        return file

    def open_for_writing(self, name: str) -> OverlayFile:
        """Open a file, creating it if need be."""
        if name not in self._files:
            self.make(name, 0)
        return self.open(name)

    def rename(self, old: str, new: str) -> None:
        """Rename a file, replacing a file that has the new name."""
        file = self.open(old)
        del self._files[old]
        self._files[new] = file

    def remove(self, name: str) -> None:
        """Remove a file; raises FileNotFoundError if there is none."""
        self.open(name).close_below()
        del self._files[name]

    def names(self) -> list[str]:
        """Names of all files, sorted."""
        return sorted(self._files)

    def sync_directory(self) -> None:
        """Do nothing: everything is durable."""
