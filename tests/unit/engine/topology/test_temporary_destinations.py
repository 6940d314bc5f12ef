"""Temporary destinations: who may use them, and that nothing is left of them (ADR 57)."""

import pytest

from daybook.engine import commands as c
from daybook.engine.facts import reasons
from daybook.engine.facts.definitions import ANYCAST, MULTICAST, QueueDefinition
from daybook.engine.names.names import owner_of, temporary_name
from daybook.engine.refusals import Code
from daybook.engine.topology.temporary_names import TEMPORARIES_MAX
from tests.support.world import World


def test_the_name_says_whose_it_is() -> None:
    assert owner_of(temporary_name(23, "a.b")) == 23
    others = (
        "temp.x", "temp.default.x", "temp.default.23", "temp.default.23.", "temp.other.23.a",
        "temp.default.023.a", "temp.default.0.a", "temp.default.-1.a", "temp.default.²3.a",
        "queue.temp.default.23.a",
    )  # fmt: skip
    for name in others:
        assert owner_of(name) == 0, name


def test_settings_that_forbid_creation_on_demand_do_not_concern_them() -> None:
    world = World()
    world.settings(**{"#": {"auto-create-queues": False, "auto-create-addresses": False}})
    own = world.connect()
    name = temporary_name(own, "replies")
    consumer = world.attach(own, name, routing_type=ANYCAST)
    world.send(name, b"answer")
    assert world.taken_bodies(consumer) == [b"answer"]
    definition = world.queue(name).definition
    assert (definition.temporary, definition.durable, definition.owner) == (True, False, own)


@pytest.mark.parametrize("routing_type", [ANYCAST, MULTICAST])
@pytest.mark.parametrize("exists", [True, False])
def test_others_cannot_consume_from_it(routing_type: str, exists: bool) -> None:
    world = World()
    own, other = world.connect(), world.connect()
    name = temporary_name(own, "replies")
    if exists:
        world.attach(own, name, routing_type=routing_type)
    before = world.broker.lsn
    for values in ({}, {"queue": name}, {"durable_name": "mine"}):
        refused = world.refused(c.Attach(other, name, routing_type=routing_type, **values))  # type: ignore[arg-type]
        assert refused.code in (Code.NOT_ALLOWED, Code.INVALID)
    assert world.broker.lsn == before


def test_it_has_one_queue_of_its_own_name() -> None:
    world = World()
    own = world.connect()
    name = temporary_name(own, "replies")
    for command in (
        c.Attach(own, name, routing_type=ANYCAST, queue="another"),
        c.Attach(own, "place", routing_type=ANYCAST, queue=name),
        c.Attach(own, f"{name}.*", routing_type=MULTICAST),
        c.CreateAddress(name),
        c.CreateQueue(name, QueueDefinition(name="mine")),
        c.CreateQueue("place", QueueDefinition(name=name)),
    ):
        world.refused(command)
    assert not world.state.addresses


def test_it_ends_with_its_connection_and_what_comes_later_is_dropped() -> None:
    world = World()
    own, other = world.connect(), world.connect()
    queue, topic = temporary_name(own, "q"), temporary_name(own, "t")
    world.attach(own, queue, routing_type=ANYCAST)
    consumer = world.attach(own, topic, routing_type=MULTICAST)
    world.detach(consumer)
    world.send(queue, b"one", other)
    world.close(own, reasons.DISCONNECTED)
    world.turn()
    assert not world.state.addresses
    assert not world.state.queues
    lsn = world.send(queue, b"two", other)
    dropped = world.events_named("Dropped")[-1]
    assert (dropped.lsn, dropped.reason) == (lsn, reasons.GONE)
    assert dropped.decoded.destination == queue
    world.check()


def test_a_restart_leaves_none() -> None:
    world = World()
    own = world.connect()
    world.send(temporary_name(own, "q"), b"kept until then", own)
    world.attach(own, temporary_name(own, "t"), routing_type=MULTICAST)
    world.restart()
    assert not world.state.addresses
    assert not world.state.queues
    assert [each.reason for each in world.events_named("AddressDeleted")] == [reasons.UNUSED] * 2


def test_a_connection_has_only_so_many() -> None:
    world = World()
    own = world.connect()
    for number in range(TEMPORARIES_MAX):
        world.handle(c.Send(own, temporary_name(own, f"q{number}"), b"", b"", routing_type=ANYCAST))
    refused = world.refused(
        c.Send(own, temporary_name(own, "more"), b"", b"", routing_type=ANYCAST)
    )
    assert refused.code is Code.LIMIT
    assert "10,000" in refused.text
    # Those that it has still work.
    world.ok(c.Send(own, temporary_name(own, "q0"), b"", b"", routing_type=ANYCAST))


def test_diverts_and_wildcards_of_others_do_not_get_what_is_in_it() -> None:
    world = World()
    own, other = world.connect(), world.connect()
    name = temporary_name(own, "t")
    consumer = world.attach(own, name, routing_type=MULTICAST)
    thief = world.attach(other, "#", routing_type=MULTICAST)
    world.send(name, b"secret", routing_type=MULTICAST)
    world.send("news", b"open", routing_type=MULTICAST)
    assert world.taken_bodies(consumer) == [b"secret"]
    assert world.taken_bodies(thief) == [b"open"]
