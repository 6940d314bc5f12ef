"""The lock of a data directory: one broker at a time.

Two things are locked: a file, which names the holder, and the journal's folder, because the file
may be removed by hand. Both locks end with the process and the processes forked from it, so a
killed broker leaves none behind; the file stays and contains the pid of its last holder. Fault
model: the file may be missing or replaced. Where a file system cannot lock folders, only the file
is locked. Must never know the content of the directory.
"""

import fcntl
import os
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final

from daybook.journal.data_directory import LOCK
from daybook.journal.errors import Locked

_LOCKS: Final = Path("/proc/locks")


class DirectoryLock:
    """The lock of a data directory, held until `release`; a context manager."""

    def __init__(self, directory: Path | str) -> None:
        """Take the lock; raises Locked, with the pid of the holder, and OSError."""
        self.path: Final = Path(directory) / LOCK
        self._folder = -1
        self._descriptor = self._open()
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            pid = holder_pid(directory)
            self._close()
            raise Locked(str(directory), pid) from error
        self._sign()

    def _open(self) -> int:
        return os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def _sign(self) -> None:
        # On a full disk the pid cannot be written; the lock is held without it.
        with suppress(OSError):
            os.ftruncate(self._descriptor, 0)
            os.pwrite(self._descriptor, f"{os.getpid()}\n".encode(), 0)

    def hold(self, folder: Path) -> None:
        """Also lock a folder that is not removed by hand. Raises Locked and OSError."""
        try:
            self._folder = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            fcntl.flock(self._folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            pid = _locker_of(self._folder)
            self.release()
            raise Locked(str(self.path.parent), pid) from error
        except OSError:
            if self._folder < 0:
                self.release()
                raise
            # The file system cannot lock folders.
            os.close(self._folder)
            self._folder = -1

    def renew(self) -> bool:
        """Restore the lock file if it was removed; return whether it was. Raises OSError."""
        if self._is_there():
            return False
        ours, self._descriptor = self._descriptor, self._open()
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            # Another process locked the new file; it will not get the folder's lock.
            self._close()
            self._descriptor = ours
            return False
        os.close(ours)
        self._sign()
        return True

    def _is_there(self) -> bool:
        """Return whether the path still leads to the locked file."""
        try:
            found = self.path.stat()
        except FileNotFoundError:
            return False
        ours = os.fstat(self._descriptor)
        return (found.st_dev, found.st_ino) == (ours.st_dev, ours.st_ino)

    def release(self) -> None:
        """Release the lock; may be called again."""
        if self._descriptor >= 0:
            os.ftruncate(self._descriptor, 0)
            self._close()
        if self._folder >= 0:
            os.close(self._folder)
            self._folder = -1

    def _close(self) -> None:
        os.close(self._descriptor)
        self._descriptor = -1

    def __enter__(self) -> "DirectoryLock":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.release()


def holder_pid(directory: Path | str) -> int:
    """Return the pid in the lock file, 0 if none; that process may no longer run."""
    try:
        text = (Path(directory) / LOCK).read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return 0
    return int(text) if text.isdigit() else 0


def _locker_of(descriptor: int) -> int:
    """Return the pid of the process that locked a file or folder with flock; 0 if unknown."""
    number = os.fstat(descriptor).st_ino
    try:
        lines = _LOCKS.read_text("ascii").splitlines()
    except OSError:
        return 0
    for line in lines:
        words = line.split()
        if words[1:2] == ["FLOCK"] and words[5].rpartition(":")[2] == str(number):
            return int(words[4])
    return 0
