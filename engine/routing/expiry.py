"""Deciding that a message's time has passed, at delivery and by a scan over due entries.

`engine.routing.departures` decides how the message then leaves. Messages in a queue of the target
address itself do not expire, or they could circulate without end; held messages are left to
`engine.settling.held_messages`.
"""

from daybook.engine.core.core import Core
from daybook.engine.core.unreadable import let_rest
from daybook.engine.entries.arrivals import scanned
from daybook.engine.queues.entry import IN_FLIGHT, READY, Entry
from daybook.engine.queues.queue import ContentError, Due, Queue
from daybook.engine.routing.departures import expire, expiry_address


def is_expired(core: Core, queue: Queue, entry: Entry) -> bool:
    """Say whether an entry may no longer be delivered."""
    if not entry.message.is_expired(core.now):
        return False
    return expiry_address(core, queue, entry) != (queue.definition.keeps or queue.address.name)


def expire_due(core: Core, limit: int) -> bool:
    """Expire ready entries whose time has passed, at most `limit`; return whether some are left.

    Some are also left when the budget is spent.
    """
    unread: list[Due] = []
    try:
        return _expire_due(core, limit, unread)
    finally:
        # A later scan returns them again.
        for item in unread:
            core.state.expiring.put_back(item)


def _expire_due(core: Core, limit: int, unread: list[Due]) -> bool:
    """Do the same; add to `unread` the entries that cannot be moved because their content cannot be
    read."""
    expired = 0
    for item in core.state.expiring.due(core.state.store, core.now // 1000):
        core.budget.spent += 1
        if _expire_one(core, item, unread):
            expired += 1
        if expired == limit or core.budget.is_spent:
            return True
    return False


def _expire_one(core: Core, item: Due, unread: list[Due]) -> bool:
    """Expire an entry that is due; return whether that was done."""
    _, message_id, queue_id = item
    queue = scanned(core, queue_id)
    entry = queue.find(message_id) if queue is not None and not queue.deleting else None
    if queue is None or entry is None or entry.state == IN_FLIGHT or entry.held:
        # A message in flight or held returns to the heap when it becomes ready again.
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
