"""Entries that are scheduled: after a failed delivery, until they are due or leave otherwise."""

import pytest

from daybook.engine.commands import CloseConnection, DeliverDue, ExpireDue, PurgeQueue
from daybook.engine.facts import events, reasons
from daybook.engine.state.timers import NEVER
from tests.support.paged_world import PagedWorld
from tests.support.world import World

DELAY_MS = 5_000
WORLDS = [World, lambda: PagedWorld(window=1, lag=2)]


@pytest.fixture(params=WORLDS, ids=["resident", "paged"])
def world(request: pytest.FixtureRequest) -> World:
    found: World = request.param()
    found.settings(
        all={
            "redelivery_delay": DELAY_MS, "max_delivery_attempts": 5, "expiry_address": "late",
        }
    )  # fmt: skip
    # After a start nobody knows yet when something is due.
    assert found.broker.wakes(found.now)
    found.ok(DeliverDue())
    return found


def scheduled(world: World) -> int:
    return world.queue("q").scheduled_count


def fail(world: World, consumer: int, count: int) -> list[int]:
    """Have so many messages delivered, and fail with them all."""
    ids = [world.send("q", b"%d" % number) for number in range(count)]
    for message in ids:
        world.nack(consumer, message)
    return ids


def test_a_failed_delivery_waits_and_the_others_do_not(world: World) -> None:
    consumer = world.attach(world.connect(), "q")
    (first,) = fail(world, consumer, 1)
    world.send("q", b"behind")
    world.taken()
    assert [scheduled(world), world.queue("q").ready_count] == [1, 0]
    world.sleep(DELAY_MS / 1000 - 0.001)
    assert not world.broker.wakes(world.now)
    world.ok(DeliverDue())
    assert world.taken_bodies() == []
    world.sleep(0.001)
    assert world.broker.wakes(world.now)
    world.ok(DeliverDue())
    assert world.taken_bodies() == [b"0"]
    assert world.counts("q") == {b"0": 2, b"behind": 1}
    (due,) = world.events_named("Due")
    assert due.row[events.MESSAGE] == first
    assert world.state.wake_at == NEVER
    world.check()


def test_what_is_due_stands_in_its_place(world: World) -> None:
    connection = world.connect()
    fail(world, world.attach(connection, "q"), 3)
    world.ok(CloseConnection(connection, reasons.CLOSED))
    world.send("q", b"new")
    world.sleep(DELAY_MS / 1000)
    world.ok(DeliverDue())
    assert world.ready("q") == [b"0", b"1", b"2", b"new"]
    world.check()


def test_a_start_looks_for_what_is_due(world: World) -> None:
    fail(world, world.attach(world.connect(), "q"), 2)
    world.restart()
    assert scheduled(world) == 2
    world.check()
    world.sleep(DELAY_MS / 1000)
    assert world.broker.wakes(world.now)
    world.ok(DeliverDue())
    assert [scheduled(world), world.queue("q").ready_count] == [0, 2]
    world.check()


def test_a_part_at_a_time(world: World) -> None:
    fail(world, world.attach(world.connect(), "q"), 5)
    world.sleep(DELAY_MS / 1000)
    world.ok(DeliverDue(2))
    assert world.broker.work.more_scheduled
    assert scheduled(world) == 3
    world.ok(DeliverDue(3))
    world.ok(DeliverDue())
    assert not world.broker.work.more_scheduled
    assert scheduled(world) == 0


def test_what_is_scheduled_expires(world: World) -> None:
    consumer = world.attach(world.connect(), "q")
    message = world.send("q", b"x", expires=world.now // 1000 + 1000)
    world.nack(consumer, message)
    world.sleep(1.001)
    world.ok(ExpireDue())
    assert scheduled(world) == 0
    assert world.ready("late") == [b"x"]
    world.sleep(DELAY_MS / 1000)
    world.ok(DeliverDue())
    assert world.events_named("Due") == []
    world.check()


def test_what_is_scheduled_is_purged(world: World) -> None:
    fail(world, world.attach(world.connect(), "q"), 3)
    world.ok(PurgeQueue("q"))
    assert world.queue("q").message_count == 0
    world.sleep(DELAY_MS / 1000)
    world.ok(DeliverDue())
    world.check()


def test_what_does_not_count_is_not_delayed(world: World) -> None:
    """Prefetched deliveries of a consumer that leaves come back at once."""
    world.send("q", b"x")
    consumer = world.attach(world.connect(), "q")
    world.detach(consumer)
    assert [scheduled(world), world.queue("q").ready_count] == [0, 1]


def test_a_lost_connection_counts_and_delays(world: World) -> None:
    connection = world.connect()
    world.send("q", b"x")
    world.attach(connection, "q")
    world.ok(CloseConnection(connection, reasons.DISCONNECTED))
    assert scheduled(world) == 1


def test_a_message_waits_again_after_each_failure(world: World) -> None:
    consumer = world.attach(world.connect(), "q")
    (message,) = fail(world, consumer, 1)
    for _ in range(3):
        world.sleep(DELAY_MS / 1000)
        world.ok(DeliverDue())
        world.nack(consumer, message)
    assert [scheduled(world), world.entries("q")[0].delivery_count] == [1, 4]
    world.check()


def test_a_scheduled_message_that_may_not_leave_is_held(world: World) -> None:
    """It expired, and its expiry address takes nothing."""
    consumer = world.attach(world.connect(), "q")
    message = world.send("q", b"x", expires=world.now // 1000 + 1000)
    world.nack(consumer, message)
    world.settings(all={"expiry_address": "late", "auto_create_queues": False})
    world.sleep(1.001)
    world.ok(ExpireDue())
    queue = world.queue("q")
    assert [queue.scheduled_count, queue.held_count] == [0, 1]
    world.check()
