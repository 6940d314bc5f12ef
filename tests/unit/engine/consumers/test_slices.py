"""Long work in slices: its first part, its continuation, and that none of it is lost."""

from typing import Any
from unittest.mock import patch

import pytest

from daybook.engine import commands as c
from daybook.engine.consumers.transactions import RECIPIENTS_SHIFT
from daybook.engine.facts import reasons
from daybook.engine.facts.definitions import MULTICAST
from daybook.engine.facts.settlements import ACCEPTED, FAILED
from daybook.engine.limits.budget import NO_LIMIT
from daybook.engine.names.names import temporary_name
from daybook.engine.refusals import UNFINISHED, Refusal
from daybook.engine.state.digest import digest
from daybook.engine.state.invariants import check
from daybook.engine.state.sizes import Sizes
from daybook.engine.topology.topology import CREATE_UNITS
from tests.support.compiled import replaces_parts
from tests.support.paged_world import PagedWorld
from tests.support.topology import create_queue
from tests.support.world import MANY, World, fold

NO_QUEUE = "there is no queue 'q'; check the name, or create the queue"
UNITS = 20
"""The budget of a slice in these tests."""


@pytest.fixture(params=["resident", "paged"])
def world(request: pytest.FixtureRequest) -> World:
    return World() if request.param == "resident" else PagedWorld(window=7, lag=3)


def limited(world: World, command: c.Command) -> int | Refusal:
    """Carry out a slice of a command."""
    world.broker.budget.allow(UNITS)
    answer = world.handle(command)
    world.broker.budget.limit = NO_LIMIT
    check_now(world)
    return answer


def check_now(world: World) -> None:
    """In the middle, too, fold equals live, and neither contradicts itself."""
    world.turn()
    folded = fold(world.journal)
    assert check(world.state) == check(folded) == []
    assert digest(folded) == digest(world.state)


def until_done(world: World, command: c.Command) -> tuple[int, int]:
    """Give a command until it is finished; answers in how many slices, and what it answered."""
    slices = 1
    while (answer := limited(world, command)) == UNFINISHED:
        slices += 1
        assert slices < 1000
    assert isinstance(answer, int)
    return slices, answer


def go_on(world: World) -> int:
    """Finish all work in slices; return how many slices it took."""
    slices = 0
    while world.broker.has_more:
        before = world.broker.budget.spent
        world.broker.budget.allow(UNITS)
        world.broker.go_on(world.now)
        assert world.broker.budget.spent - before < UNITS + 60
        world.broker.budget.limit = NO_LIMIT
        check_now(world)
        slices += 1
    return slices


def in_flight(world: World, count: int, **values: Any) -> tuple[int, int]:
    """A connection and its consumer with so many messages in flight."""
    for number in range(count):
        world.send("q", b"%d" % number)
    connection = world.connect()
    consumer = world.attach(connection, "q", credit_messages=count, credit_bytes=-MANY, **values)
    assert len(world.state.consumers[consumer].unacked) == count
    world.taken()
    return connection, consumer


def temporary(world: World, count: int) -> tuple[int, int]:
    """A connection and its consumer with a temporary queue that has so many messages."""
    connection = world.connect()
    consumer = world.attach(
        connection, "news", routing_type=MULTICAST, credit_messages=3, credit_bytes=-MANY
    )
    for number in range(count):
        world.send("news", b"%d" % number, routing_type=MULTICAST)
    return connection, consumer


# ---- queues


def test_a_long_temporary_queue_is_gone_at_once_and_emptied_in_slices(world: World) -> None:
    _, consumer = temporary(world, 300)
    queue = world.state.consumers[consumer].queue
    lsn = world.broker.lsn
    until_done(world, c.Detach(consumer))
    assert queue.name not in world.state.queue_by_name
    assert world.state.address_by_name["news"].multicast == []
    assert queue.message_count > 200
    assert "QueueDeleted" not in world.names_since(lsn)
    world.send("news", b"nobody takes it", routing_type=MULTICAST)
    assert go_on(world) > 300 // (UNITS + 60)
    assert world.state.queues == {}
    names = world.names_since(lsn)
    assert names.count("Removed") == 300
    assert names[-1] == "QueueDeleted"


def test_a_short_queue_goes_as_it_always_did(world: World) -> None:
    _, consumer = temporary(world, 5)
    lsn = world.broker.lsn
    limited(world, c.Detach(consumer))
    assert world.names_since(lsn) == [
        *["Removed"] * 3, "ConsumerDetached", *["Removed"] * 2, "QueueDeleted",
    ]  # fmt: skip


def test_a_name_is_free_as_soon_as_its_queue_is_deleted(world: World) -> None:
    for number in range(300):
        world.send("q", b"%d" % number)
    until_done(world, c.DeleteQueue("q", force=True))
    assert world.refused(c.DeleteQueue("q", force=True)).text == NO_QUEUE
    world.send("q", b"new")
    assert world.bodies("q") == [b"new"]
    assert go_on(world) > 1
    assert world.bodies("q") == [b"new"]
    assert len(world.state.queues) == 1


def test_content_of_what_is_only_removed_is_never_read(monkeypatch: pytest.MonkeyPatch) -> None:
    world = PagedWorld(window=7, lag=3)
    for number in range(300):
        world.send("q", b"%d" % number)
    assert world.queue("q").paged_count > 200

    def fill(messages: list[Any]) -> None:
        raise AssertionError(f"{len(messages)} bodies were read")

    monkeypatch.setattr(world.store, "fill", fill)
    until_done(world, c.DeleteQueue("q", force=True))
    go_on(world)
    assert world.state.queues == {}


@pytest.mark.parametrize("slices", [0, 1, 4])
def test_a_deletion_survives_a_kill(slices: int) -> None:
    world = World()
    for number in range(300):
        world.send("q", b"%d" % number)
    until_done(world, c.DeleteQueue("q", force=True))
    for _ in range(slices):
        world.broker.budget.allow(UNITS)
        world.broker.go_on(world.now)
    world.broker.budget.limit = NO_LIMIT
    world.restart()
    assert "q" not in world.state.queue_by_name
    assert world.state.queues
    assert go_on(world) > 1
    assert world.state.queues == {}


def test_a_temporary_queue_that_was_being_deleted_goes_with_the_broker() -> None:
    world = World()
    _, consumer = temporary(world, 300)
    until_done(world, c.Detach(consumer))
    assert world.state.queues
    world.restart()
    assert world.state.queues == {}
    assert not world.broker.has_more


def test_a_stop_leaves_the_rest_of_a_deletion_to_the_next_start() -> None:
    world = World()
    for number in range(300):
        world.send("q", b"%d" % number)
    until_done(world, c.DeleteQueue("q", force=True))
    world.ok(c.Stop())
    world.restart()
    assert go_on(world) > 1
    assert world.state.queues == {}


def test_what_expires_in_a_queue_that_is_being_deleted_goes_nowhere_else() -> None:
    world = World()
    world.settings(all={"expiry_address": "expired"})
    for number in range(300):
        world.send("q", b"%d" % number, expires=world.now // 1000 + 1000)
    until_done(world, c.DeleteQueue("q", force=True))
    world.sleep(10)
    world.ok(c.ExpireDue())
    assert "expired" not in world.state.queue_by_name
    go_on(world)
    assert world.state.queues == {}


def test_an_address_is_deleted_when_its_queues_are_empty(world: World) -> None:
    for name in ("one", "two"):
        world.ok(create_queue(name, "a"))
    for number in range(600):
        world.send("a", b"%d" % number)
    command = c.DeleteAddress("a", force=True)
    assert limited(world, command) == UNFINISHED
    go_on(world)
    while limited(world, command) == UNFINISHED:
        go_on(world)
    assert world.state.addresses == {}


def test_a_purge_stops_when_others_are_to_have_their_turn(world: World) -> None:
    for number in range(100):
        world.send("q", b"%d" % number, priority=number % 10)
    through = world.broker.lsn
    for number in range(10):
        world.send("q", b"late", priority=number)
    purges = 0
    while limited(world, c.PurgeQueue("q", through)):
        purges += 1
    assert purges >= 100 // UNITS
    assert world.bodies("q") == [b"late"] * 10


# ---- deliveries in flight


def test_unsubscribing_returns_what_is_in_flight_in_slices(world: World) -> None:
    _, consumer = in_flight(world, 300)
    slices, lsn = until_done(world, c.Detach(consumer))
    assert slices > 3
    assert lsn == world.broker.lsn
    assert world.state.consumers == {}
    assert world.ready("q") == [b"%d" % number for number in range(300)]
    assert set(world.counts("q").values()) == {0}


def test_nothing_more_comes_to_a_consumer_that_leaves(world: World) -> None:
    _, consumer = in_flight(world, 300)
    assert limited(world, c.Detach(consumer)) == UNFINISHED
    world.send("q", b"more")
    assert world.taken(consumer) == []
    other = world.attach(world.connect(), "q", credit_messages=5, credit_bytes=-MANY)
    assert world.taken_bodies(other) == [b"0", b"1", b"2", b"3", b"4"]
    until_done(world, c.Detach(consumer))


@pytest.mark.parametrize(
    ("reason", "count"),
    [(reasons.DISCONNECTED, 1), (reasons.PROTOCOL_ERROR, 1), (reasons.CLOSED, 0)],
)
def test_a_connection_is_closed_to_the_end_by_itself(world: World, reason: int, count: int) -> None:
    connection, _ = in_flight(world, 300)
    assert limited(world, c.CloseConnection(connection, reason)) == UNFINISHED
    assert go_on(world) > 3
    assert world.state.connections == {}
    assert world.ready("q") == [b"%d" % number for number in range(300)]
    assert set(world.counts("q").values()) == {count}
    assert not world.broker.work.closing


def test_an_end_may_wait_to_be_asked_for_again_and_a_loss_takes_over(world: World) -> None:
    connection, _ = in_flight(world, 300)
    command = c.CloseConnection(connection, reasons.CLOSED, asks_again=True)
    assert limited(world, command) == UNFINISHED
    assert not world.broker.has_more
    assert limited(world, c.CloseConnection(connection, reasons.DISCONNECTED)) == UNFINISHED
    go_on(world)
    assert world.state.connections == {}
    # It had said goodbye.
    assert set(world.counts("q").values()) == {0}


def test_many_subscriptions_end_in_slices(world: World) -> None:
    connection = world.connect()
    for _ in range(50):
        world.attach(connection, "news", routing_type=MULTICAST)
    slices, _ = until_done(world, c.CloseConnection(connection, reasons.CLOSED))
    assert slices >= 50 // 3
    assert (world.state.queues, world.state.consumers) == ({}, {})


def test_a_stop_finishes_what_is_being_closed(world: World) -> None:
    connection, _ = in_flight(world, 300)
    assert limited(world, c.CloseConnection(connection, reasons.DISCONNECTED)) == UNFINISHED
    world.ok(c.Stop())
    assert world.state.connections == {}
    assert not world.broker.has_more


@pytest.mark.parametrize("outcome", [ACCEPTED, FAILED])
def test_a_cumulative_settlement_goes_on_where_it_stopped(world: World, outcome: int) -> None:
    _, consumer = in_flight(world, 300)
    last = list(world.state.consumers[consumer].unacked)[249]
    slices, lsn = until_done(world, c.Settle(consumer, last, cumulative=True, outcome=outcome))
    assert slices > 3
    left = [b"%d" % number for number in range(250, 300)]
    if outcome == ACCEPTED:
        assert world.bodies("q") == left
    else:
        assert set(world.counts("q").values()) >= {1}
        assert len(world.bodies("q")) == 300
    assert 0 < lsn <= world.broker.lsn
    assert world.state.consumers[consumer].settled_lsn == 0


def test_a_receipt_waits_for_the_slices_before_the_last(world: World) -> None:
    _, consumer = in_flight(world, 100)
    for _ in range(60):
        world.send("q", persistent=False)
    world.credit(consumer, messages=60)
    last = list(world.state.consumers[consumer].unacked)[-1]
    answers = []
    while (answer := limited(world, c.Settle(consumer, last, True))) == UNFINISHED:
        answers.append(world.broker.lsn)
    assert isinstance(answer, int)
    assert answer >= answers[0]


# ---- without a walk


def test_cumulative_acks_in_a_transaction_never_look_twice(world: World) -> None:
    connection, consumer = in_flight(world, 400)
    world.begin(connection)
    before = world.broker.budget.spent
    for message in list(world.state.consumers[consumer].unacked):
        world.ack(consumer, message, cumulative=True, transaction="t")
    assert world.broker.budget.spent - before < 400 * 10
    world.abort(connection)
    world.begin(connection)
    last = list(world.state.consumers[consumer].unacked)[-1]
    world.ack(consumer, last, cumulative=True, transaction="t")
    world.commit(connection)
    assert world.bodies("q") == []


def test_what_a_rollback_lets_go_is_settled_in_its_order(world: World) -> None:
    connection, consumer = in_flight(world, 9)
    ids = list(world.state.consumers[consumer].unacked)
    for name, message in (("a", ids[2]), ("b", ids[5])):
        world.begin(connection, name)
        world.ack(consumer, message, cumulative=True, transaction=name)
    world.abort(connection, "a")
    world.abort(connection, "b")
    world.begin(connection, "c")
    world.ack(consumer, ids[4], cumulative=True, transaction="c")
    world.commit(connection, "c")
    assert world.bodies("q") == [b"5", b"6", b"7", b"8"]


def test_who_has_a_message_is_known_without_a_walk(world: World) -> None:
    connection = world.connect()
    consumers = [
        world.attach(connection, "news", routing_type=MULTICAST, settles_by_message=True)
        for _ in range(3)
    ]
    # One that does not settle so is not found.
    world.attach(connection, "news", routing_type=MULTICAST)
    message = world.send("news", b"1", routing_type=MULTICAST)
    assert world.broker.holders(connection, message) == consumers
    world.ack(consumers[1], message)
    assert world.broker.holders(connection, message) == [consumers[0], consumers[2]]
    world.nack(consumers[2], message)
    world.detach(consumers[0])
    assert world.broker.holders(connection, message) == [consumers[2]]
    assert world.broker.holders(world.connect(), message) == []
    assert world.broker.holders(0, message) == []


# ---- limits of one turn


def test_a_transaction_has_no_more_entries_than_a_turn_takes() -> None:
    world = World(max_transaction_entries=10)
    connection, consumer = in_flight(world, 20)
    ids = list(world.state.consumers[consumer].unacked)
    world.begin(connection)
    command = c.Settle(consumer, ids[10], True, "t")
    assert "max-transaction-entries" in world.refused(command).text
    world.ack(consumer, ids[7], cumulative=True, transaction="t")
    world.send("a", b"", connection, transaction="t")
    world.send("a", b"", connection, transaction="t")
    assert "than 10" in world.refused(c.Send(connection, "a", b"", b"", transaction="t")).text
    world.commit(connection)


def test_subscribers_that_come_before_the_commit_count() -> None:
    world = World(max_transaction_entries=10)
    connection = world.connect()
    world.ok(c.CreateAddress("news", (MULTICAST,)))
    world.begin(connection)
    for _ in range(3):
        world.send("news", b"", connection, transaction="t", routing_type=MULTICAST)
    for _ in range(3 << RECIPIENTS_SHIFT):
        world.attach(connection, "news", routing_type=MULTICAST)
    answer = world.handle(c.Commit(connection, "t"))
    assert isinstance(answer, Refusal)
    assert "max-transaction-entries" in answer.text
    # As many as a plain SEND may reach, one message of a transaction may reach too.
    world.begin(connection)
    for _ in range(11 << RECIPIENTS_SHIFT):
        world.attach(connection, "news", routing_type=MULTICAST)
    world.send("news", b"", connection, transaction="t", routing_type=MULTICAST)
    assert "than 10" in world.refused(c.Send(connection, "a", b"", b"", transaction="t")).text
    world.commit(connection)
    several = [
        c.Send(connection, name, b"", b"", routing_type=MULTICAST) for name in ("news", "other")
    ]
    assert "to fewer destinations" in world.refused(c.SendToAll(connection, several)).text
    world.check()


def test_a_dispatch_ends_and_goes_on_round_robin() -> None:
    world = World()
    connection = world.connect()
    consumers = {name: world.attach(connection, name) for name in ("a", "b")}
    for number in range(100):
        for name in consumers:
            assert isinstance(world.handle(c.Send(0, name, b"", b"%d" % number)), int)
    dispatches = 0
    while world.broker.is_touched:
        world.broker.budget.allow(UNITS)
        world.broker.dispatch(world.now)
        dispatches += 1
        heads = [world.queue(name).ready_count for name in consumers]
        assert abs(heads[0] - heads[1]) <= UNITS
    assert dispatches > 200 * 2 // (UNITS * 2)
    world.turn()
    for consumer in consumers.values():
        assert world.taken_bodies(consumer) == [b"%d" % number for number in range(100)]


def test_expiry_ends_when_others_are_to_have_their_turn() -> None:
    world = World()
    for _ in range(100):
        world.send("q", expires=world.now // 1000 + 1000)
    world.sleep(10)
    scans = 0
    while world.broker.work.more_due or not scans:
        limited(world, c.ExpireDue())
        scans += 1
    assert scans > 10
    assert world.bodies("q") == []


def paged_out(world: PagedWorld) -> list[int]:
    """Let all leave memory that may; return how many entries did in each slice."""
    world.broker.budget.allow(UNITS)
    evicted = [world.broker.page_out()]
    while world.broker.pages_out:
        world.broker.budget.allow(UNITS)
        evicted.append(world.broker.page_out_more())
    world.broker.budget.limit = NO_LIMIT
    return evicted


def test_what_leaves_memory_leaves_in_slices() -> None:
    world = PagedWorld(window=1000, lag=0)
    world.settings(all={"max_size_bytes": 1, "address_full_policy": "PAGE"})
    for number in range(1000):
        world.send("q", b"%d" % number)
    world.store.advance(len(world.journal))
    queue = world.queue("q")
    evicted = paged_out(world)
    assert sum(evicted) == 1000
    assert max(evicted) <= 100
    assert queue.paged_count == 1000
    assert world.ready("q") == [b"%d" % number for number in range(1000)]


@replaces_parts
def test_of_many_queues_each_is_looked_at_once_when_messages_leave_memory() -> None:
    world = PagedWorld(window=1000, lag=0)
    world.settings(all={"max_size_bytes": 1, "address_full_policy": "PAGE"})
    count = 500
    for number in range(count):
        world.ok(create_queue(f"q{number}", "news", MULTICAST))
    for _ in range(2):
        world.send("news", b"n", routing_type=MULTICAST)
    world.store.advance(len(world.journal))
    counted = []
    with patch.object(Sizes, "count", lambda _, queue: counted.append(queue.id)):
        evicted = paged_out(world)
    assert sum(evicted) == 2 * count
    assert max(evicted) <= 100
    assert sorted(counted) == sorted(queue.id for queue in world.state.queues.values())
    world.check()


def test_temporary_destinations_end_in_slices(world: World) -> None:
    own = world.connect()
    full = temporary_name(own, "full")
    for number in range(120):
        world.send(full, b"%d" % number, own)
    for number in range(20):
        world.send(temporary_name(own, f"q{number}"), b"one", own)
    slices, _ = until_done(world, c.CloseConnection(own, reasons.CLOSED))
    assert slices > 3
    assert full not in world.state.queue_by_name
    assert go_on(world) > 3
    assert not world.state.addresses
    assert not world.state.queues


def test_a_new_address_and_a_new_queue_cost_more_than_the_message_that_made_them() -> None:
    """A client that sends to a new queue each time is in a turn for as long as others are."""
    world = World()
    budget = world.broker.budget
    before = budget.spent
    world.send("made.1")
    first = budget.spent - before
    world.send("made.1")
    again = budget.spent - before - first
    assert first - again >= 2 * CREATE_UNITS
