"""Exclusive write access to the index of a data directory: one process at a time, and no orphan.

A killed broker's indexer may live a moment longer than the broker. It must not commit into an index
that the next start has checked, or replaced. Fault model: the lock is released when its process
ends, in whatever way; a process that hangs keeps it, and the waiting process reports that.
"""

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from daybook.journal.data_directory import INDEX_LOCK

TRY_SECONDS: Final = 0.02
SAY_SECONDS: Final = 1.0


@contextmanager
def owning_index(data: Path, on_wait: Callable[[str], None]) -> Iterator[None]:
    """Wait until no other process writes the index of a data directory, and keep others from it.

    Each second of the wait `on_wait` is called with a text that names the process; it may raise to
    end the wait.
    """
    descriptor = os.open(data / INDEX_LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        _take(descriptor, on_wait)
        # A full disk has no room for the process id, and locking does not need it.
        with suppress(OSError):
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(descriptor)


def _take(descriptor: int, on_wait: Callable[[str], None]) -> None:
    begun = said = time.monotonic()
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            now = time.monotonic()
            if now - said >= SAY_SECONDS:
                said = now
                holder = os.pread(descriptor, 20, 0).decode("ascii", "replace").strip()
                on_wait(
                    f"process {holder or '?'} still writes the index, and has been waited for "
                    f"{now - begun:.0f} s: it is stopped, or its disk hangs"
                )
            time.sleep(TRY_SECONDS)
        else:
            return
