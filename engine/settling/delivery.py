"""Handing an entry to a consumer: makes one delivery."""

from daybook.engine.core.core import DELIVERY_COUNT_MAX, Core
from daybook.engine.effects import REDELIVERED, RETAINED
from daybook.engine.facts.events import PERSISTENT
from daybook.engine.facts.reasons import AUTOMATIC
from daybook.engine.messages.annotations import annotated
from daybook.engine.messages.content import codec_of
from daybook.engine.messages.message import Message
from daybook.engine.queues.consumer import Connection, Consumer
from daybook.engine.queues.entry import Entry


def can_take(consumer: Consumer) -> bool:
    """Whether a consumer has credit, and its connection has room and not too much in flight."""
    connection = consumer.connection
    return (
        (
            consumer.credit_messages > 0
            or consumer.credit_bytes > 0
            or (consumer.bundle is not None and consumer.bundle.can_spend(consumer))
        )
        and connection.room > 0
        and not connection.sated
    )


def limit_unacked(core: Core, connection: Connection, limit: int) -> None:
    """Set how much a connection may have in flight."""
    connection.unacked_max = limit
    was_sated = connection.sated
    connection.sated = connection.unacked_bytes >= limit
    if was_sated and not connection.sated:
        touch_queues_of(core, connection)


def wake(core: Core, connection: Connection) -> None:
    """Resume deliveries to a sated connection once enough of them were settled.

    A quarter of the limit must be free, so that waking it, which looks at all of its queues, is
    rare.
    """
    if connection.id in core.work.closing:
        return
    if 4 * connection.unacked_bytes <= 3 * connection.unacked_max:
        connection.sated = False
        touch_queues_of(core, connection)


def touch_queues_of(core: Core, connection: Connection) -> None:
    """Make dispatch look at every queue that the connection consumes from."""
    for consumer in connection.consumers.values():
        core.touch(consumer.queue)


def deliver(core: Core, entry: Entry, consumer: Consumer) -> None:
    """Hand an entry to a consumer, and settle it at once if the consumer does not acknowledge."""
    message = entry.message
    if not message.resident:
        core.fill(message)
    delivery_count = entry.delivery_count + 1
    # Older brokers did not record the flag, only the count.
    redelivered = delivery_count > 1 or entry.redelivered
    if redelivered and delivery_count > DELIVERY_COUNT_MAX:
        delivery_count = DELIVERY_COUNT_MAX
    lsn = core.emit_delivered(entry, consumer, delivery_count)
    consumer.handed += 1
    if consumer.credit_policy:
        consumer.credit_messages -= 1
        consumer.credit_bytes -= message.body_bytes if message.chunks else len(message.body)
    elif consumer.bundle is not None:
        consumer.bundle.spend(message.body_bytes)
    connection = consumer.connection
    if not consumer.acknowledges:
        lsn = core.emit_acknowledged(entry, consumer, AUTOMATIC)
    elif connection.unacked_bytes >= connection.unacked_max:
        connection.sated = True
    connection.room -= message.size
    if not message.flags & PERSISTENT:
        lsn = core.early_gate(message)
    elif consumer.acknowledges and not core.options.persist_delivery_count_before_delivery:
        lsn = message.id
    marks = REDELIVERED if redelivered else 0
    if entry.retained and consumer.tells_retained:
        marks |= RETAINED
    core.effects.append((consumer, message, delivery_count, marks, lsn))


def mark_last(core: Core, name: str) -> None:
    """Set a header to true in the delivery that was made last; the message stays as it is."""
    last = core.effects[-1]
    assert isinstance(last, tuple)
    consumer, message, count, marks, gate = last
    headers = codec_of(message.flags).marked(message.headers, name)
    marked = Message(
        message.id, message.address_id, message.priority, message.flags, message.expires, headers,
        message.body,
    )  # fmt: skip
    if message.chunks:
        marked.enlarge(message.chunks, message.body_bytes)
    marked = annotated(marked, message.annotations)
    core.effects[-1] = (consumer, marked, count, marks, gate)
