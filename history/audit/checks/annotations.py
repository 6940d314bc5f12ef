"""The rule of annotations: a message has those that its consumers noted, and so have its copies.

Must never know why a message is copied, or why a delivery ended.
"""

from typing import Final, cast

from daybook.engine.facts import details, events, reasons
from daybook.engine.facts.events import KIND, MESSAGE, QUEUE, REASON, RELATED, Row
from daybook.engine.facts.settlements import OUTCOMES
from daybook.engine.messages.annotations import check_merged, is_sound, unpacked
from daybook.engine.names.names import beside
from daybook.engine.queues.entry import IN_FLIGHT, Entry
from daybook.history.audit import rules
from daybook.history.audit.context import AuditContext, Folded
from daybook.history.audit.rules import Wrong

FROM_QUEUES: Final = frozenset((reasons.DEAD_LETTER, reasons.EXPIRY))
"""The reasons of copies whose original is asked about when it leaves."""
BY_CONSUMERS: Final = frozenset(reasons.REASONS[each][0] for each in OUTCOMES.values())
"""What deaths say of deliveries that ended by the word of their consumer."""


def wrong_notes(context: AuditContext, entry: Entry) -> Wrong | None:
    """Check what a consumer noted on a message that it returns."""
    said = cast(details.ReturnedDetail, events.decode_detail(events.RETURNED, context.detail))
    noted = said.annotations
    if not noted:
        return None
    if not is_sound(noted):
        return rules.NOTED, "what its consumer noted cannot be annotations", (entry.message.id,)
    try:
        check_merged(entry.message.annotations, noted)
    except ValueError as error:
        return rules.NOTED, f"its consumer noted too much: {error}", (entry.message.id,)
    return None


def wrong_in_copy(event: Folded, entry: Entry) -> Wrong | None:
    """Check the annotations of the copy of a message that leaves its queue: those that it had, and
    what the consumer noted that rejected it."""
    if event[1][KIND] != events.ROUTED:
        # Only diverts took the copy, and their copies repeat them.
        return None
    decoded = events.routed_detail(event[2])
    had, has = entry.message.annotations, decoded.annotations
    if has == had:
        return None
    deaths = decoded.origin.deaths if decoded.origin is not None else ()
    may_note = entry.state == IN_FLIGHT and deaths and deaths[0].ended in BY_CONSUMERS
    if may_note and is_sound(has) and unpacked(had).keys() <= unpacked(has).keys():
        return None
    why = f"message {event[1][MESSAGE]} does not have the annotations of its original"
    return rules.NOTED, why, (entry.message.id, event[1][MESSAGE])


def wrong_in_routed(context: AuditContext, row: Row, decoded: details.RoutedDetail) -> Wrong | None:
    """Check that a message has the annotations of what it is a copy of, and else none."""
    if row[REASON] in FROM_QUEUES:
        return None
    if row[REASON] == reasons.ADMINISTRATION:
        if row[RELATED]:
            # The event before was asked.
            return None
        original = _copied(context, row, decoded)
        expected = original.message.annotations if original is not None else b""
        is_right = decoded.annotations == expected
    else:
        is_right = _is_of_original(context, row[RELATED], decoded.annotations)
    if is_right:
        return None
    return rules.NOTED, "it does not have the annotations of its original", ()


def _copied(context: AuditContext, row: Row, decoded: details.RoutedDetail) -> Entry | None:
    """Return the entry that an administrator copied, None if it is not known."""
    past = decoded.origin
    if past is None:
        return None
    state = context.state
    target = state.queues[decoded.queues[0] if decoded.queues else row[QUEUE]]
    queue = state.queue_by_name.get(beside(target.name, past.queue))
    return queue.find(past.message) if queue is not None else None


def _is_of_original(context: AuditContext, original: int, annotations: bytes) -> bool:
    """Whether a copy that a divert made, or that found no queue, has what its original had."""
    before = context.earlier(original) if original else None
    if before is None:
        return not annotations
    if before[1][KIND] == events.ROUTED:
        return events.routed_detail(before[2]).annotations == annotations
    # Diverted repeats no annotations; a message that a client sent has none.
    return is_sound(annotations) if before[1][RELATED] else not annotations
