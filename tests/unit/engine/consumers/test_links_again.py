"""Links that come again: a subscription that another link takes over, a client that may have one
connection alone, deliveries that are resumed (ADR 108)."""

from typing import Any

import pytest

from daybook.engine import commands as c
from daybook.engine.facts import reasons
from daybook.engine.facts.definitions import LINK_DETACH, MULTICAST, QueueDefinition
from daybook.engine.facts.settlements import BY_GRANT, RELEASED
from daybook.engine.limits.budget import NO_LIMIT
from daybook.engine.names.names import DURABLE
from daybook.engine.refusals import Code
from tests.support.world import MANY, World

MINE = f"{DURABLE}mine"


def _subscribe(world: World, connection: int, **values: Any) -> int:
    given = {"routing_type": MULTICAST, "durable_name": "mine", "steals": True, **values}
    return world.attach(connection, "news", **given)


# ---- stealing


def test_a_link_takes_a_subscription_over(world: World) -> None:
    first = _subscribe(world, world.connect())
    for body in (b"1", b"2"):
        world.send("news", body, routing_type=MULTICAST)
    assert world.in_flight(MINE) == [b"1", b"2"]
    second = _subscribe(world, world.connect())
    assert list(world.queue(MINE).consumers) == [world.state.consumers[second]]
    assert first not in world.state.consumers
    assert world.counts(MINE) == {b"1": 2, b"2": 2}
    (detached,) = world.events_named("ConsumerDetached")
    assert detached.reason == reasons.STOLEN
    world.check()


def test_what_another_took_over_is_not_deleted_meanwhile(world: World) -> None:
    values = {"expiry_policy": LINK_DETACH, "expiry_ms": 0, "durable": False}
    _subscribe(world, world.connect(), **values)
    world.send("news", b"1", routing_type=MULTICAST)
    second = _subscribe(world, world.connect(), **values)
    assert world.in_flight(MINE) == [b"1"]
    assert world.state.consumers[second].queue is world.queue(MINE)


def test_a_consumer_with_much_in_flight_is_replaced_in_slices(world: World) -> None:
    first = _subscribe(world, world.connect())
    for each in range(300):
        world.send("news", b"%d" % each, routing_type=MULTICAST)
    connection = world.connect()
    world.broker.budget.allow(1)
    command = c.Attach(connection, "news", routing_type=MULTICAST, durable_name="mine", steals=True)
    second = world.handle(command)
    assert isinstance(second, int)
    assert world.state.consumers[first].detaching
    # Its client closes it at the same time: it ends for the one reason that it has.
    world.handle(c.Detach(first))
    while world.broker.has_more:
        world.broker.budget.allow(1)
        world.broker.go_on(world.now)
    assert first not in world.state.consumers
    world.broker.budget.limit = NO_LIMIT
    assert {event.reason for event in world.events_named("Returned")} == {reasons.STOLEN}
    world.turn()
    assert len(world.in_flight(MINE)) == 300
    world.check()


def test_shared_subscriptions_are_shared(world: World) -> None:
    first = _subscribe(world, world.connect(), steals=False)
    second = _subscribe(world, world.connect(), steals=False)
    assert {first, second} <= set(world.state.consumers)


def test_a_user_cannot_take_over_from_another(world: World) -> None:
    first = _subscribe(world, world.connect())
    bob = world.ok(c.OpenConnection("amqp", "peer", "bob", room=MANY))
    refusal = world.refused(
        c.Attach(bob, "news", routing_type=MULTICAST, durable_name="mine", steals=True)
    )
    assert refusal.code is Code.NOT_ALLOWED
    assert first in world.state.consumers


# ---- the only connection


def test_a_client_id_is_given_once_to_those_that_ask_for_it(world: World) -> None:
    first = world.connect(client_id="c", only=True)
    refusal = world.refused(c.OpenConnection("amqp", "peer", "guest", "c", only=True))
    assert refusal.code is Code.ALREADY_EXISTS
    assert "client id 'c' is in use" in refusal.text
    # Others are free to share it, other users and hosts have their own ids.
    world.connect(client_id="c")
    world.ok(c.OpenConnection("amqp", "peer", "ann", "c", only=True))
    world.close(first)
    assert world.refused(c.OpenConnection("amqp", "peer", "guest", "c", only=True))


def test_a_client_id_is_free_when_its_connection_is_closed(world: World) -> None:
    for _ in range(3):
        world.close(world.connect(client_id="c", only=True), reasons.DISCONNECTED)
    assert not world.broker.client_ids


# ---- resuming


def _consumer(world: World, connection: int = 0, **values: Any) -> int:
    given = {"credit_policy": BY_GRANT, "credit_messages": 1, "credit_bytes": 0, **values}
    return world.attach(connection or world.connect(), "q", **given)


@pytest.mark.parametrize("how", ["lost", "released", "restart"])
def test_a_delivery_is_resumed_and_settled(world: World, how: str) -> None:
    message = world.send("q", b"1")
    connection = world.connect()
    consumer = _consumer(world, connection)
    if how == "lost":
        world.close(connection, reasons.DISCONNECTED)
    elif how == "released":
        world.ok(c.Settle(consumer, message, outcome=RELEASED))
        world.detach(consumer)
    else:
        world.restart()
    again = _consumer(world, credit_messages=0)
    world.taken()
    world.ok(c.Resume(again, message))
    assert not world.taken(again)
    assert world.in_flight("q") == [b"1"]
    world.ack(again, message)
    assert not world.entries("q")
    world.check()


def test_what_was_never_delivered_cannot_be_resumed(world: World) -> None:
    message = world.send("q", b"1")
    consumer = _consumer(world, credit_messages=0)
    assert world.refused(c.Resume(consumer, message)).code is Code.NOT_FOUND
    assert world.refused(c.Resume(consumer, message + 100)).code is Code.NOT_FOUND
    assert world.refused(c.Resume(consumer + 100, message)).code is Code.NOT_FOUND


def test_what_another_has_cannot_be_resumed(world: World) -> None:
    message = world.send("q", b"1")
    lost = world.connect()
    _consumer(world, lost)
    world.close(lost, reasons.DISCONNECTED)
    other = _consumer(world)
    again = _consumer(world, credit_messages=0)
    assert world.refused(c.Resume(again, message))
    world.ack(other, message)
    assert world.refused(c.Resume(again, message))


@pytest.mark.parametrize(
    ("queue", "consumer"),
    [
        ({}, {"filter": "kind = 'big'"}),
        ({}, {"credit_policy": 0}),
        ({}, {"acknowledges": False}),
        ({}, {"browses": True, "listens": True}),
        ({"exclusive": True}, {}),
        ({"non_destructive": True}, {}),
    ],
)
def test_a_message_that_is_not_for_the_consumer_cannot_be_resumed(
    world: World, queue: dict[str, Any], consumer: dict[str, Any]
) -> None:
    world.ok(c.CreateQueue("q", QueueDefinition(name="q", **queue)))
    message = world.send("q", b"1")
    lost = world.connect()
    _consumer(world, lost)
    world.close(lost, reasons.DISCONNECTED)
    again = _consumer(world, **{"credit_messages": 0, **consumer})
    assert world.refused(c.Resume(again, message)).code is Code.NOT_FOUND
    world.check()


def test_a_message_of_a_group_or_of_a_paused_queue_cannot_be_resumed(world: World) -> None:
    message = world.send("q", b"1")
    lost = world.connect()
    _consumer(world, lost)
    world.close(lost, reasons.DISCONNECTED)
    world.ok(c.PauseQueue("q"))
    again = _consumer(world, credit_messages=0)
    assert world.refused(c.Resume(again, message))
    world.ok(c.ResumeQueue("q"))
    assert world.ok(c.Resume(again, message))
