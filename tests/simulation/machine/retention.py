"""Retention of the simulated broker: the product's own rounds, one step at a time.

`paging.retention.retention_round.Rounds` says what comes next, and this does it with the simulated
disk, the index of `tests.simulation.machine.paging` and the hub, as
`server.history.retention_rounds` does with processes and threads. Between two steps anything else
of the simulation may happen: deliveries, commits of the index, power cuts.

Fault model: a step fails, because the disk does or by chance, as when its process is killed, and
the round ends there; a process hangs for a while, or for as long as the broker lives; a reader
holds what was to leave. The archive is on a disk of its own, which the same power cut hits. The
base is on a real disk, which does not fail.

All chance is its own, so that the rest of a seed is what it would be without retention.
"""

import random
from collections.abc import Callable, Iterator

from daybook.engine.administration.carried_content import large_before
from daybook.engine.broker import Broker
from daybook.engine.queues.entry import Entry
from daybook.engine.queues.queue import StoreError
from daybook.journal.archive.archive import Archive
from daybook.journal.archive.store import LocalStore
from daybook.journal.disk import Disk
from daybook.journal.errors import JournalError
from daybook.journal.retention import Limits, SegmentTable, choose, remove
from daybook.journal.segments.segment import first_lsn_of, segment_names
from daybook.paging.content.content import ContentReader
from daybook.paging.content.store import IndexStore
from daybook.paging.retention import retention_round as steps
from daybook.paging.retention.retention_round import Rounds, Steps
from daybook.paging.retention.retirement import keep
from daybook.paging.retention.survey import Place, Survey
from daybook.paging.tables.layout import LAYOUT
from daybook.server.hub.hub import Hub
from tests.simulation.judges.violation import Violation
from tests.simulation.machine.clock import Clock
from tests.simulation.machine.disk import FaultyDisk
from tests.simulation.machine.paging import SimulatedIndex

ARCHIVE = "archive"
LAST_ROUNDS = 5
"""How many rounds must end well when no faults are left."""


class StepFailed(OSError):
    """The process of a step was killed."""


class Life:
    """Rounds of retention in one life of the broker, with the state of the current one."""

    def __init__(self, rounds: Rounds, disk: FaultyDisk) -> None:
        self.rounds = rounds
        self.segments = SegmentTable(disk)
        self.content = ContentReader(disk, LAYOUT)
        self.steps: Steps | None = None
        self.step: steps.Step | None = None
        self.batches: Iterator[list[Place]] | None = None
        self.resident: Iterator[list[Entry]] | None = None
        self.hangs_until = 0
        self.ended = 0

    def end_round(self) -> None:
        """Forget the round that runs."""
        self.steps = self.step = self.batches = self.resident = None


class SimulatedRetention:
    """Retention of a data directory, over all lives of its broker."""

    def __init__(
        self, seed: int, index: SimulatedIndex, clock: Clock, make_rounds: Callable[[], Rounds]
    ) -> None:
        self.chance = chance = random.Random(f"retention {seed}")
        self.limits = chance.choice(
            (
                Limits(max_bytes=0),
                Limits(max_bytes=60_000),
                Limits(max_bytes=300_000),
                Limits(max_age_ms=1_000),
                Limits(max_age_ms=10_000, max_bytes=1_000_000),
            )
        )
        self.round_chance = chance.choice((0.001, 0.01))
        self.step_chance = chance.choice((0.05, 0.3, 1.0))
        self.fault_chance = chance.choice((0.0, 0.002))
        self.archive_disk = FaultyDisk(chance.getrandbits(32)) if chance.random() < 0.7 else None
        self.carried = self.removed = self.failed = self.hung = self.left = self.rounds = 0
        self.warnings: list[str] = []
        self._index = index
        self._clock = clock
        self._make_rounds = make_rounds
        self._life: Life | None = None
        self._is_settling = False

    # ---- the lives of the broker

    def forget_life(self, *, power_cut: bool) -> None:
        """The broker is gone, and with it the round that ran."""
        self._life = None
        if self.archive_disk is not None:
            if power_cut:
                self.archive_disk = self.archive_disk.crash()
            else:
                self.archive_disk.survive_kill()

    def settle(self) -> None:
        """No more faults: each round that begins also ends."""
        self._is_settling = True
        self.fault_chance = 0.0
        self.step_chance = 1.0
        if self.archive_disk is not None:
            self.archive_disk.survive_kill()
        if self._life is not None:
            self._life.hangs_until = 0

    def begin_last(self) -> None:
        """Let all that can leave do so from here on."""
        self.limits = Limits(max_bytes=0)
        self.round_chance = 1.0

    def is_done(self) -> bool:
        """Whether rounds came to an end, with nothing left to do or often; no more follow then.

        Where each block has a segment of its own what is carried is soon to be carried again.
        """
        life = self._life
        done = life is not None and life.ended > 0 and life.steps is None
        if done and life is not None and life.rounds.more:
            done = life.ended >= LAST_ROUNDS
        if done:
            self.round_chance = 0.0
        return done

    # ---- while it serves

    def step(self, hub: Hub, broker: Broker, disk: FaultyDisk) -> None:
        """Perhaps begin a round, or carry out a step of the one that runs."""
        store = self._index.store
        if hub.failure is not None or hub.stopping or store is None:
            return
        life = self._life
        if life is None:
            life = self._life = Life(self._make_rounds(), disk)
        if life.steps is None:
            if self.chance.random() < self.round_chance:
                self.rounds += 1
                life.steps = life.rounds.round(self.limits, ARCHIVE)
            return
        if self._clock.now < life.hangs_until or self.chance.random() >= self.step_chance:
            return
        performer = Performer(self, life, hub, broker, disk, store)
        try:
            self._advance(life, performer)
        except (JournalError, StoreError, OSError) as error:
            if self._is_settling:
                raise Violation("retention", f"a round ends with {error!r}, without faults") from (
                    error
                )
            self.failed += 1
            life.end_round()

    def _advance(self, life: Life, performer: "Performer") -> None:
        assert life.steps is not None
        if self.chance.random() < self.fault_chance:
            raise StepFailed("the process was killed")
        if self.chance.random() < self.fault_chance:
            self.hung += 1
            life.hangs_until = self._clock.now + self.chance.choice((300_000, 10**12))
            return
        before = life.rounds.carried_messages, life.rounds.removed_segments
        if life.step is None:
            life.step = next(life.steps, None)
        if life.step is None:
            life.end_round()
            life.ended += 1
        elif performer.perform(life.step):
            life.step = None
        self.carried += life.rounds.carried_messages - before[0]
        self.removed += life.rounds.removed_segments - before[1]

    def check_whole(self, disk: Disk, last_lsn: int) -> None:
        """Archive and live journal are one history, from event 1 on."""
        if self.archive_disk is None:
            return
        report = Archive(LocalStore(self.archive_disk, ARCHIVE)).verify(disk)
        if not report.ok or report.report.first_lsn != 1 or report.report.last_lsn != last_lsn:
            raise Violation("retention", f"the history up to {last_lsn} has a gap: {report}")


class Performer:
    """Carries out one step; see `server.history.retention_rounds.Performer`."""

    def __init__(
        self,
        retention: SimulatedRetention,
        life: Life,
        hub: Hub,
        broker: Broker,
        disk: FaultyDisk,
        store: IndexStore,
    ) -> None:
        self._retention = retention
        self._life = life
        self._hub = hub
        self._broker = broker
        self._disk = disk
        self._store = store

    def perform(self, step: steps.Step) -> bool:
        """Do it; False if it is to be waited for."""
        match step:
            case steps.Look():
                step.situation = steps.Situation(
                    self._store.indexed_lsn, first_chunk=self._first_chunk()
                )
            case steps.ChooseSegments():
                self._choose(step)
            case steps.Weigh():
                step.weights = self._survey(step.last_lsn).weigh()
            case steps.Find():
                if self._life.batches is None:
                    self._life.batches = self._survey(step.last_lsn).batches(2)
                step.places = next(self._life.batches, None)
                if step.places is None:
                    self._life.batches = None
            case steps.Where():
                step.lsns = self._store.where(step.messages)
            case steps.Read():
                step.event = self._life.content.event(step.lsn, step.message)
            case steps.ReadChunk():
                (step.body,) = self._life.content.chunks([step.lsn], step.before)
            case steps.Do():
                self._hub.request(step.command)
                step.lsn = self._broker.lsn
            case steps.AwaitIndex():
                step.lsn = step.lsn or self._broker.lsn
                return self._store.indexed_lsn >= step.lsn
            case steps.FindResident():
                if self._life.resident is None:
                    self._life.resident = large_before(self._broker.state, step.last_lsn)
                step.entries = next(self._life.resident, None)
                if step.entries is None:
                    self._life.resident = None
            case steps.Retire():
                self._retire(step)
            case steps.AskFirstChunk():
                step.lsn = self._first_chunk()
            case steps.Remove():
                self._remove(step)
            case steps.Warn():
                self._retention.warnings.append(step.text)
        return True

    def _first_chunk(self) -> int:
        return self._hub.first_chunk() or steps.NO_CHUNK

    def _survey(self, last_lsn: int) -> Survey:
        """Never closed: the tables are those of who writes them."""
        return Survey(self._disk, self._retention._index.tables, last_lsn)

    def _choose(self, step: steps.ChooseSegments) -> None:
        sealed, live_bytes = self._life.segments.look()
        step.now = self._retention._clock.now
        step.first_lsn = first_lsn_of(self._disk)
        step.choice = choose(
            sealed, step.limits, live_bytes=live_bytes, now=step.now,
            lowest_kept_lsn=step.lowest_kept_lsn,
        )  # fmt: skip

    def _retire(self, step: steps.Retire) -> None:
        retention = self._retention
        step.left = self._survey(step.last_lsn).count()
        retention.left += bool(step.left)
        if step.left:
            return
        archive = None
        if retention.archive_disk is not None:
            archive = Archive(LocalStore(retention.archive_disk, ARCHIVE))
        index = retention._index
        keep(
            self._disk, archive, index.base, index.path, index.data_id, step.last_lsn,
            now=retention._clock.now,
        )  # fmt: skip

    def _remove(self, step: steps.Remove) -> None:
        """Remove what no reader holds; some reader may have come."""
        names = [segment.name for segment in step.segments]
        if self._retention.chance.random() < 0.1 and not self._retention._is_settling:
            names = names[: self._retention.chance.randint(0, len(names))]
        assert len(names) < len(segment_names(self._disk))
        remove(self._disk, names)
        step.removed = tuple(names)
        if names:
            self._check_memory(step.segments[len(names) - 1].last_lsn)
        self._store.content.close()
        if isinstance(self._hub.chunks, ContentReader):
            self._hub.chunks.close()

    def _check_memory(self, last_lsn: int) -> None:
        """Nothing in memory may refer to chunks that left, be it queued or on its way."""
        for found in large_before(self._broker.state, last_lsn):
            for entry in found:
                message = entry.message
                raise Violation(
                    "P1", f"message {message.id} has chunks {message.chunks[:1]}, which left"
                )
        if self._first_chunk() <= last_lsn:
            raise Violation("P1", f"chunk {self._first_chunk()} is on its way, and left")
