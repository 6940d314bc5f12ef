"""Who may write the index of a data directory: one process at a time, and none that is orphaned.

A killed broker's indexer may live a moment longer than the broker. It must not commit into an index
that the next start has judged, or replaced. Fault model: the lock goes with its process, however
that ends.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

INDEX_LOCK: Final = "index-lock"


@contextmanager
def owning_index(data: Path) -> Iterator[None]:
    """Wait until nobody else writes the index of a data directory, and keep others from it."""
    descriptor = os.open(data / INDEX_LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
