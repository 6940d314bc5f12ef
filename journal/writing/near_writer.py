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
from typing import Final, Protocol

from daybook.journal.blocks.batch import BatchLike
from daybook.journal.blocks.block import EncodedBlock
from daybook.journal.journal import Journal
from daybook.journal.places import Place


class Sharing(Protocol):
    """Lets others have the blocks that are written in this process."""

    def takes(self, place: Place, size: int) -> bool:
        """Return whether others get a block of so many bytes, which is about to be written at a
        place, by `send`; else they get it from the disk."""
        ...

    def send(self, place: Place, data: bytes) -> None:
        """Let others have a block, while it is written at a place."""
        ...

    def written(self, place: Place) -> None:
        """Note, in another thread, that everything up to a place is written, and about to be
        synced."""
        ...


class NearWriter:
    """Writes one block at a time to a copy of the journal (`Journal.twin`).

    All methods are called by the owner. `wake` is called in the thread, when a block for which
    `settle` did not wait any longer is durable or has failed: then `settle` has an answer.
    """

    def __init__(self, journal: Journal) -> None:
        """`journal` is not used by others. No thread is started before the first block."""
        self.journal: Final = journal
        self.wake: Callable[[], None] = _ignore_wake
        self._sharing: Sharing | None = None
        self._is_shared = False
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
        sharing, place = self._sharing, self.journal.place
        self._is_shared = sharing is not None and sharing.takes(place, len(block.data))
        if self._worker is None:
            self._worker = Thread(target=self._run, name="journal", daemon=True)
            self._worker.start()
        self._wanted.release()
        # The owner would only wait meanwhile.
        if sharing is not None and self._is_shared:
            sharing.send(place, block.data)
        self._entry = self.journal.entry_of(block)
        self._check_name()
        return True

    def share(self, sharing: Sharing) -> None:
        """Let others have each block, too: while it is written, or from the disk."""
        self._sharing = sharing
        self.journal.on_unsynced = self._written

    def _written(self, place: Place) -> None:
        if self._sharing is not None and not self._is_shared:
            self._sharing.written(place)

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
