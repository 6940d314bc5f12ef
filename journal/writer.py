"""Group commit: a thread that writes one block at a time while the next batch fills.

Fault model: an error of the disk is fatal and reported once, after which nothing is written; an
fdatasync is never tried again. A full disk is no error: the batch is kept and tried again.

The callbacks are called from the writer's thread. Must never know: what is in a batch, what time it is
(durations come from a clock that the caller gives).
"""

import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Final, Protocol

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


class Listener(Protocol):
    """Who is told by a writer."""

    def on_durable(self, last_lsn: int) -> None:
        """Everything up to this LSN survives a power cut."""
        ...

    def on_failure(self, error: Exception) -> None:
        """Nothing more will be written; called once."""
        ...

    def on_disk_full(self, full: DiskFull) -> None:
        """No segment could be reserved ahead: take no more messages, let consumers drain."""
        ...

    def on_disk_free(self) -> None:
        """There is room again after `on_disk_full`."""
        ...


class _Core:
    """What both writers do with one batch or mark."""

    def __init__(self, journal: Journal, listener: Listener) -> None:
        self.journal: Final = journal
        self.listener: Final = listener
        self.told_full = False
        self.failed = False
        self.blocks = 0
        self.events = 0
        self.sync_seconds_average = 0.0
        self.sync_seconds_max = 0.0

    def append(self, batch: BatchLike) -> None:
        """Append and measure; raises as `Journal.append`."""
        self.journal.append(batch)
        seconds = self.journal.sync_seconds
        if self.blocks == 0:
            self.sync_seconds_average = seconds
        self.sync_seconds_average += _AVERAGE_WEIGHT * (seconds - self.sync_seconds_average)
        self.sync_seconds_max = max(self.sync_seconds_max, seconds)
        self.blocks += 1
        self.events += len(batch.rows)

    def mark(self, time: int) -> None:
        """Append a mark if there is room for one; raises JournalFailed."""
        try:
            self.journal.mark(time)
        except DiskFull:
            # A mark carries nothing; the next one will do.
            return

    def tell_room(self) -> None:
        """Tell the listener when the room for the next segment is gone, or there again."""
        full = self.journal.disk_full
        if full is not None and not self.told_full:
            self.told_full = True
            self.listener.on_disk_full(full)
        elif full is None and self.told_full:
            self.told_full = False
            self.listener.on_disk_free()

    def fail(self, error: Exception) -> None:
        """Tell the listener that nothing more will be written, once."""
        if not self.failed:
            self.failed = True
            self.listener.on_failure(error)

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

    def __init__(self, journal: Journal, listener: Listener) -> None:
        self._core: Final = _Core(journal, listener)
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
        """Write a batch now, and tell the listener; after a failure, nothing."""
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
                core.listener.on_durable(core.journal.durable_lsn)
                core.tell_room()
        except DiskFull:
            core.tell_room()
        except JournalFailed as error:
            core.fail(error)

    def close(self) -> None:
        """Try what waits once more, and close the journal."""
        self.retry()
        self._core.journal.close()

    def stats(self) -> WriterStats:
        """Figures for status."""
        return self._core.stats(self.pending_bytes)


class ThreadWriter:
    """Writes batches on a thread of its own, in order, one block in flight at a time.

    The journal belongs to the thread until `close`.
    """

    def __init__(
        self, journal: Journal, listener: Listener, *, retry_seconds: float = RETRY_SECONDS
    ) -> None:
        self._core: Final = _Core(journal, listener)
        self._retry_seconds: Final = retry_seconds
        self._queue: Final[SimpleQueue[BatchLike | int | None]] = SimpleQueue()
        self._wake: Final = threading.Event()
        self._closing = False
        # Each is counted up by one thread only, so no lock is needed.
        self._bytes_in = 0
        self._bytes_out = 0
        self._thread: Final = threading.Thread(target=self._run, name="journal-writer", daemon=True)
        self._thread.start()

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
        """Queue a mark (microseconds since 1970 UTC), for when the broker is idle and before close."""
        self._queue.put(time)

    def retry(self) -> None:
        """Try a full disk again now instead of after `retry_seconds`."""
        self._wake.set()

    def close(self) -> None:
        """Write what is queued, stop the thread, close the journal.

        On a full disk what is still queued is tried once more, and then given up by `on_failure`.
        """
        if not self._closing:
            self._closing = True
            self._queue.put(None)
            self._wake.set()
        self._thread.join()
        self._core.journal.close()

    def stats(self) -> WriterStats:
        """Figures for status."""
        return self._core.stats(self.pending_bytes)

    def _run(self) -> None:
        core = self._core
        while True:
            item = self._next_item()
            if item is None:
                return
            try:
                if isinstance(item, int):
                    core.mark(item)
                elif not self._write(item):
                    return
                core.tell_room()
            # Whatever it was, and be it a mistake of ours: the broker must hear of it and stop.
            except Exception as error:  # noqa: BLE001
                core.fail(error)
                return

    def _next_item(self) -> BatchLike | int | None:
        """The next thing to do; looks for room now and then while there is none."""
        core = self._core
        while core.told_full:
            try:
                return self._queue.get(timeout=self._retry_seconds)
            except Exception:  # noqa: BLE001 - queue.Empty
                core.journal.reserve()
                core.tell_room()
        return self._queue.get()

    def _write(self, batch: BatchLike) -> bool:
        """Append a batch, waiting for room if need be; False if the writer was closed meanwhile."""
        core = self._core
        while True:
            closing = self._closing
            try:
                core.append(batch)
                break
            except DiskFull as full:
                core.tell_room()
                if closing:
                    core.fail(full)
                    return False
            self._wake.wait(self._retry_seconds)
            self._wake.clear()
        self._bytes_out += batch.raw_bytes
        core.listener.on_durable(core.journal.durable_lsn)
        return True
