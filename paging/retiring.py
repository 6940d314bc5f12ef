"""Preparing segments to leave: finding queued messages, the archive, and the base.

Run by the broker in a process with the words WORK DATA LAST_LSN BROKER, because each kind of work
may take minutes, and memory that the broker must not use. WORK is `find` (each line of output is a
list of places), `weigh` (a list of weights), or `retire`, which reads the URL of the archive from
its input (a command line is visible to others) and reports how much was left to be carried: it
archives nothing unless that is 0. It removes nothing. Fault model: it may be killed at any moment
and be run again; an error is one sentence on the error output and exit code 1.
"""

import os
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import msgspec

from daybook.engine.queues import StoreError
from daybook.journal.archive.archive import Archive
from daybook.journal.data_directory import BASE, INDEX, JOURNAL
from daybook.journal.disk import Disk, RealDisk
from daybook.journal.errors import JournalError
from daybook.journal.format import segment_first_lsn
from daybook.journal.lifeline import end_with
from daybook.journal.segment import data_id_of, segment_names
from daybook.paging.base import BaseDamaged, advance
from daybook.paging.children import child_command
from daybook.paging.surveying import Survey
from daybook.paging.tables import IndexDamaged, IndexUnwritable

FIND: Final = "find"
WEIGH: Final = "weigh"
RETIRE: Final = "retire"
BATCH_MESSAGES: Final = 200
"""How many places a line has, approximately."""
NICENESS: Final = 5
"""The broker has priority, as it has over the indexer."""


def command(work: str, data: Path, last_lsn: int) -> list[str]:
    """The command line that starts this work in a process of its own."""
    words = [work, str(data.absolute()), str(last_lsn), str(os.getpid())]
    return child_command("daybook.paging.retiring", *words)


def retire(data: Path, last_lsn: int, archive_url: str) -> int:
    """Archive the segments up to an event, and bring the base up to it, if nothing needs them.

    Return how many places need them. Raises JournalError, StoreError, BaseDamaged, IndexDamaged,
    IndexUnwritable and OSError.
    """
    disk = RealDisk(data / JOURNAL)
    data_id = data_id_of(disk)
    with closing(Survey.of(data, last_lsn)) as survey:
        left = survey.count()
    if left:
        return left
    archive = Archive(archive_url) if archive_url else None
    note = keep(
        disk, archive, data / BASE, data / INDEX, data_id, last_lsn, now=time.time_ns() // 1000
    )
    if note:
        print(note, file=sys.stderr)
    return 0


def keep(
    disk: Disk,
    archive: Archive | None,
    base: Path,
    index: Path,
    data_id: bytes,
    last_lsn: int,
    *,
    now: int,
) -> str:
    """Save the segments up to an event, in the archive first, then in the base.

    `now` is microseconds since 1970. Return a sentence about a base that was rebuilt, else nothing.
    Raises as `retire`.
    """
    if archive is not None:
        for name in segment_names(disk):
            if (segment_first_lsn(name) or 0) <= last_lsn:
                archive.put(disk, name, now=now)
    return advance(base, disk, data_id, last_lsn, index)


def _say(what: Any) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(what) + b"\n")
    sys.stdout.buffer.flush()


def _work(work: str, data: Path, last_lsn: int) -> None:
    if work == RETIRE:
        _say(retire(data, last_lsn, sys.stdin.read()))
        return
    with closing(Survey.of(data, last_lsn)) as survey:
        if work == WEIGH:
            _say(survey.weigh())
            return
        assert work == FIND, work
        for batch in survey.batches(BATCH_MESSAGES):
            if batch:
                _say(batch)


def main(arguments: list[str]) -> int:
    """Run the process; return its exit code."""
    work, data, last_lsn, broker = arguments
    if not end_with(int(broker)):
        return 0
    os.nice(NICENESS)
    try:
        _work(work, Path(data), int(last_lsn))
    except (
        JournalError, StoreError, BaseDamaged, IndexDamaged, IndexUnwritable, OSError,
    ) as error:  # fmt: skip
        print(" ".join(str(error).split()), file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
