"""The writer of the simulated broker: nothing happens until the simulator takes a step.

So a block can stay in flight while bytes, turns and other things happen, and what the disk did
can be long done before the hub hears of it, as with the writer's process. With a choice of ways
(ADR 41) some blocks are written within `submit`, to a copy of the journal as in the broker's own
process; and some of those take long, so that the hub continues meanwhile.
"""

from collections import deque
from collections.abc import Callable
from random import Random

from daybook.journal.blocks.batch import BatchLike
from daybook.journal.blocks.block import EncodedBlock
from daybook.journal.errors import DiskFull, JournalFailed
from daybook.journal.journal import Journal
from daybook.journal.writing.commit_choice import Choice, CommitChoice
from daybook.journal.writing.writer import InlineWriter
from tests.simulation.counts import WayCounts


class Far:
    """All blocks are written by the writer's process."""

    def choose(self, raw_bytes: int, *, is_alone: bool) -> bool:
        return False

    def note(self, seconds: float) -> None:
        """It makes no difference."""


class ByChance(Far):
    """Blocks go either way, by chance; `now` are the chances that one is written within submit."""

    def __init__(self, chance: Random) -> None:
        self._chance = chance
        self._now = chance.choice((0.2, 0.5, 0.95))

    def choose(self, raw_bytes: int, *, is_alone: bool) -> bool:
        return is_alone and self._chance.random() < self._now


class SteppedWriter:
    """Appends one block a `step`; reports to the hub wait in `news`.

    What is written within `submit` is reported at once, to `on_durable` and `on_failure`.
    """

    def __init__(self, journal: Journal, on_submit: Callable[[BatchLike], None]) -> None:
        self.journal = journal
        self.news: deque[tuple[str, int | Exception]] = deque()
        self.on_durable: Callable[[int], None] = lambda _: None
        self.on_failure: Callable[[Exception], None] = lambda _: None
        self._on_written: Callable[[], None] = lambda: None
        self._ways = WayCounts()
        self._choice: Choice = Far()
        self._lateness = Random(0)
        self._near = journal.twin()
        self._late: EncodedBlock | None = None
        self._has_failed = False
        self._on_submit = on_submit
        self._queue: deque[BatchLike | int] = deque()
        self._inline = InlineWriter(
            journal,
            on_durable=lambda lsn: self.tell("durable", lsn),
            on_failure=lambda error: self.tell("failed", error),
            on_disk_full=self._disk_full,
            on_disk_free=lambda: self.tell("free", 0),
        )

    def choose_ways(
        self, chance: Random, counts: WayCounts, on_written: Callable[[], None]
    ) -> None:
        """Write some blocks within `submit`: as the broker chooses, or by chance."""
        self._lateness, self._ways, self._on_written = chance, counts, on_written
        ways: tuple[Choice, ...] = (Far(), CommitChoice(), ByChance(chance), ByChance(chance))
        self._choice = chance.choice(ways)

    def tell(self, what: str, value: int | Exception) -> None:
        """Queue news for the hub."""
        self.news.append((what, value))

    def _disk_full(self, full: DiskFull) -> None:
        self.tell("full", full)

    @property
    def pending_bytes(self) -> int:
        """Bytes that are not durable."""
        queued = sum(item.raw_bytes for item in self._queue if not isinstance(item, int))
        late = len(self._late.data) if self._late is not None else 0
        return queued + late + self._inline.pending_bytes

    @property
    def has_work(self) -> bool:
        """Whether a step would do something."""
        is_busy = bool(self._queue) or not self._inline.idle or self._late is not None
        return is_busy and not self.failed

    @property
    def looks_for_room(self) -> bool:
        """Whether the disk is full, so that a step would look again."""
        return self.journal.disk_full is not None and not self.failed

    @property
    def failed(self) -> bool:
        """Whether nothing will be written any more."""
        return self._inline.failed or self._has_failed

    def submit(self, batch: BatchLike) -> None:
        """Take a batch, or write it."""
        self._on_submit(batch)
        is_busy = self.has_work or bool(self.news) or self.journal.disk_full is not None
        is_near = self._choice.choose(batch.raw_bytes, is_alone=not is_busy) and not self.failed
        if not (is_near and self._begin(batch)):
            self._queue.append(batch)

    def _begin(self, batch: BatchLike) -> bool:
        try:
            self._late = self._near.prepare(batch)
        except JournalFailed as error:
            self._fail(error)
            return True
        if self._late is None:
            return False
        if self._lateness.random() < 0.8:
            self._finish()
        else:
            self._ways.late_blocks += 1
        return True

    def _finish(self) -> None:
        """Write the block that was begun near by."""
        block, self._late = self._late, None
        assert block is not None
        try:
            self._near.check_name()
            self._near.put(block)
        except OSError as error:
            self._fail(self._near.fail(error))
            return
        self._near.advance(block, self._near.entry_of(block))
        self._choice.note(0.0)
        self._ways.near_blocks += 1
        self._on_written()
        self.on_durable(self._near.durable_lsn)

    def _fail(self, error: Exception) -> None:
        self._has_failed = True
        self._ways.near_failures += 1
        self.on_failure(error)

    def mark(self, time: int) -> None:
        """Take a mark."""
        self._queue.append(time)

    def step(self) -> None:
        """Write the next block; on a full disk, try again."""
        if self._late is not None:
            self._finish()
            return
        if self._near.unshared_bytes:
            self.journal.follow(self._near.take_written())
        before = self.journal.next_lsn
        self._step_far()
        if not self._inline.failed:
            self._near.follow(self.journal.take_written())
        if self.journal.next_lsn > before:
            self._choice.note(0.0)

    def _step_far(self) -> None:
        if not self._inline.idle or not self._queue:
            self._inline.retry()
            return
        item = self._queue.popleft()
        if isinstance(item, int):
            self._inline.mark(item)
        else:
            self._inline.submit(item)

    def close(self) -> None:
        """Close the journal's files."""
        self._near.close()
        self.journal.close()
