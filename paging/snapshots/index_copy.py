"""A copy of the index at one moment, for checks, even while the index is being written.

Run with the words SOURCE and TARGET to let LMDB copy an index that is being written, in a process
of its own because damage of the structure may end the process. Exit codes are those of
`paging.checks.index_check`. Only reads the index. Must never know how the copy is used.
"""

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from daybook.journal.data_directory import CLUSTERS_DIRECTORY, INDEX, INDEX_LOCK, TABLES
from daybook.paging.checks.usability import DAMAGED, DEADLY
from daybook.paging.tables.checked import IndexDamaged
from daybook.paging.tables.child_processes import child_command
from daybook.paging.tables.tables import IndexUnwritable, open_for_reading


def copy_index(data: Path, target: Path) -> bool:
    """Copy the tables of the index of a data directory; its clusters are linked, not copied.

    Return whether a process writes the index: in that case a cluster may disappear at any moment.
    Raises IndexDamaged, IndexUnwritable and OSError.
    """
    index = data / INDEX
    target.mkdir()
    with _alone(data) as is_alone:
        if is_alone:
            try:
                shutil.copyfile(index / TABLES, target / TABLES)
            except FileNotFoundError as error:
                raise IndexDamaged(f"there is no index in {index}") from error
    if not is_alone:
        _copy_apart(index, target)
    (target / CLUSTERS_DIRECTORY).symlink_to((index / CLUSTERS_DIRECTORY).absolute())
    return not is_alone


@contextmanager
def _alone(data: Path) -> Iterator[bool]:
    """Keep writers away from the index meanwhile; yield False if there is one."""
    try:
        descriptor = os.open(data / INDEX_LOCK, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        yield True
        return
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True
    finally:
        os.close(descriptor)


def _copy_apart(index: Path, target: Path) -> None:
    command = child_command(
        "daybook.paging.snapshots.index_copy", str(index.absolute()), str(target.absolute())
    )
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    said = done.stderr.strip().rpartition("\n")[2]
    if -done.returncode in DEADLY:
        raise IndexDamaged(f"the index in {index} is damaged: the process that copies it dies")
    if done.returncode == DAMAGED:
        raise IndexDamaged(said)
    if done.returncode:
        raise IndexUnwritable(f"the index in {index} cannot be copied: {said}")


def main(arguments: list[str]) -> int:
    """Copy the tables of one named directory into another; return the exit code."""
    source, target = [Path(argument) for argument in arguments]
    try:
        with closing(open_for_reading(source)) as tables:
            tables.copy_to(target)
    except IndexDamaged as error:
        print(error, file=sys.stderr)
        return DAMAGED
    except (IndexUnwritable, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0
