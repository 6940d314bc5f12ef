"""The common core of journal writers, and a writer that writes synchronously.

Fault model: an error of the disk is fatal and reported once, after which the writer does not write;
an fdatasync is never retried. A full disk is not an error: the batch is kept and retried.

Callbacks: `on_durable(last_lsn)` when everything up to the LSN survives a power cut;
`on_failure(error)`, once, when nothing more will be written; `on_disk_full(full)` when no segment
can be reserved ahead (accept no more messages; acknowledgements use the remaining space) and
`on_disk_free()` when that is over.

Must never know: what is in a batch, what time it is
(durations come from a clock that the caller gives).
"""

from bisect import bisect_left
from collections.abc import Callable
from traceback import extract_tb
from typing import Final

import msgspec

from daybook.errors import cause_of
from daybook.journal.blocks.batch import BatchLike
from daybook.journal.errors import DiskFull, JournalError, JournalFailed
from daybook.journal.journal import Journal

RETRY_SECONDS: Final = 1.0
"""How long the writer waits before it retries on a full disk."""

_AVERAGE_WEIGHT: Final = 0.05


SYNC_BOUNDS: Final = (
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5,
    10.0,
)  # fmt: skip
"""Upper bounds of the histogram of sync times, in seconds; one more count is for longer ones."""


class SyncTimes:
    """Durations of syncs: a count for each of SYNC_BOUNDS, one for longer syncs, and their sum."""

    def __init__(self) -> None:
        self.counts = [0] * (len(SYNC_BOUNDS) + 1)
        self.seconds = 0.0

    def note(self, seconds: float) -> None:
        """Count a sync."""
        self.counts[bisect_left(SYNC_BOUNDS, seconds)] += 1
        self.seconds += seconds


class SyncFigures:
    """How many blocks and events were written, and how long the syncs took, in seconds."""

    def __init__(self) -> None:
        self.blocks = 0
        self.events = 0
        self.near_blocks = 0
        self.last = 0.0
        self.average = 0.0
        self.longest = 0.0
        self.times: Final = SyncTimes()

    def note(self, events: int, seconds: float) -> None:
        """Count a block."""
        if self.blocks == 0:
            self.average = seconds
        self.blocks += 1
        self.events += events
        self.last = seconds
        self.average += _AVERAGE_WEIGHT * (seconds - self.average)
        self.longest = max(self.longest, seconds)
        self.times.note(seconds)

    def stats(self, pending_bytes: int, disk_full: str) -> "WriterStats":
        """Figures for status."""
        return WriterStats(
            self.blocks,
            self.events,
            pending_bytes,
            self.last,
            self.average,
            self.longest,
            disk_full,
            tuple(self.times.counts),
            self.times.seconds,
            self.near_blocks,
        )


class WriterStats(msgspec.Struct, frozen=True):
    """Figures of a writer, for status. Sync times are those of fdatasync alone, in seconds.

    `near_blocks` are those that were not written by the writer's process (ADR 41).
    """

    blocks: int
    events: int
    pending_bytes: int
    sync_seconds_last: float
    sync_seconds_average: float
    sync_seconds_max: float
    disk_full: str
    sync_counts: tuple[int, ...]
    sync_seconds: float
    near_blocks: int = 0


def ignore_disk_full(full: DiskFull) -> None:
    """The default `on_disk_full`: do nothing."""


def ignore_disk_free() -> None:
    """The default `on_disk_free`: do nothing."""


class WriterCore:
    """The common steps of all writers for one batch or mark."""

    def __init__(
        self,
        journal: Journal,
        on_durable: Callable[[int], None],
        on_failure: Callable[[Exception], None],
        on_disk_full: Callable[[DiskFull], None],
        on_disk_free: Callable[[], None],
    ) -> None:
        self.journal: Final = journal
        self.on_durable: Final = on_durable
        self.on_failure: Final = on_failure
        self.on_disk_full: Final = on_disk_full
        self.on_disk_free: Final = on_disk_free
        self.reported_full = False
        self.failed = False
        self.figures: Final = SyncFigures()

    def append(self, batch: BatchLike) -> None:
        """Append and measure. Raises as `Journal.append` does."""
        before = self.journal.next_lsn
        self.journal.append(batch)
        self.figures.note(self.journal.next_lsn - before, self.journal.sync_seconds)

    def mark(self, time: int) -> None:
        """Append a mark if there is room for one; raises JournalFailed."""
        try:
            self.journal.mark(time)
        except DiskFull:
            # A mark has no content; a later one is as good.
            return

    def report_space(self) -> None:
        """Call back when the space for the next segment is gone, or available again."""
        full = self.journal.disk_full
        if full is not None and not self.reported_full:
            self.reported_full = True
            self.on_disk_full(full)
        elif full is None and self.reported_full:
            self.reported_full = False
            self.on_disk_free()

    def fail(self, error: Exception) -> None:
        """Report, once, that the writer has failed."""
        if not self.failed:
            self.failed = True
            self.on_failure(error)

    def stats(self, pending_bytes: int) -> WriterStats:
        """Figures for status."""
        full = self.journal.disk_full
        return self.figures.stats(pending_bytes, str(full) if full else "")


def reason(error: Exception) -> str:
    """Return why writing failed, for the log."""
    if isinstance(error, DiskFull):
        return (
            f"there is no space for the remaining events ({cause_of(error)}), and the broker is "
            "stopping: they are lost; none of them was confirmed to a client. Free disk space or "
            "raise the quota before the next start."
        )
    if isinstance(error, JournalError):
        return str(error)
    # Writing may have failed in another process or thread, whose traceback is not visible.
    where = extract_tb(error.__traceback__)[-1]
    return (
        f"a bug of Daybook while writing the journal: {error!r} at {where.filename}:{where.lineno}"
    )


class InlineWriter:
    """The writer for simulators and tests: it writes within `submit`.

    After a full disk batches wait in a list until `retry`.
    """

    def __init__(
        self,
        journal: Journal,
        *,
        on_durable: Callable[[int], None],
        on_failure: Callable[[Exception], None],
        on_disk_full: Callable[[DiskFull], None] = ignore_disk_full,
        on_disk_free: Callable[[], None] = ignore_disk_free,
    ) -> None:
        self._core: Final = WriterCore(journal, on_durable, on_failure, on_disk_full, on_disk_free)
        self._waiting: list[BatchLike] = []

    @property
    def pending_bytes(self) -> int:
        """Bytes of the batches that are not durable, for back-pressure."""
        return sum(batch.raw_bytes for batch in self._waiting)

    @property
    def idle(self) -> bool:
        """Whether everything submitted is durable."""
        return not self._waiting

    @property
    def failed(self) -> bool:
        """Whether the writer has stopped for good."""
        return self._core.failed

    def submit(self, batch: BatchLike) -> None:
        """Write a batch now and call back; does nothing after a failure."""
        self._waiting.append(batch)
        self.retry()

    def mark(self, time: int) -> None:
        """Append a mark, if no batch is waiting."""
        if self._waiting or self._core.failed:
            return
        try:
            self._core.mark(time)
        except JournalFailed as error:
            self._core.fail(error)

    def retry(self) -> None:
        """Retry the batches that wait because of a full disk."""
        core = self._core
        try:
            # A waiting block may need a larger segment than `reserve` finds space for.
            if core.reported_full and not self._waiting and not core.failed:
                core.journal.reserve()
                core.report_space()
            while self._waiting and not core.failed:
                core.append(self._waiting[0])
                del self._waiting[0]
                core.on_durable(core.journal.durable_lsn)
                core.report_space()
        except DiskFull:
            core.report_space()
        except JournalFailed as error:
            core.fail(error)

    def close(self) -> None:
        """Retry waiting batches once, or give them up with `on_failure`; close the journal."""
        self.retry()
        full = self._core.journal.disk_full
        if self._waiting and full is not None:
            self._core.fail(full)
        self._core.journal.close()

    def stats(self) -> WriterStats:
        """Figures for status."""
        return self._core.stats(self.pending_bytes)
