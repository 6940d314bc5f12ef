"""One rehearsal: a virtual copy of a journal with a torn tail is recovered as by a start, and
compared with the required result.

`Rehearsals` goes through points in ascending order with an index of its own, which serves as the
checkpoint of each start and as the fold to compare with. Changes only its temporary folder.
"""

import random
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from time import perf_counter
from typing import Final, NamedTuple

import msgspec

from daybook.engine.broker import Broker
from daybook.engine.core.core import Options
from daybook.engine.state.digest import digest
from daybook.engine.state.invariants import check
from daybook.engine.state.state import State
from daybook.errors import DaybookError
from daybook.journal.blocks.format import DEVICE_BLOCKS
from daybook.journal.data_directory import SNAPSHOTS
from daybook.journal.disk import Disk
from daybook.journal.segments.reader import read_blocks
from daybook.journal.segments.segment import data_id_of, open_segment, segment_names
from daybook.paging.content.store import IndexStore
from daybook.paging.fold.index import Index
from daybook.paging.snapshots.snapshots import known_snapshots
from daybook.paging.tables.layout import LAYOUT
from daybook.paging.tables.loading import load_state
from daybook.recovery.directory import Recovered, fold_journal, open_journal
from daybook.recovery.moments import Course
from daybook.recovery.starting import start_after
from daybook.tools.drills.crash_points.points import Point, block_bytes, named
from daybook.tools.drills.crash_points.reckoning import Broken, Reckoning
from daybook.tools.drills.crash_points.tails import TAILS, Outcome, Scene, show
from daybook.tools.drills.disks.overlay import Overlay
from daybook.version import VERSION

SECOND_US: Final = 1_000_000
LEAP_EVENTS: Final = 500_000
"""A snapshot this far ahead is read instead of folding the events between."""


class Rehearsed(msgspec.Struct, frozen=True):
    """A rehearsal: the point and tail, the result, the duration of the start, and the faults."""

    place: str
    lsn: int
    tail: str
    outcome: str
    seconds: float
    events: int
    wrong: list[Broken]


class Task(NamedTuple):
    """A point to rehearse, the event up to which the checkpoint of its starts goes, and the event
    after which a reckoning begins at the latest."""

    point: Point
    checkpoint: int
    beginning: int


class _Life(NamedTuple):
    """A start on a virtual copy: the recovered broker, its digest, and the duration."""

    recovered: Recovered
    digest: str
    seconds: float


class _Trial:
    """A tail on its overlay, the required result, and the actual one."""

    def __init__(self, tail: str, overlay: Overlay, outcome: Outcome) -> None:
        self.tail: Final = tail
        self.overlay: Final = overlay
        self.outcome: Final = outcome
        self.seconds = 0.0
        self.events = 0
        self.digest = ""
        self.wrong: Final[list[Broken]] = []

    def complain(self, promise: str, what: str) -> None:
        self.wrong.append(Broken(promise, what))


class _Folding:
    """An index that follows a journal, and begins at a snapshot where that is nearer."""

    def __init__(self, directory: Path, disk: Disk, path: Path) -> None:
        self._directory: Final = directory
        self._disk: Final = disk
        self._path: Final = path
        self._data_id: Final = data_id_of(disk)
        self._known: Final = [
            each.lsn for each in known_snapshots(directory / SNAPSHOTS, self._data_id)
        ]
        self._course: Course | None = None

    @property
    def index(self) -> Index:
        """The open index."""
        assert self._course is not None, "advance first"
        return self._course.index

    def advance(self, lsn: int) -> bool:
        """Fold whole blocks up to an event that ends one; return whether earlier events were left
        out. Raises the errors of `recovery.moments.state_at`."""
        leaps = self._course is None or any(
            self.index.lsn + LEAP_EVENTS < known <= lsn for known in self._known
        )
        if leaps:
            self.close()
            shutil.rmtree(self._path, ignore_errors=True)
            self._course = Course(self._directory, self._disk, lsn, self._path, _say_nothing)
        assert self._course is not None
        if lsn > self.index.lsn:
            self._course.advance(lsn)
        assert self.index.lsn == lsn, "points follow each other"
        return leaps

    def store(self, disk: Disk) -> IndexStore:
        """Open the index as a start on another disk does."""
        return IndexStore(self.index.tables, disk, map_bytes=0, owns_tables=False)

    def close(self) -> None:
        """Close the index."""
        if self._course is not None:
            self._course.close()
            self._course = None


def _say_nothing(_: str) -> None:
    """Ignore that a snapshot is passed over: another one is as good."""


class Rehearsals:
    """Rehearses points of a journal, in ascending order."""

    def __init__(self, directory: Path, disk: Disk, folder: Path, *, seed: int) -> None:
        """Begin before the first point; `folder` is for two indexes."""
        self._disk: Final = disk
        self._seed: Final = seed
        self._data_id: Final = data_id_of(disk)
        self._checkpoint: Final = _Folding(directory, disk, folder / "checkpoint")
        self._reference: Final = _Folding(directory, disk, folder / "reference")
        self._reckoning = Reckoning(State())
        self._reckoned = -1
        self._time = 0

    def close(self) -> None:
        """Close the indexes."""
        self._checkpoint.close()
        self._reference.close()

    def _go_to(self, task: Task) -> None:
        """Take the checkpoint and the reckoning to where a point needs them."""
        if self._reckoned < task.beginning:
            self._checkpoint.advance(task.beginning)
            index = self._checkpoint.index
            with index.tables.read() as txn:
                state = load_state(index.tables, txn, None, until=index.lsn)
            self._reckoning = Reckoning(state)
            self._reckoned = index.lsn
        self._checkpoint.advance(task.checkpoint)

    def rehearse(
        self, task: Task, tails: Sequence[str], is_late: Callable[[], bool]
    ) -> Iterator[Rehearsed]:
        """Rehearse the tails of a point. Raises JournalError if the journal itself is damaged."""
        point = task.point
        self._go_to(task)
        block = block_bytes(self._disk, point)
        trials = [self._prepared(point, tail, block) for tail in tails if TAILS[tail].occurs(point)]
        done: list[_Trial] = []
        for is_kept in (False, True):
            self._reckon(point.last_lsn if is_kept else point.first_lsn - 1)
            for trial in trials:
                if (trial.outcome is Outcome.KEPT) is is_kept and not is_late():
                    self._try(task, trial)
                    done.append(trial)
        expected = {}
        for outcome, lsn in ((Outcome.LOST, point.first_lsn - 1), (Outcome.KEPT, point.last_lsn)):
            self._reference.advance(lsn)
            expected[outcome] = self._reference.index.digest()
        for trial in done:
            trial.overlay.close()
            if trial.digest and trial.digest != expected[trial.outcome]:
                trial.complain(
                    "P2",
                    f"the start has the digest {trial.digest}, and the events before the crash "
                    f"fold to {expected[trial.outcome]}",
                )
            yield Rehearsed(
                named(point), point.first_lsn, trial.tail, trial.outcome, trial.seconds,
                trial.events, trial.wrong,
            )  # fmt: skip

    def _chance(self, point: Point, what: str) -> random.Random:
        return random.Random(f"{self._seed} {named(point)} {what}")

    def _reckon(self, lsn: int) -> None:
        if lsn > self._reckoned:
            for block in read_blocks(self._disk, LAYOUT, from_lsn=self._reckoned + 1, to_lsn=lsn):
                if block.count and block.first_lsn > self._reckoned:
                    self._reckoning.follow(block)
                    self._reckoned = block.last_lsn
                    self._time = block.time

    def _prepared(self, point: Point, tail: str, block: bytes) -> _Trial:
        overlay = Overlay(self._disk)
        show(self._disk, point, overlay)
        scene = Scene(point, block, overlay, self._disk, self._chance(point, tail))
        return _Trial(tail, overlay, TAILS[tail].carry_out(scene))

    def _try(self, task: Task, trial: _Trial) -> None:
        """Start on the copy, check the result, and let the broker continue."""
        point = task.point
        known = point.last_lsn if TAILS[trial.tail].is_proven else task.checkpoint
        chance = self._chance(point, f"{trial.tail} start")
        try:
            with ExitStack() as closing:
                life = self._start(trial.overlay, known, chance, closing)
                trial.seconds = life.seconds
                trial.events = life.recovered.events - task.checkpoint
                if trial.outcome is Outcome.REFUSED:
                    trial.complain(
                        "P8", "the start accepted damage of a block that something proves"
                    )
                    return
                trial.digest = life.digest
                self._look_at(point, trial, life.recovered, chance)
                if not trial.wrong:
                    self._live_on(trial, life.recovered, chance)
        except DaybookError as error:
            if trial.outcome is not Outcome.REFUSED:
                trial.complain("P8", f"the start was refused without a reason: {error}")
            elif point.segment not in str(error):
                trial.complain("P8", f"the refusal does not say where the damage is: {error}")
        except Exception as error:
            trial.complain("bug", f"the start ended with {type(error).__name__}: {error}")

    def _start(self, disk: Overlay, known: int, chance: random.Random, closing: ExitStack) -> _Life:
        """Recover as a start does. Raises DaybookError."""
        names = segment_names(disk)
        segment = open_segment(disk, names[-1])
        size = segment.header.segment_bytes
        segment.close()
        begun = perf_counter()
        journal, repair = open_journal(
            disk, data_id=self._data_id, segment_bytes=size, known_durable_lsn=known,
            device_block_bytes=chance.choice(DEVICE_BLOCKS),
        )  # fmt: skip
        closing.callback(journal.close)
        store = self._checkpoint.store(disk)
        closing.callback(store.close)
        state = store.checkpoint()
        last_lsn = journal.durable_lsn
        fold_journal(disk, last_lsn, state, None, store.indexed_lsn)
        seconds = perf_counter() - begun
        recovered = Recovered(journal, state, repair, last_lsn, False, store.indexed_lsn, store)
        return _Life(recovered, digest(state), seconds)

    def _look_at(
        self, point: Point, trial: _Trial, recovered: Recovered, chance: random.Random
    ) -> None:
        """Compare the recovered state with the facts that clients know."""
        durable = point.first_lsn - 1
        wanted = point.last_lsn if trial.outcome is Outcome.KEPT else durable
        last_lsn = recovered.events
        if last_lsn < durable:
            trial.complain(
                "P1", f"events {last_lsn + 1} to {durable}, which clients rely on, are lost"
            )
        elif last_lsn < wanted:
            trial.complain("P8", f"events {last_lsn + 1} to {wanted} were cut though whole")
        elif last_lsn > wanted:
            trial.complain(
                "P8", f"events {wanted + 1} to {last_lsn} come from a block that is not whole"
            )
        else:
            for promise, what in self._reckoning.contradictions(recovered.state, chance):
                trial.complain(promise, what)

    def _live_on(self, trial: _Trial, recovered: Recovered, chance: random.Random) -> None:
        """Carry out the first command of a broker, write it, and open everything once more."""
        journal = recovered.journal
        broker = Broker(recovered.state, recovered.events + 1, Options())
        now = self._time + SECOND_US
        broker.handle(start_after(recovered, trial.overlay, VERSION), now)
        for promise, what in self._reckoning.unflagged(broker.state, chance):
            trial.complain(promise, what)
        batch = broker.take()
        assert batch is not None, "a start is an event"
        journal.append(batch)
        journal.mark(now)
        journal.close()
        with ExitStack() as closing:
            again = self._start(trial.overlay, broker.lsn, chance, closing)
            repair = again.recovered.repair
            if repair is None or repair.cut_bytes:
                trial.complain("P7", "the start after the next one cut events of the next one")
            if again.recovered.events != broker.lsn:
                trial.complain(
                    "P1", f"of the events up to {broker.lsn}, written after the crash, the next "
                    f"start found {again.recovered.events}",
                )  # fmt: skip
            elif again.digest != digest(broker.state):
                trial.complain("P2", "the state after the start and its fold have two digests")
        trial.wrong.extend(Broken("P2", each) for each in check(broker.state))
