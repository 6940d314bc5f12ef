"""Writes blocks in the broker's own process: a thread writes and syncs, its owner waits a moment.

The owner encodes a block, hands it to the thread and sleeps until it is durable, so neither the
interpreter nor the core is disputed. It waits only for a limited time, because a disk may hang.
Then it continues with other work, and the thread calls `wake` when the block is durable after all.

Fault model: as for `journal.journal`: an error of write or sync is fatal and never retried. A
thread in a system call that never returns stays until the process has ended. Must never know when a
block is better written by the other process.
"""

from collections.abc import Callable
from threading import Lock, Thread
from typing import Final

from daybook.journal.blocks.batch import BatchLike
from daybook.journal.blocks.block import EncodedBlock
from daybook.journal.journal import Journal


class NearWriter:
    """Writes one block at a time to a copy of the journal (`Journal.twin`).

    All methods are called by the owner. `wake` is called in the thread, when a block for which
    `settle` did not wait any longer is durable or has failed: then `settle` has an answer.
    """

    def __init__(self, journal: Journal) -> None:
        """`journal` is not used by others. No thread is started before the first block."""
        self.journal: Final = journal
        self.wake: Callable[[], None] = _ignore_wake
        self._block: EncodedBlock | None = None
        self._entry = b""
        self._error: Exception | None = None
        # The owner's findings while the thread was writing.
        self._gone: OSError | None = None
        self._is_late = False
        self._worker: Thread | None = None
        # Held, but for the moment between what they announce and its receiver.
        self._wanted: Final = Lock()
        self._ended: Final = Lock()
        self._wanted.acquire()
        self._ended.acquire()

    @property
    def is_busy(self) -> bool:
        """Whether a block was begun and is not settled."""
        return self._block is not None

    def begin(self, batch: BatchLike) -> bool:
        """Begin to write a batch; return False if the newest segment cannot take it.

        Raises JournalFailed.
        """
        assert self._block is None
        block = self.journal.prepare(batch)
        if block is None:
            return False
        self._block = block
        if self._worker is None:
            self._worker = Thread(target=self._run, name="journal", daemon=True)
            self._worker.start()
        self._wanted.release()
        # The owner would only wait meanwhile.
        self._entry = self.journal.entry_of(block)
        self._check_name()
        return True

    def _check_name(self) -> None:
        try:
            self.journal.check_name()
        except OSError as error:
            self._gone = error

    def settle(self, wait_seconds: float) -> bool:
        """Wait a moment for the block; return whether it is durable. Raises JournalFailed.

        A mistake of our own code in the thread is raised too.
        """
        block = self._block
        if block is None:
            return True
        if not self._ended.acquire(timeout=wait_seconds):
            self._is_late = True
            # It may have ended just now, without having seen that it is late.
            if not self._ended.acquire(blocking=False):
                return False
        if self._is_late:
            # Much may have happened since the last look.
            self._check_name()
        self._is_late = False
        self._block = None
        error = self._error or self._gone
        if isinstance(error, OSError):
            raise self.journal.fail(error)
        if error is not None:
            raise error
        self.journal.advance(block, self._entry)
        return True

    def close(self) -> None:
        """End the thread, if it is not busy, and close the file."""
        if self._block is not None:
            return
        if self._worker is not None:
            self._wanted.release()
            self._worker.join()
            self._worker = None
        self.journal.close()

    def _run(self) -> None:
        """Write requests until there are none: in the thread."""
        while True:
            self._wanted.acquire()
            block = self._block
            if block is None:
                return
            try:
                self.journal.put(block)
            except Exception as error:
                self._error = error
            self._ended.release()
            if self._is_late:
                self.wake()


def _ignore_wake() -> None:
    """The default callback, until the owner sets another."""
