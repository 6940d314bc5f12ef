"""Making segments ready to leave: what is queued in them, the archive, and the base.

Run by the broker as `python -m paging.retiring WORK DATA LAST_LSN BROKER`, because each may take
minutes, and memory that the broker must not take. WORK is `find` (each line of output is a list of
places), `weigh` (a list of weights), or `retire`, which reads the URL of the archive from its input
(a command line could be seen) and says what was left to be carried: it archives nothing unless that
is 0. It removes nothing. Fault model: it may be killed at any moment and be run again; what is
wrong is one sentence on the error output and exit code 1.
"""

import os
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import lmdb
import msgspec

from engine.queues import StoreError
from journal.archive import Archive
from journal.disk import RealDisk
from journal.errors import JournalError
from journal.format import segment_first_lsn
from journal.lifeline import end_with
from journal.segment import segment_names
from paging.base import BaseDamaged, advance
from paging.surveying import Survey
from paging.tables import IndexDamaged, IndexUnwritable

BASE: Final = "base"
FIND: Final = "find"
WEIGH: Final = "weigh"
RETIRE: Final = "retire"
BATCH_MESSAGES: Final = 200
"""How many places a line has, about."""
NICENESS: Final = 5
"""The broker goes first, as before the indexer."""
_ROOT: Final = Path(__file__).resolve().parent.parent


def command(work: str, data: Path, last_lsn: int) -> list[str]:
    """How this process starts such a process."""
    arguments = [work, str(data.resolve()), str(last_lsn), str(os.getpid())]
    return [sys.executable, "-m", "paging.retiring", *arguments]


def environment() -> dict[str, str]:
    """The environment for it: it must find the packages that this process runs."""
    found = dict(os.environ)
    paths = [str(_ROOT), found.get("PYTHONPATH", "")]
    found["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)
    return found


def retire(data: Path, last_lsn: int, archive_url: str) -> int:
    """Archive the segments up to an event, and bring the base up to it, if nothing needs them.

    Return how much does. Raises JournalError, StoreError, BaseDamaged, IndexDamaged,
    IndexUnwritable and OSError.
    """
    with closing(Survey(data, last_lsn)) as survey:
        left = survey.count()
    if left:
        return left
    disk = RealDisk(data / "journal")
    data_id = bytes.fromhex((data / "data-id").read_text("ascii").strip())
    if archive_url:
        archive = Archive(archive_url)
        for name in segment_names(disk):
            if (segment_first_lsn(name) or 0) <= last_lsn:
                archive.put(disk, name, now=time.time_ns() // 1000)
    note = advance(data / BASE, disk, data_id, last_lsn, data / "index")
    if note:
        print(note, file=sys.stderr)
    return 0


def _say(what: Any) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(what) + b"\n")
    sys.stdout.buffer.flush()


def _work(work: str, data: Path, last_lsn: int) -> None:
    if work == RETIRE:
        _say(retire(data, last_lsn, sys.stdin.read()))
        return
    with closing(Survey(data, last_lsn)) as survey:
        if work == WEIGH:
            _say(survey.weigh())
            return
        assert work == FIND, work
        for batch in survey.batches(BATCH_MESSAGES):
            if batch:
                _say(batch)


def main(arguments: list[str]) -> int:
    """Be the process; answers its exit code."""
    work, data, last_lsn, broker = arguments
    if not end_with(int(broker)):
        return 0
    os.nice(NICENESS)
    try:
        _work(work, Path(data), int(last_lsn))
    except (
        JournalError, StoreError, BaseDamaged, IndexDamaged, IndexUnwritable, OSError, lmdb.Error,
    ) as error:  # fmt: skip
        print(" ".join(str(error).split()), file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
