"""Messages whose senders say when they may be delivered, and administrators who do not wait."""

import pytest

from daybook.engine.commands import (
    Attach,
    DeliverDue,
    DeliverScheduled,
    ExpireDue,
    PurgeQueue,
    Send,
)
from daybook.engine.facts import events, reasons
from daybook.engine.facts.definitions import MULTICAST
from daybook.engine.facts.details import ScheduledDetail
from daybook.engine.routing.send_plan import EXPIRES_MAX
from tests.support.paged_world import PagedWorld
from tests.support.topology import create_queue
from tests.support.world import World

MINUTE_MS = 60_000
WORLDS = [World, lambda: PagedWorld(window=1, lag=2)]


@pytest.fixture(params=WORLDS, ids=["resident", "paged"])
def world(request: pytest.FixtureRequest) -> World:
    found: World = request.param()
    found.ok(DeliverDue())
    return found


def later(world: World, minutes: float) -> int:
    return world.now // 1000 + int(minutes * MINUTE_MS)


def figures(world: World, name: str = "q") -> list[int]:
    queue = world.queue(name)
    return [queue.message_count, queue.scheduled_count]


def wait(world: World, minutes: float) -> None:
    world.sleep(60 * minutes)
    if world.broker.wakes(world.now):
        world.ok(DeliverDue())


def test_the_scheduled_message_at_five_past_twelve(world: World) -> None:
    """The seed's example: A, scheduled for 12:05, waits aside and then stands at the head."""
    world.send("q", b"A", due=later(world, 5))
    assert figures(world) == [1, 1]
    for count, body in enumerate((b"B", b"C", b"D"), 2):
        wait(world, 1)
        world.send("q", body)
        assert figures(world) == [count, 1]
    assert world.ready("q") == [b"B", b"C", b"D"]
    wait(world, 1.99)
    assert figures(world) == [4, 1]
    wait(world, 0.01)
    assert figures(world) == [4, 0]
    assert world.ready("q") == [b"A", b"B", b"C", b"D"]
    world.check()


def test_it_wakes_a_consumer_and_is_no_redelivery(world: World) -> None:
    world.attach(world.connect(), "q")
    world.send("q", b"x", due=later(world, 1))
    assert world.taken_bodies() == []
    wait(world, 1)
    (delivery,) = world.taken()
    assert (delivery.body, delivery.attempt, delivery.redelivered) == (b"x", 1, False)


def test_a_time_that_has_come_is_no_time(world: World) -> None:
    for due in (0, 1, later(world, 0)):
        world.send("q", b"x", due=due)
    assert figures(world) == [3, 0]
    assert [event.decoded.due for event in world.events_named("Routed")] == [0, 0, 0]


def test_each_queue_of_a_topic_waits(world: World) -> None:
    connection = world.connect()
    consumers = [world.attach(connection, "t", routing_type="multicast") for _ in range(3)]
    gate = world.send("t", b"x", due=later(world, 1))
    (routed,) = world.events_named("Routed")
    assert routed.decoded.due == later(world, 1)
    assert gate == routed.lsn
    assert not world.events_named("Scheduled")
    wait(world, 1)
    assert {delivery.consumer for delivery in world.taken()} == set(consumers)


def test_it_survives_a_restart_with_the_clock_moved(world: World) -> None:
    world.send("q", b"late", due=later(world, 60))
    world.send("q", b"soon", due=later(world, 1))
    world.send("q", b"lost", due=later(world, 1), persistent=False)
    world.restart()
    assert figures(world) == [2, 2]
    wait(world, 2)
    assert world.ready("q") == [b"soon"]
    world.restart()
    world.now -= 3600 * 1_000_000
    wait(world, 0)
    # A due message stays due, whatever the clock says by now.
    assert figures(world) == [2, 1]
    wait(world, 121)
    assert world.ready("q") == [b"late", b"soon"]
    world.check()


def test_in_a_transaction(world: World) -> None:
    connection = world.connect()
    world.begin(connection)
    world.send("q", b"x", connection, transaction="t", due=later(world, 1))
    world.send("q", b"y", connection, transaction="t", due=later(world, 3))
    wait(world, 2)
    world.commit(connection)
    # The time of the first has come before the commit.
    assert world.ready("q") == [b"x"]
    assert figures(world) == [2, 1]
    world.check()


def test_an_aborted_transaction_schedules_nothing(world: World) -> None:
    connection = world.connect()
    world.send("q", b"x")
    world.begin(connection)
    world.send("q", b"y", connection, transaction="t", due=later(world, 3))
    world.abort(connection)
    assert figures(world) == [1, 0]


def test_it_expires_while_it_is_scheduled(world: World) -> None:
    world.settings(all={"expiry_address": "late"})
    world.send("q", b"x", due=later(world, 5), expires=later(world, 1))
    world.sleep(61)
    world.ok(ExpireDue())
    assert figures(world) == [0, 0]
    # The copy is not scheduled: it was not sent.
    assert world.ready("late") == [b"x"]


def test_a_large_message_with_an_id(world: World) -> None:
    world.send_large("q", [b"ab", b"c"], due=later(world, 1), duplicate_id="1")
    assert figures(world) == [1, 1]
    world.send_large("q", [b"ab", b"c"], due=later(world, 1), duplicate_id="1")
    assert figures(world) == [1, 1]
    wait(world, 1)
    (entry,) = world.entries("q")
    assert world.large_body(entry.message) == b"abc"
    world.check()


def test_wrong_times_are_refused(world: World) -> None:
    world.connect()
    for due in (-1, EXPIRES_MAX + 1):
        refusal = world.refused(Send(0, "q", b"", b"", due=due))
        assert f"the delivery time is {due}" in refusal.text


def test_an_administrator_does_not_wait(world: World) -> None:
    for body in (b"a", b"b", b"c"):
        world.send("q", body, due=later(world, 5))
    before = world.broker.lsn
    world.send("q", b"d", due=later(world, 5))
    assert world.ok(DeliverScheduled("q", through=before, limit=2)) > 0
    assert world.ready("q") == [b"a", b"b"]
    assert world.ok(DeliverScheduled("q", through=before)) > 0
    assert world.ok(DeliverScheduled("q", through=before)) == 0
    assert figures(world) == [4, 1]
    assert {event.reason for event in world.events_named("Due")} == {reasons.ADMINISTRATION}
    wait(world, 5)
    assert world.ready("q") == [b"a", b"b", b"c", b"d"]
    world.check()


def test_a_slice_is_no_longer_than_the_budget(world: World) -> None:
    for _ in range(5):
        world.send("q", b"x", due=later(world, 5))
    budget = world.broker.budget
    budget.limit = budget.spent + 3
    world.ok(DeliverScheduled("q"))
    budget.limit = 1 << 60
    assert figures(world) == [5, 3]


def test_there_is_no_such_queue(world: World) -> None:
    assert "there is no queue 'x'" in world.refused(DeliverScheduled("x")).text


def test_it_is_purged(world: World) -> None:
    world.send("q", b"x", due=later(world, 5))
    world.ok(PurgeQueue("q"))
    assert figures(world) == [0, 0]


def test_many_cost_what_they_are(world: World) -> None:
    """Budget is spent for each queue that sets a message aside."""
    connection = world.connect()
    for _ in range(20):
        world.ok(Attach(connection, "t", routing_type="multicast"))
    spent = world.broker.budget.spent
    world.send("t", b"x", due=later(world, 1))
    assert world.broker.budget.spent - spent >= 20
    assert [queue.scheduled_count for queue in world.state.queues.values()] == [1] * 20


def test_a_journal_of_an_older_broker_says_it_of_each_queue(world: World) -> None:
    """Those before level 7 emitted Scheduled behind Routed: the same state."""
    for name in ("q", "p"):
        world.ok(create_queue(name, "t", MULTICAST))
    due = later(world, 1)
    world.send("t", b"x", routing_type=MULTICAST, due=due)
    message = world.events_named("Routed")[-1].lsn
    detail = events.encode_detail(ScheduledDetail(due=due))
    for name in ("q", "p"):
        row = events.row(
            events.SCHEDULED, reason=reasons.DELIVERY_TIME, message=message,
            queue=world.queue(name).id, address=world.queue(name).address.id, priority=4, flags=1,
        )  # fmt: skip
        world.broker.emit(row, detail)
    world.restart()
    assert figures(world, "q") == figures(world, "p") == [1, 1]
    wait(world, 1)
    assert figures(world, "q") == figures(world, "p") == [1, 0]
    world.check()


def test_a_ring_at_five_past_twelve(world: World) -> None:
    """The seed: the ring of three is full when A is due, so A is removed at once."""
    world.ok(create_queue("q", "q", ring_size=3))
    world.send("q", b"A", due=later(world, 5))
    for body in (b"B", b"C", b"D"):
        wait(world, 1)
        world.send("q", body)
    assert figures(world) == [4, 1]
    wait(world, 2)
    assert figures(world) == [3, 0]
    assert world.ready("q") == [b"B", b"C", b"D"]
    (removed,) = world.events_named("Removed")
    assert removed.reason == reasons.RING_EVICTED
    world.check()


def test_a_last_value_replaces_when_it_is_due(world: World) -> None:
    world.ok(create_queue("q", "q", last_value=True))
    key = {"_AMQ_LVQ_NAME": "k"}
    world.send("q", b"old", headers=key)
    world.send("q", b"new", headers=key, due=later(world, 5))
    assert figures(world) == [2, 1]
    world.ok(DeliverScheduled("q"))
    assert world.ready("q") == [b"new"]
    world.check()


def test_what_is_scheduled_again_is_due_by_its_last_time_alone(world: World) -> None:
    """Its first time has passed and does not put it before others."""
    world.settings(q={"redelivery_delay": 2 * MINUTE_MS})
    connection = world.connect()
    first = world.attach(connection, "q", credit_messages=1)
    world.send("q", b"again", due=later(world, 1))
    wait(world, 1)
    (delivery,) = world.taken(first)
    world.nack(first, delivery.message)
    world.detach(first)
    world.send("q", b"new", due=later(world, 1))
    world.restart()
    world.sleep(180)
    world.ok(DeliverDue())
    due = [each.row[events.MESSAGE] == delivery.message for each in world.events_named("Due")]
    assert due == [True, False, True]
    world.check()
