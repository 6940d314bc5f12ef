"""Deciding that an entry is not delivered before a time, and that this time has come (ADR 39).

A scheduled entry is in a level of its own and delays no other entry. When it is due it is ready
again, in its place among those of its priority. Must never know why it had to wait.
"""

from itertools import islice
from typing import Final

from daybook.engine.commands import DeliverScheduled
from daybook.engine.core.core import Core
from daybook.engine.core.queue_names import find_queue
from daybook.engine.core.unreadable import REST_US, wait_to_be_due, waits_to_be_due
from daybook.engine.entries import dispatch_start
from daybook.engine.entries.arrivals import scanned
from daybook.engine.entries.last_values import become_value, still_there
from daybook.engine.entries.rings import note_returned
from daybook.engine.facts import details, events, reasons
from daybook.engine.queues.entry import READY, Entry
from daybook.engine.queues.queue import ContentError, Due, Queue
from daybook.engine.refusals import Code, Refusal

FIND_UNITS: Final = 5
"""What finding an entry in the store costs, in units of the budget."""
READY_UNITS: Final = 2
"""What making an entry ready costs."""


def schedule(core: Core, queue: Queue, entry: Entry, due: int, reason: int) -> int:
    """Set a ready entry aside until a time, in milliseconds since 1970.

    Return the LSN that must be durable before clients may learn of it.
    """
    encoded = events.encode_detail(details.ScheduledDetail(due=due))
    lsn = core.emit_of_entry(queue, entry, events.SCHEDULED, reason, detail=encoded)
    return lsn if entry.message.persistent else 0


def make_due(core: Core, queue: Queue, entry: Entry, reason: int) -> int:
    """Make a scheduled entry ready, as what its queue makes of it; return the LSN. Raises
    ContentError before anything is decided."""
    lsn = become_value(core, queue, entry, reason)
    note_returned(core, queue, entry)
    return lsn


def is_later(core: Core, due: int) -> bool:
    """Whether a time, in milliseconds since 1970, is to come."""
    return due * 1000 > core.now


def deliver_scheduled(core: Core, command: DeliverScheduled) -> int | Refusal:
    """Make scheduled messages ready before their time, a part at a time; 0 says that none was
    left."""
    queue = find_queue(core.state, command.queue)
    if isinstance(queue, Refusal):
        return queue
    through = command.through or core.next_lsn
    most = min(command.limit, max(core.budget.left, 1))
    old = (entry for entry in queue.scheduled() if entry.position <= through)
    chosen = list(islice(old, most))
    first = core.next_lsn
    for each in chosen:
        entry = still_there(queue, each)
        if entry is None:
            continue
        queue.make_resident(entry)
        try:
            make_due(core, queue, entry, reasons.ADMINISTRATION)
        except ContentError as error:
            if core.next_lsn > first:
                break
            return Refusal(Code.NOT_FOUND, f"a message of '{queue.name}' cannot be read: {error}")
    core.budget.spent += len(chosen)
    return core.next_lsn - 1 if chosen else 0


def deliver_due(core: Core, limit: int) -> bool:
    """Make scheduled entries that are due ready, at most `limit`; return whether some are left.

    Queues that begin to deliver because of the time do so. Some are also left when the budget is
    spent.
    """
    state = core.state
    now_ms = core.now // 1000
    if state.waiting:
        dispatch_start.begin_due(core)
    unread: list[Due] = []
    try:
        if _deliver_due(core, limit, now_ms, unread):
            return True
        state.wake_at = min(state.scheduled.next(state.store), dispatch_start.next_time(state))
        if unread:
            state.wake_at = min(state.wake_at, now_ms + REST_US // 1000)
        return False
    finally:
        for item in unread:
            state.scheduled.put_back(item)


def _deliver_due(core: Core, limit: int, now_ms: int, unread: list[Due]) -> bool:
    """Do the same; add to `unread` the timers of those that cannot be read."""
    delivered = 0
    state = core.state
    for due, message_id, queue_id in state.scheduled.due(state.store, now_ms):
        core.budget.spent += 1
        queue = scanned(core, queue_id)
        if queue is not None and message_id not in queue.entries:
            core.budget.spent += FIND_UNITS
        entry = queue.find(message_id) if queue is not None and not queue.deleting else None
        # It may have been removed since, or scheduled again; then it has a later timer, whose turn
        # comes in order.
        if queue is not None and entry is not None and entry.due == due:
            assert entry.state == READY
            if _make_due_if_read(core, queue, entry):
                delivered += 1
            else:
                unread.append((due, message_id, queue_id))
            core.budget.spent += READY_UNITS
        if delivered == limit or core.budget.is_spent:
            return True
    return False


def _make_due_if_read(core: Core, queue: Queue, entry: Entry) -> bool:
    """Make an entry ready, unless that needs its content, which cannot be read: then it stays where
    it is for a while. Return whether it is ready."""
    message = entry.message.id
    if waits_to_be_due(core, message):
        return False
    try:
        make_due(core, queue, entry, reasons.NO_REASON)
    except ContentError as error:
        wait_to_be_due(core, queue, message, error)
        return False
    core.work.unread_due.pop(message, None)
    return True
