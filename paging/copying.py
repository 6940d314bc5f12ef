"""A copy of the index as of one moment, whether or not it is being written, for who checks it.

Run with the words SOURCE and TARGET for the copy that LMDB makes of an index that is being written,
because damage of the structure may end the process. Exit codes are those of `paging.checking`.
Changes nothing of the index. Must never know what is done with the copy.
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
from daybook.paging.checked import IndexDamaged
from daybook.paging.children import child_command
from daybook.paging.judging import DAMAGED, DEADLY
from daybook.paging.tables import IndexUnwritable, open_for_reading


def copy_index(data: Path, target: Path) -> bool:
    """Copy the tables of the index of a data directory; its clusters are led to, not copied.

    Answers whether somebody writes the index: then a cluster may go at any moment. Raises
    IndexDamaged, IndexUnwritable and OSError.
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
    """Keep writers from the index meanwhile; answers False if there is one."""
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
    command = child_command("daybook.paging.copying", str(index.absolute()), str(target.absolute()))
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    said = done.stderr.strip().rpartition("\n")[2]
    if -done.returncode in DEADLY:
        raise IndexDamaged(f"the index in {index} is damaged: who copies it dies")
    if done.returncode == DAMAGED:
        raise IndexDamaged(said)
    if done.returncode:
        raise IndexUnwritable(f"the index in {index} cannot be copied: {said}")


def main(arguments: list[str]) -> int:
    """Copy the tables of a directory that is named into another; answers the exit code."""
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
