"""A disk of a journal as it was at an earlier moment: the files of another disk, seen through a
layer of changes in memory.

The disk below is only read. Writes are kept page by page, so memory grows with what is changed, not
with the journal. Everything is durable at once: an overlay shows what a crash has left. Must never
know what the bytes are.
"""

import errno
import os
from typing import Final

from daybook.journal.disk import Disk, File

PAGE_BYTES: Final = 4096


class _Content:
    """The content of a file: bytes of the file below up to a limit, zeros behind it, and the pages
    that were changed."""

    def __init__(self, disk: Disk | None, name: str, visible: int, size: int) -> None:
        self._disk: Final = disk
        self._name: Final = name
        self._below: File | None = None
        self._visible = visible
        self._pages: dict[int, bytearray] = {}
        self.size = size

    def read(self, count: int, offset: int) -> bytes:
        """Return up to `count` bytes; fewer only at the end."""
        end = min(offset + count, self.size)
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

    def write(self, data: bytes, offset: int) -> None:
        """Write all bytes into the layer."""
        end = offset + len(data)
        self.size = max(self.size, end)
        position = offset
        while position < end:
            page, inside = divmod(position, PAGE_BYTES)
            count = min(PAGE_BYTES - inside, end - position)
            self._page(page)[inside : inside + count] = data[
                position - offset : position - offset + count
            ]
            position += count

    def resize(self, size: int) -> None:
        """Cut, or extend with zeros."""
        if size < self.size:
            self._visible = min(self._visible, size)
            for page in [page for page in self._pages if (page + 1) * PAGE_BYTES > size]:
                inside = max(0, size - page * PAGE_BYTES)
                if inside:
                    self._pages[page][inside:] = bytes(PAGE_BYTES - inside)
                else:
                    del self._pages[page]
        self.size = size

    def close(self) -> None:
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


class OverlayFile:
    """An open file of an overlay; all handles of a name share the content."""

    def __init__(self, content: _Content) -> None:
        self._content = content

    def pread(self, count: int, offset: int) -> bytes:
        """Read up to `count` bytes; fewer only at the end of the file."""
        return self._content.read(count, offset)

    def pwrite(self, data: bytes, offset: int) -> int:
        """Write; all bytes are always written."""
        self._content.write(bytes(data), offset)
        return len(data)

    def fdatasync(self) -> None:
        """Do nothing: everything is durable."""

    def forget(self) -> None:
        """Do nothing: there is no cache."""

    def truncate(self, size: int) -> None:
        """Cut or extend the file to this size."""
        self._content.resize(size)

    def allocate(self, size: int) -> None:
        """Extend with zeros up to `size` bytes."""
        self._content.resize(max(size, self._content.size))

    def size(self) -> int:
        """Size in bytes."""
        return self._content.size

    def links(self) -> int:
        """Return 1: nobody else can delete it."""
        return 1

    def close(self) -> None:
        """Do nothing: the overlay closes the files below."""


class Overlay:
    """A directory whose files lie on another disk, and whose changes lie in memory."""

    def __init__(self, disk: Disk) -> None:
        self._disk: Final = disk
        self._files: Final[dict[str, _Content | None]] = {}
        """Contents by name; None for a file that was not opened yet and is as it is below."""

    def show(self, name: str) -> None:
        """Show a file as it is below."""
        self._files[name] = None

    def show_part(self, name: str, visible: int, size: int) -> None:
        """Show the first `visible` bytes of a file, and zeros behind them up to `size`."""
        self._files[name] = _Content(self._disk, name, visible, size)

    def make(self, name: str, size: int) -> None:
        """Make a file of zeros that is not below."""
        self._files[name] = _Content(None, name, 0, size)

    def write(self, name: str, data: bytes, offset: int) -> None:
        """Change a file that is shown."""
        self._content(name).write(data, offset)

    def flip(self, name: str, bit: int) -> None:
        """Turn one bit of a file that is shown."""
        content = self._content(name)
        byte = content.read(1, bit // 8)
        content.write(bytes([byte[0] ^ 1 << bit % 8]), bit // 8)

    def close(self) -> None:
        """Close the files below."""
        for content in self._files.values():
            if content is not None:
                content.close()

    def open(self, name: str) -> OverlayFile:
        """Open an existing file; raises FileNotFoundError if there is none."""
        return OverlayFile(self._content(name))

    def open_for_writing(self, name: str) -> OverlayFile:
        """Open a file, creating it if need be."""
        if name not in self._files:
            self.make(name, 0)
        return self.open(name)

    def rename(self, old: str, new: str) -> None:
        """Rename a file, replacing a file that has the new name."""
        content = self._content(old)
        del self._files[old]
        self._files[new] = content

    def remove(self, name: str) -> None:
        """Remove a file; raises FileNotFoundError if there is none."""
        self._content(name).close()
        del self._files[name]

    def names(self) -> list[str]:
        """Names of all files, sorted."""
        return sorted(self._files)

    def sync_directory(self) -> None:
        """Do nothing: everything is durable."""

    def _content(self, name: str) -> _Content:
        if name not in self._files:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
        content = self._files[name]
        if content is None:
            below = self._disk.open(name)
            size = below.size()
            below.close()
            content = self._files[name] = _Content(self._disk, name, size, size)
        return content
