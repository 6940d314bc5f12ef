"""The rules of how messages enter queues: which ones, from whom, and as what.

The routing type that a sender named, the queue that it named, and whose turn it is among anycast
queues, are in no event. So what is asked is whether some of these give the queues that were chosen.
"""

from typing import Final, NamedTuple, cast

from daybook.engine.entries.anycast_choice import next_anycast
from daybook.engine.entries.placement import is_one_of_several
from daybook.engine.entries.recalls import journaled_size
from daybook.engine.entries.retained_messages import is_recalled
from daybook.engine.facts import details, events, reasons
from daybook.engine.facts.events import (
    ADDRESS,
    BODY_OMITTED,
    CONNECTION,
    DELIVERY_COUNT,
    FLAGS,
    KIND,
    LARGE,
    MESSAGE,
    PERSISTENT,
    PRIORITY,
    QUEUE,
    REASON,
    REDELIVERED,
    RELATED,
    TIME,
    Row,
)
from daybook.engine.messages.content import view_of
from daybook.engine.messages.conversions import text_of
from daybook.engine.messages.message import PRIORITIES, Message
from daybook.engine.queues.entry import Entry
from daybook.engine.queues.id_cache import key_of
from daybook.engine.queues.queue import Address, Queue
from daybook.engine.queues.recall import Recall
from daybook.engine.settings.expiry_rules import expires_of, has_rules
from daybook.engine.state.no_local import without_own
from daybook.history.audit import rules
from daybook.history.audit.checks.annotations import wrong_in_routed
from daybook.history.audit.checks.diverts import (
    NOBODY,
    OF_DIVERTS,
    Takers,
    follows_history,
    takers_of,
    wrong_beginning,
    wrong_copies,
    wrong_origin_of_copy,
    wrong_redirection,
)
from daybook.history.audit.checks.last_values import wrong_recalled_value, wrong_values
from daybook.history.audit.checks.related_events import (
    DUPLICATE_ID,
    check_transaction,
    wrong_chunks,
)
from daybook.history.audit.checks.waiting import wrong_schedule
from daybook.history.audit.context import AuditContext
from daybook.history.audit.feature_levels import BASIS, RETAINED
from daybook.history.audit.registry import checks
from daybook.history.audit.rules import Wrong

OF_SENDERS: Final = frozenset((reasons.SENT,))
"""The reasons of messages that a client sent."""
BY_CHOICE: Final = frozenset((reasons.SENT, reasons.DIVERT, reasons.HISTORY_ONLY))
"""The reasons of messages whose sender may have named a routing type, or a queue."""
OF_ORIGINS: Final = frozenset(
    (reasons.DEAD_LETTER, reasons.EXPIRY, reasons.DIVERT, reasons.NO_ROUTE)
)
"""The reasons of copies that say for the same reason where they were before."""
FIRST: Final = frozenset((reasons.SENT, reasons.HISTORY_ONLY))
"""The reasons of messages that are what their sender sent."""
FROM_QUEUES: Final = frozenset((reasons.DEAD_LETTER, reasons.EXPIRY))
"""The reasons of copies of messages that left a queue by the event before."""
TO_ALL: Final = frozenset((reasons.DEAD_LETTER, reasons.EXPIRY, reasons.NO_ROUTE))
"""The reasons of messages that the broker routes as bindings and filters say, without a wish."""


@checks(events.ROUTED)
def routed(context: AuditContext, row: Row) -> Wrong | None:
    """Check a message that entered queues."""
    state = context.state
    if not context.detail and row[REASON] == reasons.SENT and row[MESSAGE] == context.lsn:
        queue = state.queues[row[QUEUE]]
        address = queue.address
        core = context.core
        if (
            address.only_queue is queue
            and address.ids is None
            and address.id == row[ADDRESS]
            and row[CONNECTION] in state.connections
            and row[PRIORITY] < PRIORITIES
            and row[FLAGS] & 3 != 3
            and not (row[RELATED] or row[DELIVERY_COUNT] or row[FLAGS] & REDELIVERED)
            and not (core.wildcards.count or core.diverts.count or state.settings.keeps_history)
        ):
            return _wrong_expiry(context, row, address, 0)
    return _routed_with_care(context, row)


def _routed_with_care(context: AuditContext, row: Row) -> Wrong | None:
    decoded = events.routed_detail(context.detail)
    chosen = [context.state.queues[each] for each in decoded.queues or (row[QUEUE],)]
    wrong = _wrong_columns(context, row) or _wrong_sender(context, row)
    wrong = wrong or _wrong_original(context, row) or _wrong_origin(context, row, decoded.origin)
    if row[REASON] in OF_SENDERS:
        # Copies share the chunks of their original.
        wrong = wrong or wrong_chunks(context, decoded)
    wrong = wrong or check_transaction(context, row, decoded.transaction)
    wrong = wrong or wrong_in_routed(context, row, decoded)
    if wrong is not None:
        return wrong
    message = _message_of(context, row, decoded)
    wrong = wrong_schedule(context, row, decoded, chosen)
    wrong = wrong or wrong_values(context, message, decoded, chosen)
    if row[REASON] == reasons.ADMINISTRATION:
        return wrong or _wrong_copy(context, row, chosen) or context.unrequested()
    address = context.state.addresses.get(row[ADDRESS])
    if address is None:
        return rules.ROUTING, f"address {row[ADDRESS]} does not exist", ()
    wrong = wrong or _wrong_reason(context, row, address, decoded)
    wrong = wrong or _wrong_repetition(context, row, address, message)
    wrong = wrong or _wrong_expiry(context, row, address, decoded.expires)
    return wrong or _wrong_queues(context, row, address, message, chosen, decoded)


def _wrong_copy(context: AuditContext, row: Row, chosen: list[Queue]) -> Wrong | None:
    """Check a copy that an administrator made: of what just left, or for the address of a queue."""
    before = context.previous
    if row[RELATED]:
        left = before[1] if before is not None else None
        if left is not None and (left[KIND], left[RELATED]) == (events.MOVED, context.lsn):
            return None
        return rules.COPY, "no message left its queue for it", (row[RELATED],)
    if row[ADDRESS] in {queue.address.id for queue in chosen}:
        return None
    return rules.COPY, f"its queue is not on address {row[ADDRESS]}", ()


def _message_of(context: AuditContext, row: Row, decoded: details.RoutedDetail) -> Message:
    message = Message(
        context.lsn, row[ADDRESS], row[PRIORITY], row[FLAGS], decoded.expires, context.headers,
        context.body,
    )  # fmt: skip
    if decoded.chunks:
        message.enlarge(events.chunk_lsns(decoded), decoded.body_bytes)
    return message


def _wrong_columns(context: AuditContext, row: Row) -> Wrong | None:
    wrong = wrong_beginning(context, row)
    if wrong is not None:
        return wrong
    if row[FLAGS] & PERSISTENT and row[FLAGS] & BODY_OMITTED:
        return rules.COLUMNS, "it is persistent, and its content was not journaled", ()
    if row[DELIVERY_COUNT]:
        return rules.COUNT, f"it is new, and was delivered {row[DELIVERY_COUNT]} times", ()
    if row[FLAGS] & REDELIVERED:
        return rules.COLUMNS, "it is new, and is said to be redelivered", ()
    return None


def _wrong_reason(
    context: AuditContext, row: Row, address: Address, decoded: details.RoutedDetail
) -> Wrong | None:
    """Check what only messages say that found no queue at the address that they were sent to."""
    is_redirected = row[REASON] == reasons.NO_ROUTE
    if decoded.unrouted_at and not is_redirected:
        return rules.ROUTING, "it is said that no queue took it", ()
    if is_redirected and not decoded.unrouted_at:
        if follows_history(context, row, address):
            return None
        return rules.ROUTING, "it does not say which address had no queue", ()
    return wrong_redirection(context, decoded.unrouted_at, address)


def _wrong_repetition(
    context: AuditContext, row: Row, address: Address, message: Message
) -> Wrong | None:
    """Check that its address had no message with the same duplicate id, if its headers say one."""
    ids = address.ids
    if ids is None or row[RELATED] or row[REASON] not in FIRST or row[FLAGS] & LARGE:
        # A large message to several addresses has none: each needs its chunks.
        return None
    said = view_of(message).get(DUPLICATE_ID) if context.can_read(message) else None
    if said is None or not ids.has(key_of(text_of(said))):
        return None
    return rules.ONCE, f"address '{address.name}' had a message with its duplicate id", ()


def _wrong_sender(context: AuditContext, row: Row) -> Wrong | None:
    connection = row[CONNECTION]
    if connection in context.state.connections:
        return None
    if not connection and row[REASON] not in OF_SENDERS:
        return None
    known = (connection,) if connection < context.lsn else ()
    return rules.SENDER, f"connection {connection} is not open", known


def _wrong_expiry(context: AuditContext, row: Row, address: Address, expires: int) -> Wrong | None:
    """Check that the settings, asked again, leave the expiry of a message as it is."""
    settings = context.state.settings.resolve(address.name)
    if row[REASON] not in BY_CHOICE or not has_rules(settings):
        return None
    now = row[TIME] // 1000
    right = expires_of(settings, expires, now)
    # Limits may contradict each other: then the first answer is another than the second.
    if expires in (right, expires_of(settings, 0, now)):
        return None
    why = f"it expires at {expires}, and the settings of '{address.name}' make that {right}"
    return rules.EXPIRY_SET, why, ()


# ---- the original of a copy


def _wrong_original(context: AuditContext, row: Row) -> Wrong | None:
    """Check that a message is a copy of what its reason says, or of nothing."""
    reason, original = row[REASON], row[RELATED]
    if reason == reasons.SENT:
        why = f"a client sent it, and it is said to be a copy of message {original}"
        return (rules.COPY, why, ()) if original else None
    if reason in OF_DIVERTS and original and context.earlier(original) is None:
        return rules.COPY, f"its original, message {original}, was not just sent", ()
    if reason in FROM_QUEUES:
        before = context.previous
        if before is not None and before[1][RELATED] == context.lsn:
            return None
        return rules.COPY, "no message left its queue for it", (original,)
    if reason != reasons.DIVERT:
        return None
    before = context.earlier(original)
    if before is None:
        return rules.COPY, f"its original, message {original}, was not just sent", ()
    _, other, _, _, other_body = before
    is_comparable = other[KIND] == events.ROUTED and not (other[FLAGS] | row[FLAGS]) & BODY_OMITTED
    if is_comparable and other_body != context.body:
        return rules.COPY, f"its body is not that of message {original}", (original,)
    return None


def _wrong_origin(context: AuditContext, row: Row, origin: details.Origin | None) -> Wrong | None:
    """Check that only a copy says where it was before, and says so for its own reason."""
    reason = row[REASON]
    if reason == reasons.ADMINISTRATION:
        return None
    if origin is None:
        is_missing = context.has(BASIS) and reason in OF_ORIGINS
        # Of others the event before was asked what its copy has to say.
        is_missing = is_missing and (reason not in FROM_QUEUES or row[FLAGS] & BODY_OMITTED > 0)
        return (rules.COPY, "it does not say where it was before", ()) if is_missing else None
    if reason == reasons.SENT:
        return rules.COPY, "a client sent it, and it is said to have been elsewhere", ()
    if reason in OF_ORIGINS and origin.reason != reason:
        why = f"it is said to have been elsewhere for reason {origin.reason}"
        return rules.COPY, why, (row[RELATED],)
    if reason == reasons.HISTORY_ONLY and not row[RELATED]:
        return rules.COPY, "a client sent it, and it is said to have been elsewhere", ()
    if reason in (reasons.DIVERT, reasons.HISTORY_ONLY):
        return wrong_origin_of_copy(context, row, origin)
    return None


# ---- which queues


class _Choice(NamedTuple):
    """The queues that may, and that must, get a message; by filters nobody can read: perhaps."""

    must: set[int]
    may: set[int]


def _wrong_queues(
    context: AuditContext,
    row: Row,
    address: Address,
    message: Message,
    chosen: list[Queue],
    decoded: details.RoutedDetail,
) -> Wrong | None:
    for queue in chosen:
        if queue.deleting:
            return rules.ROUTING, f"queue '{queue.name}' was being deleted", ()
    plain = [queue for queue in chosen if not queue.definition.keeps]
    foreign = _foreign_history(chosen, address)
    if foreign is not None:
        return foreign
    has_histories = len(plain) < len(chosen)
    may_be_named = row[REASON] in BY_CHOICE and len(plain) == 1 and not has_histories
    may_be_named = may_be_named and plain[0].address is address
    if decoded.named and not is_one_of_several(context.core, plain[0] if plain else chosen[0]):
        return rules.ROUTING, "its sender named a queue, where no other could get it", ()
    if decoded.named or (may_be_named and not context.has(BASIS)):
        # Its sender named the queue, or may have: then nothing else is asked.
        if may_be_named and (not decoded.named or row[REASON] == reasons.SENT):
            return None if _can_be_named(plain[0]) else _not_named(plain[0])
        return rules.ROUTING, "its sender named a queue, and it went elsewhere", ()
    full = context.dropped_at()
    takers = NOBODY
    if row[REASON] != reasons.NO_ROUTE or not row[RELATED]:
        # Diverts pass over a copy that no queue took.
        takers = takers_of(context, address, message)
    if takers.is_exclusive:
        return rules.DIVERTS, f"divert '{takers.must[0].name}' takes it, and is exclusive", ()
    wrong = wrong_copies(context, row, address, takers) if context.core.diverts.count else None
    if wrong is not None:
        return wrong
    if not plain:
        if not has_histories:
            return rules.ROUTING, "it entered no queue", ()
        return _wrong_history(row, full, takers)
    if row[REASON] == reasons.HISTORY_ONLY:
        return rules.ROUTING, "a queue took it that is not a history", ()
    multicast = _multicast(context, row, address, message, full)
    anycast = _anycast(context, address, message, full)
    return _compare(context, row, address, message, plain, anycast, multicast)


def _wrong_history(row: Row, full: set[int], takers: Takers) -> Wrong | None:
    """Check the reason of a message that only histories took."""
    is_only = row[REASON] == reasons.HISTORY_ONLY
    if is_only and takers.is_some:
        return rules.ROUTING, "diverts took it", ()
    if not is_only and not (full or takers.may) and row[REASON] in OF_DIVERTS | FIRST:
        return rules.ROUTING, "only histories took it, and its reason is another", ()
    return None


def _foreign_history(chosen: list[Queue], address: Address) -> Wrong | None:
    for queue in chosen:
        keeps = queue.definition.keeps
        if keeps and keeps != address.name and not queue.retains:
            return rules.ROUTING, f"queue '{queue.name}' has the history of address '{keeps}'", ()
    return None


def _can_be_named(queue: Queue) -> bool:
    definition = queue.definition
    return definition.enabled and (not definition.purge_on_no_consumers or bool(queue.consumers))


def _not_named(queue: Queue) -> Wrong:
    return rules.ROUTING, f"queue '{queue.name}' takes no messages: it is disabled, or unused", ()


def _multicast(
    context: AuditContext, row: Row, address: Address, message: Message, full: set[int]
) -> _Choice:
    must: list[Queue] = []
    may: set[int] = set()
    for each in (address, *context.core.wildcards.of(address)):
        for binding in each.multicast:
            passes = context.accepts(binding, message)
            if passes is None or (passes and each.id in full):
                may.add(binding.queue.id)
            elif passes:
                must.append(binding.queue)
    sender = row[CONNECTION]
    if context.state.without_own and sender:
        must = without_own(context.state, must, sender)
    found = {queue.id for queue in must}
    return _Choice(found, may | found)


def _anycast(context: AuditContext, address: Address, message: Message, full: set[int]) -> _Choice:
    must: set[int] = set()
    may: set[int] = set()
    for binding in address.anycast:
        passes = context.accepts(binding, message)
        if passes and address.id not in full:
            must.add(binding.queue.id)
        if passes is not False:
            may.add(binding.queue.id)
    return _Choice(must, may)


def _compare(
    context: AuditContext,
    row: Row,
    address: Address,
    message: Message,
    chosen: list[Queue],
    anycast: _Choice,
    multicast: _Choice,
) -> Wrong | None:
    """Compare the queues chosen with those of the bindings, for some routing type."""
    has_type = row[REASON] not in TO_ALL
    in_turn = [each for each in chosen if each.id in anycast.may]
    to_each = {each.id for each in chosen} - {each.id for each in in_turn}
    for queue in chosen:
        if queue.id in to_each and queue.id not in multicast.may:
            return rules.ROUTING, _why_not_here(queue, address), ()
    if len(in_turn) > 1:
        return rules.ROUTING, f"it entered {len(in_turn)} anycast queues, and one is for it", ()
    missing = multicast.must - to_each
    if missing and (to_each or not has_type):
        name = context.state.queues[min(missing)].name
        return rules.ROUTING, f"queue '{name}' did not get it, whose filter lets it pass", ()
    if anycast.must and not in_turn and not has_type:
        name = context.state.queues[min(anycast.must)].name
        return rules.ROUTING, f"no anycast queue got it, and '{name}' takes it", ()
    return _wrong_turn(context, address, message, in_turn)


def _why_not_here(queue: Queue, address: Address) -> str:
    if queue.binding is None or queue.binding.address != address.name:
        return f"queue '{queue.name}' is not bound to address '{address.name}'"
    return f"queue '{queue.name}' does not take it: its filter is {queue.definition.filter!r}"


def _wrong_turn(
    context: AuditContext, address: Address, message: Message, in_turn: list[Queue]
) -> Wrong | None:
    """Check that a message of a group entered the anycast queue of its group."""
    if not in_turn or len(address.anycast) < 2 or not context.can_read(message):
        return None
    if not view_of(message).standard.group_id:
        return None
    right = next_anycast(context.core, address, message, {})
    if right is None or right is in_turn[0]:
        return None
    why = f"it entered queue '{in_turn[0].name}', and its group goes to '{right.name}'"
    return rules.ROUTING, why, ()


# ---- messages of before


@checks(events.RECALLED)
def recalled(context: AuditContext, row: Row) -> Wrong | None:
    """Check a message of before that a new queue got."""
    queue = context.state.queues[row[QUEUE]]
    decoded = cast(details.RecalledDetail, events.decode_detail(events.RECALLED, context.detail))
    recall = queue.recall
    if recall is None:
        return rules.HISTORY, f"queue '{queue.name}' has all of its history", (row[MESSAGE],)
    if row[MESSAGE] > recall.until:
        why = f"queue '{queue.name}' gets history up to message {recall.until}"
        return rules.HISTORY, why, (row[MESSAGE],)
    history = context.state.queues.get(decoded.history)
    if history is None or history.find(row[MESSAGE]) is None:
        why = f"the history, queue {decoded.history}, does not have it"
        return rules.HISTORY, why, (row[MESSAGE],)
    entry = history.get(row[MESSAGE])
    is_retained = is_recalled(context.core, recall, history, entry.message)
    if decoded.retained is not is_retained and (decoded.retained or context.has(RETAINED)):
        why = f"its address {'retained it' if is_retained else 'did not retain it'} for the queue"
        return rules.HISTORY, why, (row[MESSAGE],)
    wrong = _wrong_recall(row, entry, recall, decoded)
    return wrong or wrong_recalled_value(context, queue, entry.message, decoded)


def _wrong_recall(
    row: Row, entry: Entry, recall: Recall, decoded: details.RecalledDetail
) -> Wrong | None:
    """Check that a message is what the history has, and that the order is that of the history."""
    message = entry.message
    facts = (row[ADDRESS], row[PRIORITY], row[FLAGS], row[DELIVERY_COUNT], decoded.expires)
    kept = (message.address_id, message.priority, message.flags, 0, message.expires)
    if facts != kept:
        return rules.HISTORY, "it is not what it is in the history", (message.id,)
    if decoded.annotations != message.annotations:
        return rules.NOTED, "it does not have the annotations of the history", (message.id,)
    size = journaled_size(message)
    if decoded.size != size:
        return rules.HISTORY, f"its size is {decoded.size}, and was {size}", (message.id,)
    if decoded.history < recall.history:
        why = f"queue {decoded.history}, a history, was read before queue {recall.history}"
        return rules.HISTORY, why, (message.id,)
    if decoded.history == recall.history and entry.position <= recall.position:
        why = f"message {recall.position} of the same history was there before"
        return rules.HISTORY, why, (recall.position, message.id)
    if decoded.history != recall.retained and row[MESSAGE] <= recall.after:
        why = f"the queue gets history after message {recall.after}"
        return rules.HISTORY, why, (message.id,)
    return None
