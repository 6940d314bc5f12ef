"""Running `daybook drill crash-points`: rehearses a crash at the blocks of a real journal.

Workers are processes, each with a range of the points and an index of its own. They send their
results through a pipe; the drill ends when all have, or when the time is over, and then reports how
many cases were not tried. A worker that dies is a finding. Reads the data directory only.
"""

import multiprocessing
import os
import random
import shlex
import signal
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from multiprocessing.connection import Connection, wait
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import msgspec

from daybook.errors import DaybookError
from daybook.journal.blocks.trust import BYTES_MAX, VARIABLE, limit_blocks
from daybook.journal.data_directory import BASE
from daybook.journal.disk import RealDisk
from daybook.journal.pins import Pin
from daybook.journal.segments.segment import data_id_of, first_lsn_of
from daybook.journal.writing.lifeline import end_with
from daybook.paging.snapshots.base import describe
from daybook.paging.tables.tables import IndexUnwritable
from daybook.recovery.readonly import opened
from daybook.tools.drills.crash_points.points import NoSuchPoint, Point, drawn, point_at, points_of
from daybook.tools.drills.crash_points.rehearsal import Rehearsals, Rehearsed, Task
from daybook.tools.drills.crash_points.tails import TAILS
from daybook.tools.drills.reports import output as reports
from daybook.tools.drills.reports.report import Finding, Line, Report, Tried
from daybook.tools.drills.scratch.startable import refuse_unstartable
from daybook.tools.terminal.failures import Failure
from daybook.tools.terminal.printing import progress

LAG_BLOCKS: Final = 16
"""How many blocks the checkpoint of a start is behind the point, at most."""
RECKONED_EVENTS: Final = 500_000
"""How many events before a checkpoint are reckoned with, at least."""
FOLDED_EVENTS: Final = 200_000
"""A checkpoint is at most this far behind: a broker folds no more by itself."""

ABOUT: Final = (
    "a journal as a crash at each of these blocks would have left it, recovered as a start does"
)


class Asked(msgspec.Struct, frozen=True):
    """The options of the drill. `at` is the place of one block, "" for a sample of `points`."""

    directory: Path
    points: int
    seed: int
    minutes: float
    jobs: int
    tails: tuple[str, ...]
    at: str = ""


class _Done(msgspec.Struct, frozen=True):
    """A report of a worker: a rehearsal, or why it ended early: because of the journal, or because
    of the machine."""

    rehearsed: Rehearsed | None = None
    failure: str = ""
    hindrance: str = ""


def run(asked: Asked) -> Report:
    """Rehearse, and return the report. Raises JournalError, NoSuchPoint and Failure."""
    begun = time.monotonic()
    report = reports.begun(
        "crash-points", ABOUT,
        {
            "directory": str(asked.directory.resolve()), "points": asked.points, "at": asked.at,
            "tails": list(asked.tails), "minutes": asked.minutes, "jobs": asked.jobs,
        },
        asked.seed,
    )  # fmt: skip
    with Pin(asked.directory):
        disk = opened(asked.directory)
        refuse_unstartable(asked.directory, disk)
        tasks = _tasks(disk, asked, report)
        wanted = {
            tail: sum(TAILS[tail].occurs(task.point) for task in tasks) for tail in asked.tails
        }
        tally = _Tally(report, asked)
        with progress("rehearsing", sum(wanted.values())) as advance:
            for rehearsed in _rehearsed(asked, tasks, begun + asked.minutes * 60):
                if rehearsed.hindrance:
                    raise Failure(rehearsed.hindrance)
                tally.take(rehearsed)
                advance(tally.count)
    tally.close(wanted)
    reports.finish(report, time.monotonic() - begun)
    return report


def _tasks(disk: RealDisk, asked: Asked, report: Report) -> list[Task]:
    """Return the points to rehearse with their checkpoints, in order. Raises JournalError."""
    points = list(points_of(disk))
    known = _known_from(asked.directory, disk)
    usable = [point for point in points if point.first_lsn > known]
    if not usable:
        raise NoSuchPoint(
            f"{asked.directory} has no block behind event {known}, where its history begins"
        )
    report.figures["blocks of the journal"] = f"{len(points):,}"
    report.figures["events of the journal"] = f"{points[0].first_lsn:,} to {points[-1].last_lsn:,}"
    named = asked.at
    chosen = [point_at(usable, named)] if named else drawn(usable, asked.points, asked.seed)
    lag = random.Random(f"{asked.seed} checkpoint").randint(1, LAG_BLOCKS)
    return [_task(usable, point, lag, known) for point in chosen]


def _known_from(directory: Path, disk: RealDisk) -> int:
    """Return the event whose state a journal begins with: 0, or that of the base."""
    if first_lsn_of(disk) == 1:
        return 0
    base = describe(directory / BASE, data_id_of(disk))
    if base is None:
        raise Failure(
            f"the journal in {directory} begins with event {first_lsn_of(disk)}, and there is no "
            f"'{BASE}' with the state before it, so it cannot be recovered"
        )
    return base.lsn


def _task(points: Sequence[Point], point: Point, lag: int, known: int) -> Task:
    """Return a point with the checkpoint that its starts find, so many blocks behind it."""
    number = bisect_left(points, point.first_lsn, key=lambda each: each.first_lsn)
    begin = bisect_left(points, point.first_lsn - FOLDED_EVENTS, key=lambda each: each.first_lsn)
    checkpoint = points[max(number - lag, begin, 0)].first_lsn - 1
    begin = bisect_left(points, checkpoint - RECKONED_EVENTS, key=lambda each: each.first_lsn)
    beginning = points[begin].first_lsn - 1
    return Task(point, max(checkpoint, known), min(max(beginning, known), max(checkpoint, known)))


class _Tally:
    """Sums up rehearsals in a report."""

    def __init__(self, report: Report, asked: Asked) -> None:
        self.count = 0
        self._report: Final = report
        self._asked: Final = asked
        self._tried: Final = {tail: Tried(f"{tail}: {TAILS[tail].about}") for tail in asked.tails}
        self._milliseconds: Final[list[float]] = []
        self._rates: Final[list[float]] = []
        self._by_lsn: Final[list[tuple[float, float]]] = []
        self._outcomes: Final[Counter[str]] = Counter()
        self._places: Final[set[str]] = set()

    def take(self, done: _Done) -> None:
        if done.rehearsed is None:
            self._report.findings.append(Finding("drill", done.failure, "", ""))
            return
        each = done.rehearsed
        self.count += 1
        tried = self._tried[each.tail]
        tried.count += 1
        tried.right += not each.wrong
        self._places.add(each.place)
        self._outcomes[each.outcome] += 1
        if each.seconds:
            self._milliseconds.append(each.seconds * 1000)
            self._by_lsn.append((each.lsn, each.seconds * 1000))
            if each.events > 0:
                self._rates.append(each.events / each.seconds)
        for promise, what in each.wrong:
            where = f"event {each.lsn}, {each.place}, tail {each.tail}"
            self._report.findings.append(
                Finding(promise, what, where, again(self._asked, each.place, each.tail))
            )

    def close(self, wanted: dict[str, int]) -> None:
        """Write the sums into the report; `wanted` are trials by tail."""
        report = self._report
        report.tried = [tried for tail, tried in self._tried.items() if wanted[tail]]
        report.could_not += [
            f"{tried.what}: cannot happen at any point of the sample"
            for tail, tried in self._tried.items()
            if not wanted[tail]
        ]
        trials = sum(wanted.values())
        report.figures["points tried"] = f"{len(self._places):,}"
        report.figures |= {
            f"trials with the block {outcome}": f"{count:,}"
            for outcome, count in sorted(self._outcomes.items())
        }
        report.spreads.append(reports.spread("time to recover", "ms", self._milliseconds))
        report.spreads.append(reports.spread("replay rate", "events/s", self._rates))
        self._by_lsn.sort()
        report.lines.append(
            Line(
                "time to recover, by where the crash was", "event", "milliseconds", self._by_lsn,
                dots=True,
            )
        )  # fmt: skip
        if self.count < trials and not report.findings:
            report.could_not.append(
                f"{trials - self.count:,} of {trials:,} trials: the time of "
                f"{self._asked.minutes:g} minutes was over; ask for more with --minutes, or for "
                "fewer --points"
            )
        report.could_not.append(
            "the index: the checkpoint of each start was whole (drill kill damages it); and "
            "caches of the device below the file system"
        )


def again(asked: Asked, place: str, tail: str) -> str:
    """Return the command that rehearses one tail of one point again."""
    words = ["daybook", "drill", "crash-points", str(asked.directory.resolve()), "--at", place]
    words += ["--tail", tail, "--minutes", f"{asked.minutes:g}", "--jobs", str(asked.jobs)]
    return shlex.join([*words, "--seed", str(asked.seed)])


def _rehearsed(asked: Asked, tasks: list[Task], deadline: float) -> Iterator[_Done]:
    """Rehearse in this process if one is enough, else in several; yield the results."""
    jobs = max(1, min(asked.jobs, len(tasks)))
    with TemporaryDirectory(prefix="daybook-drill-") as folder:
        if jobs == 1:
            yield from _work(asked, tasks, Path(folder), deadline)
            return
        context = multiprocessing.get_context("spawn")
        bounds = [len(tasks) * number // jobs for number in range(jobs + 1)]
        workers = {}
        try:
            for number in range(jobs):
                part = tasks[bounds[number] : bounds[number + 1]]
                receiver, sender = context.Pipe(duplex=False)
                place = Path(folder) / str(number)
                left = deadline - time.monotonic()
                process = context.Process(
                    target=_worker,
                    args=(sender, os.getpid(), asked, part, place, left),
                    daemon=True,
                )
                # The worker must not be interrupted while it starts, either.
                signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
                try:
                    process.start()
                finally:
                    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
                sender.close()
                workers[receiver] = process
            yield from _heard(workers)
        finally:
            for process in workers.values():
                process.terminate()
                process.join()


def _heard(workers: dict[Connection, Any]) -> Iterator[_Done]:
    """Yield the reports of workers until all have ended."""
    waiting = set(workers)
    while waiting:
        for receiver in wait(list(waiting)):
            assert isinstance(receiver, Connection)
            try:
                yield msgspec.msgpack.decode(receiver.recv_bytes(), type=_Done)
            except EOFError:
                waiting.discard(receiver)
                process = workers[receiver]
                process.join()
                if process.exitcode:
                    yield _Done(failure=f"a worker of the drill died with {process.exitcode}")


def _worker(
    sender: Connection, parent: int, asked: Asked, tasks: list[Task], folder: Path, seconds: float
) -> None:
    """Rehearse a part of the points in a separate process."""
    # The command is interrupted, and ends its workers; if it is killed, they end with it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if not end_with(parent):
        return
    limit_blocks(int(os.environ.get(VARIABLE) or BYTES_MAX))
    folder.mkdir()
    with suppress(BrokenPipeError):
        for done in _work(asked, tasks, folder, time.monotonic() + seconds):
            sender.send_bytes(msgspec.msgpack.encode(done))
        sender.close()


def _work(asked: Asked, tasks: list[Task], folder: Path, deadline: float) -> Iterator[_Done]:
    """Rehearse points in order until the deadline."""
    disk = opened(asked.directory)
    is_late: Callable[[], bool] = lambda: time.monotonic() > deadline  # noqa: E731
    try:
        with closing(Rehearsals(asked.directory, disk, folder, seed=asked.seed)) as rehearsals:
            for task in tasks:
                if is_late():
                    return
                for each in rehearsals.rehearse(task, asked.tails, is_late):
                    yield _Done(each)
    except (IndexUnwritable, OSError) as error:
        yield _Done(
            hindrance=f"the drill cannot continue on this machine: {error}. Its scratch data is in "
            f"{folder}, and takes twice the size of the index there: set TMPDIR to another folder "
            "if it has no space"
        )
    except DaybookError as error:
        yield _Done(failure=f"the journal itself cannot be read: {error}")


def jobs_default() -> int:
    """Return the default number of workers."""
    return max(1, len(os.sched_getaffinity(0)))
