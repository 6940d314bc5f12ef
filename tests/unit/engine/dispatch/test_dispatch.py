"""The consumer of each message, the order, and the gate of each delivery."""

from collections.abc import Callable
from typing import Any

import pytest

from daybook.engine.broker import Broker
from daybook.engine.commands import (
    Attach,
    ChangeSettings,
    OpenConnection,
    PauseQueue,
    ResumeQueue,
    Room,
    Send,
    Settle,
)
from daybook.engine.facts import events, reasons
from daybook.engine.facts.definitions import MULTICAST
from daybook.engine.facts.settlements import FAILED, UNMETERED
from daybook.engine.state.state import State
from tests.support.topology import create_queue
from tests.support.world import World


def fill(world: World, count: int, address: str = "q") -> list[bytes]:
    bodies = [b"%d" % number for number in range(count)]
    for body in bodies:
        world.send(address, body)
    return bodies


def test_first_in_first_out(world: World) -> None:
    bodies = fill(world, 20)
    consumer = world.attach(world.connect(), "q")
    assert world.taken_bodies(consumer) == bodies


def test_strict_priority_between_levels(world: World) -> None:
    for body, priority in ((b"a", 4), (b"b", 9), (b"c", 0), (b"d", 9), (b"e", 4)):
        world.send("q", body, priority=priority)
    world.attach(world.connect(), "q")
    assert world.taken_bodies() == [b"b", b"d", b"a", b"e", b"c"]


def test_round_robin_between_consumers_with_credit(world: World) -> None:
    connection = world.connect()
    first = world.attach(connection, "q", credit_messages=0, credit_bytes=0)
    second = world.attach(connection, "q", credit_messages=2, credit_bytes=0)
    third = world.attach(connection, "q", credit_messages=3, credit_bytes=0)
    fill(world, 7)
    assert world.taken_bodies(first) == []
    assert world.taken_bodies(second) == [b"0", b"2"]
    assert world.taken_bodies(third) == [b"1", b"3", b"4"]
    assert world.ready("q") == [b"5", b"6"]
    world.credit(first, 1)
    assert world.taken_bodies(first) == [b"5"]


def test_turns_go_on_where_they_stopped(world: World) -> None:
    connection = world.connect()
    consumers = [world.attach(connection, "q") for _ in range(3)]
    fill(world, 7)
    assert [delivery.consumer for delivery in world.taken()] == (consumers * 3)[:7]


def test_an_expired_message_costs_nobody_his_turn(world: World) -> None:
    world.send("q", b"old", expires=world.now // 1000 - 1)
    connection = world.connect()
    first = world.attach(connection, "q")
    world.attach(connection, "q")
    world.send("q", b"old", expires=world.now // 1000 - 1)
    world.send("q", b"x")
    assert [delivery.consumer for delivery in world.taken()] == [first]


@pytest.mark.parametrize(
    ("messages", "size", "expected"), [(1, 0, 1), (0, 1, 1), (3, 1, 3), (0, 0, 0), (1, 7, 7)]
)
def test_either_credit_is_enough(world: World, messages: int, size: int, expected: int) -> None:
    fill(world, 10)
    world.attach(world.connect(), "q", credit_messages=messages, credit_bytes=size)
    # Bodies of one byte; what else a message weighs does not count.
    assert len(world.taken()) == expected


def test_acks_give_both_credits_back(world: World) -> None:
    fill(world, 5)
    consumer = world.attach(world.connect(), "q", credit_messages=0, credit_bytes=1)
    for number in range(5):
        (delivery,) = world.taken()
        assert delivery.body == b"%d" % number
        world.ack(consumer, delivery.message)
    attached = world.state.consumers[consumer]
    assert (attached.credit_messages, attached.credit_bytes) == (0, 1)


def test_nothing_is_delivered_without_room_in_the_connection(world: World) -> None:
    fill(world, 5)
    connection = world.connect(room=200)
    world.attach(connection, "q")
    assert len(world.taken()) == 2
    world.ok(Room(connection, 0))
    assert world.taken() == []
    world.ok(Room(connection, 1))
    assert len(world.taken()) == 1
    world.ok(Room(connection, 10_000))
    assert len(world.taken()) == 2


def test_a_full_connection_does_not_stop_the_others(world: World) -> None:
    world.attach(world.connect(room=1), "q")
    open_handed = world.attach(world.connect(), "q")
    fill(world, 5)
    assert world.taken_bodies(open_handed) == [b"1", b"2", b"3", b"4"]


def test_a_paused_queue_takes_and_does_not_give(world: World) -> None:
    world.send("q", b"x")
    world.ok(PauseQueue("q"))
    consumer = world.attach(world.connect(), "q")
    world.send("q", b"y")
    assert world.taken() == []
    world.restart()
    consumer = world.attach(world.connect(), "q")
    assert world.taken() == []
    world.ok(ResumeQueue("q"))
    assert world.taken_bodies(consumer) == [b"x", b"y"]


def test_consumers_with_filters_get_what_they_want_and_pass_the_rest(world: World) -> None:
    connection = world.connect()
    for body, kind in ((b"1", "small"), (b"2", "big"), (b"3", "big"), (b"4", "small")):
        world.send("q", body, headers={"kind": kind})
    big = world.attach(connection, "q", filter="kind=big", credit_messages=1, credit_bytes=0)
    assert world.taken_bodies(big) == [b"2"]
    assert world.ready("q") == [b"1", b"3", b"4"]
    rest = world.attach(connection, "q", filter="not kind=big")
    assert world.taken_bodies(rest) == [b"1", b"4"]
    world.credit(big, 1)
    assert world.taken_bodies(big) == [b"3"]


def test_a_consumer_without_a_filter_beside_one_with(world: World) -> None:
    connection = world.connect()
    picky = world.attach(connection, "q", filter="kind=big")
    open_minded = world.attach(connection, "q")
    for body, kind in ((b"1", "small"), (b"2", "big"), (b"3", "big"), (b"4", "big")):
        world.send("q", body, headers={"kind": kind})
    assert world.taken_bodies(picky) == [b"2", b"4"]
    assert world.taken_bodies(open_minded) == [b"1", b"3"]


def test_a_selective_consumer_leaves_order_and_counts_to_the_others(world: World) -> None:
    connection = world.connect()
    for number in range(300):
        world.send("q", b"%d" % number, headers={"kind": "big" if number % 3 else "small"})
    picky = world.attach(connection, "q", filter="kind=big")
    assert len(world.taken_bodies(picky)) == 200
    # The tombstones that this left were cleared away at least once.
    assert world.queue("q").level(4).tombstones < 200
    world.close(connection)
    assert world.ready("q") == [b"%d" % number for number in range(300)]
    assert set(world.counts("q").values()) == {0}


def test_delivered_names_message_consumer_and_count(world: World) -> None:
    connection = world.connect()
    message = world.send("q", b"x", connection, priority=7)
    consumer = world.attach(connection, "q")
    (event,) = world.events_named("Delivered")
    queue = world.queue("q")
    assert event.row == events.row(
        events.DELIVERED, delivery_count=1, address=queue.address.id, queue=queue.id, priority=7,
        flags=events.PERSISTENT, message=message, consumer=consumer, connection=connection,
        time=world.now,
    )  # fmt: skip


def test_acknowledged_says_the_same_as_delivered(world: World) -> None:
    connection = world.connect()
    message = world.send("q", b"x", connection, priority=7)
    consumer = world.attach(connection, "q")
    world.nack(consumer, message)
    world.sleep(1)
    world.ack(consumer, message)
    delivered = world.events_named("Delivered")[-1].row
    (acknowledged,) = world.events_named("Acknowledged")
    expected = list(delivered)
    expected[events.KIND] = events.ACKNOWLEDGED
    expected[events.REASON] = reasons.BY_CONSUMER
    expected[events.TIME] = world.now
    assert acknowledged.row == tuple(expected)
    assert delivered[events.DELIVERY_COUNT] == 2


@pytest.mark.parametrize("before", [True, False])
def test_what_a_delivery_waits_for(worlds: Callable[..., World], before: bool) -> None:
    world = worlds(persist_delivery_count_before_delivery=before)
    connection = world.connect()
    first = world.attach(connection, "q")
    message = world.send("q", b"x")
    (delivered,) = world.events_named("Delivered")
    (delivery,) = world.taken()
    assert delivery.gate == (delivered.lsn if before else message)
    world.nack(first, message)
    (again,) = world.taken()
    assert again.attempt == 2
    assert again.gate == (world.events_named("Delivered")[1].lsn if before else message)


@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize("mode", ["decisions", "full"])
def test_non_persistent_messages_wait_for_nothing(
    worlds: Callable[..., World], mode: str, before: bool
) -> None:
    world = worlds(persist_delivery_count_before_delivery=before)
    world.settings(mode)
    consumer = world.attach(world.connect(), "q")
    assert world.send("q", b"x", persistent=False) == 0
    (delivery,) = world.taken()
    assert delivery.gate == 0
    assert world.nack(consumer, delivery.message) == 0
    assert world.ack(consumer, delivery.message) == 0


@pytest.mark.parametrize("before", [True, False])
def test_who_does_not_acknowledge_has_it_acknowledged_before_it_leaves(
    worlds: Callable[..., World], before: bool
) -> None:
    world = worlds(persist_delivery_count_before_delivery=before)
    world.attach(
        world.connect(), "q", acknowledges=False, credit_policy=UNMETERED, credit_messages=1
    )
    world.send("q", b"x")
    world.send("q", b"y")
    first, second = world.events_named("Acknowledged")
    assert first.reason == reasons.AUTOMATIC
    assert [delivery.gate for delivery in world.taken()] == [first.lsn, second.lsn]
    world.restart()
    assert world.bodies("q") == []


def test_multicast_is_delivered_and_counted_per_queue(world: World) -> None:
    for name in ("s1", "s2"):
        world.ok(create_queue(name, "news", MULTICAST))
    connection = world.connect()
    first = world.attach(connection, "news", queue="s1")
    second = world.attach(connection, "news", queue="s2")
    message = world.send("news", b"x")
    world.nack(first, message)
    assert [d.attempt for d in world.taken(first)] == [1, 2]
    assert [d.attempt for d in world.taken(second)] == [1]
    world.ack(second, message)
    assert world.bodies("s1") == [b"x"]
    assert world.bodies("s2") == []


def test_the_count_stops_at_what_a_row_can_hold() -> None:
    broker = Broker(State())
    broker.handle(Send(0, "q", b"", b"x"), 1)
    broker.handle(ChangeSettings({"#": {"max-delivery-attempts": -1}}), 1)
    (entry,) = broker.state.queue_by_name["q"].entries.values()
    entry.delivery_count = 65_534
    connection = broker.handle(OpenConnection("stomp", "peer", "guest"), 1)
    consumer = broker.handle(Attach(connection, "q"), 1)
    for _ in range(3):
        broker.dispatch(1)
        broker.handle(Settle(consumer, entry.message.id, outcome=FAILED), 1)
    assert [count for _, _, count, _, _ in broker.effects] == [65_535] * 3


def test_what_comes_back_costs_nothing_for_each_consumer_that_has_no_filter() -> None:
    world = World()
    peer = world.connect()
    for _ in range(3):
        world.attach(peer, "q", credit_messages=10)
    for number in range(9):
        world.send("q", b"%d" % number)
    world.turn()

    class Untouched(dict[int, Any]):
        """The positions that each consumer passed, which no other code may read."""

        def get(self, *_: Any) -> Any:
            raise AssertionError("every consumer was asked")

    for consumer in world.queue("q").consumers:
        consumer.passed = Untouched()
    world.close(peer)
    assert world.queue("q").ready_count == 9
