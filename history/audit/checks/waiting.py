"""The rules of messages that wait: held, scheduled by their sender or after a failure, and due.

Must never know how a delivery ended.
"""

from typing import cast

from daybook.engine.entries.schedules import is_later
from daybook.engine.facts import events, reasons
from daybook.engine.facts.details import RoutedDetail, ScheduledDetail
from daybook.engine.facts.events import KIND, MESSAGE, QUEUE, REASON, TIME, Row
from daybook.engine.facts.kinds import ENTERING
from daybook.engine.queues.queue import Queue
from daybook.history.audit import rules
from daybook.history.audit.context import AuditContext
from daybook.history.audit.feature_levels import BASIS, ENTERS_ASIDE
from daybook.history.audit.rules import Wrong


def wrong_schedule(
    context: AuditContext, row: Row, decoded: RoutedDetail, chosen: list[Queue]
) -> Wrong | None:
    """Check that a delivery time is to come; of older brokers, that every queue obeyed it."""
    if not decoded.due:
        return None
    if not is_later(context.core, decoded.due):
        return rules.SCHEDULE, f"its delivery time, {decoded.due}, had come", ()
    if context.has(ENTERS_ASIDE) or not context.has(BASIS):
        # Brokers before that did not say the time, so the broker of this event is not known.
        return None
    missing = {queue.id for queue in chosen}
    for _, other, detail, _, _ in context.following:
        if other[KIND] == events.SCHEDULED and other[MESSAGE] == context.lsn:
            found = cast(ScheduledDetail, events.decode_detail(events.SCHEDULED, detail))
            if other[REASON] == reasons.DELIVERY_TIME and found.due == decoded.due:
                missing.discard(other[QUEUE])
        if not missing:
            return None
    name = context.state.queues[min(missing)].name
    why = f"its delivery time is {decoded.due}, and in queue '{name}' it was not set aside"
    return rules.SCHEDULE, why, ()


def wrong_delivery_time(context: AuditContext, row: Row) -> Wrong | None:
    """Check that a message is scheduled for the time that its sender asked for."""
    detail = cast(ScheduledDetail, events.decode_detail(events.SCHEDULED, context.detail))
    if detail.due * 1000 <= row[TIME]:
        return rules.SCHEDULE, f"its delivery time, {detail.due}, had come", (row[MESSAGE],)
    entered = _entered(context, row)
    if entered is None:
        return rules.SCHEDULE, "it was in its queue before", (row[MESSAGE],)
    kind, encoded = entered
    if kind != events.ROUTED:
        # A history knows its time.
        return None
    if context.has(ENTERS_ASIDE):
        return rules.SCHEDULE, "what its sender scheduled enters set aside", (row[MESSAGE],)
    if not context.has(BASIS):
        return None
    if events.routed_detail(encoded).due == detail.due:
        return None
    why = f"its sender did not ask for the delivery time {detail.due}"
    return rules.SCHEDULE, why, (row[MESSAGE],)


def _entered(context: AuditContext, row: Row) -> tuple[int, bytes] | None:
    """Return kind and detail of the event of the block by which an entry came into its queue."""
    for at in range(context.at - 1, -1, -1):
        _, other, detail, _, _ = context.events[at]
        if other[KIND] in ENTERING and other[MESSAGE] == row[MESSAGE]:
            return other[KIND], detail
    return None
