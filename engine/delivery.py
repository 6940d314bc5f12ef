"""Deciding who gets what: ready entries meet consumers with credit.

Strict priority between levels, first in first out within; round robin between the consumers that
have credit (messages or bytes: one positive is enough, as in Apollo) and room in their connection.
A delivery is decided, applied and counted here, before any byte of it exists.
"""

from engine import events
from engine.core import DELIVERY_COUNT_MAX, Core
from engine.events import PERSISTENT
from engine.expiry import expire, is_expired
from engine.limits import review, review_all
from engine.message import Entry
from engine.queues import Queue
from engine.state import Consumer


def dispatch(core: Core) -> None:
    """Look at every queue touched, and at those that this touches in turn; then at sizes."""
    sizes = core.sizes
    while core.touched:
        touched = core.touched
        core.touched = {}
        for queue in touched.values():
            if queue.consumers and queue.ready_count and not queue.paused:
                dispatch_queue(core, queue)
            sizes.count(queue)
            address = queue.address
            if address.guarded or address.paging:
                core.resized[address.id] = address
    if core.review_due:
        core.review_due = False
        core.resized.clear()
        review_all(core)
        return
    resized = core.resized
    core.resized = {}
    review(core, resized.values())


def dispatch_queue(core: Core, queue: Queue) -> None:
    """Deliver from a queue until nothing is ready or nobody can take it."""
    consumers = queue.consumers
    for consumer in consumers:
        if consumer.filter:
            _dispatch_selectively(core, queue)
            return
    count = len(consumers)
    position = queue.next_consumer % count
    unable = 0
    while unable < count:
        consumer = consumers[position]
        position += 1
        if position == count:
            position = 0
        if not can_take(consumer):
            unable += 1
            continue
        entry = queue.head()
        if entry is None:
            # Nobody was served in this step: the same consumer is next when something comes.
            position = (position - 1) % count
            break
        unable = 0
        if entry.message.expires and is_expired(core, queue, entry):
            expire(core, queue, entry)
            position = (position - 1) % count
            continue
        deliver(core, entry, consumer)
    queue.next_consumer = position


def _dispatch_selectively(core: Core, queue: Queue) -> None:
    """The same when consumers have filters: an entry that nobody wants is passed over."""
    for entry in queue.ready():
        if entry.message.expires and is_expired(core, queue, entry):
            queue.make_resident(entry)
            expire(core, queue, entry)
            continue
        if not entry.message.resident:
            core.fill(entry.message)
        chosen = _next_taker(queue, entry)
        if chosen is not None:
            queue.make_resident(entry)
            deliver(core, entry, chosen)
        elif not any(can_take(consumer) for consumer in queue.consumers):
            return


def _next_taker(queue: Queue, entry: Entry) -> Consumer | None:
    count = len(queue.consumers)
    for step in range(count):
        position = (queue.next_consumer + step) % count
        consumer = queue.consumers[position]
        wants = consumer.matcher is None or consumer.matcher.matches(entry.message)
        if wants and can_take(consumer):
            queue.next_consumer = (position + 1) % count
            return consumer
    return None


def can_take(consumer: Consumer) -> bool:
    """Say whether a consumer has credit and its connection room."""
    return (
        consumer.credit_messages > 0 or consumer.credit_bytes > 0
    ) and consumer.connection.room > 0


def deliver(core: Core, entry: Entry, consumer: Consumer) -> None:
    """Hand an entry to a consumer, and settle it at once if the consumer does not."""
    message = entry.message
    if not message.resident:
        core.fill(message)
    delivery_count = entry.delivery_count + 1
    if delivery_count > DELIVERY_COUNT_MAX:
        delivery_count = DELIVERY_COUNT_MAX
    lsn = core.emit_delivery(events.DELIVERED, 0, delivery_count, entry, consumer)
    size = message.size
    if consumer.acknowledges:
        consumer.credit_messages -= 1
        consumer.credit_bytes -= size
    else:
        lsn = core.emit_delivery(
            events.ACKNOWLEDGED, events.AUTOMATIC, delivery_count, entry, consumer
        )
    consumer.connection.room -= size
    if not message.flags & PERSISTENT:
        lsn = 0
    elif consumer.acknowledges and not core.options.persist_delivery_count_before_delivery:
        lsn = message.id
    core.effects.append((consumer, message, delivery_count, lsn))
