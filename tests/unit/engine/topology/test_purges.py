"""Queues that keep messages only while they have consumers."""

import pytest

from daybook.engine.commands import CloseConnection, DeleteQueue, Detach, Send, UpdateQueue
from daybook.engine.facts import reasons
from daybook.engine.topology.purges import AT_ONCE
from tests.support.paged_world import PagedWorld
from tests.support.topology import create_queue
from tests.support.world import World

WORLDS = [World, lambda: PagedWorld(window=1, lag=2)]


@pytest.fixture(params=WORLDS, ids=["resident", "paged"])
def world(request: pytest.FixtureRequest) -> World:
    found: World = request.param()
    found.ok(create_queue("q", "a", "multicast", purge_on_no_consumers=True))
    return found


def dropped(world: World) -> list[int]:
    return [event.reason for event in world.events_named("Dropped")]


def removed(world: World) -> list[int]:
    return [event.reason for event in world.events_named("Removed")]


def consume(world: World, connection: int = 0, **values: int) -> int:
    return world.attach(connection or world.connect(), "a", queue="q", **values)


def test_it_takes_nothing_without_consumers(world: World) -> None:
    world.send("a", b"x")
    world.send("a", b"y", queue="q")
    assert world.bodies("q") == []
    assert dropped(world) == [reasons.NO_CONSUMERS] * 2
    consumer = consume(world)
    world.send("a", b"z")
    assert world.taken_bodies(consumer) == [b"z"]


def test_what_is_left_goes_with_the_last_consumer(world: World) -> None:
    connection = world.connect()
    first = consume(world, connection, credit_messages=1, credit_bytes=0)
    second = consume(world, connection, credit_messages=1, credit_bytes=0)
    for _ in range(5):
        world.send("a", b"x")
    world.detach(first)
    assert world.queue("q").message_count == 5
    world.detach(second)
    assert world.queue("q").message_count == 0
    assert removed(world) == [reasons.NO_CONSUMERS] * 5
    world.send("a", b"x")
    assert dropped(world) == [reasons.NO_CONSUMERS]
    world.check()


@pytest.mark.parametrize("reason", [reasons.CLOSED, reasons.DISCONNECTED])
def test_a_connection_that_ends_is_a_consumer_that_leaves(world: World, reason: int) -> None:
    connection = world.connect()
    consume(world, connection)
    world.send("a", b"x")
    world.ok(CloseConnection(connection, reason))
    assert world.queue("q").message_count == 0
    world.check()


def test_also_what_is_held_or_scheduled(world: World) -> None:
    world.settings(all={"max_delivery_attempts": 1})
    connection = world.connect()
    consumer = consume(world, connection)
    world.nack(consumer, world.send("a", b"held"))
    world.send("a", b"later", due=world.now // 1000 + 60_000)
    assert world.queue("q").aside_count == 2
    world.detach(consumer)
    assert world.queue("q").message_count == 0
    world.check()


def test_a_start_finds_nobody(world: World) -> None:
    consume(world)
    world.send("a", b"x")
    world.send("a", b"y", due=world.now // 1000 + 60_000)
    world.restart()
    assert world.queue("q").message_count == 0
    assert set(removed(world)) == {reasons.NO_CONSUMERS}
    world.check()


def test_its_filter_holds_as_well(world: World) -> None:
    world.ok(create_queue("f", "b", "multicast", purge_on_no_consumers=True, filter="kind=big"))
    world.send("b", b"x", headers={"kind": "big"})
    assert dropped(world) == [reasons.NO_CONSUMERS]
    world.attach(world.connect(), "b", queue="f")
    world.send("b", b"x", headers={"kind": "small"})
    assert dropped(world) == [reasons.NO_CONSUMERS, reasons.NO_MATCHING_FILTER]
    world.send("b", b"big", headers={"kind": "big"})
    assert world.taken_bodies() == [b"big"]


def test_an_anycast_message_goes_where_somebody_is(world: World) -> None:
    for name in ("x", "y"):
        world.ok(create_queue(name, "c", purge_on_no_consumers=True))
    world.send("c", b"nobody")
    consumer = world.attach(world.connect(), "c", queue="y")
    for _ in range(3):
        world.send("c", b"x")
    assert len(world.taken(consumer)) == 3
    assert dropped(world) == [reasons.NO_CONSUMERS]
    world.check()


def test_a_queue_that_is_alone_on_its_address(world: World) -> None:
    """The way without a choice must not be taken."""
    world.ok(create_queue("only", "only", purge_on_no_consumers=True))
    world.send("only", b"x")
    assert world.queue("only").message_count == 0


def test_a_transaction_finds_nobody_at_its_commit(world: World) -> None:
    connection = world.connect()
    consumer = consume(world)
    world.begin(connection)
    world.send("a", b"x", connection, transaction="t")
    world.detach(consumer)
    world.commit(connection)
    assert dropped(world) == [reasons.NO_CONSUMERS]
    world.check()


def test_a_dead_letter_waits_for_a_consumer(world: World) -> None:
    world.settings(jobs={"max_delivery_attempts": 1, "dead_letter_address": "a"})
    worker = world.attach(world.connect(), "jobs")
    world.nack(worker, world.send("jobs", b"sick"))
    assert world.queue("jobs").held_count == 1
    consumer = consume(world)
    world.retry()
    assert world.taken_bodies(consumer) == [b"sick"]
    assert world.queue("jobs").held_count == 0


def fill(world: World, count: int) -> None:
    for _ in range(count):
        world.handle(Send(0, "a", b"", b"old"))
    world.turn()


def test_many_go_in_slices_and_nobody_gets_them_meanwhile() -> None:
    world = World()
    world.ok(create_queue("q", "a", "multicast", purge_on_no_consumers=True))
    consumer = consume(world, credit_messages=1, credit_bytes=0)
    fill(world, AT_ONCE + 500)
    world.taken()
    world.ok(Detach(consumer))
    assert world.queue("q").message_count == 500
    assert world.broker.has_more
    another = consume(world)
    world.send("a", b"new")
    assert world.taken(another) == []
    world.broker.budget.allow(100)
    world.broker.go_on(world.now)
    world.turn()
    assert (world.queue("q").message_count, world.broker.has_more) == (401, True)
    world.broker.budget.allow(10_000)
    world.broker.go_on(world.now)
    world.turn()
    assert not world.broker.has_more
    assert world.taken_bodies(another) == [b"new"]
    world.check()


def test_a_kill_in_the_middle_is_made_up_for_by_the_start() -> None:
    world = World()
    world.ok(create_queue("q", "a", "multicast", purge_on_no_consumers=True))
    consumer = consume(world, credit_messages=1, credit_bytes=0)
    fill(world, 300)
    world.broker.budget.allow(60)
    world.handle(Detach(consumer))
    assert world.broker.has_more
    assert 0 < world.queue("q").message_count < 300
    world.broker.budget.limit = 1 << 60
    world.restart()
    assert world.queue("q").message_count == 0
    world.check()


def test_a_queue_deleted_in_the_middle_is_gone() -> None:
    world = World()
    world.ok(create_queue("q", "a", "multicast", purge_on_no_consumers=True))
    consumer = consume(world, credit_messages=1, credit_bytes=0)
    fill(world, AT_ONCE + 5)
    world.ok(Detach(consumer))
    world.ok(DeleteQueue("q", force=True))
    world.broker.go_on(world.now)
    world.turn()
    assert not world.broker.has_more
    assert "q" not in world.state.queue_by_name
    world.check()


@pytest.mark.parametrize("paged", [False, True])
def test_from_the_moment_that_it_is_changed(paged: bool) -> None:
    """Among several queues, too, where each binding says what its queue takes."""
    world = PagedWorld(window=1, lag=2) if paged else World()
    for name in ("q", "r"):
        world.ok(create_queue(name, "a"))
    world.ok(UpdateQueue("q", {"purge_on_no_consumers": True}))
    for _ in range(4):
        world.send("a", b"x")
    assert [world.queue(name).message_count for name in ("q", "r")] == [0, 4]
    world.ok(UpdateQueue("q", {"purge_on_no_consumers": False}))
    for _ in range(2):
        world.send("a", b"x")
    assert world.queue("q").message_count > 0
    world.check()
