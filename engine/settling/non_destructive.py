"""Showing the messages of a non-destructive queue to its consumers (ADR 44).

Every consumer reads every message once, in order, from the front on, and takes none: an entry stays
ready until it expires, is purged or replaced. Each consumer has a cursor in each level
(`Consumer.passed`), so what it costs does not depend on how much it has read. Entries that become
ready behind a cursor, which were scheduled or held, are remembered one by one (`Consumer.again`).

The record of what a consumer was shown is volatile, as credit is: it does not belong to the logical
state, and ends with the consumer. `Shown` and `Seen` record it for history, and output waits for
`Shown` as it does for `Delivered`. Must never know how other queues choose a consumer.
"""

from itertools import islice
from typing import Final

from daybook.engine.core.core import Core
from daybook.engine.effects import RETAINED
from daybook.engine.facts import events
from daybook.engine.facts.events import PERSISTENT
from daybook.engine.messages.message import PRIORITIES
from daybook.engine.queues.consumer import Consumer, consumer_of, consumers_of
from daybook.engine.queues.entry import NOTHING_PASSED, READY, Entry
from daybook.engine.queues.level_scan import behind
from daybook.engine.queues.queue import Queue
from daybook.engine.routing.departures import expire
from daybook.engine.routing.expiry import is_expired
from daybook.engine.settling.delivery import can_take
from daybook.engine.topology.shown import drop_shown, keep_shown

SHOW_UNITS: Final = 2
"""What showing a message costs with its encoding, in units of the budget."""
CONSUMERS_SHIFT: Final = 4
"""Asking consumers whether they have read everything costs one unit for 2 to this power."""
SHOWN_AT_A_TIME: Final = 100
"""How many messages one consumer is shown before the next one has its turn."""


def show_to_all(core: Core, queue: Queue) -> None:
    """Show the messages of a queue to every consumer that can take more.

    If the budget is spent before that, the queue is then in `core.later`.
    """
    is_moving = True
    while is_moving:
        is_moving = False
        count = len(queue.consumers)
        core.budget.spent += count >> CONSUMERS_SHIFT
        first = queue.next_consumer
        for step in range(count):
            place = (first + step) % count
            consumer = consumers_of(queue)[place]
            if queue.holder is not None and consumer is not queue.holder:
                continue
            if consumer.caught_up == queue.newest or not can_take(consumer):
                continue
            if is_moving and core.budget.is_spent:
                queue.next_consumer = place
                core.later[queue.id] = queue
                return
            is_moving = _show_next(core, queue, consumer) or is_moving
        if is_moving and core.budget.is_spent:
            core.later[queue.id] = queue
            return


def _show_next(core: Core, queue: Queue, consumer: Consumer) -> bool:
    """Show a consumer its next messages, at most SHOWN_AT_A_TIME; return whether there were any.

    So many whatever comes from the store at a time: the order among consumers must not depend on
    what is in memory.
    """
    left = SHOWN_AT_A_TIME
    while left and can_take(consumer):
        priority, entries = _next(queue, consumer)
        if not entries:
            consumer.caught_up = queue.newest
            break
        looked_at = _show_some(core, queue, consumer, entries[:left], priority)
        left -= looked_at
        if core.budget.is_spent:
            break
    return left < SHOWN_AT_A_TIME


def _next(queue: Queue, consumer: Consumer) -> tuple[int, list[Entry]]:
    """Return the next entries for a consumer, all of one priority, which is returned, too."""
    for priority in range(PRIORITIES - 1, -1, -1):
        if consumer.again:
            entries = again_of(queue, consumer, priority)
            if entries:
                return priority, entries
        if queue.levels[priority] is not None:
            entries = behind(queue, priority, consumer.passed.get(priority, NOTHING_PASSED))
            if entries:
                return priority, entries
    return 0, []


def again_of(queue: Queue, consumer: Consumer, priority: int) -> list[Entry]:
    """Return entries of a priority that became ready behind the cursor of a consumer."""
    passed = consumer.passed.get(priority, NOTHING_PASSED)
    found = []
    for message_id in [each for each, level in consumer.again.items() if level == priority]:
        entry = queue.find(message_id)
        if entry is None or entry.state != READY or entry.level != priority:
            # It left, or is set aside again.
            del consumer.again[message_id]
        elif entry.position > passed:
            # The cursor comes to it.
            del consumer.again[message_id]
        else:
            found.append(entry)
    return found


def _show_some(
    core: Core, queue: Queue, consumer: Consumer, entries: list[Entry], priority: int
) -> int:
    """Show entries in order, as many as the consumer can take and the budget allows; at least
    one. Return how many were looked at."""
    most = max(1, core.budget.left // SHOW_UNITS)
    looked_at = 0
    for entry in islice(entries, most):
        if not can_take(consumer):
            break
        looked_at += 1
        core.budget.spent += SHOW_UNITS
        if entry.message.expires and is_expired(core, queue, entry):
            queue.make_resident(entry)
            expire(core, queue, entry)
            if queue.definition.keyed_by:
                # A divert may have brought back a copy that replaced others of these.
                break
        else:
            if not entry.message.resident:
                core.fill(entry.message)
            is_wanted = consumer.matcher is None or core.passes(consumer.matcher, entry.message)
            if is_wanted and entry.message.id not in consumer.shown:
                if queue.definition.exclusive and queue.holder is None:
                    queue.holder = consumer
                show(core, queue, entry, consumer)
        if consumer.again:
            consumer.again.pop(entry.message.id, None)
        if entry.position > consumer.passed.get(priority, NOTHING_PASSED):
            consumer.passed[priority] = entry.position
        if core.budget.is_spent:
            break
    return looked_at


def show(core: Core, queue: Queue, entry: Entry, consumer: Consumer) -> None:
    """Hand a message to a consumer; the entry stays where it is."""
    message = entry.message
    lsn = _emit(core, queue, events.SHOWN, 0, entry, consumer)
    consumer.handed += 1
    body_bytes = message.body_bytes if message.chunks else len(message.body)
    if consumer.credit_policy:
        consumer.credit_messages -= 1
        consumer.credit_bytes -= body_bytes
    elif consumer.bundle is not None:
        consumer.bundle.spend(body_bytes)
    connection = consumer.connection
    if consumer.acknowledges:
        keep_shown(consumer, entry, body_bytes, core.now)
        if connection.unacked_bytes >= connection.unacked_max:
            connection.sated = True
    connection.room -= message.size
    if not message.flags & PERSISTENT:
        lsn = core.early_gate(message)
    elif not core.options.persist_delivery_count_before_delivery:
        lsn = message.id
    is_retained = entry.retained and consumer.tells_retained
    core.effects.append((consumer, message, 1, RETAINED if is_retained else 0, lsn))


def end_showing(core: Core, entry: Entry, reason: int) -> int:
    """Record how a consumer settled what it was shown; return the LSN of that."""
    consumer = consumer_of(entry)
    assert consumer is not None
    lsn = _emit(core, consumer.queue, events.SEEN, reason, entry, consumer)
    drop_shown(consumer, entry)
    return lsn


def _emit(
    core: Core, queue: Queue, kind: int, reason: int, entry: Entry, consumer: Consumer
) -> int:
    message = entry.message
    return core.emit(
        (
            kind, reason, 0, queue.address.id, queue.id, message.priority, message.flags,
            message.id, consumer.id, consumer.connection_id, 0, core.now,
        )
    )  # fmt: skip
