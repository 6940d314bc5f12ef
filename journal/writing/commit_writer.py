"""Commits each block where it is cheapest: in the broker's own process, or in the writer's.

Both have a copy of the journal (ADR 41). Invariants: a block is written here only while the
writer's process owes no answer, and this process sends it no message while a block is being written
here; so one of them at a time writes, and each learns the other's writes before it writes itself.
Blocks keep their order.

Fault model: that of `journal.writing.process_writer` and `journal.writing.near_writer`. An error
has the same text and meaning by either way. A disk that hangs holds up the caller of `submit` for
`WAIT_SECONDS` at most. The process learns late of the writes here; if the broker dies before, it
does not write any more.
"""

from collections import deque
from collections.abc import Callable
from typing import Final

from daybook.journal.blocks.batch import BatchLike
from daybook.journal.blocks.format import FOOTER_ENTRY_BYTES
from daybook.journal.blocks.written import Written
from daybook.journal.journal import Journal
from daybook.journal.places import Place
from daybook.journal.writing.commit_choice import Choice, CommitChoice
from daybook.journal.writing.near_writer import NearWriter, Sharing
from daybook.journal.writing.process_writer import CLOSE_SECONDS, LOST, STEP_SECONDS, ProcessWriter
from daybook.journal.writing.writer import RETRY_SECONDS, reason

WAIT_SECONDS: Final = 0.005
"""How long the event loop waits for a commit near by."""
UNSHARED_BYTES_MAX: Final = 1024 * FOOTER_ENTRY_BYTES
"""From here on the process learns the writes here, without a request."""


class CommitWriter(ProcessWriter):
    """A ProcessWriter that writes small blocks itself. Its owner sets `wake` too.

    `wake` is called in another thread, and asks the owner to call `look` soon. `submit` may call
    `on_durable` and `on_failure` before it returns.
    """

    def __init__(
        self,
        journal: Journal,
        *,
        retry_seconds: float = RETRY_SECONDS,
        choice: Choice | None = None,
    ) -> None:
        """Fork the writer's process; raises JournalFailed if that is impossible."""
        self._near: Final = NearWriter(journal.twin())
        self._choice: Final[Choice] = choice if choice is not None else CommitChoice()
        # Batches, and times of marks, that wait for a block that is being written here.
        self._waiting: Final[deque[BatchLike | int]] = deque()
        super().__init__(journal, retry_seconds=retry_seconds)

    @property
    def place(self) -> Place:
        """The end of the blocks that are on the disk."""
        return self._near.journal.place

    def share(self, sharing: Sharing) -> None:
        """See ProcessWriter."""
        self._near.share(sharing)

    def set_wake(self, wake: Callable[[], None]) -> None:
        """Set the function to call, in another thread, when `look` has news."""
        self._near.wake = wake

    def submit(self, batch: BatchLike) -> None:
        """Write a batch here, or send it to the process. The caller must not change it any more."""
        is_alone = not (self._asked or self._near.is_busy or self._disk_full)
        self._count(batch)
        if self.failed:
            return
        wants_near = self._choice.choose(batch.raw_bytes, is_alone=is_alone)
        if self._near.is_busy:
            self._waiting.append(batch)
        elif not (wants_near and self._begin(batch)):
            self._send_batch(batch)

    def _begin(self, batch: BatchLike) -> bool:
        """Write a batch here, and wait a moment for it; return False if there is no room."""
        try:
            if not self._near.begin(batch):
                return False
        except Exception as error:
            self._fail(reason(error))
            return True
        self._settle(WAIT_SECONDS)
        return True

    def look(self) -> None:
        """See whether a block that took long here is durable by now."""
        if self._near.is_busy:
            self._settle(0.0)

    def _settle(self, wait_seconds: float) -> None:
        journal = self._near.journal
        before = journal.next_lsn
        try:
            if not self._near.settle(wait_seconds):
                return
        # Any failure, even a mistake of our own code, must be reported so that the broker stops.
        except Exception as error:
            self._waiting.clear()
            self._fail(reason(error))
            return
        self._figures.note(journal.next_lsn - before, journal.sync_seconds)
        self._figures.near_blocks += 1
        self._choice.note(journal.sync_seconds)
        if journal.unshared_bytes >= UNSHARED_BYTES_MAX:
            self._share()
        while self._waiting:
            item = self._waiting.popleft()
            if isinstance(item, int):
                self._send_mark(item)
            else:
                self._send_batch(item)
        self._written_here(journal.durable_lsn)

    def mark(self, time: int) -> None:
        """Request a mark (microseconds since 1970 UTC); for idle times, and before `close`."""
        assert not self._finished, "a closed writer does not accept batches"
        if self._near.is_busy:
            self._waiting.append(time)
        else:
            self._send_mark(time)

    def _send_batch(self, batch: BatchLike) -> None:
        self._share()
        super()._send_batch(batch)

    def _send_mark(self, time: int) -> None:
        self._share()
        super()._send_mark(time)

    def _share(self) -> None:
        """Send the process the writes here."""
        journal = self._near.journal
        if journal.unshared_bytes:
            self._send_written(journal.take_written())

    def _follow(self, written: Written) -> None:
        self._near.journal.follow(written)

    def _note_sync(self, events: int, seconds: float) -> None:
        super()._note_sync(events, seconds)
        self._choice.note(seconds)

    def close(self, timeout_seconds: float = CLOSE_SECONDS) -> None:
        """Close as a ProcessWriter does, after the block that is being written here.

        If the disk does not answer for `timeout_seconds`, the remaining batches are given up with
        `on_failure`; the block that was being written is a torn tail.
        """
        silent_seconds = 0.0
        while self._near.is_busy and silent_seconds < timeout_seconds:
            self._settle(STEP_SECONDS)
            silent_seconds += STEP_SECONDS
        if self._near.is_busy:
            self._fail(
                f"the disk of the journal did not answer for {timeout_seconds:.0f} s: {LOST}"
            )
        super().close(timeout_seconds)
        self._near.close()
