"""Deciding which messages leave a ring queue: one that holds a fixed number of ready messages.

When a message arrives and the ring is full, the message at the head leaves. When messages return
and the ring is full, the first of these leave. Messages in flight, scheduled or held do not count:
they are not in the ring. A ring that becomes smaller while the broker runs does not shrink at once:
each message that arrives pushes out at most one (seed on addresses, sections 4.12.1 and 4.12.2).

Decided after the dispatch of a queue, so that a waiting consumer gets what it can take before
anything is evicted. Must never know why a message returned.
"""

from typing import Final

from daybook.engine.core.core import Core
from daybook.engine.facts import events
from daybook.engine.facts.reasons import RING_EVICTED
from daybook.engine.messages.message import PRIORITIES
from daybook.engine.queues.entry import READY, Entry
from daybook.engine.queues.queue import NONE_RETURNED, Queue
from daybook.engine.queues.window import Window

ONE: Final = Window(1, 1 << 40, with_content=False)
"""A message that is only evicted comes into memory alone, and without content."""
EVICT_LEAST: Final = 50
"""How many messages are evicted at once, whatever budget is left."""


def are_there(core: Core) -> bool:
    """Whether there may be ring queues."""
    return bool(core.state.rings) or core.state.settings.has_rings


def size_of(core: Core, queue: Queue) -> int:
    """Return how many ready messages a queue may hold, less than 0 for any number."""
    size = queue.definition.ring_size
    return size if size >= 0 else core.state.settings.resolve(queue.address.name).default_ring_size


def note_returned(core: Core, queue: Queue, entry: Entry) -> None:
    """Note that an entry is ready again, and may have no place any more."""
    if are_there(core) and size_of(core, queue) >= 0:
        if queue.returned is NONE_RETURNED:
            queue.returned = []
        queue.returned.append(entry.message.id)


def trim(core: Core, queue: Queue) -> None:
    """Evict what is too much after messages arrived and returned.

    If the budget is spent before that, the queue is then in `core.later`.
    """
    size = size_of(core, queue)
    if size < 0 or queue.ready_count <= size or queue.deleting:
        queue.returned = NONE_RETURNED
        queue.trimmed = queue.added
        return
    left = max(core.budget.left, EVICT_LEAST)
    if queue.returned:
        left -= _evict_returned(core, queue, size, left)
    window, queue.window = queue.window, ONE
    while queue.ready_count > size and queue.trimmed < queue.added and left > 0:
        entry = queue.head()
        if entry is None:
            break
        _evict(core, queue, entry)
        queue.trimmed += 1
        left -= 1
    queue.window = window
    if left > 0:
        queue.trimmed = queue.added
    else:
        core.later[queue.id] = queue


def _evict_returned(core: Core, queue: Queue, size: int, most: int) -> int:
    """Evict the first of the messages that returned, as far as there are too many; return how
    many."""
    evicted = 0
    rest = sorted(set(queue.returned), reverse=True)
    while rest and queue.ready_count > size and evicted < most:
        entry = queue.find(rest.pop())
        if entry is not None and entry.state == READY and entry.level < PRIORITIES:
            _evict(core, queue, entry)
            evicted += 1
    queue.returned = rest if queue.ready_count > size else NONE_RETURNED
    return evicted


def _evict(core: Core, queue: Queue, entry: Entry) -> None:
    message = entry.message
    core.emit(
        (
            events.REMOVED, RING_EVICTED, entry.delivery_count, queue.address.id, queue.id,
            message.priority, message.flags, message.id, 0, 0, 0, core.now,
        )
    )  # fmt: skip
    core.budget.spent += 1


def begin(core: Core, returning: dict[int, list[int]]) -> None:
    """Make the first dispatch of a broker trim all rings; by queue, the messages that its start
    returned."""
    rings = core.state.queues if core.state.settings.has_rings else core.state.rings
    for queue in rings.values():
        if size_of(core, queue) >= 0 and not queue.deleting:
            queue.trimmed = 0
            queue.returned = returning.get(queue.id, NONE_RETURNED)
            core.touch(queue)


def do_not_shrink(core: Core) -> None:
    """Keep what is in queues that became rings by the first settings that make rings."""
    for queue in core.state.queues.values():
        if queue.definition.ring_size < 0:
            queue.trimmed = queue.added
