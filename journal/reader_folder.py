"""Secure access to a folder of a data directory that its readers write to: pins, and reports.

Readers run as any user who may enter the directory, also as root, and the broker's user owns the
folders. A path could be replaced by a link at any moment, so files are never accessed by path: the
folder is opened without following links, and its files through that descriptor. Files that root
creates are given to the owner of the data directory, through their descriptors.

Fault model: the folder may be missing, a link, or not writable, and may contain anything; all of
that raises OSError. Must never know the meaning of the names in it.
"""

import fcntl
import os
from pathlib import Path
from typing import Final

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE: Final = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class ReaderFolder:
    """The open folder, to be closed after use. Every method raises OSError."""

    def __init__(self, directory: Path | str, name: str, *, make: bool) -> None:
        """Open a folder of a data directory; with `make`, create it if it does not exist."""
        data = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            self._descriptor: Final = _made(data, name) if make else _opened(data, name)
        finally:
            os.close(data)

    def lock(self, operation: int) -> None:
        """Lock the folder, until it is closed (`fcntl.flock`)."""
        fcntl.flock(self._descriptor, operation)

    def names(self) -> list[str]:
        """Return the names in the folder, sorted."""
        return sorted(_names(self._descriptor))

    def create(self, name: str) -> int:
        """Create a new file that only its user can access; return its descriptor."""
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | _FILE
        descriptor = os.open(name, flags, 0o600, dir_fd=self._descriptor)
        try:
            os.fchmod(descriptor, 0o600)
            _give(descriptor, os.fstat(self._descriptor))
        except OSError:
            os.close(descriptor)
            raise
        return descriptor

    def open(self, name: str) -> int:
        """Open a file for reading; return its descriptor."""
        return os.open(name, os.O_RDONLY | _FILE, dir_fd=self._descriptor)

    def rename(self, old: str, new: str) -> None:
        """Rename a file."""
        os.rename(old, new, src_dir_fd=self._descriptor, dst_dir_fd=self._descriptor)

    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""
        try:
            os.unlink(name, dir_fd=self._descriptor)
        except FileNotFoundError:
            return

    def close(self) -> None:
        """Close the folder, which releases its lock."""
        os.close(self._descriptor)


def _opened(data: int, name: str) -> int:
    return os.open(name, _FOLDER, dir_fd=data)


def _made(data: int, name: str) -> int:
    try:
        return _opened(data, name)
    except FileNotFoundError:
        os.mkdir(name, 0o700, dir_fd=data)
    descriptor = _opened(data, name)
    try:
        if not _names(descriptor):
            os.fchmod(descriptor, 0o700)
            # Otherwise a reader run by root would lock out the broker's user.
            _give(descriptor, os.fstat(data))
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _names(descriptor: int) -> list[str]:
    return os.listdir(descriptor)


def _give(descriptor: int, owner: os.stat_result) -> None:
    """Give a file or folder that root created to another owner."""
    if os.geteuid() == 0 and os.fstat(descriptor).st_uid == 0 and owner.st_uid != 0:
        os.fchown(descriptor, owner.st_uid, owner.st_gid)
