"""Draining a consumer: it gets what there is, and the rest of its credit is taken back."""

from typing import Any

import pytest

from daybook.engine.commands import (
    Credit,
    DeleteQueue,
    OpenConnection,
    PauseQueue,
    PurgeQueue,
    Room,
    Send,
)
from daybook.engine.effects import Drained
from daybook.engine.facts.definitions import MULTICAST
from daybook.engine.facts.settlements import BY_GRANT, BY_SETTLEMENT, UNMETERED
from daybook.engine.limits.budget import NO_LIMIT
from daybook.engine.queues.consumer import Consumer
from daybook.engine.refusals import Code
from tests.support.world import World


def attach(world: World, connection: int = 0, **values: Any) -> int:
    """A consumer of the queue whose credit returns by grant alone."""
    granted = {"credit_policy": BY_GRANT, "credit_messages": 0, "credit_bytes": 0, **values}
    return world.attach(connection or world.connect(), "q", **granted)


def fill(world: World, count: int) -> None:
    for number in range(count):
        world.send("q", b"%d" % number)


def answers(world: World) -> list[tuple[int, int, int]]:
    """Which consumers were drained since the last call, of how much credit, and their counts."""
    found = [each for each in world.effects if isinstance(each, Drained)]
    world.effects.clear()
    return [(each.consumer.id, each.unused, each.total) for each in found]


def drain(world: World, consumer: int, in_all: int = -1) -> None:
    world.ok(Credit(consumer, in_all=in_all, drains=True))


def consumer_of(world: World, number: int) -> Consumer:
    return world.state.consumers[number]


def test_it_gets_what_there_is_and_loses_the_rest_of_its_credit(world: World) -> None:
    fill(world, 3)
    consumer = attach(world)
    drain(world, consumer, 10)
    assert [each.body for each in world.taken()] == [b"0", b"1", b"2"]
    assert answers(world) == [(consumer, 7, 10)]
    fill(world, 1)
    assert world.taken() == []
    world.ok(Credit(consumer, in_all=11))
    assert len(world.taken()) == 1
    assert answers(world) == []


def test_a_drain_is_answered_when_nothing_is_left_of_the_credit(world: World) -> None:
    fill(world, 3)
    consumer = attach(world)
    drain(world, consumer, 2)
    assert len(world.taken()) == 2
    assert answers(world) == [(consumer, 0, 2)]


def test_an_empty_queue_answers_at_once_and_once(world: World) -> None:
    consumer = attach(world, credit_messages=5)
    drain(world, consumer)
    assert answers(world) == [(consumer, 5, 5)]
    drain(world, consumer)
    assert answers(world) == [(consumer, 0, 5)]
    world.turn()
    assert answers(world) == []
    assert world.broker.draining == {}


def test_what_others_have_or_nobody_may_take_holds_no_answer_back(world: World) -> None:
    fill(world, 2)
    filtered = attach(world, filter="color = 'blue'", credit_messages=1)
    drain(world, filtered)
    assert answers(world) == [(filtered, 1, 1)]
    world.ok(PauseQueue("q"))
    paused = attach(world, credit_messages=1)
    drain(world, paused)
    assert answers(world) == [(paused, 1, 1)]
    assert world.taken() == []


def test_the_deliveries_come_before_the_answer(world: World) -> None:
    fill(world, 2)
    consumer = attach(world)
    assert world.handle(Credit(consumer, in_all=9, drains=True)) == 0
    world.broker.dispatch(world.now)
    kinds = [isinstance(each, Drained) for each in world.broker.effects]
    assert kinds == [False, False, True]


def test_a_look_that_is_cut_short_answers_nothing_yet(world: World) -> None:
    fill(world, 50)
    consumer = attach(world)
    budget = world.broker.budget
    world.handle(Credit(consumer, in_all=100, drains=True))
    seen = 0
    while not world.effects:
        assert seen < 50
        budget.allow(10)
        world.dispatch()
        seen += len(world.taken())
    budget.limit = NO_LIMIT
    assert seen == 50
    assert answers(world) == [(consumer, 50, 100)]


def test_the_answer_waits_for_room_and_for_nothing_else(world: World) -> None:
    connection = world.ok(OpenConnection("stomp", "peer", "guest", room=1))
    consumer = attach(world, connection)
    fill(world, 2)
    drain(world, consumer, 5)
    assert len(world.taken()) == 1
    assert answers(world) == []
    world.ok(Room(connection, 1 << 20))
    assert len(world.taken()) == 1
    assert answers(world) == [(consumer, 3, 5)]


def test_a_connection_with_too_much_in_flight_gets_its_answer(world: World) -> None:
    world.broker.unacked_max = 1
    consumer = attach(world)
    fill(world, 2)
    drain(world, consumer, 5)
    assert len(world.taken()) == 1
    assert answers(world) == [(consumer, 4, 5)]


def test_a_later_command_calls_it_off(world: World) -> None:
    connection = world.ok(OpenConnection("stomp", "peer", "guest", room=1))
    consumer = attach(world, connection)
    fill(world, 2)
    drain(world, consumer, 5)
    world.ok(Credit(consumer, 1))
    world.ok(Room(connection, 1 << 20))
    assert len(world.taken()) == 2
    assert answers(world) == []
    assert consumer_of(world, consumer).credit_messages == 4


def test_who_leaves_gets_no_answer_and_no_credit(world: World) -> None:
    connection = world.ok(OpenConnection("stomp", "peer", "guest", room=1))
    fill(world, 2)
    for end in (lambda number: world.detach(number), lambda _: world.close(connection)):
        consumer = attach(world, connection)
        drain(world, consumer, 5)
        end(consumer)
        assert world.broker.draining == {}
    assert answers(world) == []


def test_a_browser_is_drained_as_well(world: World) -> None:
    fill(world, 2)
    browser = attach(world, browses=True, listens=True)
    drain(world, browser, 5)
    assert [each.body for each in world.taken()] == [b"0", b"1"]
    assert answers(world) == [(browser, 3, 5)]


def test_a_browser_that_drains_goes_with_its_queue(world: World) -> None:
    connection = world.ok(OpenConnection("stomp", "peer", "guest", room=1))
    fill(world, 2)
    browser = attach(world, connection, browses=True, listens=True)
    drain(world, browser, 5)
    world.ok(PurgeQueue("q"))
    world.ok(DeleteQueue("q"))
    assert world.broker.draining == {}


def test_credit_in_all_can_be_lowered(world: World) -> None:
    consumer = attach(world, credit_messages=5)
    fill(world, 2)
    world.ok(Credit(consumer, in_all=1))
    assert consumer_of(world, consumer).credit_messages == -1
    fill(world, 1)
    world.ok(Credit(consumer, in_all=3))
    assert len(world.taken()) == 3


@pytest.mark.parametrize("policy", [UNMETERED, BY_SETTLEMENT])
@pytest.mark.parametrize("values", [{"in_all": 3}, {"drains": True}])
def test_credit_that_returns_by_itself_is_not_for_that(
    world: World, policy: int, values: dict[str, Any]
) -> None:
    consumer = attach(world, credit_policy=policy)
    assert world.refused(Credit(consumer, **values)).code is Code.INVALID


def test_neither_is_that_of_several_queues(world: World) -> None:
    several = world.attach_all(world.connect(), "q", "r", credit_policy=BY_GRANT)
    for values in ({"in_all": 3}, {"drains": True}):
        assert "several destinations" in world.refused(Credit(several, **values)).text


def test_a_subscription_of_a_topic_drains(world: World) -> None:
    consumer = world.attach(
        world.connect(), "t", routing_type=MULTICAST, credit_policy=BY_GRANT, credit_messages=0,
        credit_bytes=0,
    )  # fmt: skip
    world.ok(Send(0, "t", b"", b"x", routing_type=MULTICAST))
    drain(world, consumer, 2)
    assert len(world.taken()) == 1
    assert answers(world) == [(consumer, 1, 2)]
