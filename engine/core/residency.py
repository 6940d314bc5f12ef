"""Deciding what leaves memory; residency never changes what is delivered (ADR 7).

When the index advanced, `Relief` looks at each queue that pages once, in slices. `page_out` takes
entries of a queue at the front of its tails, and at the end of its heads beyond a window, and
leaves them to the store. Must never know what the store is.
"""

from collections import deque
from typing import Final

from daybook.engine.limits.budget import Budget
from daybook.engine.messages.message import PRIORITIES
from daybook.engine.queues.entry import LEVELS
from daybook.engine.queues.level import Level
from daybook.engine.queues.queue import Address, Queue
from daybook.engine.queues.window import Window
from daybook.engine.state.sizes import Sizes
from daybook.engine.state.state import State

ALL: Final = (1 << 63) - 1
WINDOW_BYTES_MIN: Final = 32 * 1024
WINDOW_BYTES_MAX: Final = 1024 * 1024
WINDOWS_BYTES: Final = 32 * 1024 * 1024
"""The bytes that the windows of all queues with consumers share; each gets at least the minimum."""

EVICT_LEAST: Final = 100
"""The least number of entries that leave memory in each slice."""
LOOK_SHIFT: Final = 4
"""Looking at queues costs one unit of the budget for 2 to this power."""


def share_windows(state: State) -> None:
    """Set how much comes into memory at a time by the number of queues that can ask for it."""
    consumed = max(1, min(len(state.consumers), len(state.queues)))
    state.window.bytes = max(WINDOW_BYTES_MIN, min(WINDOW_BYTES_MAX, WINDOWS_BYTES // consumed))


def set_window(state: State, queue: Queue) -> None:
    """Give a queue the common window, or a smaller one if its address says so."""
    messages, size = state.settings.resolve(queue.address.name).read_at_a_time()
    shared = state.window
    if messages >= shared.messages and size >= WINDOW_BYTES_MAX:
        queue.window = shared
    else:
        queue.window = Window(min(messages, shared.messages), min(size, WINDOW_BYTES_MAX))


class Relief:
    """The remaining work of paging out: the addresses that page, and the queues of one of them.

    A queue without consumers keeps nothing, one with consumers keeps what they take next.
    """

    __slots__ = ("_addresses", "_keeps", "_queues")

    def __init__(self) -> None:
        self._addresses: deque[Address] = deque()
        self._queues: deque[Queue] = deque()
        # How many messages, and of how many bytes, the queues with consumers keep.
        self._keeps = (0, 0)

    @property
    def is_left(self) -> bool:
        """Whether `go_on` has something to do."""
        return bool(self._addresses or self._queues)

    def begin(self, state: State) -> None:
        """Begin with all addresses that page."""
        self._addresses = deque(each for each in state.addresses.values() if each.paging)
        self._queues.clear()

    def go_on(self, state: State, sizes: Sizes, budget: Budget) -> int:
        """Do a slice; return how many entries left memory."""
        store = state.store
        evicted = looked = 0
        while store is not None and self.is_left:
            if not self._queues:
                self._begin_address(state, budget)
                continue
            queue = self._queues[0]
            most = max(budget.left, EVICT_LEAST)
            count = self._relieve(state, queue, store.indexed_lsn, most)
            if count:
                sizes.count(queue)
            if count < most:
                self._queues.popleft()
            evicted += count
            looked += 1
            budget.spent += count + (not looked & ((1 << LOOK_SHIFT) - 1))
            if budget.is_spent:
                break
        return evicted

    def _begin_address(self, state: State, budget: Budget) -> None:
        address = self._addresses.popleft()
        if address.paging:
            self._queues.extend(address.queues())
            budget.spent += 1 + (len(self._queues) >> 2 * LOOK_SHIFT)
            messages, size = state.settings.resolve(address.name).kept_at_head()
            self._keeps = messages, min(size, 2 * state.window.bytes)

    def _relieve(self, state: State, queue: Queue, indexed_lsn: int, most: int) -> int:
        if not (queue.entries and queue.address.paging and queue.id in state.queues):
            return 0
        messages, size = self._keeps if queue.consumers else (0, 0)
        return page_out(queue, indexed_lsn, messages, size, most)


def page_out(
    queue: Queue, indexed_lsn: int, keep_messages: int, keep_bytes: int, most: int = ALL
) -> int:
    """Move entries of a queue beyond a window to the store, up to `most`; return how many entries.

    The window is about `keep_messages`, or fewer if they weigh more than `keep_bytes`. The store
    must be at `indexed_lsn` or later.
    """
    before = queue.paged_count
    if queue.recalled_lsn > indexed_lsn:
        # Recalled entries that are not indexed would stay behind in the paged range, for good.
        return 0
    keep = _window(queue, keep_messages, keep_bytes)
    for number in range(PRIORITIES - 1, -1, -1):
        level = queue.levels[number]
        if level is None:
            continue
        _page_out_level(queue, level, indexed_lsn, keep, most - (queue.paged_count - before))
        keep = max(0, keep - len(level.head))
        if queue.paged_count - before >= most:
            break
    for level in queue.levels[PRIORITIES:LEVELS]:
        if level is not None and queue.paged_count - before < most:
            # All of it: no consumer takes from this level.
            _page_out_level(queue, level, indexed_lsn, 0, most - (queue.paged_count - before))
    return queue.paged_count - before


def _page_out_level(queue: Queue, level: Level, indexed_lsn: int, keep: int, most: int) -> None:
    if len(level.head) > keep:
        queue.count_out(level.shorten_head(indexed_lsn, keep, most))
    if level.paged is not None and len(level.end):
        queue.count_out(level.shorten_tail(indexed_lsn, most))


def _window(queue: Queue, keep_messages: int, keep_bytes: int) -> int:
    """Return how many messages of the queue's average size fit in the window."""
    count = queue.message_count
    if count == 0 or keep_bytes <= 0:
        return 0 if keep_bytes <= 0 else keep_messages
    return min(keep_messages, keep_bytes * count // max(queue.bytes, 1) + 1)
