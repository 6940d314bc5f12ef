"""The state of a data directory for other processes than its broker: read-only, without a lock.

Works while a broker runs on the directory: it reads the durable part of the journal.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from daybook.engine.state.state import State
from daybook.journal.data_directory import INDEX, JOURNAL
from daybook.journal.disk import RealDisk
from daybook.journal.errors import NoJournal
from daybook.recovery.moments import Course


def journal_disk(directory: Path) -> RealDisk:
    """Return the disk of a data directory's journal; raises NoJournal if there is none."""
    path = directory / JOURNAL
    if not path.is_dir():
        raise NoJournal(
            f"{directory} is not a data directory: it has no folder '{JOURNAL}'; name the "
            f"directory "
            "given to 'daybook serve --data'"
        )
    return RealDisk(path)


@contextmanager
def newest_state(directory: Path) -> Iterator[tuple[State, int]]:
    """Yield the state at the end of a journal, and the last event; its queues read from a temporary
    index. Raises the errors of `recovery.moments.state_at`.
    """
    disk = journal_disk(directory)
    with TemporaryDirectory(prefix="daybook-read-") as folder:
        course = Course(directory, disk, sys.maxsize, Path(folder) / INDEX, lambda _: None)
        with course.state_at(sys.maxsize) as state:
            yield state, course.index.lsn
