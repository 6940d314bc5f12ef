"""Loading the state from the tables: everything except ready entries, which stay in the tables.

Costs time in proportion to queues, peers and entries in flight, not to the backlog. Must never know
the use of the state.
"""

from collections.abc import Iterator

import numpy as np

from daybook.engine.facts.definitions import AddressDefinition, QueueDefinition
from daybook.engine.facts.events import PERSISTENT
from daybook.engine.messages.message import PRIORITIES
from daybook.engine.names.syntax import syntax_of
from daybook.engine.queues.consumer import Connection, Consumer
from daybook.engine.queues.entry import IN_FLIGHT
from daybook.engine.queues.queue import Address, Queue, Store, set_recalls
from daybook.engine.settings.settings import Settings
from daybook.engine.state.state import State
from daybook.engine.state.times import Times
from daybook.paging.tables import id_pages, records
from daybook.paging.tables.checked import IndexDamaged, Transaction
from daybook.paging.tables.tables import (
    ADDRESSES,
    CONNECTIONS,
    CONSUMERS,
    FLIGHT_KEY,
    FLIGHTS,
    QUEUES,
    SETTINGS,
    SETTINGS_KEY,
    Tables,
)


def load_state(
    tables: Tables,
    txn: Transaction,
    store: Store | None,
    *,
    until: int | None = None,
    sums: dict[int, int] | None = None,
) -> State:
    """Build the state at the indexed LSN, with `store` to read ready entries from.

    Each level with entries is one paged range up to `until`, by default the indexed LSN. No entry
    has content. `sums` receives, by queue, the sum of the hashes of its ready entries. Raises
    IndexDamaged.
    """
    state = State(store)
    if until is None:
        until = tables.position(txn)[0]
    try:
        load_settings(tables, txn, state)
        bound = []
        for value in _values(tables, txn, ADDRESSES):
            known = records.decode(records.AddressRecord, value, "an address")
            bound.append(add_address(tables, txn, state, known))
        for value in _values(tables, txn, QUEUES):
            record = records.decode(records.QueueRecord, value, "a queue")
            add_queue(state, record, until)
            if sums is not None and record.sum:
                sums[record.id] = record.sum
        for address, queues in bound:
            for queue_id in queues:
                address.bind(state.queues[queue_id])
        load_peers(tables, txn, state)
    except KeyError as error:
        raise lacking(tables, error) from error
    return state


def lacking(tables: Tables, error: KeyError) -> IndexDamaged:
    """Return the error for a record that refers to a record that does not exist."""
    return IndexDamaged(
        f"the index in {tables.path} is damaged: it refers to {error.args[0]}, which it has not"
    )


def _values(tables: Tables, txn: Transaction, name: bytes) -> Iterator[bytes]:
    for _, value in txn.rows(tables.db(name)):
        yield value


def load_settings(tables: Tables, txn: Transaction, state: State) -> None:
    """Load the settings and counters. Raises IndexDamaged."""
    value = txn.get(SETTINGS_KEY, db=tables.db(SETTINGS))
    if value is None:
        if txn.count(tables.db(SETTINGS)):
            raise IndexDamaged(f"the index in {tables.path} is damaged: it lacks its settings")
        return
    record = records.decode(records.SettingsRecord, value, "the record of settings")
    state.settings = Settings.from_dict(record.settings, syntax_of(record.syntax), record.live)
    state.journal_non_persistent = record.journal_non_persistent
    state.next_address = record.next_address
    state.next_queue = record.next_queue
    state.times = Times(record.marks)
    state.diverts = {divert.name: divert for divert in record.diverts}


def add_address(
    tables: Tables, txn: Transaction, state: State, record: records.AddressRecord
) -> tuple[Address, list[int]]:
    """Add an address by its record; return also the ids bound to it, for when these queues
    exist."""
    address = Address(record.id, records.definition_of(AddressDefinition, record, state.texts))
    address.paging = record.paging
    address.created_at = record.created_at
    address.emptied_at = record.emptied_at
    address.routed = record.routed
    address.unrouted = record.unrouted
    if record.ids_recorded:
        address.ids = id_pages.load(tables, txn, address.id, record.ids_recorded, record.ids_count)
    state.add_address(address)
    return address, record.anycast + record.multicast


def add_queue(state: State, record: records.QueueRecord, until: int) -> Queue:
    """Add a queue by its record; its address must exist; each of its levels is one paged range."""
    address = state.addresses[record.address]
    definition = records.definition_of(QueueDefinition, record, state.texts, address.name)
    queue = Queue(record.id, definition, address)
    queue.paused = record.paused
    queue.deleting = record.deleting
    queue.created_at = record.created_at
    queue.left_at = record.left_at
    queue.added = record.added
    queue.acknowledged = record.acknowledged
    queue.dead_lettered = record.dead_lettered
    queue.expired = record.expired
    queue.newest = record.newest
    queue.replaced = record.replaced
    queue.evicted = record.evicted
    queue.waits_since = record.waits_since
    if record.recalls:
        set_recalls(queue, record.recalls)
    for level in record.levels:
        paged = queue.level(level.priority).open_paged(0, until)
        paged.count = level.count
        paged.bytes = level.bytes
        paged.transients = level.transients
        paged.transient_bytes = level.transient_bytes
        queue.paged_count += level.count
        queue.count_standing(level.priority, level.count)
        if level.priority < PRIORITIES:
            queue.occupied |= 1 << level.priority
        queue.bytes += level.bytes
        queue.transient_count += level.transients
    state.add_queue(queue)
    return queue


def load_peers(tables: Tables, txn: Transaction, state: State) -> None:
    """Load connections, consumers and their entries in flight. Raises IndexDamaged."""
    for value in _values(tables, txn, CONNECTIONS):
        known = records.decode(records.ConnectionRecord, value, "a connection")
        connection = Connection(known.id, known.protocol, known.peer, known.user, known.host)
        connection.client_id = known.client_id
        state.add_connection(connection)
    for value in _values(tables, txn, CONSUMERS):
        record = records.decode(records.ConsumerRecord, value, "a consumer")
        connection = state.connections[record.connection]
        consumer = Consumer(record.id, connection, state.queues[record.queue])
        consumer.subscription = record.subscription
        consumer.ack_mode = record.ack_mode
        consumer.filter = record.filter
        consumer.priority = record.priority
        consumer.exclusive = record.exclusive
        consumer.browses = record.browses
        consumer.first = record.first
        for message_id in np.frombuffer(record.refused, "<u8").tolist():
            consumer.refuse(message_id)
        state.browser_count += consumer.browses
        state.consumers[consumer.id] = consumer
        connection.consumers[consumer.id] = consumer
        # Ids of consumers are LSNs, so this is the order in which they came.
        consumer.queue.attach(consumer)
        for message_id in np.frombuffer(record.in_flight, "<u8").tolist():
            _add_flight(tables, txn, consumer, message_id)


def _add_flight(tables: Tables, txn: Transaction, consumer: Consumer, message_id: int) -> None:
    queue = consumer.queue
    what = f"message {message_id} in flight from queue {queue.id}"
    value = txn.get(FLIGHT_KEY.pack(queue.id, message_id), db=tables.db(FLIGHTS))
    if value is None:
        raise IndexDamaged(f"the index in {tables.path} is damaged: it lacks {what}")
    flight = records.decode(records.FlightRecord, value, what)
    entry = records.ready_entry(
        message_id, flight.priority, flight.size, flight.address, flight.delivery_count,
        flight.flags, flight.expires, annotations=flight.annotations,
    )  # fmt: skip
    entry.state = IN_FLIGHT
    entry.consumer = consumer
    entry.delivered_at = flight.delivered_at
    consumer.unacked[message_id] = entry
    queue.entries[message_id] = entry
    queue.bytes += flight.size
    queue.weight += entry.message.weight
    consumer.connection.unacked_bytes += entry.message.weight
    queue.transient_count += int(not flight.flags & PERSISTENT)
