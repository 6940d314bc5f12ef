"""Resuming deliveries: a message is in flight again to a client that has had it all the time.

A link that is resumed says what its client has done with deliveries whose end the broker did not
hear (AMQP 1.0, part 2, 2.6.13). By then they are back in their queue, perhaps after a restart.
Without this they would be delivered once more, although they were accepted. The protocol checks
that the link had the delivery. Rights, filters and owners may have changed since: so the message
must be one that this consumer might get anyway, and that was delivered before. Must never know a
link.
"""

from typing import Final

from daybook.engine.commands import Resume
from daybook.engine.core.core import DELIVERY_COUNT_MAX, Core
from daybook.engine.facts import events, reasons
from daybook.engine.facts.events import GROUPED
from daybook.engine.facts.settlements import BY_GRANT
from daybook.engine.queues.consumer import Consumer
from daybook.engine.queues.entry import READY, Entry
from daybook.engine.queues.queue import ContentError, Queue
from daybook.engine.refusals import Code, Refusal
from daybook.engine.routing.expiry import is_expired

RESUME_UNITS: Final = 2
"""The cost of resuming a delivery, in units of the budget."""


def resume(core: Core, command: Resume) -> int | Refusal:
    """Put a message in flight to a consumer again; return the LSN of the event."""
    core.budget.spent += RESUME_UNITS
    consumer = core.state.consumers.get(command.consumer)
    if consumer is None or consumer.detaching:
        return Refusal(Code.NOT_FOUND, f"there is no consumer {command.consumer}")
    entry = consumer.queue.find(command.message)
    if entry is None or not _may_resume(core, consumer, entry):
        return Refusal(
            Code.NOT_FOUND,
            f"no delivery of message {command.message} can be resumed; it is delivered again, if it"
            " is still there",
        )
    core.touch(consumer.queue)
    queue, message = consumer.queue, entry.message
    return core.emit(
        events.row(
            events.DELIVERED,
            reason=reasons.RESUMED,
            delivery_count=min(entry.delivery_count + 1, DELIVERY_COUNT_MAX),
            address=queue.address.id, queue=queue.id, priority=message.priority,
            flags=message.flags, message=message.id, consumer=consumer.id,
            connection=consumer.connection_id, time=core.now,
        )
    )  # fmt: skip


def _may_resume(core: Core, consumer: Consumer, entry: Entry) -> bool:
    """Whether a message was delivered before, and the consumer may get it now."""
    queue, message = consumer.queue, entry.message
    is_ready = entry.state == READY and entry.level == message.priority
    if not (is_ready and was_delivered(entry) and _takes(consumer) and _gives(queue, consumer)):
        return False
    if message.flags & GROUPED or (message.expires and is_expired(core, queue, entry)):
        return False
    return consumer.matcher is None or _passes(core, consumer, entry)


def was_delivered(entry: Entry) -> bool:
    """Whether somebody may have had a message before."""
    return entry.redelivered or entry.delivery_count > 0


def _takes(consumer: Consumer) -> bool:
    """Whether a consumer settles what it gets, and counts its credit itself."""
    is_alone = consumer.bundle is None and not consumer.browses
    return is_alone and consumer.acknowledges and consumer.credit_policy == BY_GRANT


def _gives(queue: Queue, consumer: Consumer) -> bool:
    """Whether a queue delivers to any of its consumers, and to this one."""
    definition = queue.definition
    is_open = not (queue.is_paused or queue.waits_since or queue.deleting)
    is_held = queue.holder is not consumer and (queue.holder is not None or definition.exclusive)
    return is_open and not is_held and not definition.non_destructive


def _passes(core: Core, consumer: Consumer, entry: Entry) -> bool:
    assert consumer.matcher is not None
    try:
        if not entry.message.resident:
            core.fill(entry.message)
    except ContentError:
        return False
    return core.passes(consumer.matcher, entry.message)
