"""Removing queues whose consumers have much in flight."""

from daybook.engine import commands as c
from daybook.engine.effects import Detached
from daybook.engine.facts.definitions import ANYCAST
from daybook.engine.names.names import temporary_name
from daybook.engine.refusals import UNFINISHED
from tests.support.world import World

COUNT = 3000
SLICE = 50


def _go_on(world: World) -> None:
    """Do what is left, in slices."""
    while world.broker.has_more:
        world.broker.budget.allow(SLICE)
        world.broker.go_on(world.now)
    world.dispatch()


def test_an_unlisted_address_goes_with_a_consumer_that_has_much_in_flight() -> None:
    world = World()
    world.settings(**{"#": {"config-delete-addresses": "FORCE"}})
    world.ok(c.CreateAddress("a", (ANYCAST,), configured=True))
    connection = world.connect(room=1 << 30)
    world.attach(connection, "a", credit_messages=COUNT, credit_bytes=1 << 30)
    for _ in range(COUNT):
        world.send("a", b"x", connection)
    assert len(world.in_flight("a")) == COUNT
    command = c.DropUnlisted(frozenset(), frozenset(), frozenset())
    turns = 0
    world.broker.budget.allow(SLICE)
    while world.handle(command) is UNFINISHED:
        turns += 1
        assert turns < COUNT
        world.broker.go_on(world.now)
        world.broker.budget.allow(SLICE)
    _go_on(world)
    assert turns > 10
    assert not world.state.queues
    assert "a" not in world.state.address_by_name
    world.check()


def test_consumers_of_a_temporary_destination_hear_that_it_ended() -> None:
    world = World()
    connection = world.connect(room=1 << 30)
    name = temporary_name(connection, "replies")
    world.ok(c.CreateTemporary(connection, name, link=1))
    consumers = [
        world.attach(connection, name, credit_messages=COUNT, credit_bytes=1 << 30)
        for _ in range(3)
    ]
    for _ in range(COUNT):
        world.send(name, b"x", connection)
    world.broker.budget.allow(SLICE)
    world.handle(c.EndOwner(connection, link=1))
    assert name not in world.state.queue_by_name
    _go_on(world)
    assert name not in world.state.address_by_name
    ended = [each for each in world.effects if isinstance(each, Detached)]
    assert {each.consumer.id for each in ended} == set(consumers)
    assert all("ended with its owner" in each.text for each in ended)
    world.check()
