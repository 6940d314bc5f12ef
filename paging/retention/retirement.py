"""Preparing segments to leave: finding queued messages, the archive, and the base.

Run by the broker in a process with the words WORK DATA LAST_LSN BROKER, because each kind of work
may take minutes, and memory that the broker must not use. WORK is `find` (each line of output is a
list of places), `weigh` (a list of weights), `advance`, which brings the base alone up to the
event, or `retire`, which reads an `Order` from its input,
because URLs of archives must not be visible in a command line, and reports the number of messages
still to be carried: it archives only if that is 0. It does not remove segments. Fault model: it may
be killed at any moment and be run again; an error is one sentence on the error output and exit code
1. Snapshots are archived last, and failures there, even a store that hangs, are reported in a
sentence and are not errors.
"""

import os
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from threading import Event, Thread
from typing import Any, Final

import msgspec

from daybook.engine.queues.queue import StoreError
from daybook.journal.archive.archive import Archive
from daybook.journal.archive.store import without_password
from daybook.journal.blocks.format import segment_first_lsn
from daybook.journal.data_directory import BASE, INDEX, JOURNAL, SNAPSHOTS
from daybook.journal.disk import Disk, RealDisk
from daybook.journal.errors import JournalError
from daybook.journal.segments.segment import data_id_of, segment_names
from daybook.journal.writing.lifeline import end_with
from daybook.paging.retention.survey import Survey
from daybook.paging.snapshots.base import BaseDamaged, advance
from daybook.paging.snapshots.snapshot_archive import archive_snapshots
from daybook.paging.tables.child_processes import child_command
from daybook.paging.tables.tables import IndexDamaged, IndexUnwritable

FIND: Final = "find"
WEIGH: Final = "weigh"
RETIRE: Final = "retire"
ADVANCE: Final = "advance"
BATCH_MESSAGES: Final = 200
"""How many places a line has, approximately."""
IDLE_SECONDS: Final = 60.0
"""The longest wait for a hanging store: snapshots are worth less than the room on the disk."""
POLL_SECONDS: Final = 0.05
NICENESS: Final = 5
"""The broker has priority, as it has over the indexer."""


class Order(msgspec.Struct, frozen=True):
    """The input of `retire`: the URL of the archive, "" for none, and how many archived bytes have
    one snapshot, 0 for none."""

    archive: str = ""
    snapshot_every: int = 0


def command(work: str, data: Path, last_lsn: int) -> list[str]:
    """The command line that starts this work in a process of its own."""
    words = [work, str(data.absolute()), str(last_lsn), str(os.getpid())]
    return child_command("daybook.paging.retention.retirement", *words)


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
    _report(note)
    return 0


def _report(note: str) -> None:
    """Print a sentence about a base that was rebuilt, if there is one."""
    if note:
        print(" ".join(note.split()), file=sys.stderr)


def keep_snapshots(
    data: Path, last_lsn: int, order: Order, tick: Callable[[], object] = lambda: None
) -> list[str]:
    """Archive the snapshots up to an event that are due; return a sentence for each that could not
    be.

    The segments up to there must be archived. `tick` is called after each piece of work.
    """
    disk = RealDisk(data / JOURNAL)
    try:
        return list(
            archive_snapshots(
                Archive(order.archive).snapshots, data / SNAPSHOTS, disk, data_id_of(disk),
                last_lsn, order.snapshot_every, now=time.time_ns() // 1000, tick=tick,
            )
        )  # fmt: skip
    except (JournalError, OSError) as error:
        return [f"no more snapshots were archived: {error}"]


def keep_snapshots_patiently(
    data: Path, last_lsn: int, order: Order, idle_seconds: float
) -> list[str] | None:
    """Do the same in a thread; None if the store neither reads nor writes for so long, and the
    thread may hang.
    """
    worked = Event()
    notes: list[str] = []

    def work() -> None:
        notes.extend(keep_snapshots(data, last_lsn, order, worked.set))

    thread = Thread(target=work, daemon=True)
    thread.start()
    last = time.monotonic()
    while thread.is_alive():
        thread.join(POLL_SECONDS)
        if worked.is_set():
            worked.clear()
            last = time.monotonic()
        elif thread.is_alive() and time.monotonic() - last > idle_seconds:
            return None
    return notes


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

    `now` is microseconds since 1970. Return a sentence about a base that was rebuilt, else "".
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
        order = msgspec.json.decode(sys.stdin.buffer.read(), type=Order)
        left = retire(data, last_lsn, order.archive)
        _say(left)
        if not left and order.archive and order.snapshot_every:
            _keep_snapshots(data, last_lsn, order)
        return
    if work == ADVANCE:
        disk = RealDisk(data / JOURNAL)
        _report(advance(data / BASE, disk, data_id_of(disk), last_lsn, data / INDEX))
        return
    with closing(Survey.of(data, last_lsn)) as survey:
        if work == WEIGH:
            _say(survey.weigh())
            return
        assert work == FIND, work
        for batch in survey.batches(BATCH_MESSAGES):
            if batch:
                _say(batch)


def _keep_snapshots(data: Path, last_lsn: int, order: Order) -> None:
    """Archive snapshots, and report failures; end the process if the store hangs."""
    notes = keep_snapshots_patiently(data, last_lsn, order, IDLE_SECONDS)
    for note in notes or ():
        print(" ".join(note.split()), file=sys.stderr)
    if notes is None:
        print(
            f"archiving snapshots was given up: {without_password(order.archive)} did nothing for "
            f"{IDLE_SECONDS:.0f} seconds. No events are lost: questions about that time begin "
            f"at an "
            "earlier snapshot",
            file=sys.stderr,
        )
        sys.stderr.flush()
        # Packages behind fsspec wait for their threads at the end of a process.
        os._exit(0)


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
