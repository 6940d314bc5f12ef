"""Deciding what leaves memory: residency never shows in what is delivered (ADR 7).

`page_out` is called when the index moved. It takes entries of queues that page from the left of
their tails, and from the right of their heads beyond a window, and leaves them to the store. Must
never know what the store is.
"""

from collections import deque
from typing import Final

from daybook.engine.events import BODY_OMITTED
from daybook.engine.gap import Gap
from daybook.engine.message import HELD_LEVEL, PRIORITIES, READY, Entry
from daybook.engine.queues import Queue, Window
from daybook.engine.state import Address, State

ALL: Final = (1 << 63) - 1
WINDOW_BYTES_MIN: Final = 32 * 1024
WINDOW_BYTES_MAX: Final = 1024 * 1024
WINDOWS_BYTES: Final = 32 * 1024 * 1024
"""What the windows of all queues with consumers share; each has the least at any rate."""


def share_windows(state: State) -> None:
    """Size what comes into memory at a time by how many queues can ask for it."""
    consumed = max(1, min(len(state.consumers), len(state.queues)))
    state.window.bytes = max(WINDOW_BYTES_MIN, min(WINDOW_BYTES_MAX, WINDOWS_BYTES // consumed))


def set_window(state: State, queue: Queue) -> None:
    """Give a queue the window of all, or a smaller one if its address says so."""
    messages, size = state.settings.resolve(queue.address.name).read_at_a_time()
    shared = state.window
    if messages >= shared.messages and size >= WINDOW_BYTES_MAX:
        queue.window = shared
    else:
        queue.window = Window(min(messages, shared.messages), min(size, WINDOW_BYTES_MAX))


def relieve(state: State, address: Address, indexed_lsn: int, most: int) -> int:
    """Page out of an address that pages, up to about `most` entries; return how many left memory.

    A queue that nobody consumes from keeps nothing, one with consumers what they take next.
    """
    evicted = 0
    messages, size = state.settings.resolve(address.name).kept_at_head()
    size = min(size, 2 * state.window.bytes)
    for queue in (*address.anycast, *address.multicast):
        if queue.entries and queue.consumers:
            evicted += page_out(queue, indexed_lsn, messages, size, most - evicted)
        elif queue.entries:
            evicted += page_out(queue, indexed_lsn, 0, 0, most - evicted)
        if evicted >= most:
            break
    return evicted


def page_out(
    queue: Queue, indexed_lsn: int, keep_messages: int, keep_bytes: int, most: int = ALL
) -> int:
    """Leave to the store what a queue holds beyond a window, up to `most`; return how many entries.

    The window is about `keep_messages`, or fewer if they weigh more than `keep_bytes`. The store
    must answer for `indexed_lsn` or later.
    """
    if queue.returned:
        queue.order_returned()
    before = queue.gap_count
    keep = _window(queue, keep_messages, keep_bytes)
    for priority in range(PRIORITIES - 1, -1, -1):
        level = queue.levels[priority]
        if len(level) > keep:
            left = most - (queue.gap_count - before)
            _shorten_head(queue, priority, indexed_lsn, keep, left)
        keep = max(0, keep - len(queue.levels[priority]))
        gap = queue.gap(priority)
        if gap is not None:
            _shorten_tail(queue, priority, gap, indexed_lsn, before + most)
        if queue.gap_count - before >= most:
            break
    if queue.held_count and queue.gap_count - before < most:
        _page_out_held(queue, indexed_lsn, before + most)
    return queue.gap_count - before


def _page_out_held(queue: Queue, indexed_lsn: int, gap_count_max: int) -> None:
    """Leave to the store all that is held, up to a count of all gaps: nobody takes it."""
    if queue.levels[HELD_LEVEL]:
        _shorten_head(queue, HELD_LEVEL, indexed_lsn, 0, gap_count_max - queue.gap_count)
    gap = queue.gap(HELD_LEVEL)
    if gap is not None:
        _shorten_tail(queue, HELD_LEVEL, gap, indexed_lsn, gap_count_max)


def _window(queue: Queue, keep_messages: int, keep_bytes: int) -> int:
    """How many messages of the queue's usual size make up the window."""
    count = queue.message_count
    if count == 0 or keep_bytes <= 0:
        return 0 if keep_bytes <= 0 else keep_messages
    return min(keep_messages, keep_bytes * count // max(queue.bytes, 1) + 1)


def is_evictable(entry: Entry, indexed_lsn: int) -> bool:
    """Say whether the store can give back exactly this entry."""
    message = entry.message
    return (
        entry.state == READY
        and message.id <= indexed_lsn
        and entry.changed <= indexed_lsn
        and not message.flags & BODY_OMITTED
    )


def _evict(queue: Queue, gap: Gap, entry: Entry) -> None:
    del queue.entries[entry.message.id]
    entry.linked = False
    gap.add(entry.message)
    queue.weight -= entry.message.weight
    queue.gap_count += 1


def _shorten_tail(
    queue: Queue, priority: int, gap: Gap, indexed_lsn: int, gap_count_max: int
) -> None:
    """Let the gap grow over what is indexed at the front of the tail, up to a count of all gaps."""
    tail = queue.tails[priority]
    while tail and queue.gap_count < gap_count_max:
        entry = tail[0]
        number = queue.place_of(entry) if entry.state == READY else 0
        if number > indexed_lsn:
            return
        tail.popleft()
        if entry.state != READY:
            queue.unlink(entry)
            continue
        gap.until = max(gap.until, number)
        if is_evictable(entry, indexed_lsn):
            _evict(queue, gap, entry)
        else:
            gap.islands.append(entry)


def _shorten_head(queue: Queue, priority: int, indexed_lsn: int, keep: int, most: int) -> None:
    """Let the gap grow over the end of the head, or begin one there, by `most` entries."""
    level = queue.levels[priority]
    gap = queue.gap(priority)
    unindexed: deque[Entry] = deque()
    if gap is None:
        if queue.place_of(level[keep]) > indexed_lsn:
            return
        # What comes behind them would be in the gap, and is not in the store yet.
        while len(level) > keep and queue.place_of(level[-1]) > indexed_lsn:
            unindexed.appendleft(level.pop())
    keep = max(keep, len(level) - most)
    taken: deque[Entry] = deque()
    while len(level) > keep:
        entry = level.pop()
        if entry.state == READY:
            taken.appendleft(entry)
        else:
            queue.unlink(entry)
    # What cannot leave and stands before all that can stays where it is.
    while taken and not is_evictable(taken[0], indexed_lsn):
        level.append(taken.popleft())
    if not taken:
        level.extend(unindexed)
        return
    first = taken[0].message.id
    last = queue.place_of(taken[-1])
    if gap is None:
        gap = queue.open_gap(priority, first - 1, last)
        queue.tails[priority].extend(unindexed)
    gap.after = first - 1
    for entry in taken:
        if is_evictable(entry, indexed_lsn):
            _evict(queue, gap, entry)
        else:
            gap.islands.append(entry)
