"""The sizes of addresses that do not page, and the memory of all queues.

Addresses that page have totals of their own, since asking all of their queues, which may be a
hundred thousand, takes too long for every turn. Kept up to date by differences: a queue is counted
again when a turn touched it, or when entries of it left memory; every other change of a queue's
size touches the queue. Derived from the state, and no part of it. Must never know limits.
"""

from collections.abc import Mapping
from typing import Final

from daybook.engine.limits.host_limits import HostLimits
from daybook.engine.queues.queue import Address, Queue
from daybook.engine.state.state import State

NOTHING: Final = (0, 0, 0)


def size_of(address: Address) -> tuple[int, int]:
    """Return the size of an address: bytes and messages, summed up over its queues.

    Messages that are still on their way to them count: every fold has them there already (ADR 89).
    """
    size, messages = address.arriving_bytes, address.arriving_messages
    for queue in address.queues():
        size += queue.bytes
        messages += queue.message_count
    return size, messages


class Sizes:
    """Bytes and messages of all addresses that do not page; memory of the entries of all
    addresses; and bytes of all queues of virtual hosts that have a limit (`of_hosts`)."""

    __slots__ = (
        "_counted", "_in_hosts", "_paged", "_paging", "bytes", "messages", "of_hosts", "weight",
    )  # fmt: skip

    def __init__(self) -> None:
        self.of_hosts: dict[str, int] = {}
        self._in_hosts: dict[int, int] = {}
        self.bytes = 0
        self.messages = 0
        self.weight = 0
        self._counted: dict[int, tuple[int, int, int]] = {}
        # Of queues of addresses that page: the address, bytes and messages, and sums by address.
        self._paged: dict[int, tuple[int, int, int]] = {}
        self._paging: dict[int, tuple[int, int]] = {}

    def count(self, queue: Queue) -> None:
        """Update the sizes by what a queue holds now."""
        if queue.address.paging:
            now = (0, 0, queue.weight)
            self._page(queue.id, queue.address.id, queue.bytes, queue.message_count)
        else:
            now = (queue.bytes, queue.message_count, queue.weight)
            if self._paged:
                # It was bound to an address that pages.
                self._page(queue.id, 0, 0, 0)
        before = self._counted.get(queue.id, NOTHING)
        if now != before:
            self._counted[queue.id] = now
            self._add(now, before)
        if self.of_hosts and queue.address.host in self.of_hosts:
            self._count_in_host(queue, queue.bytes)

    def forget(self, queue: Queue) -> None:
        """Stop counting a queue that is deleted."""
        self._add(NOTHING, self._counted.pop(queue.id, NOTHING))
        self._page(queue.id, 0, 0, 0)
        if queue.id in self._in_hosts:
            self._count_in_host(queue, 0)
            del self._in_hosts[queue.id]

    def of_paging(self, address: Address) -> tuple[int, int]:
        """Return the size of an address that pages, bytes and messages, when they were counted."""
        return self._paging.get(address.id, (0, 0))

    def _page(self, queue: int, address: int, size: int, messages: int) -> None:
        """Note what a queue holds, of an address that pages; the address is 0 for none."""
        now = address, size, messages
        before = self._paged.get(queue, NOTHING)
        if now == before:
            return
        if before[0] in self._paging:
            sums = self._paging[before[0]]
            self._paging[before[0]] = sums[0] - before[1], sums[1] - before[2]
        if address:
            sums = self._paging.get(address, (0, 0))
            self._paging[address] = sums[0] + size, sums[1] + messages
            self._paged[queue] = now
        else:
            del self._paged[queue]

    def _count_in_host(self, queue: Queue, size: int) -> None:
        """Note what a queue of a virtual host with a limit holds."""
        self.of_hosts[queue.address.host] += size - self._in_hosts.get(queue.id, 0)
        self._in_hosts[queue.id] = size

    def _add(self, now: tuple[int, int, int], before: tuple[int, int, int]) -> None:
        self.bytes += now[0] - before[0]
        self.messages += now[1] - before[1]
        self.weight += now[2] - before[2]

    def count_address(self, address: Address) -> None:
        """Count all queues of an address again, which began or stopped paging."""
        for queue in address.queues():
            self.count(queue)
            if not address.paging:
                self._page(queue.id, 0, 0, 0)
        if not address.paging:
            self._paging.pop(address.id, None)

    def count_all(self, state: State, hosts: Mapping[str, HostLimits]) -> None:
        """Count everything again from zero; `hosts` are the virtual hosts with their limits."""
        self._counted.clear()
        self._in_hosts.clear()
        self._paged.clear()
        self._paging.clear()
        self.of_hosts = {host: 0 for host, limits in hosts.items() if limits.max_size > 0}
        self.bytes = self.messages = self.weight = 0
        for queue in state.queues.values():
            self.count(queue)
