"""The rules of last values: a newer message replaces an older one, which leaves at once.

Must never know rings, or how messages enter queues.
"""

from typing import cast

from daybook.engine.entries import last_values
from daybook.engine.facts import events, reasons
from daybook.engine.facts.details import DueDetail, RecalledDetail, RoutedDetail
from daybook.engine.facts.events import KIND, MESSAGE, QUEUE, REASON, RELATED, Row
from daybook.engine.facts.kinds import ENTERING
from daybook.engine.messages.message import Message
from daybook.engine.queues.entry import READY, Entry
from daybook.engine.queues.id_cache import key_of
from daybook.engine.queues.queue import Queue
from daybook.history.audit import rules
from daybook.history.audit.context import AuditContext
from daybook.history.audit.feature_levels import BASIS
from daybook.history.audit.rules import Wrong


def wrong_values(
    context: AuditContext, message: Message, decoded: RoutedDetail, chosen: list[Queue]
) -> Wrong | None:
    """Check the last value keys of a message that enters queues, and that it replaces others."""
    keyed = [queue for queue in chosen if queue.definition.keyed_by]
    if not keyed:
        return (
            (rules.LAST_VALUE, "no queue compares its value", ()) if decoded.last_values else None
        )
    can_read = context.can_read(message) or all(queue.retains for queue in keyed)
    if _is_later(context, decoded) or not (can_read or decoded.last_values):
        right: dict[int, str] = {}
    else:
        right = decoded.last_values
        if can_read:
            right = last_values.keys_of(message, keyed)
    if decoded.last_values != right:
        return rules.LAST_VALUE, "it has not the value that it says", ()
    return wrong_replacement(context, right)


def _is_later(context: AuditContext, decoded: RoutedDetail) -> bool:
    """Whether a message does not count as a value before its time; earlier versions do not record
    the time, but set the message aside."""
    return decoded.due > 0 or (
        not context.has(BASIS)
        and any(
            (row[KIND], row[MESSAGE]) == (events.SCHEDULED, context.lsn)
            and row[REASON] == reasons.DELIVERY_TIME
            for _, row, _, _, _ in context.following
        )
    )


def wrong_replacement(context: AuditContext, keys: dict[int, str]) -> Wrong | None:
    """Check that the messages leave at once that this event replaces."""
    wanted = set()
    for queue, message_id in last_values.older_ones(context.core, keys) if keys else ():
        entry = queue.find(message_id)
        if entry is not None and entry.state == READY and message_id != _own(context):
            wanted.add((queue.id, message_id))
    found = set()
    for _, other, _, _, _ in context.following:
        if not _replaces(other, context.lsn):
            break
        found.add((other[QUEUE], other[MESSAGE]))
    if found == wanted:
        return None
    queue_id, message_id = min(found ^ wanted)
    name = context.state.queues[queue_id].name
    why = f"in queue '{name}' it replaces message {message_id}, which did not leave"
    if (queue_id, message_id) in found:
        why = f"in queue '{name}' it does not replace message {message_id}, which left"
    return rules.LAST_VALUE, why, (message_id,)


def _own(context: AuditContext) -> int:
    return context.events[context.at][1][MESSAGE]


def _replaces(row: Row, lsn: int) -> bool:
    is_removed = row[KIND] == events.REMOVED and row[REASON] == reasons.REPLACED
    return is_removed and row[RELATED] == lsn


def wrong_recalled_value(
    context: AuditContext, queue: Queue, message: Message, decoded: RecalledDetail
) -> Wrong | None:
    """Do the same for a message of before."""
    if decoded.last_values and set(decoded.last_values) != {queue.id}:
        return rules.LAST_VALUE, "its value is for other queues", (message.id,)
    is_known = decoded.last_values and queue.definition.keyed_by and context.can_read(message)
    if is_known and last_values.keys_of(message, [queue]) != decoded.last_values:
        return rules.LAST_VALUE, "it has not the value that it says", (message.id,)
    return wrong_replacement(context, decoded.last_values)


def wrong_due_value(
    context: AuditContext, queue: Queue, entry: Entry, decoded: DueDetail
) -> Wrong | None:
    """Do the same for a message whose time has come, and which is a value only now."""
    text = decoded.last_value
    if not queue.definition.keyed_by:
        return (rules.LAST_VALUE, "its queue compares no values", ()) if text else None
    if context.can_read(entry.message):
        right = last_values.keys_of(entry.message, [queue]).get(queue.id, "")
        newest = queue.latest_with(key_of(right)) if right else 0
        is_value = newest == entry.message.id and queue.find(newest) is not None
        if text != ("" if is_value else right):
            return rules.LAST_VALUE, "it has not the value that it says", (entry.message.id,)
    return wrong_replacement(context, {queue.id: text} if text else {})


def why_not_replaced(context: AuditContext, queue: Queue, row: Row) -> str:
    """Return why no newer message replaced one that was removed for that; empty if one did."""
    if not queue.definition.keyed_by:
        return "the queue is not a last value queue"
    newer = row[RELATED]
    before = context.earlier(newer)
    if before is not None and _enters(before[1], before[2], queue):
        # That event was asked which ones it replaces.
        return ""
    entry = queue.get(row[MESSAGE])
    # One with an earlier id is newer if it was scheduled, and its time came later.
    if newer in (0, row[MESSAGE]):
        return "no newer message replaced it"
    if context.can_read(entry.message):
        text = last_values.keys_of(entry.message, [queue]).get(queue.id)
        newest = queue.latest_with(key_of(text)) if text is not None else 0
        if newest != newer or newest == row[MESSAGE]:
            return f"message {newest} has the same value, not message {newer}"
    return ""


def _enters(row: Row, detail: bytes, queue: Queue) -> bool:
    """Whether an event made a message the value of a queue."""
    if row[KIND] == events.DUE:
        return row[QUEUE] == queue.id and bool(
            cast(DueDetail, events.decode_detail(events.DUE, detail)).last_value
        )
    if row[KIND] not in ENTERING:
        return False
    if row[KIND] == events.ROUTED:
        return queue.id in events.routed_detail(detail).last_values
    found = cast(RecalledDetail, events.decode_detail(row[KIND], detail))
    return queue.id in found.last_values
