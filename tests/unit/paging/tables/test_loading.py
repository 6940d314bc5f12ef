"""The state of the tables is loaded with counts instead of entries, or refused."""

from pathlib import Path

import pytest

from daybook.engine import commands as c
from daybook.engine.facts.definitions import MULTICAST
from daybook.engine.facts.settlements import RELEASED
from daybook.engine.queues.queue import PAST_ALL
from daybook.engine.state.digest import combine, digest
from daybook.engine.state.invariants import check as check_invariants
from daybook.paging.fold.index import Index
from daybook.paging.tables import records
from daybook.paging.tables.checked import Transaction
from daybook.paging.tables.loading import load_state
from daybook.paging.tables.tables import (
    CONSUMERS,
    FLIGHTS,
    ID_KEY,
    SETTINGS,
    SETTINGS_KEY,
    IndexDamaged,
    Tables,
    open_for_reading,
    open_for_writing,
)
from tests.support.stored.blocks import DATA_ID, Chain, blocks_of
from tests.support.stored.index_state import state_of
from tests.support.stored.stored_rows import flip_key
from tests.support.world import World, delivery_times


def scene() -> World:
    world = World()
    world.settings("full", all={"max_delivery_attempts": 3})
    connection = world.connect()
    world.attach(connection, "orders", credit_messages=2, credit_bytes=0)
    for number in range(20):
        world.send("orders", b"x" * number, priority=number % 3, persistent=number % 4 > 0)
    world.ok(c.PauseQueue("orders"))
    world.attach(connection, "news", routing_type=MULTICAST, durable_name="one")
    world.attach(world.connect(), "news", routing_type=MULTICAST)
    return world


@pytest.fixture
def made(tmp_path: Path) -> Path:
    index = Index(tmp_path, DATA_ID)
    index.advance([Chain().block(scene().journal)])
    index.close()
    return tmp_path


def test_counts_stand_for_entries(made: Path) -> None:
    live = scene().state
    tables = open_for_reading(made, DATA_ID)
    sums: dict[int, int] = {}
    with tables.read() as txn:
        state = load_state(tables, txn, None, sums=sums)
        endless = load_state(tables, txn, None, until=PAST_ALL)
    tables.close()
    assert check_invariants(state) == []
    assert combine(state, {}) == combine(live, {})
    queue, expected = state.queue_by_name["orders"], live.queue_by_name["orders"]
    assert queue.paged_count == queue.ready_count == expected.ready_count == 18
    assert queue.bytes == expected.bytes
    assert queue.transient_count == expected.transient_count
    assert queue.paused
    assert sorted(queue.entries) == sorted(
        number for number, entry in expected.entries.items() if entry.consumer is not None
    )
    for priority in range(3):
        paged = queue.paged_range(priority)
        assert paged is not None
        assert (paged.after, paged.until) == (0, len(scene().journal))
    assert queue.paged_range(4) is None
    assert set(sums) == {queue.id for queue in state.queues.values() if queue.paged_count}
    found = endless.queue_by_name["orders"].paged_range(1)
    assert found is not None
    assert found.until == PAST_ALL


def test_what_consumers_refused_is_loaded_in_its_order(tmp_path: Path) -> None:
    world = World()
    consumer = world.attach(world.connect(), "orders")
    messages = [world.send("orders", b"x") for _ in range(3)]
    refused = [messages[2], messages[0]]
    for message in refused:
        world.ok(c.Settle(consumer, message, outcome=RELEASED, not_here=True))
    index = Index(tmp_path, DATA_ID)
    blocks = blocks_of(world.journal, [len(world.journal) - 1])
    for block in blocks:
        index.advance([block])
    state = state_of(index)
    assert index.digest() == digest(world.state)
    index.close()
    assert list(state.consumers[consumer].refused) == refused
    assert state.queue_by_name["orders"].selective_count == 1
    assert check_invariants(state) == []


def test_an_index_without_settings_has_the_defaults(made: Path) -> None:
    tables = open_for_writing(made, DATA_ID)
    tables.write(lambda txn: txn.delete(SETTINGS_KEY, db=tables.db(SETTINGS)))
    with tables.read() as txn:
        state = load_state(tables, txn, None)
    assert state.settings.to_dict() == {}
    tables.close()


def lose_flights(tables: Tables, txn: Transaction) -> None:
    txn.clear(tables.db(FLIGHTS))


def strange_consumer(tables: Tables, txn: Transaction) -> None:
    record = records.ConsumerRecord(5, 4444, 1, "s", "auto", "", b"")
    txn.put(ID_KEY.pack(5), records.encode(record), db=tables.db(CONSUMERS))


def no_settings(tables: Tables, txn: Transaction) -> None:
    txn.put(SETTINGS_KEY, b"none", db=tables.db(SETTINGS))


def misplaced_settings(tables: Tables, txn: Transaction) -> None:
    flip_key(txn, tables.db(SETTINGS), SETTINGS_KEY, 3)


@pytest.mark.parametrize(
    ("spoil", "what"),
    [
        (lose_flights, "it lacks message .* in flight from queue"),
        (strange_consumer, "it refers to 4444, which it has not"),
        (no_settings, "the record of settings cannot be read"),
        (misplaced_settings, "it lacks its settings"),
    ],
)
def test_what_cannot_be_is_damage(made: Path, spoil: object, what: str) -> None:
    tables = open_for_writing(made, DATA_ID)
    assert callable(spoil)
    tables.write(lambda txn: spoil(tables, txn))
    with tables.read() as txn, pytest.raises(IndexDamaged, match=what):
        load_state(tables, txn, None)
    tables.close()


def test_what_is_in_flight_is_loaded_with_the_time_of_its_delivery(tmp_path: Path) -> None:
    world = World()
    world.attach(world.connect(), "orders")
    for _ in range(3):
        world.sleep(1)
        world.send("orders")
    index = Index(tmp_path, DATA_ID)
    index.advance([Chain().block(world.journal)])
    loaded = state_of(index)
    index.close()
    times = delivery_times(world.state)
    assert delivery_times(loaded) == times
    assert len(set(times.values())) == 3
