"""How much the addresses hold that do not page, kept up to date by differences.

A queue is counted again when a turn touched it; whatever changes the size of a queue touches it.
Derived from the state, and no part of it. Must never know limits, nor where entries live.
"""

from typing import Final

from engine.queues import Queue
from engine.state import Address, State

NOTHING: Final = (0, 0)


def size_of(address: Address) -> tuple[int, int]:
    """Return the size of an address: bytes and messages, summed up over its queues."""
    size = messages = 0
    for queue in address.anycast:
        size += queue.bytes
        messages += queue.message_count
    for queue in address.multicast:
        size += queue.bytes
        messages += queue.message_count
    return size, messages


class Sizes:
    """Bytes and messages of all addresses that do not page."""

    __slots__ = ("_counted", "bytes", "messages")

    def __init__(self) -> None:
        self.bytes = 0
        self.messages = 0
        self._counted: dict[int, tuple[int, int]] = {}

    def count(self, queue: Queue) -> None:
        """Take in what a queue holds now."""
        now = NOTHING if queue.address.paging else (queue.bytes, queue.message_count)
        before = self._counted.get(queue.id, NOTHING)
        if now != before:
            self._counted[queue.id] = now
            self.bytes += now[0] - before[0]
            self.messages += now[1] - before[1]

    def forget(self, queue: Queue) -> None:
        """Count a queue no more that is deleted."""
        before = self._counted.pop(queue.id, NOTHING)
        self.bytes -= before[0]
        self.messages -= before[1]

    def count_address(self, address: Address) -> None:
        """Take in all queues of an address, which began to page or ceased to."""
        for queue in address.anycast:
            self.count(queue)
        for queue in address.multicast:
            self.count(queue)

    def count_all(self, state: State) -> None:
        """Begin anew, with everything that there is."""
        self._counted.clear()
        self.bytes = self.messages = 0
        for queue in state.queues.values():
            self.count(queue)
