"""What consumers were shown and have not settled: volatile, and counted in memory (ADR 44).

Must never know how messages are chosen, or how a showing is recorded.
"""

from itertools import islice
from typing import Final

from daybook.engine.core.core import Core
from daybook.engine.messages.message import message_without_content
from daybook.engine.queues.consumer import Consumer
from daybook.engine.queues.entry import IN_FLIGHT, NONE_SHOWN, SHOWN_BYTES, Entry

SHOWN_LEVEL: Final = -1
"""The level of what a consumer was shown, which is in no level of its queue."""


def keep_shown(consumer: Consumer, entry: Entry, body_bytes: int, time: int) -> None:
    """Remember that a consumer has to settle a message, which it got at a time.

    Without its content, only with the length of the body, as a large message in flight.
    """
    message = entry.message
    bare = message_without_content(
        message.id, message.address_id, message.priority, message.flags, message.expires, 0
    )
    bare.enlarge((message.id,), body_bytes)
    showing = Entry(bare)
    showing.level = SHOWN_LEVEL
    showing.state = IN_FLIGHT
    showing.delivery_count = 1
    showing.delivered_at = time
    showing.consumer = consumer
    if consumer.shown is NONE_SHOWN:
        consumer.shown = {}
    consumer.shown[message.id] = showing
    if consumer.index is not None:
        consumer.index.add(consumer, showing)
    consumer.connection.unacked_bytes += SHOWN_BYTES
    consumer.connection.shown_bytes += SHOWN_BYTES


def drop_shown(consumer: Consumer, entry: Entry) -> None:
    """Forget a message that a consumer was shown."""
    message_id = entry.message.id
    del consumer.shown[message_id]
    consumer.attempted.discard(message_id)
    consumer.connection.unacked_bytes -= SHOWN_BYTES
    consumer.connection.shown_bytes -= SHOWN_BYTES
    if consumer.index is not None:
        consumer.index.remove(consumer, message_id)


def forget_shown(core: Core, consumer: Consumer, least: int) -> bool:
    """Forget what a consumer that is being detached was shown; return whether that is done.

    At least some of it is; the rest when the budget allows it.
    """
    most = max(core.budget.left, least)
    chosen = list(islice(consumer.shown.values(), most))
    core.budget.spent += len(chosen)
    for entry in chosen:
        drop_shown(consumer, entry)
    return not consumer.shown
