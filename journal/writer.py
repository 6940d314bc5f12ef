"""Group commit: a thread that writes one block at a time while the next batch fills.

Fault model: an error of the disk is fatal and reported once, after which nothing is written; an
fdatasync is never tried again. A full disk is no error: the batch is kept and tried again.

Callbacks, called from the writer's thread: `on_durable(last_lsn)` when everything up to the LSN
survives a power cut; `on_failure(error)`, once, when nothing more will be written;
`on_disk_full(full)` when no segment could be reserved ahead (take no more messages, let consumers
drain into the room that is left) and `on_disk_free()` when that is over.

Must never know: what is in a batch, what time it is
(durations come from a clock that the caller gives).
"""

import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Final

import msgspec

from journal.batch import BatchLike
from journal.errors import DiskFull, JournalFailed
from journal.journal import Journal

RETRY_SECONDS: Final = 1.0
"""How long the writer waits before it tries a full disk again."""

_AVERAGE_WEIGHT: Final = 0.05


class WriterStats(msgspec.Struct, frozen=True):
    """What a writer did: for status. Sync times are those of fdatasync alone, in seconds."""

    blocks: int
    events: int
    pending_bytes: int
    sync_seconds_last: float
    sync_seconds_average: float
    sync_seconds_max: float
    disk_full: str


def ignore_disk_full(full: DiskFull) -> None:
    """For those who do not want to hear of a full disk."""


def ignore_disk_free() -> None:
    """For those who do not want to hear that a disk is no longer full."""


class WriterCore:
    """What all writers do with one batch or mark."""

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
        self.told_full = False
        self.failed = False
        self.blocks = 0
        self.events = 0
        self.sync_seconds_average = 0.0
        self.sync_seconds_max = 0.0

    def append(self, batch: BatchLike) -> None:
        """Append and measure; raises as `Journal.append`."""
        before = self.journal.next_lsn
        self.journal.append(batch)
        self.events += self.journal.next_lsn - before
        seconds = self.journal.sync_seconds
        if self.blocks == 0:
            self.sync_seconds_average = seconds
        self.sync_seconds_average += _AVERAGE_WEIGHT * (seconds - self.sync_seconds_average)
        self.sync_seconds_max = max(self.sync_seconds_max, seconds)
        self.blocks += 1

    def mark(self, time: int) -> None:
        """Append a mark if there is room for one; raises JournalFailed."""
        try:
            self.journal.mark(time)
        except DiskFull:
            # A mark carries nothing; the next one will do.
            return

    def tell_room(self) -> None:
        """Tell when the room for the next segment is gone, or there again."""
        full = self.journal.disk_full
        if full is not None and not self.told_full:
            self.told_full = True
            self.on_disk_full(full)
        elif full is None and self.told_full:
            self.told_full = False
            self.on_disk_free()

    def fail(self, error: Exception) -> None:
        """Tell that nothing more will be written, once."""
        if not self.failed:
            self.failed = True
            self.on_failure(error)

    def stats(self, pending_bytes: int) -> WriterStats:
        """Figures for status."""
        full = self.journal.disk_full
        return WriterStats(
            self.blocks,
            self.events,
            pending_bytes,
            self.journal.sync_seconds,
            self.sync_seconds_average,
            self.sync_seconds_max,
            str(full) if full else "",
        )


class InlineWriter:
    """The writer for simulators and tests: everything happens within `submit`.

    Batches that met a full disk wait in a list until `retry`.
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
        """Write a batch now, and tell; after a failure, nothing."""
        self._waiting.append(batch)
        self.retry()

    def mark(self, time: int) -> None:
        """Append a mark, when nothing waits."""
        if self._waiting or self._core.failed:
            return
        try:
            self._core.mark(time)
        except JournalFailed as error:
            self._core.fail(error)

    def retry(self) -> None:
        """Try again what a full disk kept waiting."""
        core = self._core
        try:
            if core.told_full and not core.failed:
                core.journal.reserve()
                core.tell_room()
            while self._waiting and not core.failed:
                core.append(self._waiting[0])
                del self._waiting[0]
                core.on_durable(core.journal.durable_lsn)
                core.tell_room()
        except DiskFull:
            core.tell_room()
        except JournalFailed as error:
            core.fail(error)

    def close(self) -> None:
        """Try what waits once more, else give it up by `on_failure`; close the journal."""
        self.retry()
        full = self._core.journal.disk_full
        if self._waiting and full is not None:
            self._core.fail(full)
        self._core.journal.close()

    def stats(self) -> WriterStats:
        """Figures for status."""
        return self._core.stats(self.pending_bytes)


class ThreadWriter:
    """Writes batches on a thread of its own, in order, one block in flight at a time.

    The journal belongs to the thread until `close`.
    """

    def __init__(
        self,
        journal: Journal,
        *,
        on_durable: Callable[[int], None],
        on_failure: Callable[[Exception], None],
        on_disk_full: Callable[[DiskFull], None] = ignore_disk_full,
        on_disk_free: Callable[[], None] = ignore_disk_free,
        retry_seconds: float = RETRY_SECONDS,
    ) -> None:
        self._core: Final = WriterCore(journal, on_durable, on_failure, on_disk_full, on_disk_free)
        self._retry_seconds: Final = retry_seconds
        self._queue: Final[SimpleQueue[BatchLike | int | None]] = SimpleQueue()
        self._wake: Final = threading.Event()
        self._closing = False
        # Each is counted up by one thread only, so no lock is needed.
        self._bytes_in = 0
        self._bytes_out = 0
        self._worker: Final = threading.Thread(target=self._run, name="journal-writer", daemon=True)
        self._worker.start()

    @property
    def pending_bytes(self) -> int:
        """Bytes of the batches that are not durable, for back-pressure."""
        return self._bytes_in - self._bytes_out

    @property
    def idle(self) -> bool:
        """Whether everything submitted is durable; a batch submitted now is written at once."""
        return self._bytes_in == self._bytes_out

    @property
    def failed(self) -> bool:
        """Whether the writer has stopped for good."""
        return self._core.failed

    def submit(self, batch: BatchLike) -> None:
        """Queue a batch. It must not be changed any more."""
        assert not self._closing, "nothing may be submitted to a closing writer"
        self._bytes_in += batch.raw_bytes
        self._queue.put(batch)

    def mark(self, time: int) -> None:
        """Queue a mark (microseconds since 1970 UTC): when the broker is idle, and before close."""
        self._queue.put(time)

    def retry(self) -> None:
        """Try again now, instead of after `retry_seconds`, what a full disk keeps waiting."""
        self._wake.set()

    def close(self) -> None:
        """Write what is queued, stop the thread, close the journal.

        On a full disk what is still queued is tried once more, and then given up by `on_failure`.
        """
        if not self._closing:
            self._closing = True
            self._queue.put(None)
            self._wake.set()
        self._worker.join()
        self._core.journal.close()

    def stats(self) -> WriterStats:
        """Figures for status."""
        return self._core.stats(self.pending_bytes)

    def _run(self) -> None:
        core = self._core
        try:
            while (item := self._next_item()) is not None:
                if isinstance(item, int):
                    core.mark(item)
                else:
                    self._write(item)
                core.tell_room()
        # Whatever it was, and be it a mistake of ours: the broker must hear of it and stop.
        except Exception as error:
            core.fail(error)

    def _next_item(self) -> BatchLike | int | None:
        """The next thing to do; looks for room now and then while there is none."""
        core = self._core
        while core.told_full:
            try:
                return self._queue.get(timeout=self._retry_seconds)
            except Empty:
                core.journal.reserve()
                core.tell_room()
        return self._queue.get()

    def _write(self, batch: BatchLike) -> None:
        """Append a batch, waiting for room if need be; DiskFull if the writer is closing."""
        core = self._core
        while True:
            closing = self._closing
            try:
                core.append(batch)
                break
            except DiskFull:
                core.tell_room()
                if closing:
                    raise
            self._wake.wait(self._retry_seconds)
            self._wake.clear()
        self._bytes_out += batch.raw_bytes
        core.on_durable(core.journal.durable_lsn)
