"""The interface of the hub to the journal: a writer, and a reader of chunks.

Must never know the implementations.
"""

from collections.abc import Sequence
from typing import Protocol

from daybook.engine.queues.queue import StoreError
from daybook.journal.blocks.batch import BatchLike


class Writer(Protocol):
    """The journal's writer, as the hub uses it."""

    @property
    def pending_bytes(self) -> int:
        """Bytes submitted and not durable."""
        ...

    def submit(self, batch: BatchLike) -> None:
        """Write a batch as a block; `Hub.durable` is called when it is durable."""
        ...

    def mark(self, time: int) -> None:
        """Append a block without events after all others."""
        ...


class NoChunks:
    """A reader without chunks, for brokers without large messages."""

    def chunks(self, lsns: Sequence[int], before: int) -> list[bytes]:
        """Raises StoreError."""
        raise StoreError(f"there is no journal to read event {lsns[0]} from")
