"""The lock of a data directory: one broker at a time.

The lock goes with the process, so a killed broker leaves none behind; the file stays and holds
the pid of its last holder. Must never know: what is in the directory.
"""

import fcntl
import os
from pathlib import Path
from types import TracebackType
from typing import Final

from journal.errors import Locked

LOCK_NAME: Final = "lock"


class DirectoryLock:
    """Holds the lock of a data directory from its making to `release`; a context manager."""

    def __init__(self, directory: Path | str) -> None:
        """Take the lock; raises Locked, naming the pid that holds it, and OSError."""
        self.path: Final = Path(directory) / LOCK_NAME
        self._descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            pid = holder_pid(directory)
            self._close()
            raise Locked(str(directory), pid) from error
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        """Give the lock back; may be called again."""
        if self._descriptor >= 0:
            os.ftruncate(self._descriptor, 0)
            self._close()

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
    """Pid that the lock file names; 0 if it names none. It holds the lock only if it still runs."""
    try:
        text = (Path(directory) / LOCK_NAME).read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return 0
    return int(text) if text.isdigit() else 0
