"""`apply`: the only code that changes the logical state, alike live and in every fold.

One function for each kind, all with the same parameters: (state, lsn, row, detail, headers, body).
They trust the event, because it was decided by `decide` or checked by the journal. An event that
does not fit the state is a bug of this broker or damage to the journal, and raises `MismatchError`.
"""

from collections import deque
from collections.abc import Callable
from typing import Final, TypeAlias, cast

import msgspec

from daybook.engine.facts import details, events
from daybook.engine.facts.events import (
    ADDRESS,
    CONSUMER,
    DELIVERY_COUNT,
    FLAGS,
    FORMAT,
    MESSAGE,
    PERSISTENT,
    PRIORITY,
    QUEUE,
    REASON,
    REDELIVERED,
    TIME,
    Row,
)
from daybook.engine.facts.kinds import COUNTERS_BY_REASON
from daybook.engine.facts.mismatch import MismatchError
from daybook.engine.facts.reasons import SENT
from daybook.engine.messages.annotations import annotated, merged
from daybook.engine.messages.content import is_known
from daybook.engine.messages.message import PRIORITIES, Message
from daybook.engine.messages.origins import journaled
from daybook.engine.queues.arrival import Arrival
from daybook.engine.queues.consumer import Consumer, consumer_of
from daybook.engine.queues.entry import (
    GONE,
    HELD_LEVEL,
    IN_FLIGHT,
    READY,
    SCHEDULED_LEVEL,
    Entry,
    Scheduled,
)
from daybook.engine.queues.id_cache import IdCache, key_of, keys_by_text
from daybook.engine.queues.queue import Queue
from daybook.engine.state.address_counts import COUNTED, count
from daybook.engine.state.apply_recalls import recall_ended, recall_started, recalled, time_marked
from daybook.engine.state.apply_topology import (
    address_created,
    address_deleted,
    address_updated,
    connection_closed,
    connection_opened,
    consumer_attached,
    consumer_detached,
    dispatch_started,
    divert_created,
    divert_deleted,
    note_disowned,
    note_empty,
    note_idle,
    owner_ended,
    queue_created,
    queue_deleted,
    queue_paused,
    queue_resumed,
    queue_updated,
    settings_changed,
)
from daybook.engine.state.state import State

_PLAIN: Final = details.RoutedDetail()
"""The detail of a Routed whose detail is empty."""

Apply: TypeAlias = Callable[[State, int, Row, bytes, bytes, bytes], None]


def routed(state: State, lsn: int, row: Row, detail: bytes, headers: bytes, body: bytes) -> None:
    """A message enters the queue of the row, or those listed in the detail."""
    decoded = _PLAIN
    if detail:
        decoded = events.routed_detail(detail)
    message = Message(
        row[MESSAGE], row[ADDRESS], row[PRIORITY], row[FLAGS], decoded.expires, headers, body
    )
    if decoded.annotations:
        message = annotated(message, decoded.annotations)
    if row[FLAGS] & FORMAT and not is_known(row[FLAGS]):
        # This version cannot read the headers: asking for the content is an error (`Store.fill`).
        message.resident = False
    if decoded.chunks:
        message.enlarge(events.chunk_lsns(decoded), decoded.body_bytes)
    if decoded.queues:
        message.share(len(decoded.queues))
        queues = [state.queues[queue_id] for queue_id in decoded.queues]
        if state.defers:
            on_their_way = state.arrivals.setdefault(message.address_id, deque())
            on_their_way.append(Arrival(lsn, message, queues, decoded.due))
        else:
            for queue in queues:
                enter(state, lsn, queue, message, decoded.due)
    else:
        enter(state, lsn, state.queues[row[QUEUE]], message, decoded.due)
    if row[REASON] != SENT:
        message.origin = journaled(row, decoded, headers)
    if decoded.last_values:
        keys = keys_by_text(decoded.last_values.values())
        for queue_id, value in decoded.last_values.items():
            state.queues[queue_id].note_latest(keys[value], message.id, lsn)


def enter(state: State, lsn: int, queue: Queue, message: Message, due: int = 0) -> None:
    """Apply Routed to one queue: add a new entry, behind all others of its priority; or set it
    aside until a time, in milliseconds since 1970, if that is not 0."""
    entry = Scheduled(message, due) if due else Entry(message)
    queue.added += 1
    queue.newest = message.id
    queue.entries[message.id] = entry
    queue.bytes += message.size
    queue.weight += message.weight
    if due:
        queue.set_aside(entry)
        state.is_due(due, message, queue)
    else:
        queue.put(entry)
    if not message.flags & PERSISTENT:
        queue.transient_count += 1
    if message.expires:
        state.expires(message, queue)


def enter_alone(state: State, lsn: int, queue: Queue, message: Message) -> None:
    """Apply a Routed to one queue, without a detail or an origin, and count it."""
    queue.address.routed += 1
    enter(state, lsn, queue, message)


def delivered(state: State, lsn: int, row: Row, detail: bytes, headers: bytes, body: bytes) -> None:
    """A ready entry goes into flight to a consumer."""
    queue = state.queues[row[QUEUE]]
    entry = queue.get(row[MESSAGE])
    take_off(lsn, queue, entry, state.consumers[row[CONSUMER]], row[DELIVERY_COUNT], row[TIME])


def take_off(
    lsn: int, queue: Queue, entry: Entry, consumer: Consumer, delivery_count: int, time: int
) -> None:
    """Apply Delivered."""
    if entry.state != READY:
        raise MismatchError(f"event {lsn}: message {entry.message.id} delivered while not ready")
    queue.withdraw(entry, IN_FLIGHT)
    entry.delivery_count = delivery_count
    entry.delivered_at = time
    entry.consumer = consumer
    message = entry.message
    consumer.unacked[message.id] = entry
    consumer.connection.unacked_bytes += message.weight
    if consumer.index is not None:
        consumer.index.add(consumer, entry)


def acknowledged(
    state: State, lsn: int, row: Row, detail: bytes, headers: bytes, body: bytes
) -> None:
    """An entry in flight leaves its queue for good."""
    queue = state.queues[row[QUEUE]]
    settle(lsn, queue, queue.get(row[MESSAGE]))


def settle(lsn: int, queue: Queue, entry: Entry) -> None:
    """Apply Acknowledged."""
    _leave(lsn, queue, entry)
    queue.acknowledged += 1


def _leave(lsn: int, queue: Queue, entry: Entry) -> None:
    message = entry.message
    message_id = message.id
    del queue.entries[message_id]
    queue.bytes -= message.size
    queue.weight -= message.weight
    if entry.state == READY:
        queue.withdraw(entry, GONE)
    else:
        consumer = consumer_of(entry)
        if consumer is None:
            raise MismatchError(f"message {message_id} is in flight to nobody")
        del consumer.unacked[message_id]
        consumer.connection.unacked_bytes -= message.weight
        if consumer.index is not None:
            consumer.index.remove(consumer, message_id)
        entry.consumer = None
        entry.state = GONE
    if queue.store is not None:
        queue.note_gone(entry, lsn)
    if not message.flags & PERSISTENT:
        queue.transient_count -= 1


def returned(state: State, lsn: int, row: Row, detail: bytes, headers: bytes, body: bytes) -> None:
    """An entry in flight is ready again, in its place, with the delivery count of the event."""
    queue = state.queues[row[QUEUE]]
    entry = queue.get(row[MESSAGE])
    if row[FLAGS] & REDELIVERED:
        entry.redelivered = True
    annotations = _note_said(queue, entry, detail) if detail else b""
    _come_back(state, lsn, queue, entry, row[DELIVERY_COUNT])
    if annotations:
        _annotate(queue, entry, annotations)


def _note_said(queue: Queue, entry: Entry, detail: bytes) -> bytes:
    """Note that a message is not for the consumer that returns it, if that says so; return what it
    notes on the message."""
    decoded = cast(details.ReturnedDetail, events.decode_detail(events.RETURNED, detail))
    consumer = consumer_of(entry)
    if decoded.not_here and consumer is not None:
        queue.refuse(consumer, entry.message.id)
    return decoded.annotations


def _annotate(queue: Queue, entry: Entry, annotations: bytes) -> None:
    """Give a ready entry annotations, which replace those of the same key."""
    before = entry.message
    after = annotated(before, merged(before.annotations, annotations))
    queue.bytes += after.size - before.size
    queue.weight += after.weight - before.weight
    entry.message = after


def _come_back(state: State, lsn: int, queue: Queue, entry: Entry, delivery_count: int) -> None:
    message = entry.message
    consumer = consumer_of(entry)
    if consumer is None:
        raise MismatchError(f"message {message.id} was returned and is in flight to nobody")
    del consumer.unacked[message.id]
    consumer.connection.unacked_bytes -= message.weight
    if consumer.index is not None:
        consumer.index.remove(consumer, message.id)
    entry.consumer = None
    entry.delivery_count = delivery_count
    entry.changed = lsn
    state.look_again(queue, entry)
    queue.put_back(entry)
    if message.expires:
        state.expires(message, queue)


def held(state: State, lsn: int, row: Row, detail: bytes, headers: bytes, body: bytes) -> None:
    """An entry that is ready or scheduled is set aside in its queue until it is released."""
    queue = state.queues[row[QUEUE]]
    entry = queue.get(row[MESSAGE])
    if entry.state != READY or entry.held:
        raise MismatchError(f"event {lsn}: message {entry.message.id} held while not ready")
    _set_aside(queue, entry, entry.moved_to(HELD_LEVEL, lsn))
    state.holding[queue.id] = queue


def scheduled(state: State, lsn: int, row: Row, detail: bytes, headers: bytes, body: bytes) -> None:
    """A ready entry is set aside in its queue until a time.

    Brokers of levels before 7 repeat what Routed says: its entry is set aside until then already.
    """
    decoded = cast(details.ScheduledDetail, events.decode_detail(events.SCHEDULED, detail))
    queue = state.queues[row[QUEUE]]
    entry = queue.get(row[MESSAGE])
    if entry.due == decoded.due > 0:
        entry.changed = lsn
        return
    if entry.state != READY or entry.level >= PRIORITIES:
        raise MismatchError(f"event {lsn}: message {entry.message.id} scheduled while not ready")
    _set_aside(queue, entry, entry.moved_to(SCHEDULED_LEVEL, lsn, decoded.due))
    state.is_due(decoded.due, entry.message, queue)


def _set_aside(queue: Queue, entry: Entry, aside: Entry) -> None:
    queue.withdraw(entry, GONE)
    queue.entries[aside.message.id] = aside
    queue.set_aside(aside)


def released(state: State, lsn: int, row: Row, detail: bytes, headers: bytes, body: bytes) -> None:
    """An entry that was set aside is ready again, in its place."""
    queue = state.queues[row[QUEUE]]
    entry = queue.get(row[MESSAGE])
    if not entry.held:
        raise MismatchError(f"event {lsn}: message {entry.message.id} released and is not held")
    _make_ready(state, lsn, queue, entry)


def due(state: State, lsn: int, row: Row, detail: bytes, headers: bytes, body: bytes) -> None:
    """An entry that was scheduled is ready again, in its place."""
    queue = state.queues[row[QUEUE]]
    entry = queue.get(row[MESSAGE])
    if entry.level != SCHEDULED_LEVEL:
        raise MismatchError(f"event {lsn}: message {entry.message.id} due and is not scheduled")
    _make_ready(state, lsn, queue, entry)
    if detail:
        decoded = cast(details.DueDetail, events.decode_detail(events.DUE, detail))
        queue.note_latest(key_of(decoded.last_value), row[MESSAGE], lsn)


def _make_ready(state: State, lsn: int, queue: Queue, entry: Entry) -> None:
    queue.withdraw(entry, GONE)
    ready = entry.moved_to(entry.message.priority, lsn)
    queue.entries[ready.message.id] = ready
    state.look_again(queue, ready)
    state.show_again(queue, ready)
    queue.put_back(ready)
    if ready.message.expires:
        state.expires(ready.message, queue)


def dead_lettered(
    state: State, lsn: int, row: Row, detail: bytes, headers: bytes, body: bytes
) -> None:
    """An entry leaves its queue because its attempts are used up."""
    queue = state.queues[row[QUEUE]]
    _leave(lsn, queue, queue.get(row[MESSAGE]))
    queue.dead_lettered += 1


def expired(state: State, lsn: int, row: Row, detail: bytes, headers: bytes, body: bytes) -> None:
    """An entry leaves its queue because its time has passed."""
    queue = state.queues[row[QUEUE]]
    _leave(lsn, queue, queue.get(row[MESSAGE]))
    queue.expired += 1


def removed(state: State, lsn: int, row: Row, detail: bytes, headers: bytes, body: bytes) -> None:
    """An entry leaves its queue, ready or in flight."""
    queue = state.queues[row[QUEUE]]
    _leave(lsn, queue, queue.get(row[MESSAGE]))
    counter = COUNTERS_BY_REASON.get((events.REMOVED, row[REASON]))
    if counter is not None:
        setattr(queue, counter, getattr(queue, counter) + 1)


def moved(state: State, lsn: int, row: Row, detail: bytes, headers: bytes, body: bytes) -> None:
    """An entry leaves its queue; its message goes on as another."""
    queue = state.queues[row[QUEUE]]
    _leave(lsn, queue, queue.get(row[MESSAGE]))


def nothing(state: State, lsn: int, row: Row, detail: bytes, headers: bytes, body: bytes) -> None:
    """Events that record a fact and change nothing."""


def paging_started(
    state: State, lsn: int, row: Row, detail: bytes, headers: bytes, body: bytes
) -> None:
    """The messages of an address may leave memory."""
    state.addresses[row[ADDRESS]].paging = True


def paging_stopped(
    state: State, lsn: int, row: Row, detail: bytes, headers: bytes, body: bytes
) -> None:
    """The messages of an address stay in memory."""
    state.addresses[row[ADDRESS]].paging = False


def duplicate_id_recorded(
    state: State, lsn: int, row: Row, detail: bytes, headers: bytes, body: bytes
) -> None:
    """An address remembers an id, and forgets the oldest if there are too many."""
    decoded = cast(
        details.DuplicateIdDetail, events.decode_detail(events.DUPLICATE_ID_RECORDED, detail)
    )
    address = state.addresses[row[ADDRESS]]
    if address.ids is None:
        address.ids = IdCache()
    key = key_of(decoded.duplicate_id)
    if address.ids.has(key):
        raise MismatchError(f"event {lsn}: address {address.name} remembers this id already")
    address.ids.add(key, state.settings.resolve(address.name).id_cache_size)


def duplicate_ids_cleared(
    state: State, lsn: int, row: Row, detail: bytes, headers: bytes, body: bytes
) -> None:
    """An address forgets all ids."""
    address = state.addresses[row[ADDRESS]]
    if address.ids is not None:
        address.ids.clear()


def broker_started(
    state: State, lsn: int, row: Row, detail: bytes, headers: bytes, body: bytes
) -> None:
    """Everything that does not survive a restart is removed; deliveries in flight return with their
    counts."""
    for consumer in list(state.consumers.values()):
        for message_id in sorted(consumer.unacked, reverse=True):
            entry = consumer.unacked[message_id]
            _come_back(state, lsn, consumer.queue, entry, entry.delivery_count)
        consumer.queue.detach_all()
        note_idle(consumer.queue, row)
        consumer.queue.waits_since = 0
    state.waiting.clear()
    state.consumers.clear()
    state.browser_count = 0
    for queue in list(state.queues.values()):
        if not queue.definition.durable:
            state.remove_queue(queue)
            note_empty(queue.address, row)
            continue
        note_disowned(queue, row)
        if queue.transient_count:
            queue.drop_paged_transients(lsn)
            for entry in list(queue.entries.values()):
                if not entry.message.flags & PERSISTENT:
                    _leave(lsn, queue, entry)
    state.connections.clear()
    state.connections_of.clear()
    state.connections_on.clear()


APPLY: Final[dict[int, Apply]] = {
    events.BROKER_STARTED: broker_started,
    events.BROKER_STOPPED: nothing,
    events.CONNECTION_OPENED: connection_opened,
    events.CONNECTION_CLOSED: connection_closed,
    events.CONNECTION_REFUSED: nothing,
    events.CONSUMER_ATTACHED: consumer_attached,
    events.CONSUMER_DETACHED: consumer_detached,
    events.ADDRESS_CREATED: address_created,
    events.ADDRESS_UPDATED: address_updated,
    events.ADDRESS_DELETED: address_deleted,
    events.QUEUE_CREATED: queue_created,
    events.QUEUE_UPDATED: queue_updated,
    events.QUEUE_DELETED: queue_deleted,
    events.QUEUE_PAUSED: queue_paused,
    events.QUEUE_RESUMED: queue_resumed,
    events.SETTINGS_CHANGED: settings_changed,
    events.ROUTED: routed,
    events.DROPPED: nothing,
    events.DELIVERED: delivered,
    events.ACKNOWLEDGED: acknowledged,
    events.RETURNED: returned,
    events.DEAD_LETTERED: dead_lettered,
    events.EXPIRED: expired,
    events.REMOVED: removed,
    events.TRANSACTION_COMMITTED: nothing,
    events.TRANSACTION_ROLLED_BACK: nothing,
    events.PAGING_STARTED: paging_started,
    events.PAGING_STOPPED: paging_stopped,
    events.CARRIED: nothing,
    events.CHECKPOINT: nothing,
    events.SIGNED: nothing,
    events.SIGNING_KEY_CHANGED: nothing,
    events.SEGMENTS_REMOVED: nothing,
    events.CHUNK_RECEIVED: nothing,
    events.DUPLICATE_ID_RECORDED: duplicate_id_recorded,
    events.DUPLICATE_IDS_CLEARED: duplicate_ids_cleared,
    events.HELD: held,
    events.RELEASED: released,
    events.SKIPPED: nothing,
    events.SCHEDULED: scheduled,
    events.DUE: due,
    events.SHOWN: nothing,
    events.SEEN: nothing,
    events.ADMINISTERED: nothing,
    events.MOVED: moved,
    events.DIVERT_CREATED: divert_created,
    events.DIVERT_DELETED: divert_deleted,
    events.PERMISSION_REFUSED: nothing,
    # Direct addresses are volatile, and end with the connections of their links.
    events.LINK_ATTACHED: nothing,
    events.LINK_DETACHED: nothing,
    events.FORWARDED: nothing,
    events.FORWARD_SETTLED: nothing,
    events.DISTRIBUTIONS_CHANGED: nothing,
    events.BUNDLE_OPENED: nothing,
    events.BUNDLE_CLOSED: nothing,
    events.FORKED: nothing,
    events.LOST: nothing,
    events.DIVERTED: nothing,
    events.RECALL_STARTED: recall_started,
    events.RECALLED: recalled,
    events.RECALL_ENDED: recall_ended,
    events.TIME_MARKED: time_marked,
    events.DISPATCH_STARTED: dispatch_started,
    events.OWNER_ENDED: owner_ended,
    events.GROUPS_RESET: nothing,
}
assert APPLY.keys() == events.BY_NUMBER.keys()


def apply(state: State, lsn: int, row: Row, detail: bytes, headers: bytes, body: bytes) -> None:
    """Apply one event of any kind, as folds do. Raises `MismatchError` if it does not fit."""
    try:
        APPLY[row[0]](state, lsn, row, detail, headers, body)
        if row[0] in COUNTED:
            count(state, row, detail)
    except (KeyError, ValueError, IndexError, msgspec.MsgspecError) as error:
        name = events.BY_NUMBER[row[0]].name if row[0] in events.BY_NUMBER else f"kind {row[0]}"
        raise MismatchError(f"event {lsn} ({name}) does not fit the state: {error!r}") from error
