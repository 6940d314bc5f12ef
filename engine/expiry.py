"""Deciding that a message's time has passed, at delivery and by a scan over what is due.

How it then leaves is `engine.departing`. A queue of the target address itself is exempt, else a
message could go round for ever; what is held is left to `engine.holding`.
"""

from collections import deque
from collections.abc import Iterator
from heapq import heappop, heappush
from typing import Final

from daybook.engine.core import Core
from daybook.engine.departing import expire, expiry_address
from daybook.engine.message import IN_FLIGHT, READY, Entry
from daybook.engine.queues import ContentError, Due, Queue
from daybook.engine.state import State
from daybook.engine.unreadable import let_rest

DUE_AT_A_TIME: Final = 1000
"""How much of what is due is read from the store at once."""
EXPIRE_UNITS: Final = 4
"""What taking an entry out costs beyond looking at it, in units of the budget."""


def is_expired(core: Core, queue: Queue, entry: Entry) -> bool:
    """Say whether an entry may no longer be delivered."""
    expires = entry.message.expires
    if not 0 < expires * 1000 <= core.now:
        return False
    return expiry_address(core, queue, entry) != queue.address.name


def expire_due(core: Core, limit: int) -> bool:
    """Expire ready entries whose time has passed, at most `limit`; return whether some are left.

    Some are also left when others are to have their turn.
    """
    unread: list[Due] = []
    try:
        return _expire_due(core, limit, unread)
    finally:
        # They are given again by a later scan.
        for item in unread:
            heappush(core.state.expiring, item)


def _expire_due(core: Core, limit: int, unread: list[Due]) -> bool:
    """The same; adds to `unread` what cannot be moved because its content cannot be read."""
    expired = 0
    for item in _due(core):
        core.budget.spent += 1
        if _expire_one(core, item, unread):
            core.budget.spent += EXPIRE_UNITS
            expired += 1
        if expired == limit or core.budget.is_spent:
            return True
    return False


def _expire_one(core: Core, item: Due, unread: list[Due]) -> bool:
    """Expire an entry that is due; answers whether that was done."""
    _, message_id, queue_id = item
    queue = core.state.queues.get(queue_id)
    entry = queue.find(message_id) if queue is not None and not queue.deleting else None
    if queue is None or entry is None or entry.state == IN_FLIGHT or entry.held:
        # What is in flight or held is put on the heap again when it comes back.
        return False
    assert entry.state == READY
    if not is_expired(core, queue, entry):
        return False
    try:
        expire(core, queue, entry)
    except ContentError as error:
        let_rest(core, queue, error)
        unread.append(item)
        return False
    return True


def _due(core: Core) -> Iterator[Due]:
    """Give what is due by time and age: what is resident from the heap, the rest from the store.

    What was given is not given again, unless it comes back.
    """
    state = core.state
    expiring = state.expiring
    now_ms = core.now // 1000
    stored = _stored_due(state, now_ms)
    was_full = len(stored) == DUE_AT_A_TIME
    while True:
        from_heap = expiring[0] if expiring and expiring[0][0] <= now_ms else None
        if stored and (from_heap is None or stored[0] <= from_heap):
            item = stored.popleft()
        elif from_heap is not None:
            item = heappop(expiring)
        else:
            return
        # Of what came from the heap too: the store will have it later.
        state.due_after = max(state.due_after, item)
        if was_full and not stored:
            stored = _stored_due(state, now_ms)
            was_full = len(stored) == DUE_AT_A_TIME
        yield item


def _stored_due(state: State, now_ms: int) -> deque[Due]:
    if state.store is None:
        return deque()
    return deque(state.store.due(state.due_after, now_ms, DUE_AT_A_TIME))
