"""Timers: when to look at which entries, and why (ADR 39).

They form one table. For entries in memory it is here, a heap for each reason; for the others it is
in the index, in the same order. A timer only says when to look: the state of the entry at that time
decides what happens, and a timer may outlive its entry. Must never know what becomes of an entry.
"""

from collections import deque
from collections.abc import Iterator
from heapq import heappop, heappush
from typing import Final

from daybook.engine.queues.entry import READY
from daybook.engine.queues.queue import Due, Queue, Store

EXPIRY: Final = 0
"""The message expires."""
DELIVERY: Final = 1
"""The entry is scheduled until then."""
REASONS: Final = (EXPIRY, DELIVERY)

PRUNE_MIN: Final = 1024
SIFTED: Final = 4
"""Of how many timers each new one finds out whether they outlived their entries."""
AT_A_TIME: Final = 100
"""How many due entries are read from the store at once."""
NOTHING: Final[Due] = (0, 0, 0)
NEVER: Final = (1 << 55) - 1
"""Milliseconds: later than every time that a timer may have."""


class Timers:
    """The timers of one reason: a heap for entries in memory, and a position in the store's table.

    `asked` is the timer up to which the store was asked: those before it were returned already.
    When there are many, all become `_old`, a heap too, and those that did not outlive their entries
    go back a few at a time: with long expiries the others would be nearly all, and looking at all
    at once takes long.
    """

    __slots__ = ("_dropped", "_kept", "_most", "_old", "_reason", "asked", "heap")

    def __init__(self, reason: int) -> None:
        self.heap: list[Due] = []
        self._old: list[Due] = []
        # What went back. An entry that comes back from a consumer gets the same timer once more.
        self._kept: set[Due] = set()
        # The same of times before: to give all of it back at once may take a tenth of a second.
        self._dropped: set[Due] = set()
        self.asked: Due = NOTHING
        self._reason: Final = reason
        self._most = PRUNE_MIN

    def add(self, time: int, message_id: int, queue_id: int, queues: dict[int, Queue]) -> None:
        """Set a timer, in milliseconds since 1970, for an entry that is in memory.

        `queues` are all queues, by id.
        """
        if len(self.heap) >= self._most and not self._old:
            self.heap, self._old = self._old, self.heap
            self._drop()
        if self._old:
            self._sift(queues)
        for _ in range(min(SIFTED, len(self._dropped))):
            self._dropped.pop()
        heappush(self.heap, (time, message_id, queue_id))

    def put_back(self, item: Due) -> None:
        """Return an item again in a later scan."""
        heappush(self.heap, item)

    def _sift(self, queues: dict[int, Queue]) -> None:
        """Take a few old timers out, and keep those that did not outlive their entries.

        An entry in flight gets its timer again when it comes back.
        """
        for _ in range(min(SIFTED, len(self._old))):
            # The last one, so that the rest stays a heap.
            item = self._old.pop()
            queue = queues.get(item[2])
            entry = queue.entries.get(item[1]) if queue is not None else None
            is_ready = entry is not None and entry.state == READY
            # The store is not asked again for timers before `asked`; those of entries paged out
            # since stay.
            is_kept = is_ready or (entry is None and queue is not None and item < self.asked)
            if is_kept and item not in self._kept:
                self._kept.add(item)
                heappush(self.heap, item)
        if not self._old:
            self._drop()
            self._most = max(PRUNE_MIN, 2 * len(self.heap))

    def _drop(self) -> None:
        """Forget what went back; one of the sets is small, unless many timers came meanwhile."""
        few, many = sorted((self._kept, self._dropped), key=len)
        many |= few
        self._kept, self._dropped = set(), many

    def _first(self) -> list[Due]:
        """Return the heap that has the soonest timer in memory, or one that is empty."""
        heap, old = self.heap, self._old
        return old if old and (not heap or old[0] < heap[0]) else heap

    def due(self, store: Store | None, now_ms: int) -> Iterator[Due]:
        """Iterate over what is due, the oldest first: entries in memory from the heap, others from
        the store.

        A timer that was returned is not returned again, unless its entry comes back.
        """
        stored = self._stored(store, now_ms)
        was_full = len(stored) == AT_A_TIME
        while True:
            heap = self._first()
            from_heap = heap[0] if heap and heap[0][0] <= now_ms else None
            if stored and (from_heap is None or stored[0] <= from_heap):
                item = stored.popleft()
            elif from_heap is not None:
                item = heappop(heap)
            else:
                return
            # This counts timers from the heap, too, because they will be in the store later.
            self.asked = max(self.asked, item)
            if was_full and not stored:
                stored = self._stored(store, now_ms)
                was_full = len(stored) == AT_A_TIME
            yield item

    def _stored(self, store: Store | None, now_ms: int) -> deque[Due]:
        if store is None:
            return deque()
        return deque(store.due(self._reason, self.asked, now_ms, AT_A_TIME))

    def next(self, store: Store | None) -> int:
        """Return when the next timer is due, in milliseconds since 1970, NEVER if there is none."""
        heap = self._first()
        soonest = heap[0][0] if heap else NEVER
        stored = store.due(self._reason, self.asked, soonest, 1) if store is not None else []
        return stored[0][0] if stored else soonest
