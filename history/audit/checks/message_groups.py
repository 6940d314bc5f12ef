"""The rule of message groups: all messages of a group go to one consumer, as long as it is there.

Which consumer has a group is volatile, and is learned from the deliveries. It is forgotten whenever
consumers come and go or the queue changes, as a broker may forget it then. Queues that choose by
hashing follow another rule (ADR 62). Must never know the order of deliveries.
"""

from typing import Final

from daybook.engine.facts import events
from daybook.engine.facts.events import QUEUE, Row
from daybook.engine.messages.message import Message
from daybook.engine.queues import groups
from daybook.engine.queues.consumer import Consumer
from daybook.engine.queues.queue import Queue
from daybook.history.audit import rules
from daybook.history.audit.context import AuditContext
from daybook.history.audit.registry import after
from daybook.history.audit.rules import Wrong

GROUPS_MAX: Final = 20_000
"""How many groups of one queue are followed."""


def wrong_group(
    context: AuditContext, queue: Queue, message: Message, consumer: Consumer
) -> Wrong | None:
    """Check that a message goes to the consumer that has its group, and note which one has it."""
    definition = queue.definition
    is_by_rule = not (definition.group_hashing or definition.exclusive or queue.holder is not None)
    if not (is_by_rule and definition.group_buckets and context.can_read(message)):
        return None
    key = groups.bucket_of(definition, message)
    if key < 0:
        return None
    known = context.groups.setdefault(queue.id, {})
    holder = known.get(key)
    closes = groups.closes(message)
    if holder is None:
        if not closes and len(known) < GROUPS_MAX:
            known[key] = consumer.id
        return None
    if holder == consumer.id:
        if closes:
            del known[key]
        return None
    if any(each.matcher is not None or each.refused for each in queue.consumers):
        # A group may have several consumers: each takes the messages that its filter passes.
        return None
    return rules.GROUP, f"its group is with consumer {holder}", (message.id, holder)


@after(events.QUEUE_UPDATED)
@after(events.QUEUE_DELETED)
@after(events.GROUPS_RESET)
def _changed(context: AuditContext, row: Row) -> None:
    context.groups.pop(row[QUEUE], None)


@after(events.SETTINGS_CHANGED)
def _settings_changed(context: AuditContext, row: Row) -> None:
    context.groups.clear()
