"""Deciding that an entry is not delivered before a time, and that this time has come (ADR 39).

A scheduled entry is in a level of its own and delays no other entry. When it is due it is ready
again, in its place among those of its priority. Must never know why it had to wait.
"""

from daybook.engine import details, events, reasons
from daybook.engine.core import Core
from daybook.engine.last_values import become_value
from daybook.engine.message import READY, Entry
from daybook.engine.queues import Queue
from daybook.engine.rings import note_returned


def schedule(core: Core, queue: Queue, entry: Entry, delay: int, reason: int) -> int:
    """Set a ready entry aside for a number of milliseconds.

    Return the LSN that must be durable before clients may learn of it.
    """
    detail = details.ScheduledDetail(due=core.now // 1000 + delay)
    encoded = events.encode_detail(detail)
    lsn = core.emit_of_entry(queue, entry, events.SCHEDULED, reason, detail=encoded)
    return lsn if entry.message.persistent else 0


def make_due(core: Core, queue: Queue, entry: Entry, reason: int) -> int:
    """Make a scheduled entry ready, as what its queue makes of it; return the LSN."""
    lsn = become_value(core, queue, entry, reason)
    note_returned(core, queue, entry)
    return lsn


def deliver_due(core: Core, limit: int) -> bool:
    """Make scheduled entries that are due ready, at most `limit`; return whether some are left.

    Some are also left when the budget is spent.
    """
    state = core.state
    now_ms = core.now // 1000
    delivered = 0
    for _, message_id, queue_id in state.scheduled.due(state.store, now_ms):
        core.budget.spent += 1
        queue = state.queues.get(queue_id)
        entry = queue.find(message_id) if queue is not None and not queue.deleting else None
        # It may have been removed since, or scheduled again for later.
        if queue is not None and entry is not None and 0 < entry.due <= now_ms:
            assert entry.state == READY
            make_due(core, queue, entry, reasons.NO_REASON)
            delivered += 1
        if delivered == limit or core.budget.is_spent:
            return True
    state.wake_at = state.scheduled.next(state.store)
    return False
