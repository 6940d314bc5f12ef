"""The rules of deliveries: from which queue, what first, and to whom.

Must never know how deliveries end.
"""

from typing import Final

from daybook.engine.core.core import DELIVERY_COUNT_MAX
from daybook.engine.dispatch.resuming import was_delivered
from daybook.engine.facts import events, reasons
from daybook.engine.facts.events import (
    ADDRESS,
    CONNECTION,
    CONSUMER,
    DELIVERY_COUNT,
    FLAGS,
    GROUPED,
    LARGE,
    MESSAGE,
    OF_HEADERS,
    PERSISTENT,
    PRIORITY,
    QUEUE,
    REASON,
    Row,
)
from daybook.engine.messages.message import PRIORITIES
from daybook.engine.queues.consumer import Consumer
from daybook.engine.queues.entry import NOTHING_PASSED, READY, Entry
from daybook.engine.queues.level_scan import behind
from daybook.engine.queues.queue import Queue
from daybook.engine.routing.expiry import is_expired
from daybook.history.audit import rules
from daybook.history.audit.checks.ends import wrong_delivery
from daybook.history.audit.checks.message_groups import wrong_group
from daybook.history.audit.context import AuditContext, entry_of
from daybook.history.audit.registry import checks
from daybook.history.audit.rules import Wrong

FIXED_FLAGS: Final = PERSISTENT | LARGE | OF_HEADERS
"""The flags that a message never loses."""
OF_SEEN: Final = frozenset((reasons.BY_CONSUMER, *events.ENDING))
LOOK_ENTRIES: Final = 64
"""How many entries that another consumer may want are looked at first."""


def changed_facts(queue: Queue, entry: Entry, row: Row, more: int = 0) -> Wrong | None:
    """Check the columns of an event that repeat what was routed; `more` is a flag that it adds."""
    message = entry.message
    if row[ADDRESS] != queue.address.id:
        why = f"it names address {row[ADDRESS]}, and its queue is on address {queue.address.id}"
    elif row[PRIORITY] != message.priority:
        why = f"its priority is {row[PRIORITY]}, and was {message.priority} when it was routed"
    elif (row[FLAGS] ^ message.flags) & PERSISTENT:
        was = "persistent" if message.persistent else "not persistent"
        why = f"it was {was} when it was routed"
    elif row[FLAGS] != message.flags | more:
        why = f"its flags are {row[FLAGS]}, and were {message.flags} when it was routed"
    else:
        return None
    return rules.COLUMNS, why, (message.id,)


@checks(events.DELIVERED)
def delivered(context: AuditContext, row: Row) -> Wrong | None:
    """Check a delivery."""
    queue, entry = entry_of(context, row)
    consumer = context.state.consumers[row[CONSUMER]]
    message = entry.message
    if (
        row[ADDRESS] != queue.address.id
        or row[PRIORITY] != message.priority
        or row[FLAGS] != message.flags
    ):
        return changed_facts(queue, entry, row)
    if entry.state != READY or entry.level >= PRIORITIES:
        return rules.FITS, f"the message was {entry.place}, not ready", (message.id,)
    if consumer.queue is not queue or consumer.connection_id != row[CONNECTION]:
        return _wrong_consumer(consumer, row)
    if consumer.browses or queue.definition.non_destructive:
        return rules.READING, "the consumer only reads, and takes nothing", (consumer.id,)
    if row[DELIVERY_COUNT] != min(entry.delivery_count + 1, DELIVERY_COUNT_MAX):
        why = f"it is attempt {row[DELIVERY_COUNT]}, and there were {entry.delivery_count} before"
        return rules.COUNT, why, (message.id,)
    if queue.is_paused or queue.waits_since:
        return _too_soon(queue)
    if message.expires and is_expired(context.core, queue, entry):
        why = f"its time had passed at {message.expires} (milliseconds since 1970)"
        return rules.EXPIRED, why, (message.id,)
    holder = queue.holder
    if holder is not None and holder is not consumer:
        return rules.HOLDER, f"consumer {holder.id} has the queue for itself", (holder.id,)
    if queue.definition.exclusive:
        queue.holder = consumer
    if message.id in consumer.refused:
        why = "the consumer had returned it, as a message that is not for it"
        return rules.FILTERED, why, (message.id, consumer.id)
    if consumer.matcher is not None and context.wants(consumer, message) is False:
        why = f"the filter of the consumer, {consumer.filter!r}, does not let it pass"
        return rules.FILTERED, why, (message.id, consumer.id)
    wrong = wrong_delivery(context, consumer.id) if context.detaching else None
    if message.flags & GROUPED:
        wrong = wrong or wrong_group(context, queue, message, consumer)
    if wrong is not None:
        return wrong
    if row[REASON] == reasons.RESUMED:
        return None if was_delivered(entry) else _never_delivered(message.id)
    if queue.head() is not entry:
        return _out_of_order(context, queue, entry, consumer)
    return None


def _never_delivered(message: int) -> Wrong:
    return rules.FITS, "the message was never delivered before, so it cannot be resumed", (message,)


def _wrong_consumer(consumer: Consumer, row: Row) -> Wrong:
    why = (
        f"consumer {consumer.id} is of queue '{consumer.queue.name}' and connection "
        f"{consumer.connection_id}"
    )
    return rules.TAKER, why, (consumer.id,)


def _too_soon(queue: Queue) -> Wrong:
    if queue.is_paused:
        what = "the queue" if queue.paused else f"address '{queue.address.name}'"
        if queue.recall is not None:
            what = "the queue was still to get history, and so"
        return rules.PAUSED, f"{what} was paused", ()
    most = queue.definition.consumers_before_dispatch
    return rules.WAITING, f"the queue waits for {most} consumers", ()


def _out_of_order(
    context: AuditContext, queue: Queue, entry: Entry, consumer: Consumer
) -> Wrong | None:
    """Check that the consumer did not want any entry before this one."""
    for priority in range(PRIORITIES - 1, entry.level - 1, -1):
        most = LOOK_ENTRIES
        while True:
            passed = consumer.passed.get(priority, NOTHING_PASSED)
            found = behind(queue, priority, passed, most)
            most *= 4
            if not found:
                break
            for other in found:
                if other.message.id == entry.message.id:
                    return None
                if priority == entry.level and other.position > entry.position:
                    return None
                if _comes_first(context, queue, other, consumer):
                    return _overtaken(entry, other)
                consumer.passed[priority] = other.position
                queue.has_passed = True
    return None


def _comes_first(context: AuditContext, queue: Queue, other: Entry, consumer: Consumer) -> bool:
    """Whether a consumer would have got an entry before others."""
    message = other.message
    if message.flags & GROUPED or context.may_be_withheld(queue, message):
        # Its group may be with another consumer, and wait for that.
        return False
    if message.expires and is_expired(context.core, queue, other):
        return False
    return context.wants(consumer, message) is True


def _overtaken(entry: Entry, other: Entry) -> Wrong:
    if other.level > entry.level:
        why = f"message {other.message.id} with priority {other.level} was ready"
    else:
        why = f"message {other.message.id} came before it, and was ready"
    return rules.ORDER, why, (other.message.id, entry.message.id)


@checks(events.SHOWN)
def shown(context: AuditContext, row: Row) -> Wrong | None:
    """Check that a consumer that only reads was handed a message."""
    queue, entry = entry_of(context, row)
    consumer = context.state.consumers[row[CONSUMER]]
    message = entry.message
    if consumer.queue is not queue or consumer.connection_id != row[CONNECTION]:
        return _wrong_consumer(consumer, row)
    if not (consumer.browses or queue.definition.non_destructive):
        why = "the queue is not non-destructive, and the consumer no browser"
        return rules.READING, why, (consumer.id,)
    if not consumer.browses and (queue.is_paused or queue.waits_since):
        return _too_soon(queue)
    if message.expires and is_expired(context.core, queue, entry):
        why = f"its time had passed at {message.expires} (milliseconds since 1970)"
        return rules.EXPIRED, why, (message.id,)
    if consumer.matcher is not None and context.wants(consumer, message) is False:
        why = f"the filter of the consumer, {consumer.filter!r}, does not let it pass"
        return rules.FILTERED, why, (message.id, consumer.id)
    return changed_facts(queue, entry, row)


@checks(events.SEEN)
def seen(context: AuditContext, row: Row) -> Wrong | None:
    """Check that a consumer settled what it was shown."""
    consumer = context.state.consumers[row[CONSUMER]]
    queue = consumer.queue
    if queue.id != row[QUEUE] or consumer.connection_id != row[CONNECTION]:
        return _wrong_consumer(consumer, row)
    if row[REASON] not in OF_SEEN:
        return rules.KNOWN, "no consumer settles a message for this reason", (consumer.id,)
    entry = queue.find(row[MESSAGE])
    if entry is not None:
        return changed_facts(queue, entry, row)
    if row[ADDRESS] != queue.address.id:
        why = f"it names address {row[ADDRESS]}, and its queue is on address {queue.address.id}"
        return rules.COLUMNS, why, ()
    if row[MESSAGE] > queue.newest:
        return rules.FITS, f"queue '{queue.name}' never had it", (consumer.id,)
    return None
