"""What events change of connections, consumers, addresses, queues, settings and diverts.

A part of `apply` (`engine.state.apply`), with the same rules: facts, which cannot fail, without a
clock.
"""

from typing import Final, cast

from daybook.engine.facts import details, events
from daybook.engine.facts.definitions import (
    AddressDefinition,
    DivertDefinition,
    QueueDefinition,
    definition_in,
    with_changes,
)
from daybook.engine.facts.events import ADDRESS, CONNECTION, CONSUMER, QUEUE, TIME, Row
from daybook.engine.facts.mismatch import MismatchError
from daybook.engine.names.syntax import syntax_of
from daybook.engine.queues.consumer import Connection, Consumer
from daybook.engine.queues.queue import Address, Queue
from daybook.engine.settings.settings import Settings
from daybook.engine.state.state import State, count_down

BOUND_BY: Final = frozenset(("filter", "enabled", "purge_on_no_consumers"))
"""The attributes of a queue that its binding has, besides its routing type."""


def connection_opened(
    state: State, lsn: int, row: Row, detail: bytes, headers: bytes, body: bytes
) -> None:
    """A connection appears."""
    decoded = cast(details.ConnectionDetail, events.decode_detail(events.CONNECTION_OPENED, detail))
    connection = Connection(
        row[CONNECTION], decoded.protocol, decoded.peer, decoded.user, decoded.host
    )
    connection.client_id = decoded.client_id
    state.add_connection(connection)


def connection_closed(
    state: State, lsn: int, row: Row, detail: bytes, headers: bytes, body: bytes
) -> None:
    """A connection is removed; events before this one removed what belonged to it."""
    connection = state.connections.pop(row[CONNECTION])
    if connection.consumers:
        raise MismatchError(f"event {lsn}: connection {connection.id} closed with consumers")
    count_down(state.connections_of, connection.user)
    count_down(state.connections_on, connection.host)


def consumer_attached(
    state: State, lsn: int, row: Row, detail: bytes, headers: bytes, body: bytes
) -> None:
    """A consumer appears on a queue."""
    decoded = cast(
        details.ConsumerAttachedDetail, events.decode_detail(events.CONSUMER_ATTACHED, detail)
    )
    connection = state.connections[row[CONNECTION]]
    queue = state.queues[row[QUEUE]]
    consumer = Consumer(row[CONSUMER], connection, queue)
    consumer.subscription = decoded.subscription
    consumer.ack_mode = decoded.ack_mode
    consumer.filter = decoded.filter
    consumer.priority = decoded.priority
    consumer.exclusive = decoded.exclusive
    consumer.first = decoded.first
    consumer.browses = decoded.browses
    state.browser_count += decoded.browses
    state.consumers[consumer.id] = consumer
    connection.consumers[consumer.id] = consumer
    waits = queue.definition.consumers_before_dispatch > 1 and not decoded.browses
    if waits and not queue.consumers:
        queue.waits_since = row[TIME]
        state.waiting[queue.id] = queue
    queue.attach(consumer)
    if queue.definition.outlives_consumers and not decoded.browses:
        queue.left_at = 0


def consumer_detached(
    state: State, lsn: int, row: Row, detail: bytes, headers: bytes, body: bytes
) -> None:
    """Remove a consumer; its deliveries in flight were returned before."""
    consumer = state.consumers.pop(row[CONSUMER])
    if consumer.unacked:
        raise MismatchError(
            f"event {lsn}: consumer {consumer.id} detached with deliveries in flight"
        )
    del consumer.connection.consumers[consumer.id]
    state.handed_before += consumer.handed
    state.browser_count -= consumer.browses
    consumer.queue.detach(consumer)
    note_idle(consumer.queue, row)
    if consumer.queue.waits_since and not consumer.queue.consumers:
        _stop_waiting(state, consumer.queue)


def note_idle(queue: Queue, row: Row) -> None:
    """Remember when the last consumer left a queue that may be deleted for that."""
    definition = queue.definition
    is_watched = definition.auto_delete or definition.expiry_policy
    if is_watched and not definition.outlives_consumers and not queue.is_used:
        queue.left_at = row[TIME]


def note_disowned(queue: Queue, row: Row) -> None:
    """Remember when a queue lost the session or connection that it belonged to."""
    if queue.is_owned:
        queue.left_at = row[TIME]


def owner_ended(
    state: State, lsn: int, row: Row, detail: bytes, headers: bytes, body: bytes
) -> None:
    """A queue loses the session or connection that it belonged to."""
    queue = state.queues[row[QUEUE]]
    if not queue.is_owned:
        raise MismatchError(f"event {lsn}: queue {queue.name} belongs to no session or connection")
    note_disowned(queue, row)


def note_empty(address: Address, row: Row) -> None:
    """Remember when an address that may be deleted for that lost its last queue."""
    if address.definition.auto_delete and not (address.anycast or address.multicast):
        address.emptied_at = row[TIME]


def address_created(
    state: State, lsn: int, row: Row, detail: bytes, headers: bytes, body: bytes
) -> None:
    """An address appears."""
    decoded = cast(details.AddressDetail, events.decode_detail(events.ADDRESS_CREATED, detail))
    address = Address(row[ADDRESS], definition_in(AddressDefinition, decoded, state.texts))
    if decoded.auto_delete:
        address.created_at = row[TIME]
    state.add_address(address)
    state.next_address = address.id + 1


def address_updated(
    state: State, lsn: int, row: Row, detail: bytes, headers: bytes, body: bytes
) -> None:
    """Attributes of an address change."""
    decoded = cast(details.AddressDetail, events.decode_detail(events.ADDRESS_UPDATED, detail))
    address = state.addresses[row[ADDRESS]]
    fields = decoded.changed or ("routing_types",)
    address.definition = with_changes(address.definition, decoded, fields)
    if "auto_delete" in fields:
        address.created_at = row[TIME] if address.definition.auto_delete else 0
        address.emptied_at = 0
    if "paused" in fields:
        state.paused_addresses.pop(address.id, None)
        if address.definition.paused:
            state.paused_addresses[address.id] = address


def address_deleted(
    state: State, lsn: int, row: Row, detail: bytes, headers: bytes, body: bytes
) -> None:
    """An address is removed; its queues were deleted before."""
    address = state.addresses[row[ADDRESS]]
    if address.anycast or address.multicast:
        raise MismatchError(f"event {lsn}: address {address.name} deleted with queues")
    state.remove_address(address)


def queue_created(
    state: State, lsn: int, row: Row, detail: bytes, headers: bytes, body: bytes
) -> None:
    """A queue appears and is bound to its address."""
    decoded = cast(details.QueueDetail, events.decode_detail(events.QUEUE_CREATED, detail))
    address = state.addresses[row[ADDRESS]]
    definition = definition_in(QueueDefinition, decoded, state.texts, address.name)
    queue = Queue(row[QUEUE], definition, address)
    if definition.auto_delete:
        queue.created_at = row[TIME]
    # Only where history is read from its middle on.
    queue.deleting = decoded.deleting
    state.add_queue(queue)
    state.next_queue = queue.id + 1
    if not queue.deleting:
        queue.address.bind(queue)


def queue_updated(
    state: State, lsn: int, row: Row, detail: bytes, headers: bytes, body: bytes
) -> None:
    """A queue is bound to another address, changes attributes, or begins to be deleted."""
    decoded = cast(details.QueueDetail, events.decode_detail(events.QUEUE_UPDATED, detail))
    queue = state.queues[row[QUEUE]]
    if decoded.deleting:
        if queue.deleting:
            raise MismatchError(f"event {lsn}: queue {queue.name} is being deleted already")
        state.hide_queue(queue)
        note_empty(queue.address, row)
        return
    before, address = queue.address, state.addresses[row[ADDRESS]]
    fields = decoded.changed or ("routing_type", "filter")
    definition = with_changes(queue.definition, decoded, fields)
    if "auto_delete" in fields:
        queue.created_at = row[TIME] if definition.auto_delete else 0
        queue.left_at = queue.left_at if definition.expiry_policy else 0
    if "ring_size" in fields:
        if queue.definition.ring_size < 0 and not state.settings.has_rings:
            # It was not a ring: its messages stay.
            queue.trimmed = queue.added
        state.rings.pop(queue.id, None)
        if definition.ring_size >= 0:
            state.rings[queue.id] = queue
    if "no_local" in fields:
        state.without_own.pop(queue.id, None)
        if definition.no_local:
            state.without_own[queue.id] = queue
    if "exclusive" in fields:
        queue.find_holder()
    if "non_destructive" in fields:
        for consumer in queue.consumers:
            consumer.look_from_the_front()
    if address is before and "routing_type" not in fields:
        queue.definition = definition
        if not BOUND_BY.isdisjoint(fields):
            address.bind_again(queue)
        return
    before.unbind(queue)
    queue.address = address
    queue.definition = definition
    address.bind(queue)
    note_empty(before, row)


def queue_deleted(
    state: State, lsn: int, row: Row, detail: bytes, headers: bytes, body: bytes
) -> None:
    """A queue is removed; its messages and consumers were removed before."""
    queue = state.queues[row[QUEUE]]
    if queue.message_count or queue.is_used:
        raise MismatchError(f"event {lsn}: queue {queue.name} deleted while in use")
    state.remove_queue(queue)
    note_empty(queue.address, row)


def queue_paused(
    state: State, lsn: int, row: Row, detail: bytes, headers: bytes, body: bytes
) -> None:
    """A queue stops delivering."""
    queue = state.queues[row[QUEUE]]
    queue.paused = True
    if not queue.deleting:
        state.paused[queue.id] = queue


def queue_resumed(
    state: State, lsn: int, row: Row, detail: bytes, headers: bytes, body: bytes
) -> None:
    """A queue resumes delivering."""
    state.queues[row[QUEUE]].paused = False
    state.paused.pop(row[QUEUE], None)


def settings_changed(
    state: State, lsn: int, row: Row, detail: bytes, headers: bytes, body: bytes
) -> None:
    """New address settings are in force."""
    decoded = cast(details.SettingsDetail, events.decode_detail(events.SETTINGS_CHANGED, detail))
    state.settings = Settings.from_dict(decoded.settings, syntax_of(decoded.syntax), decoded.live)
    state.journal_non_persistent = decoded.journal_non_persistent
    for address in state.addresses.values():
        if address.ids is not None:
            address.ids.resize(state.settings.resolve(address.name).id_cache_size)


def divert_created(
    state: State, lsn: int, row: Row, detail: bytes, headers: bytes, body: bytes
) -> None:
    """A divert appears, or replaces the one of its name."""
    decoded = cast(details.DivertDetail, events.decode_detail(events.DIVERT_CREATED, detail))
    state.diverts[decoded.name] = definition_in(DivertDefinition, decoded, state.texts)


def divert_deleted(
    state: State, lsn: int, row: Row, detail: bytes, headers: bytes, body: bytes
) -> None:
    """A divert is removed."""
    decoded = cast(details.DivertDeletedDetail, events.decode_detail(events.DIVERT_DELETED, detail))
    del state.diverts[decoded.name]


def dispatch_started(
    state: State, lsn: int, row: Row, detail: bytes, headers: bytes, body: bytes
) -> None:
    """A queue delivers, which had consumers that waited for others."""
    queue = state.queues[row[QUEUE]]
    if not queue.waits_since:
        raise MismatchError(f"event {lsn}: queue {queue.name} begins to deliver and does already")
    _stop_waiting(state, queue)


def _stop_waiting(state: State, queue: Queue) -> None:
    queue.waits_since = 0
    state.waiting.pop(queue.id, None)
