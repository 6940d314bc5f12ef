"""Folders for temporary files in TMPDIR, and the removal of those that killed processes left there.

A folder holds the files, and beside them a file that its process keeps locked. The kernel drops the
lock when the process ends, however it ends, so whoever gets the lock later knows that nobody uses
the folder. The first folder of a process makes it look for such ones. Must never know what the
files are.

Fault model: anybody may write into TMPDIR. Only folders that belong to the user of this process are
removed, no link is followed, and the lock goes last, so that a removal may be interrupted. Where
files cannot be locked, a folder has no lock, and no other process removes it.
"""

import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Final

PREFIX: Final = "daybook-"
FILES: Final = "files"
LOCK: Final = "in-use"
_UNLOCKED: Final = "new"


class ScratchFolder:
    """A folder for files that no other process removes, until it is removed here."""

    def __init__(self, kind: str) -> None:
        """Make one in TMPDIR; `kind` says in its name what it is for. Raises OSError."""
        remove_abandoned()
        self._folder: Final = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{kind}-"))
        self._lock: Final = _locked(self._folder)
        self.path: Final = self._folder / FILES
        self.path.mkdir()

    def remove(self) -> None:
        """Remove it with its files; what cannot be removed stays."""
        _remove(self._folder)
        if self._lock is not None:
            os.close(self._lock)


@contextmanager
def scratch_folder(kind: str) -> Iterator[Path]:
    """Give a new folder for files in TMPDIR, and remove it in the end. Raises OSError."""
    folder = ScratchFolder(kind)
    try:
        yield folder.path
    finally:
        folder.remove()


def remove_for_another(path: Path) -> None:
    """Remove a folder of another process, which was killed, by its path for files."""
    _remove(path.parent)


def remove_abandoned() -> None:
    """Remove folders in TMPDIR whose processes were killed; once is enough."""
    _remove_abandoned_in(tempfile.gettempdir())


@cache
def _remove_abandoned_in(place: str) -> None:
    with suppress(OSError), os.scandir(place) as found:
        for each in found:
            if each.name.startswith(PREFIX):
                with suppress(OSError):
                    _remove_if_abandoned(Path(each.path))


def _remove_if_abandoned(folder: Path) -> None:
    """Remove a folder if it is of this user, and its lock is free. Raises OSError."""
    seen = folder.lstat()
    if not stat.S_ISDIR(seen.st_mode) or seen.st_uid != os.geteuid():
        return
    lock = os.open(folder / LOCK, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        _remove(folder)
    finally:
        os.close(lock)


def _locked(folder: Path) -> int | None:
    """Put the lock into a folder; return its descriptor, None where files cannot be locked."""
    made = folder / _UNLOCKED
    descriptor = os.open(made, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        made.unlink()
        return None
    # Others know it by this name, which it has only now, so nobody gets the lock first.
    made.rename(folder / LOCK)
    return descriptor


def _remove(folder: Path) -> None:
    """Remove a folder with its files, and the lock at last."""
    shutil.rmtree(folder / FILES, ignore_errors=True)
    if (folder / FILES).exists():
        # The lock lets another process try again.
        return
    with suppress(OSError):
        (folder / LOCK).unlink(missing_ok=True)
        folder.rmdir()
