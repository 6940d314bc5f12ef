"""The writer of the simulated broker: nothing happens until the simulator takes a step.

So a block can stay in flight while bytes, turns and other things happen, and what the disk did
can be long done before the hub hears of it, as with the writer's thread.
"""

from collections import deque
from collections.abc import Callable

from daybook.journal.batch import BatchLike
from daybook.journal.errors import DiskFull
from daybook.journal.journal import Journal
from daybook.journal.writer import InlineWriter


class SteppedWriter:
    """Appends one block a `step`; what the hub is to be told waits in `news`."""

    def __init__(self, journal: Journal, on_submit: Callable[[BatchLike], None]) -> None:
        self.journal = journal
        self.news: deque[tuple[str, int | Exception]] = deque()
        self._on_submit = on_submit
        self._queue: deque[BatchLike | int] = deque()
        self._inline = InlineWriter(
            journal,
            on_durable=lambda lsn: self.tell("durable", lsn),
            on_failure=lambda error: self.tell("failed", error),
            on_disk_full=self._disk_full,
            on_disk_free=lambda: self.tell("free", 0),
        )

    def tell(self, what: str, value: int | Exception) -> None:
        """Queue news for the hub."""
        self.news.append((what, value))

    def _disk_full(self, full: DiskFull) -> None:
        self.tell("full", full)

    @property
    def pending_bytes(self) -> int:
        """Bytes that are not durable."""
        queued = sum(item.raw_bytes for item in self._queue if not isinstance(item, int))
        return queued + self._inline.pending_bytes

    @property
    def has_work(self) -> bool:
        """Whether a step would do something."""
        return (bool(self._queue) or not self._inline.idle) and not self._inline.failed

    @property
    def looks_for_room(self) -> bool:
        """Whether the disk is full, so that a step would look again."""
        return self.journal.disk_full is not None and not self._inline.failed

    @property
    def failed(self) -> bool:
        """Whether nothing will be written any more."""
        return self._inline.failed

    def submit(self, batch: BatchLike) -> None:
        """Take a batch."""
        self._on_submit(batch)
        self._queue.append(batch)

    def mark(self, time: int) -> None:
        """Take a mark."""
        self._queue.append(time)

    def step(self) -> None:
        """Write the next block; on a full disk, try again."""
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
        self.journal.close()
