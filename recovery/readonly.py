"""The state of a data directory for other processes than its broker: read-only, without a lock.

Works while a broker runs on the directory: it reads the durable part of the journal.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from daybook.engine.state.state import State
from daybook.journal.confirmed import ConfirmedDisk, is_bounded
from daybook.journal.data_directory import INDEX, JOURNAL
from daybook.journal.disk import RealDisk
from daybook.journal.errors import NoJournal
from daybook.journal.segments.segment import segment_names
from daybook.recovery.moments import Course
from daybook.scratch_folders import scratch_folder


def journal_disk(directory: Path, *, whole: bool = False) -> RealDisk:
    """Return the disk of a data directory's journal; raises NoJournal if there is none.

    That of a node of a cluster ends for readers behind what is confirmed, unless they want to
    check the `whole` of it.
    """
    path = directory / JOURNAL
    if not path.is_dir():
        raise NoJournal(
            f"{directory} is not a data directory: it has no folder '{JOURNAL}'; name the "
            f"directory "
            "given to 'daybook serve --data'"
        )
    return RealDisk(path) if whole or not is_bounded(directory) else ConfirmedDisk(directory)


def opened(directory: Path, *, whole: bool = False, may_be_empty: bool = False) -> RealDisk:
    """Return the disk of a data directory's journal, whose segments must all be files, and which
    must have one, unless it `may_be_empty`. Raises NoJournal."""
    disk = journal_disk(directory, whole=whole)
    if not may_be_empty:
        check_begun(directory, disk)
    for name in segment_names(disk):
        if not (disk.path / name).is_file():
            raise NoJournal(
                f"{disk.path / name} is not a file, but has the name of a segment; move it away,"
                " and restore the segment of that name from a backup if there was one"
            )
    return disk


def check_begun(directory: Path, disk: RealDisk) -> None:
    """Raise NoJournal if a data directory has no segment: perhaps its node has not got any yet."""
    if segment_names(disk):
        return
    if is_bounded(directory):
        raise NoJournal(
            f"there is no journal in {directory} yet: it is of a node of a cluster, which has got"
            " nothing from a node that leads; ask again once it follows one, which 'daybook"
            " cluster status' shows, or ask the node that leads"
        )
    raise NoJournal(
        f"there is no journal in {directory}: it has no segment; name the directory given to"
        " 'daybook serve --data'"
    )


def used_bytes(disk: RealDisk) -> int:
    """Return the bytes to read; too many by the reserved space of the newest segment."""
    return sum((disk.path / name).stat().st_size for name in segment_names(disk))


@contextmanager
def newest_state(directory: Path) -> Iterator[tuple[State, int]]:
    """Yield the state at the end of a journal, and the last event; its queues read from a temporary
    index. Raises the errors of `recovery.moments.state_at`.
    """
    disk = journal_disk(directory)
    check_begun(directory, disk)
    with scratch_folder("read") as folder:
        course = Course(directory, disk, sys.maxsize, folder / INDEX, lambda _: None)
        with course.state_at(sys.maxsize) as state:
            yield state, course.index.lsn
