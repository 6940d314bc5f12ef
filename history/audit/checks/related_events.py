"""The rules of events that belong together: transactions, chunks, and what is about the broker.

Must never know queues of messages.
"""

from typing import Final, cast

from daybook.engine.core.capacity import over_max
from daybook.engine.facts import details, events, reasons
from daybook.engine.facts.events import ADDRESS, CONNECTION, FLAGS, KIND, REASON, RELATED, Row
from daybook.engine.facts.kinds import IN_TRANSACTIONS, OF_ENTRIES, OF_TWO_MESSAGES, REFUSALS, about
from daybook.engine.facts.life import BROKER
from daybook.engine.facts.life import CONNECTION as OF_CONNECTION
from daybook.engine.messages.content import codec_of, is_known
from daybook.engine.messages.conversions import text_of
from daybook.engine.settings.setting_keys import PAGE
from daybook.engine.state.sizes import size_of
from daybook.history.audit import rules
from daybook.history.audit.context import STARTS, AuditContext
from daybook.history.audit.feature_levels import BASIS, decider_of
from daybook.history.audit.registry import checks
from daybook.history.audit.rules import Wrong

ROUTING: Final = IN_TRANSACTIONS & OF_TWO_MESSAGES | {events.DIVERTED}
"""Kinds of messages that were taken."""
DUPLICATE_ID: Final = "_AMQ_DUPL_ID"
"""The property with which clients send the id by which duplicates are known."""
OUTSIDE: Final = about(BROKER, OF_CONNECTION) | REFUSALS
"""Kinds that no commit can make."""
OF_ADDRESSES: Final = (reasons.MAX_SIZE_BYTES, reasons.MAX_SIZE_MESSAGES)
"""Why an address pages that is full by its own limits."""


def check_transaction(context: AuditContext, row: Row, name: str) -> Wrong | None:
    """Check that a commit covers an event that came in a transaction."""
    if not name:
        return None
    for lsn, other, detail, _, _ in context.following:
        if other[KIND] == events.TRANSACTION_COMMITTED:
            found = cast(
                details.TransactionDetail,
                events.decode_detail(events.TRANSACTION_COMMITTED, detail),
            )
            if found.first <= context.lsn < lsn and found.transaction == name:
                return None
            break
    return rules.COMMIT, f"no commit of transaction '{name}' covers it", ()


@checks(events.TRANSACTION_COMMITTED)
def committed(context: AuditContext, row: Row) -> Wrong | None:
    """Check that a commit covers exactly its events."""
    found = cast(
        details.TransactionDetail,
        events.decode_detail(events.TRANSACTION_COMMITTED, context.detail),
    )
    if row[CONNECTION] not in context.state.connections:
        return rules.SENDER, f"connection {row[CONNECTION]} is not open", ()
    begin = context.at - found.events
    if found.first + found.events != context.lsn or begin < 0:
        why = f"it names {found.events} events from {found.first}; it is event {context.lsn} itself"
        return rules.COMMIT, why, (found.first,)
    for other_lsn, other, other_detail, _, _ in context.events[begin : context.at]:
        kind = other[KIND]
        if kind in OUTSIDE or kind not in events.BY_NUMBER or not _can_be_in(kind):
            name = events.BY_NUMBER[kind].name if kind in events.BY_NUMBER else f"kind {kind}"
            why = f"event {other_lsn} is in the middle of it, {name}, which no commit makes"
            return rules.COMMIT, why, (other_lsn,)
        if kind in IN_TRANSACTIONS and not other[RELATED]:
            decoded = cast(details.RoutedDetail, events.decode_detail(kind, other_detail))
            if decoded.transaction != found.transaction or other[CONNECTION] != row[CONNECTION]:
                why = f"event {other_lsn} is in the middle of it, and of another sender"
                return rules.COMMIT, why, (other_lsn,)
    return None


def _can_be_in(kind: int) -> bool:
    """Whether a commit can make events of a kind: about messages, queues, or addresses."""
    event = events.BY_NUMBER[kind]
    if kind in OF_ENTRIES or kind in IN_TRANSACTIONS:
        return True
    return "address" in event.columns or not event.columns


def wrong_chunks(
    context: AuditContext, decoded: details.RoutedDetail | details.ForwardedDetail
) -> Wrong | None:
    """Check that a large message has all of its chunks."""
    if not decoded.chunks:
        return None
    lsns = events.chunk_lsns(decoded)
    if lsns[0] <= context.known_from:
        return None
    missing = [each for each in lsns if each not in context.chunks]
    if missing:
        return rules.CHUNKS, f"event {missing[0]} is not a chunk", (missing[0],)
    length, _ = context.chunks[lsns[-1]]
    context.used += lsns
    if length != decoded.body_bytes:
        why = f"its chunks have {length} bytes, and its body {decoded.body_bytes}"
        return rules.CHUNKS, why, lsns
    return None


@checks(events.CHUNK_RECEIVED)
def chunk(context: AuditContext, row: Row) -> Wrong | None:
    """Check a piece of a large message."""
    before, connection = row[RELATED], row[CONNECTION]
    if not connection:
        # Written again by retention, so that its segment can leave.
        return None
    if connection not in context.state.connections:
        return rules.SENDER, f"connection {connection} is not open", (connection,)
    length, _ = context.chunks.get(before, (0, 0))
    context.chunks[context.lsn] = length + len(context.body), connection
    if before > context.known_from and before not in context.chunks:
        return rules.CHUNKS, f"event {before} is not a chunk", (before,)
    return None


@checks(events.SKIPPED)
def skipped(context: AuditContext, row: Row) -> Wrong | None:
    """Check that LSNs are skipped only before a start."""
    following = context.next
    kind = following[1][KIND] if following is not None else 0
    if kind in STARTS or kind == events.SKIPPED:
        return None
    return rules.NUMBERED, "LSNs are skipped only when the broker starts", ()


@checks(events.DUPLICATE_ID_RECORDED)
def recorded(context: AuditContext, row: Row) -> Wrong | None:
    """Check that a duplicate id is that of the message which was decided just before."""
    decided = context.earlier(row[RELATED])
    if decided is None and row[RELATED] < context.events[0][0] and not context.has(BASIS):
        # Blocks of earlier versions could end in between.
        return None
    if decided is None or decided[1][KIND] not in IN_TRANSACTIONS:
        return rules.FITS, f"event {row[RELATED]} decided no message just before", (row[RELATED],)
    lsn, other, detail, headers, _ = decided
    first = context.events[0][0]
    for later, between, _, _, _ in context.events[lsn + 1 - first : context.at]:
        if between[KIND] in ROUTING and not between[RELATED]:
            return rules.FITS, f"event {later} decided another message since", (lsn, later)
    said = events.decode_detail(other[KIND], detail)
    unrouted_at: int = getattr(said, "unrouted_at", 0)
    address = unrouted_at or other[ADDRESS]
    is_original = other[KIND] != events.DROPPED and other[REASON] == reasons.SENT
    if (is_original or unrouted_at) and address != row[ADDRESS]:
        return rules.FITS, f"message {lsn} was sent to address {address}", (lsn,)
    return _wrong_id(context, other, said, headers, lsn)


def _wrong_id(
    context: AuditContext, row: Row, said: object, headers: bytes, lsn: int
) -> Wrong | None:
    """Compare the id with the one that the message, or its Dropped, has."""
    detail = events.decode_detail(events.DUPLICATE_ID_RECORDED, context.detail)
    own = cast(details.DuplicateIdDetail, detail).duplicate_id
    theirs: str | None = None
    if isinstance(said, details.DroppedDetail):
        theirs = said.duplicate_id
    elif headers and is_known(row[FLAGS]):
        found = codec_of(row[FLAGS]).first(headers, DUPLICATE_ID)
        theirs = text_of(found) if found is not None else None
    if theirs is None or theirs == own:
        return None
    return rules.ONCE, f"its message has the duplicate id {theirs!r}, not {own!r}", (lsn,)


# ---- addresses as a whole


@checks(events.PAGING_STARTED)
def paging_started(context: AuditContext, row: Row) -> Wrong | None:
    """Check that an address did not page before."""
    return _paging(context, row, is_expected=False)


@checks(events.PAGING_STOPPED)
def paging_stopped(context: AuditContext, row: Row) -> Wrong | None:
    """Check that an address paged before."""
    return _paging(context, row, is_expected=True)


def _paging(context: AuditContext, row: Row, *, is_expected: bool) -> Wrong | None:
    address = context.state.addresses[row[ADDRESS]]
    if address.paging != is_expected:
        return rules.PAGING, f"address '{address.name}' does so already", ()
    decoded = cast(details.PagingDetail, events.decode_detail(row[KIND], context.detail))
    size, messages = size_of(address)
    has_transients = any(queue.transient_count for queue in address.queues())
    if not is_expected and not has_transients:
        settings = context.state.settings.resolve(address.name)
        # Only one that is not full by itself is chosen because the broker is.
        right = row[REASON] if row[REASON] in OF_ADDRESSES else 0
        if settings.address_full_policy != PAGE or over_max(settings, size, messages) != right:
            return rules.PAGING, f"address '{address.name}' is not full by that limit", ()
    if decoded.messages != messages:
        why = f"address '{address.name}' has {messages} messages, and the event says "
        return rules.PAGING, why + str(decoded.messages), ()
    if decoded.bytes != size and not has_transients:
        # The content of messages that are not persistent is perhaps not journaled.
        why = f"address '{address.name}' has {size} bytes, and the event says {decoded.bytes}"
        return rules.PAGING, why, ()
    return None


# ---- brokers


@checks(events.BROKER_STARTED)
def broker_started(context: AuditContext, row: Row) -> Wrong | None:
    """Check that a broker of a cluster leads in an epoch that is newer than all before."""
    epoch = decider_of(context.lsn, context.detail).epoch
    before = context.last_leader()
    if epoch and epoch <= before.epoch:
        why = f"it leads in epoch {epoch}, and the broker of event {before.start} did in"
        return rules.EPOCHS, f"{why} {before.epoch}", (before.start,)
    return None
