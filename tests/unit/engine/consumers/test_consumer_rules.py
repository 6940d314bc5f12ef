"""The choice of consumers: exclusive queues and priorities."""

import pytest

from daybook.engine import commands as c
from daybook.engine.facts.definitions import MULTICAST
from daybook.engine.facts.events import GROUPED
from tests.support.topology import create_queue
from tests.support.world import MANY, World


def sent(world: World, count: int, queue: str = "q") -> None:
    for number in range(count):
        world.send(queue, b"%d" % number)


def got(world: World, consumer: int) -> list[bytes]:
    return [each.body for each in world.deliveries if each.consumer == consumer]


# ---- exclusive queues


def exclusive(world: World) -> None:
    world.ok(create_queue("q", "q", exclusive=True))


def test_one_consumer_gets_everything_even_while_it_is_busy(world: World) -> None:
    exclusive(world)
    connection = world.connect()
    first = world.attach(connection, "q", credit_messages=2, credit_bytes=0)
    second = world.attach(connection, "q", credit_messages=10)
    sent(world, 4)
    assert got(world, first) == [b"0", b"1"]
    assert got(world, second) == []
    world.credit(first, 5)
    assert got(world, first) == [b"0", b"1", b"2", b"3"]
    world.check()


def test_when_it_leaves_another_goes_on_in_order(world: World) -> None:
    exclusive(world)
    first = world.attach(world.connect(), "q", credit_messages=3, credit_bytes=0)
    second = world.attach(world.connect(), "q", credit_messages=10)
    third = world.attach(world.connect(), "q", credit_messages=10)
    sent(world, 5)
    world.ack(first, world.deliveries[0].message)
    world.detach(first)
    # Whose turn it is gets all of it.
    rest = [b"1", b"2", b"3", b"4"]
    assert sorted([got(world, second), got(world, third)]) == [[], rest]
    world.check()


def test_a_lost_connection_passes_it_on_too(world: World) -> None:
    exclusive(world)
    connection = world.connect()
    world.attach(connection, "q", credit_messages=3, credit_bytes=0)
    second = world.attach(world.connect(), "q", credit_messages=10)
    sent(world, 3)
    world.close(connection)
    assert got(world, second) == [b"0", b"1", b"2"]


# ---- exclusive consumers


@pytest.mark.parametrize("kind", [{}, {"exclusive": True}, {"non_destructive": True}])
def test_an_exclusive_consumer_takes_over_and_is_followed_by_the_next(
    world: World, kind: dict[str, bool]
) -> None:
    world.ok(create_queue("q", "q", **kind))
    usual = world.attach(world.connect(), "q")
    world.send("q", b"before")
    first = world.attach(world.connect(), "q", exclusive=True)
    second = world.attach(world.connect(), "q", exclusive=True)
    sent(world, 2)
    assert got(world, usual) == [b"before"]
    assert got(world, first)[-2:] == [b"0", b"1"]
    world.detach(first)
    assert got(world, second)[-2:] == [b"0", b"1"]
    world.check()
    for delivery in world.deliveries:
        if delivery.consumer == second:
            world.ack(second, delivery.message)
    world.detach(second)
    world.send("q", b"after")
    assert got(world, usual)[-1] == b"after"
    world.check()


def test_it_gets_the_groups_of_others_too(world: World) -> None:
    usual = world.attach(world.connect(), "q")
    world.send("q", b"1", headers={"JMSXGroupID": "g"}, format=GROUPED)
    first = world.attach(world.connect(), "q", exclusive=True)
    world.send("q", b"2", headers={"JMSXGroupID": "g"}, format=GROUPED)
    assert got(world, usual) == [b"1"]
    assert got(world, first) == [b"2"]


def test_what_is_held_in_many_pieces_is_not_shared_meanwhile(world: World) -> None:
    exclusive(world)
    first = world.attach(world.connect(), "q", credit_messages=400)
    second = world.attach(world.connect(), "q", credit_messages=400)
    sent(world, 200)
    while True:
        world.broker.budget.allow(60)
        answer = world.handle(c.Detach(first))
        world.turn()
        if isinstance(answer, int):
            break
        assert got(world, second) == []
    world.broker.budget.allow(MANY)
    world.turn()
    assert got(world, second) == [b"%d" % number for number in range(200)]


def test_a_setting_makes_new_queues_exclusive(world: World) -> None:
    world.settings(q={"default_exclusive_queue": True}, news={"default_exclusive_queue": True})
    connection = world.connect()
    first = world.attach(connection, "q")
    second = world.attach(connection, "q")
    sent(world, 3)
    assert (len(got(world, first)), len(got(world, second))) == (3, 0)
    world.attach(connection, "news", routing_type=MULTICAST, durable_name="d")
    assert world.queue("dsub.d").definition.exclusive
    world.restart()
    assert world.queue("q").definition.exclusive
    world.check()


def test_the_holder_may_have_a_filter(world: World) -> None:
    """Nobody else gets what it does not want."""
    exclusive(world)
    first = world.attach(world.connect(), "q", filter="kind=big")
    second = world.attach(world.connect(), "q")
    world.send("q", b"1", headers={"kind": "big"})
    world.send("q", b"2", headers={"kind": "small"})
    world.send("q", b"3", headers={"kind": "big"})
    assert got(world, first) == [b"1", b"3"]
    world.detach(first)
    assert sorted(got(world, second)) == [b"1", b"2", b"3"]


# ---- priorities


def test_higher_priorities_come_first_and_equal_ones_in_turn(world: World) -> None:
    connection = world.connect()
    low = world.attach(connection, "q", priority=-1)
    high = [
        world.attach(connection, "q", priority=5, credit_messages=2, credit_bytes=0) for _ in "ab"
    ]
    usual = world.attach(connection, "q", credit_messages=1, credit_bytes=0)
    sent(world, 7)
    assert [got(world, each) for each in high] == [[b"0", b"2"], [b"1", b"3"]]
    assert got(world, usual) == [b"4"]
    assert got(world, low) == [b"5", b"6"]
    world.credit(high[1], 1)
    sent(world, 1)
    assert got(world, high[1])[-1] == b"0"
    world.check()


def test_a_lower_one_gets_what_no_higher_one_wants(world: World) -> None:
    connection = world.connect()
    high = world.attach(connection, "q", priority=1, filter="kind=big")
    low = world.attach(connection, "q")
    world.send("q", b"1", headers={"kind": "small"})
    world.send("q", b"2", headers={"kind": "big"})
    assert got(world, high) == [b"2"]
    assert got(world, low) == [b"1"]


@pytest.mark.parametrize("priority", [0, 3])
def test_the_journal_says_the_priority(world: World, priority: int) -> None:
    world.attach(world.connect(), "q", priority=priority)
    (attached,) = world.events_named("ConsumerAttached")
    assert attached.decoded.priority == priority
    world.check()
