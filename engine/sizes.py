"""The sizes of addresses that do not page, and the memory of all queues.

Kept up to date by differences: a queue is counted again when a turn touched it, or when entries of
it left memory; every other change of a queue's size touches the queue. Derived from the state, and
no part of it. Must never know limits.
"""

from typing import Final

from daybook.engine.queues import Queue
from daybook.engine.state import Address, State

NOTHING: Final = (0, 0, 0)


def size_of(address: Address) -> tuple[int, int]:
    """Return the size of an address: bytes and messages, summed up over its queues."""
    size = messages = 0
    for queue in address.queues():
        size += queue.bytes
        messages += queue.message_count
    return size, messages


class Sizes:
    """Bytes and messages of all addresses that do not page; memory of the entries of all
    addresses."""

    __slots__ = ("_counted", "bytes", "messages", "weight")

    def __init__(self) -> None:
        self.bytes = 0
        self.messages = 0
        self.weight = 0
        self._counted: dict[int, tuple[int, int, int]] = {}

    def count(self, queue: Queue) -> None:
        """Update the sizes by what a queue holds now."""
        if queue.address.paging:
            now = (0, 0, queue.weight)
        else:
            now = (queue.bytes, queue.message_count, queue.weight)
        before = self._counted.get(queue.id, NOTHING)
        if now != before:
            self._counted[queue.id] = now
            self._add(now, before)

    def forget(self, queue: Queue) -> None:
        """Stop counting a queue that is deleted."""
        self._add(NOTHING, self._counted.pop(queue.id, NOTHING))

    def _add(self, now: tuple[int, int, int], before: tuple[int, int, int]) -> None:
        self.bytes += now[0] - before[0]
        self.messages += now[1] - before[1]
        self.weight += now[2] - before[2]

    def count_address(self, address: Address) -> None:
        """Count all queues of an address again, which began or stopped paging."""
        for queue in address.queues():
            self.count(queue)

    def count_all(self, state: State) -> None:
        """Count everything again from zero."""
        self._counted.clear()
        self.bytes = self.messages = self.weight = 0
        for queue in state.queues.values():
            self.count(queue)
