"""Handing an entry to a consumer: what one delivery is, whoever chose it."""

from engine import events
from engine.core import DELIVERY_COUNT_MAX, Core
from engine.events import PERSISTENT
from engine.message import Entry
from engine.state import Consumer


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
