"""The rules of how deliveries end, and how messages leave their queues.

Must never know how messages enter queues.
"""

from collections.abc import Callable
from typing import Final, cast

import msgspec

from daybook.engine.entries import retroactive
from daybook.engine.entries.rings import size_of
from daybook.engine.facts import details, events, reasons
from daybook.engine.facts.details import Death
from daybook.engine.facts.events import (
    BODY_OMITTED,
    CONNECTION,
    CONSUMER,
    DELIVERY_COUNT,
    FLAGS,
    KIND,
    MESSAGE,
    PRIORITY,
    QUEUE,
    REASON,
    REDELIVERED,
    RELATED,
    TIME,
    Row,
)
from daybook.engine.facts.kinds import changing
from daybook.engine.facts.life import CHANGES, ENDS
from daybook.engine.facts.life import QUEUE as OF_QUEUE
from daybook.engine.facts.own_headers import OWN_HEADERS
from daybook.engine.facts.settlements import ATTEMPTED, AUTO, NEVER, OUTCOMES, USUAL
from daybook.engine.facts.settlements import ENDS as MEANINGS
from daybook.engine.messages.content import codec_of
from daybook.engine.messages.message import Message
from daybook.engine.names.names import plain
from daybook.engine.queues.entry import IN_FLIGHT, Entry
from daybook.engine.queues.queue import Queue
from daybook.engine.routing.departures import (
    copy_for,
    death_of,
    expiry_address,
    is_at_limit,
    is_used_up,
)
from daybook.engine.routing.expiry import is_expired
from daybook.engine.settings.setting_keys import HOLD
from daybook.engine.settling.settlement import delay_after, is_lost
from daybook.history.audit import rules
from daybook.history.audit.checks.annotations import wrong_in_copy, wrong_notes
from daybook.history.audit.checks.deliveries import FIXED_FLAGS, changed_facts
from daybook.history.audit.checks.ends import wrong_delivery, wrong_return
from daybook.history.audit.checks.last_values import why_not_replaced, wrong_due_value
from daybook.history.audit.checks.waiting import wrong_delivery_time
from daybook.history.audit.context import (
    NOT_REQUESTED,
    AuditContext,
    Folded,
    entry_of,
)
from daybook.history.audit.feature_levels import ORIGINS, RETURNED_FLAG
from daybook.history.audit.registry import Check, checks
from daybook.history.audit.rules import Wrong

DELETIONS: Final = changing({OF_QUEUE}, {CHANGES, ENDS})
BY_CONNECTIONS: Final = frozenset((reasons.QUEUE_REMOVED, reasons.FORGOTTEN))
"""Why a message is removed because a client asked for something."""
BY_ITS_CONSUMER: Final = frozenset(OUTCOMES.values())
"""Why a delivery ends because its consumer settled it."""
WITHOUT_COPY: Final = frozenset(
    (
        reasons.UNROUTABLE,
        reasons.NO_DEAD_LETTER_ADDRESS,
        reasons.NO_EXPIRY_ADDRESS,
        reasons.HISTORY,
    )
)
"""Why a message may end when it is dead-lettered or expires."""


def _not_its_delivery(entry: Entry, row: Row) -> Wrong | None:
    consumer = entry.consumer
    if consumer is None:
        return rules.FITS, "the message was in flight to nobody", (entry.message.id,)
    if consumer.id != row[CONSUMER] or consumer.connection_id != row[CONNECTION]:
        why = f"it was delivered to consumer {consumer.id} of connection {consumer.connection_id}"
        return rules.TAKER, why, (entry.message.id, consumer.id)
    return None


def _wrong_count(entry: Entry, row: Row) -> Wrong | None:
    if row[DELIVERY_COUNT] == entry.delivery_count:
        return None
    why = f"its delivery count is {row[DELIVERY_COUNT]}, and was {entry.delivery_count}"
    return rules.COUNT, why, (entry.message.id,)


def _of_unchanged(check: Callable[[AuditContext, Row, Queue, Entry], Wrong | None]) -> Check:
    """Check first that an event repeats what its entry is and how often it was delivered."""

    def checked(context: AuditContext, row: Row) -> Wrong | None:
        queue, entry = entry_of(context, row)
        wrong = changed_facts(queue, entry, row) or _wrong_count(entry, row)
        return wrong or check(context, row, queue, entry)

    return checked


@checks(events.ACKNOWLEDGED)
def acknowledged(context: AuditContext, row: Row) -> Wrong | None:
    """Check an acknowledgement."""
    queue, entry = entry_of(context, row)
    wrong = _not_its_delivery(entry, row) or changed_facts(queue, entry, row)
    if wrong is not None or row[DELIVERY_COUNT] != entry.delivery_count:
        return wrong or _wrong_count(entry, row)
    consumer = row[CONSUMER]
    wrong = wrong_delivery(context, consumer) if context.detaching else None
    if wrong is not None:
        return wrong
    if row[REASON] == reasons.AUTOMATIC:
        before = context.previous
        if before is None or before[1][KIND] != events.DELIVERED or before[1][MESSAGE] != row[7]:
            why = "it is automatic, and its delivery is not the event before"
            return rules.AUTOMATIC, why, (entry.message.id,)
        if consumer in context.manual:
            why = "it is automatic, and the consumer acknowledged others itself"
            return rules.AUTOMATIC, why, (consumer,)
        context.automatic.add(consumer)
        return None
    is_auto = entry.consumer is not None and entry.consumer.ack_mode == AUTO
    if is_auto or consumer in context.automatic:
        why = "the consumer never acknowledges: each delivery is accepted when it is made"
        return rules.AUTOMATIC, why, (consumer,)
    context.manual.add(consumer)
    return None


@checks(events.RETURNED)
def returned(context: AuditContext, row: Row) -> Wrong | None:
    """Check a delivery that failed or was given back, and what must follow it."""
    queue, entry = entry_of(context, row)
    more = REDELIVERED if context.has(RETURNED_FLAG) else row[FLAGS] & REDELIVERED
    wrong = _not_its_delivery(entry, row) or changed_facts(queue, entry, row, more)
    wrong = wrong or wrong_return(context, row)
    if wrong is not None:
        return wrong
    end = MEANINGS.get(row[REASON], USUAL)
    count, before = row[DELIVERY_COUNT], entry.delivery_count
    expected = {before - 1} if end.counts == NEVER else {before}
    if end.counts == ATTEMPTED:
        expected.add(before - 1)
    if count not in expected:
        why = f"its delivery count is {count}, and should be {max(expected)}"
        return rules.COUNT, why, (entry.message.id,)
    if context.detail and row[REASON] not in BY_ITS_CONSUMER:
        why = "its consumer was not asked, and the event has what it said"
        return rules.ENDING, why, (entry.message.id,)
    wrong = wrong_notes(context, entry) if context.detail else None
    if wrong is not None:
        return wrong
    if size_of(context.core, queue) >= 0:
        context.note_returned(queue, entry.message.id)
    if row[REASON] == reasons.UNREADABLE:
        context.unreadable.add((queue.id, entry.message.id))
    if is_lost(context.core, queue, end, count):
        return _must_be_held(context, row)
    following = _own_next(context, row)
    if following is not None and following[1][KIND] == events.HELD:
        # Another rule says whether it may be.
        return None
    delay = delay_after(context.core, queue, entry, end, count)
    return _must_wait(context, row, row[TIME] // 1000 + delay) if delay else None


def _own_next(context: AuditContext, row: Row) -> Folded | None:
    """Return the next event if it is about the same entry."""
    following = context.next
    if following is None:
        return None
    theirs = following[1]
    is_own = theirs[MESSAGE] == row[MESSAGE] and theirs[QUEUE] == row[QUEUE]
    return following if is_own else None


def _must_be_held(context: AuditContext, row: Row) -> Wrong | None:
    following = _own_next(context, row)
    if _is_replaced(following):
        return None
    held = following[1] if following is not None else None
    if held is not None and (held[KIND], held[REASON]) == (events.HELD, reasons.DEAD_LETTER):
        return None
    why = "it was the last attempt, and the message was neither dead-lettered nor held"
    return rules.ENDING, why, (row[MESSAGE],)


def _must_wait(context: AuditContext, row: Row, due: int) -> Wrong | None:
    following = _own_next(context, row)
    if following is not None and following[1][KIND] == events.SCHEDULED:
        found = cast(details.ScheduledDetail, events.decode_detail(events.SCHEDULED, following[2]))
        if found.due == due:
            return None
    elif _is_replaced(following):
        return None
    why = f"the message had to wait until {due} (milliseconds since 1970) for its next delivery"
    return rules.ENDING, why, (row[MESSAGE],)


def _is_replaced(event: Folded | None) -> bool:
    return event is not None and event[1][REASON] == reasons.REPLACED


@checks(events.DEAD_LETTERED)
@_of_unchanged
def dead_lettered(context: AuditContext, row: Row, queue: Queue, entry: Entry) -> Wrong | None:
    """Check that a message had its last attempt, and that its copy is right."""
    if entry.state != IN_FLIGHT and not entry.held:
        return rules.FITS, "the message was neither in flight nor held", (entry.message.id,)
    if not row[REASON] and not is_at_limit(context.core, queue, entry.delivery_count):
        limit = context.state.settings.resolve(queue.address.name).max_delivery_attempts
        why = f"it had {entry.delivery_count} attempts, and max-delivery-attempts is {limit}"
        return rules.TOO_EARLY, why, (entry.message.id,)
    settings = context.state.settings.resolve(queue.address.name)
    target = settings.dead_letter_address
    if row[RELATED]:
        if row[REASON] not in (reasons.NO_REASON, reasons.REFUSED):
            return rules.COPY, "it has a copy, and is said to have none", (entry.message.id,)
        return _check_copy(context, row, queue, entry, target, reasons.DEAD_LETTER)
    if (row[REASON] == reasons.NO_DEAD_LETTER_ADDRESS) == bool(target):
        return rules.COPY, f"its dead-letter-address is '{target}'", (entry.message.id,)
    if settings.dead_letter_policy == HOLD or row[REASON] not in WITHOUT_COPY:
        return _must_not_end(entry)
    return None


def _must_not_end(entry: Entry) -> Wrong:
    why = "it has no copy, and was not to be dropped"
    return rules.COPY, why, (entry.message.id,)


@checks(events.EXPIRED)
@_of_unchanged
def expired(context: AuditContext, row: Row, queue: Queue, entry: Entry) -> Wrong | None:
    """Check that the time of a message had passed, and that its copy is right."""
    if entry.state == IN_FLIGHT:
        return rules.FITS, "the message was in flight", (entry.message.id,)
    if not is_expired(context.core, queue, entry) and not context.is_requested():
        expires = entry.message.expires
        when = f"before {expires} (milliseconds since 1970)" if expires else "at all"
        return rules.EXPIRED, f"the message was not to expire {when}", (entry.message.id,)
    target = expiry_address(context.core, queue, entry)
    if (row[REASON] == reasons.HISTORY) != bool(queue.definition.keeps):
        return rules.COPY, "only what is in a history expires there alone", (entry.message.id,)
    if row[RELATED]:
        if row[REASON]:
            return rules.COPY, "it has a copy, and is said to have none", (entry.message.id,)
        return _check_copy(context, row, queue, entry, target, reasons.EXPIRY)
    settings = context.state.settings.resolve(queue.address.name)
    if row[REASON] == reasons.NO_EXPIRY_ADDRESS and target:
        return rules.COPY, f"it was dropped, and expires to address '{target}'", (entry.message.id,)
    if row[REASON] == reasons.UNROUTABLE and not target:
        return rules.COPY, "it had nowhere to expire to", (entry.message.id,)
    is_held = row[REASON] == reasons.UNROUTABLE and settings.dead_letter_policy == HOLD
    if is_held or row[REASON] not in WITHOUT_COPY:
        return _must_not_end(entry)
    return None


# ---- copies


def _check_copy(
    context: AuditContext, row: Row, queue: Queue, entry: Entry, target: str, reason: int
) -> Wrong | None:
    """Check that the next event routes the copy that the engine would have made."""
    message = entry.message
    following = context.next
    if following is None or not _is_copy(following, row):
        why = f"its copy is to be message {row[RELATED]}, which the next event does not route"
        return rules.COPY, why, (message.id,)
    routed = following[1]
    address = context.state.addresses.get(routed[events.ADDRESS])
    if address is None or address.name != target:
        where = address.name if address is not None else f"#{routed[events.ADDRESS]}"
        why = f"its copy went to address '{where}', and the settings say '{target}'"
        return rules.COPY, why, (message.id, row[RELATED])

    def make() -> Message:
        context.core.next_lsn = context.lsn
        death = death_of(context.core, queue, entry, row[REASON] or reason)
        return copy_for(context.core, queue, message, address, reason, _as_said(death, following))

    return wrong_in_copy(following, entry) or _compare_copy(context, following, message, make)


def _as_said(death: Death, event: Folded) -> Death:
    """Return a death with what only its consumer and the end of its delivery knew."""
    past = events.routed_detail(event[2]).origin
    if past is None or not past.deaths:
        return death
    said = past.deaths[0]
    return msgspec.structs.replace(death, ended=said.ended, error=said.error)


def _without_own(message: Message, headers: bytes) -> bytes:
    return codec_of(message.flags).copied(headers, OWN_HEADERS, {})


def _is_copy(event: Folded, row: Row) -> bool:
    return event[1][MESSAGE] == event[0] == row[RELATED] and event[1][RELATED] == row[MESSAGE]


def _compare_copy(
    context: AuditContext, event: Folded, message: Message, make: Callable[[], Message] | None
) -> Wrong | None:
    """Compare the event that routes a copy with the copy that the engine makes."""
    _, routed, detail, headers, body = event
    if make is not None and routed[PRIORITY] != message.priority:
        why = f"its copy has priority {routed[PRIORITY]}, and it has {message.priority}"
        return rules.COPY, why, (message.id, routed[MESSAGE])
    if (routed[events.FLAGS] ^ message.flags) & FIXED_FLAGS:
        why = f"its copy has flags {routed[events.FLAGS]}, and it has {message.flags}"
        return rules.COPY, why, (message.id, routed[MESSAGE])
    if routed[KIND] != events.ROUTED:
        # Only diverts took the copy; their own copies have the content.
        return None
    if routed[events.FLAGS] & BODY_OMITTED or not context.can_read(message):
        return None
    different = ""
    if not message.chunks and body != message.body:
        different = "body"
    elif make is not None:
        copy = make()
        decoded = events.routed_detail(detail)
        if decoded.origin is None and not context.has(ORIGINS):
            # Earlier releases have fewer headers about the origin, and no other fact of it.
            headers, copy.headers = (
                _without_own(message, each) for each in (headers, copy.headers)
            )
        elif decoded.origin != copy.origin:
            different = "origin"
        if headers != copy.headers:
            different = "headers"
        elif decoded.expires != copy.expires:
            different = "expiry"
        elif message.chunks and decoded.body_bytes != message.body_bytes:
            different = "body"
    if not different:
        return None
    why = f"the {different} of its copy, message {routed[MESSAGE]}, is not what it should be"
    return rules.COPY, why, (message.id, routed[MESSAGE])


@checks(events.MOVED)
@_of_unchanged
def moved(context: AuditContext, row: Row, queue: Queue, entry: Entry) -> Wrong | None:
    """Check that an administrator moved a message, and that the copy is right."""
    wrong = context.unrequested(entry.message.id)
    if wrong is not None:
        return wrong
    following = context.next
    if following is None or not _is_copy(following, row):
        why = f"its copy is to be message {row[RELATED]}, which the next event does not route"
        return rules.COPY, why, (entry.message.id,)
    wrong = wrong_in_copy(following, entry)
    wrong = wrong or _compare_copy(context, following, entry.message, None)
    return wrong or _wrong_past(context, following, queue, entry)


def _went_back(context: AuditContext, entry: Entry, routed: Row) -> bool:
    """Whether a message is for an address that it was at before, or perhaps was."""
    address = context.state.addresses.get(routed[events.ADDRESS])
    if address is None or not context.can_read(entry.message):
        return address is not None
    past = context.core.origin_of(entry.message)
    return past is not None and past.address == plain(address.name)


def _wrong_past(context: AuditContext, event: Folded, queue: Queue, entry: Entry) -> Wrong | None:
    """Check what a moved message says of where it was: in this queue, or where it was before."""
    _, routed, detail, _, _ = event
    said = events.routed_detail(detail).origin
    if routed[KIND] != events.ROUTED:
        return None
    addresses = {entry.message.address_id}
    for number in events.routed_detail(detail).queues or (routed[QUEUE],):
        addresses.add(context.state.queues[number].address.id)
    if routed[events.ADDRESS] not in addresses and not _went_back(context, entry, routed):
        why = f"message {routed[MESSAGE]} is for address {routed[events.ADDRESS]}"
        return rules.COPY, why, (entry.message.id, routed[MESSAGE])
    if not context.can_read(entry.message) or said is None:
        return None
    before = context.core.origin_of(entry.message)
    if said == before or (before is not None and said == details.Origin(deaths=before.deaths)):
        # It has another priority, or goes back to where it came from.
        return None
    target = context.state.addresses.get(routed[events.ADDRESS])
    if target is not None:
        context.core.next_lsn = context.lsn
        copy = copy_for(context.core, queue, entry.message, target, reasons.ADMINISTRATION)
        if said == copy.origin:
            return None
    why = f"message {routed[MESSAGE]} says that it was elsewhere before"
    return rules.COPY, why, (entry.message.id, routed[MESSAGE])


# ---- removals


@checks(events.REMOVED)
@_of_unchanged
def removed(context: AuditContext, row: Row, queue: Queue, entry: Entry) -> Wrong | None:
    """Check that there was the reason for which a message was removed."""
    check = _REMOVALS.get(row[REASON])
    why = _wrong_cause(context, queue, row)
    if not why and check is not None:
        why = check(context, queue, row)
    if not why:
        return None
    rule = rules.REQUESTED if row[REASON] == reasons.ADMINISTRATION else rules.REMOVAL
    return rule, why, (entry.message.id,)


def _by_administrator(context: AuditContext, queue: Queue, row: Row) -> str:
    return "" if context.is_requested() else NOT_REQUESTED


def _with_its_queue(context: AuditContext, queue: Queue, row: Row) -> str:
    definition = queue.definition
    if queue.deleting or definition.temporary or queue.retains:
        return ""
    is_deleted = any(
        later[KIND] in DELETIONS and later[QUEUE] == queue.id
        for _, later, _, _, _ in context.following
    )
    return "" if is_deleted else "its queue was not deleted"


def _wrong_cause(context: AuditContext, queue: Queue, row: Row) -> str:
    """Return the fault of the message, or the connection, that a removal names."""
    if row[RELATED] and row[REASON] != reasons.REPLACED:
        return "only what is replaced leaves for another message"
    connection = row[CONNECTION]
    if not connection:
        return ""
    if row[REASON] not in BY_CONNECTIONS:
        return "no connection removes a message for that reason"
    if row[REASON] == reasons.FORGOTTEN and connection not in context.state.connections:
        return f"connection {connection} is not open"
    for _, later, _, _, _ in context.following:
        if later[KIND] in DELETIONS and later[QUEUE] == queue.id:
            is_same = later[CONNECTION] == connection
            return "" if is_same else f"connection {later[CONNECTION]} deleted its queue"
    return ""


def _from_ring(context: AuditContext, queue: Queue, row: Row) -> str:
    if queue.definition.keeps:
        size = context.state.settings.resolve(queue.definition.keeps).retroactive_message_count
        count = queue.message_count
        is_first = retroactive.oldest(queue) is queue.get(row[MESSAGE])
    else:
        size, count = size_of(context.core, queue), queue.ready_count
        is_first = _is_head(context, queue, row[MESSAGE])
        is_first = is_first or context.may_have_returned(queue, row[MESSAGE])
    if not 0 <= size < count:
        return f"the queue has {count} messages, and the ring is for {size}"
    return "" if is_first else "it is not the first one of the ring"


def _is_head(context: AuditContext, queue: Queue, message: int) -> bool:
    """Whether no message that can be read comes before one of a queue."""
    for entry in queue.ready():
        if entry.message.id == message:
            return True
        if not context.may_be_withheld(queue, entry.message):
            return False
    return False


def _without_consumers(context: AuditContext, queue: Queue, row: Row) -> str:
    if queue.definition.purge_on_no_consumers:
        return ""
    return "the queue keeps its messages when its consumers leave"


def _too_old(context: AuditContext, queue: Queue, row: Row) -> str:
    keeps = queue.definition.keeps
    if not keeps or queue.retains:
        return "the queue is not a history"
    if row[MESSAGE] <= retroactive.too_old(context.core, keeps):
        return ""
    return "it is not older than its address keeps its history"


def _too_large(context: AuditContext, queue: Queue, row: Row) -> str:
    keeps = queue.definition.keeps
    if not keeps or queue.retains:
        return "the queue is not a history"
    size = context.state.settings.resolve(keeps).retroactive_bytes
    if not 0 < size < queue.bytes and not (size and queue.transient_count):
        return f"the history has {queue.bytes} bytes, and keeps {size}"
    is_first = retroactive.oldest(queue) is queue.get(row[MESSAGE])
    return "" if is_first else "it is not the oldest one of the history"


def _forgotten(context: AuditContext, queue: Queue, row: Row) -> str:
    return "" if queue.retains else "the queue has no retained messages"


_REMOVALS: Final[dict[int, Callable[[AuditContext, Queue, Row], str]]] = {
    reasons.ADMINISTRATION: _by_administrator,
    reasons.QUEUE_REMOVED: _with_its_queue,
    reasons.RING_EVICTED: _from_ring,
    reasons.REPLACED: why_not_replaced,
    reasons.NO_CONSUMERS: _without_consumers,
    reasons.RETROACTIVE_MAX_AGE: _too_old,
    reasons.RETROACTIVE_BYTES: _too_large,
    reasons.FORGOTTEN: _forgotten,
}


# ---- what waits


@checks(events.HELD)
@_of_unchanged
def held(context: AuditContext, row: Row, queue: Queue, entry: Entry) -> Wrong | None:
    """Check that a message had to leave its queue."""
    if row[REASON] == reasons.EXPIRY:
        if is_expired(context.core, queue, entry) or context.is_requested():
            return None
        return rules.HELD, "its time had not passed", (entry.message.id,)
    before = context.previous
    ended = before[1] if before is not None else None
    if ended is None or (ended[KIND], ended[MESSAGE]) != (events.RETURNED, entry.message.id):
        return rules.HELD, "no delivery of it ended just before", (entry.message.id,)
    is_refused = ended[REASON] == reasons.REFUSED
    # Earlier versions held dead letters at a limit that is not meant for them.
    if is_refused or is_at_limit(context.core, queue, entry.delivery_count):
        return None
    return rules.HELD, f"it had only {entry.delivery_count} attempts", (entry.message.id,)


@checks(events.RELEASED)
@_of_unchanged
def released(context: AuditContext, row: Row, queue: Queue, entry: Entry) -> Wrong | None:
    """Check that a held message may be delivered again."""
    if size_of(context.core, queue) >= 0:
        context.note_returned(queue, entry.message.id)
    if row[REASON] == reasons.ADMINISTRATION:
        return context.unrequested(entry.message.id)
    if is_used_up(context.core, queue, entry.delivery_count):
        return rules.HELD, "its attempts are used up", (entry.message.id,)
    return None


@checks(events.SCHEDULED)
@_of_unchanged
def scheduled(context: AuditContext, row: Row, queue: Queue, entry: Entry) -> Wrong | None:
    """Check that a message has a reason to wait."""
    if row[REASON] != reasons.REDELIVERY_DELAY:
        return wrong_delivery_time(context, row)
    before = context.previous
    if before is None or before[1][KIND] != events.RETURNED or before[1][MESSAGE] != row[MESSAGE]:
        return rules.ENDING, "no delivery failed before", (entry.message.id,)
    return None


@checks(events.DUE)
@_of_unchanged
def due(context: AuditContext, row: Row, queue: Queue, entry: Entry) -> Wrong | None:
    """Check that the time of a scheduled message has come."""
    if size_of(context.core, queue) >= 0:
        context.note_returned(queue, entry.message.id)
    decoded = cast(details.DueDetail, events.decode_detail(events.DUE, context.detail))
    wrong = wrong_due_value(context, queue, entry, decoded)
    if wrong is not None:
        return wrong
    if row[REASON] == reasons.ADMINISTRATION:
        return context.unrequested(entry.message.id)
    if entry.due * 1000 > row[TIME]:
        why = f"it was scheduled until {entry.due} (milliseconds since 1970)"
        return rules.DUE, why, (entry.message.id,)
    return None
