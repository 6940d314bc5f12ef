"""Runs, barriers, and what is in memory when a batch is done."""

from pathlib import Path
from unittest.mock import patch

import pytest

from daybook.engine import commands as c
from daybook.engine.facts.definitions import EXPIRY_POLICIES, MULTICAST
from daybook.engine.state.digest import digest
from daybook.paging.checks.index_check import check
from daybook.paging.fold import fold as module
from daybook.paging.fold.fold import Fold
from daybook.paging.fold.index import Index
from daybook.paging.fold.index_digest import digest_of_tables
from daybook.paging.tables.checked import Transaction
from daybook.paging.tables.columns import Columns
from daybook.paging.tables.loading import load_state
from daybook.paging.tables.tables import open_for_writing
from tests.support.stored.blocks import DATA_ID, Chain, blocks_of
from tests.support.stored.index_state import state_of
from tests.support.topology import create_queue
from tests.support.world import World
from tests.support.world import fold as fold_events


def folded(path: Path, world: World, *cuts: int) -> Index:
    world.turn()
    index = Index(path, DATA_ID)
    for block in blocks_of(world.journal, cuts):
        index.advance([block])
    assert index.digest() == digest(world.state)
    return index


def test_what_is_ready_leaves_memory_and_content_with_it(tmp_path: Path) -> None:
    world = World()
    world.attach(world.connect(), "orders", credit_messages=2, credit_bytes=0)
    for _ in range(200):
        world.send("orders", b"body")
    world.turn()
    tables = open_for_writing(tmp_path, DATA_ID)

    def work(txn: Transaction) -> None:
        fold = Fold(tables, txn)
        for block in blocks_of(world.journal, (100,)):
            fold.fold(txn, Columns([block]))
        queue = fold.state.queue_by_name["orders"]
        assert len(queue.entries) == 2
        assert queue.paged_count == 198
        for entry in queue.entries.values():
            assert not entry.message.resident
            assert entry.message.body == b""
        assert not any(level and level.linked_count for level in queue.levels)
        assert fold.state.expiring.heap == []

    tables.write(work)
    tables.close()


@pytest.mark.parametrize("idle_max", [0, 3])
def test_what_is_idle_leaves_memory(tmp_path: Path, idle_max: int) -> None:
    """And comes back when an event names it, with its counters."""
    world = World()
    connection = world.connect()
    for round_ in range(2):
        for number in range(20):
            consumer = world.attach(connection, f"q{number}")
            world.ack(consumer, world.send(f"q{number}"))
            if number % 2:
                world.detach(consumer)
        if not round_:
            for consumer in sorted(world.state.consumers):
                world.detach(consumer)
    world.send("full")
    tables = open_for_writing(tmp_path, DATA_ID)

    def work(txn: Transaction) -> None:
        fold = Fold(tables, txn, idle_max=idle_max)
        for block in blocks_of(world.journal, range(10, len(world.journal), 10)):
            fold.fold(txn, Columns([block]))
        kept = {queue.name for queue in fold.state.queues.values()}
        busy = {"full", *(f"q{number}" for number in range(0, 20, 2))}
        assert busy <= kept
        assert len(kept - busy) == idle_max
        assert len(fold.state.addresses) == len(kept)
        assert fold.state.queue_by_name.keys() == kept
        again = Fold(tables, txn)
        # A queue that is only ready there is read when it is named.
        assert {queue.name for queue in again.state.queues.values()} == busy - {"full"}
        assert digest_of_tables(tables, txn, again.state, again.levels.sums) == digest(world.state)

        whole = load_state(tables, txn, None, until=len(world.journal))
        assert {queue.acknowledged for queue in whole.queues.values()} == {0, 2}

    world.turn()
    tables.write(work)
    tables.close()


@pytest.mark.parametrize("reopens", [True, False])
def test_a_restart_finds_all_queues_that_it_changes(tmp_path: Path, reopens: bool) -> None:
    """Whether they are empty or not, and belonged to a session or not: they may be in no memory."""
    world = World()
    connection = world.connect(client_id="me")
    for number, policy in enumerate(("", *EXPIRY_POLICIES)):
        consumer = world.attach(
            connection, "news", routing_type=MULTICAST, subscription=f"s{number}",
            durable_name=f"d{number}", expiry_policy=policy, expiry_ms=1000 * bool(policy),
        )  # fmt: skip
        world.detach(consumer)
    assert [queue.is_owned for queue in world.state.queues.values()].count(True) == 2
    for number in range(4):
        world.send("orders", persistent=number % 2 == 0)
    world.attach(connection, "orders", credit_messages=1, credit_bytes=0)
    world.turn()
    cuts = [len(world.journal)]
    world.restart()
    world.turn()
    cuts.append(len(world.journal))
    world.attach(world.connect(client_id="me"), "orders", credit_messages=9, credit_bytes=0)
    world.turn()
    index = Index(tmp_path, DATA_ID, idle_max=0)
    for block in blocks_of(world.journal, cuts):
        index.advance([block])
        if reopens:
            index.close()
            index = Index(tmp_path, DATA_ID, idle_max=0)
        assert index.digest() == digest(fold_events(world.journal[: index.lsn]))
    index.close()
    assert check(tmp_path) == len(world.journal)


def test_short_runs_do_not_look_for_what_is_plain(tmp_path: Path) -> None:
    world = World()
    for _ in range(10):
        world.send("orders")
    with patch.object(module, "classify") as classify:
        folded(tmp_path, world, 1).close()
    assert not classify.called


def test_what_is_plain_does_not_cross_a_barrier(tmp_path: Path) -> None:
    """The queue is deleted empty, and there is another of its name behind it."""
    world = World()
    for _ in range(3):
        for _ in range(100):
            world.send("orders")
        world.ok(c.DeleteQueue("orders", True))
    index = folded(tmp_path, world)
    assert state_of(index).queues == {}
    for name in ("pages", "queues"):
        with index.tables.read() as txn:
            assert txn.count(index.tables.db(name.encode())) == 0
    index.close()


def test_a_filter_that_changes_keeps_the_messages(tmp_path: Path) -> None:
    world = World()
    connection = world.connect()
    values = {"routing_type": MULTICAST, "durable_name": "one", "credit_messages": 0}
    consumer = world.attach(connection, "news", **values, credit_bytes=0)
    for _ in range(100):
        world.send("news", routing_type=MULTICAST)
    world.detach(consumer)
    world.attach(connection, "news", **values, credit_bytes=0, filter="kind=big")
    for _ in range(100):
        world.send("news", routing_type=MULTICAST, headers={"kind": "big"})
    assert "QueueUpdated" in [event.name for event in world.journal]
    folded(tmp_path, world).close()


@pytest.mark.parametrize("cut", [0, 150, 160])
def test_dead_letters_out_of_flight_leave_their_consumer(tmp_path: Path, cut: int) -> None:
    world = World()
    world.settings(all={"max_delivery_attempts": 1, "dead_letter_address": "dead"})
    for _ in range(140):
        world.send("orders")
    consumer = world.attach(world.connect(), "orders", credit_messages=10, credit_bytes=0)
    for delivery in world.taken(consumer)[::2]:
        world.nack(consumer, delivery.message)
    index = folded(tmp_path, world, cut)
    index.close()
    # The consumer's record was written as it is, too.
    index = Index(tmp_path, DATA_ID)
    assert index.digest() == digest(world.state)
    assert list(state_of(index).consumers[consumer].unacked) == list(
        world.state.consumers[consumer].unacked
    )
    index.close()


def test_a_large_message_counts_with_its_body(tmp_path: Path) -> None:
    world = World()
    connection = world.connect()
    send = c.Send(connection, "orders", b"", b"", body_bytes=30)
    first = world.ok(c.Chunk(send, b"x" * 10))
    second = world.ok(c.Chunk(send, b"y" * 20, first))
    world.ok(c.Send(connection, "orders", b"", b"", chunks=(first, second), body_bytes=30))
    index = folded(tmp_path, world)
    queue, live = state_of(index).queue_by_name["orders"], world.queue("orders")
    assert queue.bytes == live.bytes
    index.close()


def test_an_address_that_pages_still_does_after_loading(tmp_path: Path) -> None:
    world = World()
    world.settings(orders={"max_size_bytes": 1000, "address_full_policy": "PAGE"})
    for _ in range(20):
        world.send("orders", b"x" * 100)
    world.turn()
    assert "PagingStarted" in [event.name for event in world.journal]
    folded(tmp_path, world).close()
    index = Index(tmp_path, DATA_ID)
    assert index.digest() == digest(fold_events(world.journal))
    index.close()


def test_folding_in_one_transaction_in_two_parts(tmp_path: Path) -> None:
    world = World()
    consumer = world.attach(world.connect(), "orders", credit_messages=5)
    for _ in range(100):
        world.ack(consumer, world.send("orders"))
    world.turn()
    chain = Chain()
    parts = [chain.block(world.journal[:150]), chain.block(world.journal[150:])]
    tables = open_for_writing(tmp_path, DATA_ID)

    def work(txn: Transaction) -> None:
        fold = Fold(tables, txn)
        for part in parts:
            fold.fold(txn, Columns([part]))
        assert fold.state.queue_by_name["orders"].acknowledged == 100

    tables.write(work)
    tables.close()


def test_ids_are_forgotten_by_other_settings_alone(tmp_path: Path) -> None:
    """No event names the addresses whose ids they are."""
    world = World()
    for number in range(300):
        world.send("orders", duplicate_id=str(number))
        world.send("mails", duplicate_id=str(number))
    world.turn()
    sent = len(world.journal)
    world.settings(orders={"id_cache_size": 10})
    folded(tmp_path, world, sent).close()
    assert check(tmp_path) == len(world.journal)
    again = Index(tmp_path, DATA_ID)
    assert again.digest() == digest(world.state)
    found = {
        address.name: address.ids.count
        for address in state_of(again).addresses.values()
        if address.ids is not None
    }
    assert found == {"orders": 10, "mails": 300}
    again.close()


@pytest.mark.parametrize("cut", [120, 160, 205, 260])
def test_a_queue_that_is_being_deleted_is_known_as_such(tmp_path: Path, cut: int) -> None:
    world = World()
    for _ in range(200):
        world.send("orders")
    world.broker.budget.allow(20)
    world.ok(c.DeleteQueue("orders", force=True))
    world.send("orders", b"of another queue")
    world.broker.budget.allow(60)
    world.broker.go_on(world.now)
    world.turn()
    (number,) = world.broker.work.emptying
    index = folded(tmp_path, world, cut)
    index.close()
    index = Index(tmp_path, DATA_ID)
    old = state_of(index).queues[number]
    assert (old.deleting, old.message_count) == (True, world.state.queues[number].message_count)
    assert state_of(index).queue_by_name["orders"].message_count == 1
    found = state_of(index)
    assert found.addresses[old.address.id].queues() == [found.queue_by_name["orders"]]
    assert index.digest() == digest(world.state)
    index.close()


def test_the_newest_message_is_that_of_the_highest_id(tmp_path: Path) -> None:
    """Whatever order messages in several queues and messages in one are counted in."""
    world = World()
    world.ok(c.CreateAddress("a", ("anycast", "multicast")))
    world.ok(create_queue("one", "a"))
    world.ok(create_queue("each", "a", MULTICAST))
    world.send("a", b"in both")
    newest = world.send("a", b"in one", routing_type="anycast")
    with patch.object(module, "PLAIN_MIN", 1):
        index = folded(tmp_path, world)
    queues = state_of(index).queue_by_name
    assert queues["one"].newest == world.queue("one").newest == newest
    index.close()
