"""The journal's only access to files: the Disk protocol, a real disk and one in memory.

Fault model that callers must respect: a write may be short; writes since the last
`fdatasync` may be lost, torn at 512-byte sectors or reordered by a power cut; a name that was
created, renamed or removed is durable after `sync_directory`; a failed `fdatasync` must not be
repeated, for the kernel may have dropped the pages. Any call may raise OSError.

Must never know: segments, blocks, what the bytes are.
"""

import errno
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final, Protocol

from daybook.journal.links import link_count
from daybook.journal.spares import open_descriptor


class File(Protocol):
    """An open file."""

    def pread(self, count: int, offset: int) -> bytes:
        """Read up to `count` bytes; fewer only at the end of the file."""
        ...

    def pwrite(self, data: bytes, offset: int) -> int:
        """Write; return how many bytes were written, which may be fewer than given."""
        ...

    def fdatasync(self) -> None:
        """Make everything written so far, and the size, durable."""
        ...

    def forget(self) -> None:
        """Drop synced content from caches, so that the next read comes from the disk."""
        ...

    def truncate(self, size: int) -> None:
        """Cut or extend (with zeros) the file to this size."""
        ...

    def allocate(self, size: int) -> None:
        """Reserve space up to `size` bytes, read as zeros. Raises OSError if there is none."""
        ...

    def size(self) -> int:
        """Size in bytes."""
        ...

    def links(self) -> int:
        """Return how many names the file has; 0 after it was deleted."""
        ...

    def close(self) -> None:
        """Close; later calls on the file are errors."""
        ...


class Disk(Protocol):
    """A directory of files."""

    def open(self, name: str) -> File:
        """Open an existing file for reading; raises FileNotFoundError if there is none."""
        ...

    def open_for_writing(self, name: str) -> File:
        """Open a file for reading and writing, creating it if need be."""
        ...

    def rename(self, old: str, new: str) -> None:
        """Rename a file, replacing a file that has the new name."""
        ...

    def remove(self, name: str) -> None:
        """Remove a file; raises FileNotFoundError if there is none."""
        ...

    def names(self) -> list[str]:
        """Names of all files, sorted."""
        ...

    def sync_directory(self) -> None:
        """Make creations, renames and removals durable."""
        ...


class RealFile:
    """An open file of the operating system."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def pread(self, count: int, offset: int) -> bytes:
        """Read up to `count` bytes; fewer only at the end of the file."""
        data = os.pread(self._descriptor, count, offset)
        if len(data) == count or not data:
            return data
        parts = [data]
        have = len(data)
        while have < count:
            data = os.pread(self._descriptor, count - have, offset + have)
            if not data:
                break
            parts.append(data)
            have += len(data)
        return b"".join(parts)

    def pwrite(self, data: bytes, offset: int) -> int:
        """Write; return how many bytes were written."""
        return os.pwrite(self._descriptor, data, offset)

    def fdatasync(self) -> None:
        """Make everything written so far, and the size, durable."""
        os.fdatasync(self._descriptor)

    def forget(self) -> None:
        """Make the kernel drop the clean pages of the file."""
        os.posix_fadvise(self._descriptor, 0, 0, os.POSIX_FADV_DONTNEED)

    def truncate(self, size: int) -> None:
        """Cut or extend the file to this size."""
        os.ftruncate(self._descriptor, size)

    def allocate(self, size: int) -> None:
        """Reserve space up to `size` bytes. Raises OSError (ENOSPC) if there is none."""
        os.posix_fallocate(self._descriptor, 0, size)

    def size(self) -> int:
        """Size in bytes."""
        return os.fstat(self._descriptor).st_size

    def links(self) -> int:
        """Return how many names the file has; 0 after it was deleted."""
        return link_count(self._descriptor)

    def close(self) -> None:
        """Close the descriptor."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


class RealDisk:
    """A directory of the operating system."""

    def __init__(self, path: Path | str) -> None:
        self.path: Final = Path(path)

    def create(self) -> None:
        """Create the directory, and its parents, durably; it may exist already."""
        missing = [folder for folder in (self.path, *self.path.parents) if not folder.exists()]
        for folder in reversed(missing):
            folder.mkdir(mode=0o700, exist_ok=True)
            sync_directory(folder.parent)

    def open(self, name: str) -> RealFile:
        """Open an existing file for reading; raises FileNotFoundError if there is none."""
        return RealFile(open_descriptor(self.path / name, os.O_RDONLY))

    def open_for_writing(self, name: str) -> RealFile:
        """Open a file for reading and writing, creating it if need be."""
        return RealFile(open_descriptor(self.path / name, os.O_RDWR | os.O_CREAT, 0o600))

    def rename(self, old: str, new: str) -> None:
        """Rename a file, replacing a file that has the new name."""
        (self.path / old).replace(self.path / new)

    def remove(self, name: str) -> None:
        """Remove a file; raises FileNotFoundError if there is none."""
        (self.path / name).unlink()

    def names(self) -> list[str]:
        """Names of all files, sorted; none if the directory does not exist."""
        try:
            directory = open_descriptor(self.path, os.O_RDONLY | os.O_DIRECTORY)
        except (FileNotFoundError, NotADirectoryError):
            return []
        try:
            return sorted(os.listdir(directory))  # noqa: PTH208 - a descriptor has no Path
        finally:
            os.close(directory)

    def sync_directory(self) -> None:
        """Make creations, renames and removals durable."""
        sync_directory(self.path)


def sync_directory(path: Path) -> None:
    """Make creations, renames and removals in a folder durable; raises OSError."""
    descriptor = open_descriptor(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class MemoryFile:
    """An open file in memory; all handles of a name share the bytes."""

    def __init__(self, content: bytearray) -> None:
        self.content = content

    def pread(self, count: int, offset: int) -> bytes:
        """Read up to `count` bytes; fewer only at the end of the file."""
        return bytes(memoryview(self.content)[offset : offset + count])

    def pwrite(self, data: bytes, offset: int) -> int:
        """Write; all bytes are always written."""
        if len(self.content) < offset:
            self.content.extend(bytes(offset - len(self.content)))
        self.content[offset : offset + len(data)] = data
        return len(data)

    def fdatasync(self) -> None:
        """Nothing to do: memory cannot be made more durable."""

    def forget(self) -> None:
        """Nothing to do: there is no cache."""

    def truncate(self, size: int) -> None:
        """Cut or extend the file to this size."""
        del self.content[size:]
        self.allocate(size)

    def allocate(self, size: int) -> None:
        """Extend with zeros up to `size` bytes."""
        if size > len(self.content):
            self.content.extend(bytes(size - len(self.content)))

    def size(self) -> int:
        """Size in bytes."""
        return len(self.content)

    def links(self) -> int:
        """Return 1: nobody else can delete it."""
        return 1

    def close(self) -> None:
        """Nothing to do."""


class MemoryDisk:
    """A directory in memory, for tests and dry runs."""

    def __init__(self) -> None:
        self.files: dict[str, bytearray] = {}

    def open(self, name: str) -> MemoryFile:
        """Open an existing file for reading; raises FileNotFoundError if there is none."""
        return MemoryFile(self._existing(name))

    def open_for_writing(self, name: str) -> MemoryFile:
        """Open a file for reading and writing, creating it if need be."""
        return MemoryFile(self.files.setdefault(name, bytearray()))

    def rename(self, old: str, new: str) -> None:
        """Rename a file, replacing a file that has the new name."""
        self.files[new] = self._existing(old)
        del self.files[old]

    def remove(self, name: str) -> None:
        """Remove a file; raises FileNotFoundError if there is none."""
        self._existing(name)
        del self.files[name]

    def names(self) -> list[str]:
        """Names of all files, sorted."""
        return sorted(self.files)

    def sync_directory(self) -> None:
        """Nothing to do."""

    def _existing(self, name: str) -> bytearray:
        content = self.files.get(name)
        if content is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
        return content


def write_content(disk: Disk, name: str, pieces: Iterable[bytes]) -> None:
    """Give a file this content, and sync it: one that is renamed over another one afterwards.
    Raises OSError."""
    file = disk.open_for_writing(name)
    try:
        file.truncate(0)
        offset = 0
        for piece in pieces:
            write_all(file, piece, offset)
            offset += len(piece)
        file.fdatasync()
    finally:
        file.close()


def write_all(file: File, data: bytes, offset: int) -> None:
    """Write all bytes, continuing after short writes. Raises OSError (EIO) if none are written."""
    done = file.pwrite(data, offset)
    while done < len(data):
        taken = file.pwrite(data[done:], offset + done)
        if taken <= 0:
            raise OSError(errno.EIO, "the disk took no bytes")
        done += taken
    assert done == len(data)
