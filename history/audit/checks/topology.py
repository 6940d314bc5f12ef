"""The rules of what there is: connections, consumers, addresses and queues, and who made them.

Must never know messages.
"""

from typing import cast

from daybook.engine.commands import Attach
from daybook.engine.consumers.attach_plan import check_queue_of
from daybook.engine.core.lifetime import is_over
from daybook.engine.entries.dispatch_start import why_begin
from daybook.engine.facts import details, events, reasons
from daybook.engine.facts.definitions import Detail, with_changes
from daybook.engine.facts.events import (
    ADDRESS,
    CONNECTION,
    CONSUMER,
    KIND,
    QUEUE,
    REASON,
    RELATED,
    TIME,
    Row,
)
from daybook.engine.queues.queue import Queue
from daybook.engine.topology.topology import is_unused
from daybook.history.audit import rules
from daybook.history.audit.checks.ends import wrong_attached, wrong_detached
from daybook.history.audit.context import ANY_LARGE, AuditContext
from daybook.history.audit.registry import checks
from daybook.history.audit.rules import Wrong


@checks(events.CONNECTION_OPENED)
def connected(context: AuditContext, row: Row) -> Wrong | None:
    """Check the id of a new connection."""
    if row[CONNECTION] == context.lsn:
        return None
    return rules.NUMBERED, f"the id of a connection is its event, not {row[CONNECTION]}", ()


@checks(events.CONSUMER_ATTACHED)
def attached(context: AuditContext, row: Row) -> Wrong | None:
    """Check that a queue takes a new consumer."""
    if row[CONSUMER] != context.lsn:
        return rules.NUMBERED, f"the id of a consumer is its event, not {row[CONSUMER]}", ()
    queue = context.state.queues[row[QUEUE]]
    if row[CONNECTION] not in context.state.connections:
        return rules.SENDER, f"connection {row[CONNECTION]} is not open", (row[CONNECTION],)
    if queue.deleting or row[ADDRESS] != queue.address.id:
        return rules.ADMITTED, f"queue '{queue.name}' is not on address {row[ADDRESS]}", ()
    wrong = wrong_attached(context, row) if context.ending else None
    wrong = wrong or (wrong_bundle(context, row) if row[RELATED] else None)
    if wrong is not None:
        return wrong
    decoded = cast(
        details.ConsumerAttachedDetail,
        events.decode_detail(events.CONSUMER_ATTACHED, context.detail),
    )
    asked = Attach(row[CONNECTION], queue.address.name, browses=decoded.browses)
    refusal = check_queue_of(queue, asked)
    return (rules.ADMITTED, refusal.text, ()) if refusal is not None else None


@checks(events.CONSUMER_DETACHED)
def detached(context: AuditContext, row: Row) -> Wrong | None:
    """Check that a consumer left the queue that it was attached to."""
    consumer = context.state.consumers[row[CONSUMER]]
    queue = consumer.queue
    if (queue.id, queue.address.id, consumer.connection_id) == (
        row[QUEUE], row[ADDRESS], row[CONNECTION],
    ):  # fmt: skip
        if row[REASON] == reasons.UNREADABLE:
            context.unreadable.add((queue.id, ANY_LARGE))
        return wrong_detached(context, row)
    why = f"it was attached to queue '{queue.name}' by connection {consumer.connection_id}"
    return rules.TAKER, why, (consumer.id,)


# ---- addresses and queues


@checks(events.ADDRESS_CREATED)
def address_created(context: AuditContext, row: Row) -> Wrong | None:
    """Check id and name of a new address."""
    decoded = cast(
        details.AddressDetail, events.decode_detail(events.ADDRESS_CREATED, context.detail)
    )
    is_there = decoded.name in context.state.address_by_name
    return _new(context, row, row[ADDRESS], context.state.next_address, is_there)


@checks(events.QUEUE_CREATED)
def queue_created(context: AuditContext, row: Row) -> Wrong | None:
    """Check id and name of a new queue."""
    decoded = cast(details.QueueDetail, events.decode_detail(events.QUEUE_CREATED, context.detail))
    is_there = decoded.name in context.state.queue_by_name
    return _new(context, row, row[QUEUE], context.state.next_queue, is_there)


def _new(
    context: AuditContext, row: Row, number: int, following: int, is_there: bool
) -> Wrong | None:
    if row[CONNECTION] and row[CONNECTION] not in context.state.connections:
        return rules.SENDER, f"connection {row[CONNECTION]} is not open", ()
    if is_there:
        return rules.NAMED_ONCE, "there was one of this name", ()
    if number < following:
        return rules.NUMBERED, f"its id is {number}, and {following} is the next one", ()
    return None


@checks(events.ADDRESS_UPDATED)
def address_updated(context: AuditContext, row: Row) -> Wrong | None:
    """Check that an address changed in what its event lists, and in nothing else."""
    address = context.state.addresses[row[ADDRESS]]
    decoded = cast(
        details.AddressDetail, events.decode_detail(events.ADDRESS_UPDATED, context.detail)
    )
    wrong = _wrong_maker(context, row)
    if row[REASON] == reasons.HISTORY:
        # A place of histories, of which only what changes is said.
        return wrong
    return wrong or _wrong_change(address.definition, decoded, decoded.changed)


@checks(events.QUEUE_UPDATED)
def queue_updated(context: AuditContext, row: Row) -> Wrong | None:
    """Check that a queue changed in what its event lists, and in nothing else."""
    queue = context.state.queues[row[QUEUE]]
    decoded = cast(details.QueueDetail, events.decode_detail(events.QUEUE_UPDATED, context.detail))
    if decoded.deleting:
        wrong = _wrong_maker(context, row) or _wrong_place(context, queue, row)
        return wrong or _wrong_lifetime(context, queue, row)
    wrong = _wrong_maker(context, row)
    if row[ADDRESS] != queue.address.id and row[REASON] != reasons.SUBSCRIPTION:
        return _wrong_place(context, queue, row)
    if row[REASON] == reasons.SUBSCRIPTION:
        # The new definition; only the listed fields of it count.
        return wrong
    return wrong or _wrong_change(queue.definition, decoded, decoded.changed)


def _wrong_maker(context: AuditContext, row: Row) -> Wrong | None:
    if row[CONNECTION] and row[CONNECTION] not in context.state.connections:
        return rules.SENDER, f"connection {row[CONNECTION]} is not open", ()
    return None


def _wrong_change(before: Detail, decoded: Detail, changed: tuple[str, ...]) -> Wrong | None:
    """Compare a definition with the one that an event says; earlier versions list no changes."""
    if not changed:
        return None
    names = before.__struct_fields__
    for name in names:
        was, now = getattr(before, name), getattr(decoded, name)
        if name in changed:
            continue
        if was != now:
            return rules.CHANGED, f"it does not list {name}, which was {was!r} and is {now!r}", ()
    if with_changes(before, decoded, changed) == before:
        return rules.CHANGED, f"it does not change {', '.join(changed)}", ()
    return None


def _wrong_place(context: AuditContext, queue: Queue, row: Row) -> Wrong | None:
    """Check that an event about a queue names its address."""
    if row[ADDRESS] == queue.address.id:
        return None
    why = f"it names address {row[ADDRESS]}, and its queue is on address {queue.address.id}"
    return rules.COLUMNS, why, ()


@checks(events.ADDRESS_DELETED)
def address_deleted(context: AuditContext, row: Row) -> Wrong | None:
    """Check that an address is gone that nothing needs any more."""
    address = context.state.addresses[row[ADDRESS]]
    wrong = None if _goes_with_its_queue(context, row) else _wrong_maker(context, row)
    if wrong is None and not is_unused(context.core, address):
        return rules.FITS, f"address '{address.name}' still has queues", ()
    return wrong


def _goes_with_its_queue(context: AuditContext, row: Row) -> bool:
    """Whether the last queue of an address was deleted just before, for the same connection."""
    previous = context.previous
    if previous is None:
        return False
    _, before, _, _, _ = previous
    return before[KIND] == events.QUEUE_DELETED and all(
        before[column] == row[column] for column in (ADDRESS, CONNECTION)
    )


@checks(events.QUEUE_DELETED)
def queue_deleted(context: AuditContext, row: Row) -> Wrong | None:
    """Check that a queue is gone whose messages and consumers left."""
    queue = context.state.queues[row[QUEUE]]
    # A long queue is emptied in parts, and its connection may have ended meanwhile.
    wrong = None if queue.deleting else _wrong_maker(context, row)
    wrong = wrong or _wrong_place(context, queue, row)
    if wrong is None and queue.consumers:
        return rules.FITS, f"queue '{queue.name}' has consumers", (queue.consumers[0].id,)
    return wrong or (None if queue.deleting else _wrong_lifetime(context, queue, row))


def _wrong_lifetime(context: AuditContext, queue: Queue, row: Row) -> Wrong | None:
    """Check that a queue that nobody uses was not deleted before its time."""
    settings = context.state.settings.resolve(queue.address.name)
    if row[REASON] != reasons.AUTO_DELETE or is_over(queue, settings, row[TIME]):
        return None
    return rules.LIFETIME, f"queue '{queue.name}' is used, or its time is not over", ()


@checks(events.QUEUE_PAUSED)
def queue_paused(context: AuditContext, row: Row) -> Wrong | None:
    """Check that a queue was not paused before."""
    return _set_paused(context, row, was_paused=False)


@checks(events.QUEUE_RESUMED)
def queue_resumed(context: AuditContext, row: Row) -> Wrong | None:
    """Check that a queue was paused before."""
    return _set_paused(context, row, was_paused=True)


def _set_paused(context: AuditContext, row: Row, *, was_paused: bool) -> Wrong | None:
    queue = context.state.queues[row[QUEUE]]
    if queue.paused != was_paused:
        state = "not paused" if was_paused else "paused"
        return rules.CHANGED, f"queue '{queue.name}' was {state} already", ()
    return _wrong_place(context, queue, row)


@checks(events.GROUPS_RESET)
@checks(events.RECALL_STARTED)
@checks(events.RECALL_ENDED)
def about_a_queue(context: AuditContext, row: Row) -> Wrong | None:
    """Check that a queue is on the address that its event names."""
    return _wrong_place(context, context.state.queues[row[QUEUE]], row)


@checks(events.DUPLICATE_IDS_CLEARED)
def ids_cleared(context: AuditContext, row: Row) -> Wrong | None:
    """Check that there is an address to forget ids."""
    if row[ADDRESS] in context.state.addresses:
        return None
    return rules.FITS, f"address {row[ADDRESS]} does not exist", ()


# ---- subscriptions to several queues


@checks(events.BUNDLE_OPENED)
def bundle_opened(context: AuditContext, row: Row) -> Wrong | None:
    """Check that a subscription to several queues is of an open connection."""
    context.bundles[context.lsn] = row[CONNECTION]
    return _wrong_maker(context, row)


@checks(events.BUNDLE_CLOSED)
def bundle_closed(context: AuditContext, row: Row) -> Wrong | None:
    """Check that the subscription was there, and was of this connection."""
    return wrong_bundle(context, row) or _ended_bundle(context, row)


def _ended_bundle(context: AuditContext, row: Row) -> Wrong | None:
    context.bundles.pop(row[RELATED], None)
    return None


def wrong_bundle(context: AuditContext, row: Row) -> Wrong | None:
    """Check that an event names a subscription to several queues of its connection."""
    owner = context.bundles.get(row[RELATED])
    if owner == row[CONNECTION] or (owner is None and row[RELATED] <= context.known_from):
        return None
    whose = f"of connection {owner}" if owner is not None else "no subscription that is open"
    return rules.TAKER, f"event {row[RELATED]} is {whose}", (row[RELATED],)


@checks(events.DISPATCH_STARTED)
def dispatch_started(context: AuditContext, row: Row) -> Wrong | None:
    """Check that a queue whose consumers waited may begin to deliver."""
    queue = context.state.queues[row[QUEUE]]
    wrong = _wrong_place(context, queue, row)
    if wrong is not None:
        return wrong
    reason = why_begin(queue, context.core.now)
    if reason == row[REASON]:
        return None
    return rules.WAITING, f"it has {len(queue.consumers)} consumers, and is to wait", ()


@checks(events.OWNER_ENDED)
def owner_ended(context: AuditContext, row: Row) -> Wrong | None:
    """Check that a queue without consumers belonged to a session or a connection."""
    queue = context.state.queues[row[QUEUE]]
    if not queue.is_owned:
        return rules.LIFETIME, f"queue '{queue.name}' belongs to no session or connection", ()
    return _wrong_maker(context, row) or _wrong_place(context, queue, row)


@checks(events.TIME_MARKED)
def time_marked(context: AuditContext, row: Row) -> Wrong | None:
    """Check that some address keeps its history."""
    if context.state.settings.keeps_history:
        return None
    return rules.HISTORY, "no address keeps its history", ()
