"""Requests of administrators, and refusals."""

import pytest

from daybook.engine.commands import (
    Command,
    CreateAddress,
    DeleteAddress,
    DeleteQueue,
    PauseQueue,
    PurgeQueue,
    ResumeQueue,
)
from daybook.engine.facts import reasons
from daybook.engine.facts.definitions import ANYCAST, MULTICAST
from daybook.engine.refusals import Code
from tests.support.topology import create_queue
from tests.support.world import World


def test_a_refusal_names_ten_queues_of_an_address(world: World) -> None:
    for number in range(13):
        world.ok(create_queue(f"q{number:02}", "news", MULTICAST))
    refusal = world.refused(DeleteAddress("news"))
    assert "'q09' and 3 others)" in refusal.text
    assert "q10" not in refusal.text


def test_an_address_is_created_once_and_may_grow(world: World) -> None:
    assert world.ok(CreateAddress("a", (MULTICAST, MULTICAST))) == world.broker.lsn
    address = world.state.address_by_name["a"]
    assert (address.definition.routing_types, address.definition.auto_created) == (
        (MULTICAST,),
        False,
    )
    assert world.refused(CreateAddress("a", (MULTICAST,))).code is Code.ALREADY_EXISTS
    world.ok(CreateAddress("a", (ANYCAST,)))
    assert address.definition.routing_types == (ANYCAST, MULTICAST)
    world.restart()
    assert world.state.address_by_name["a"].definition.routing_types == (
        ANYCAST,
        MULTICAST,
    )


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (CreateAddress("", (ANYCAST,)), Code.INVALID),
        (CreateAddress("x::y", (ANYCAST,)), Code.INVALID),
        (CreateAddress("x", ()), Code.INVALID),
        (CreateAddress("x", ("unicast",)), Code.INVALID),
        (DeleteAddress("x"), Code.NOT_FOUND),
        (DeleteAddress("a"), Code.NOT_ALLOWED),
        (create_queue("", "a"), Code.INVALID),
        (create_queue("x", ""), Code.INVALID),
        (create_queue("x", "a", "unicast"), Code.INVALID),
        (create_queue("x", "a", filter="rubbish"), Code.INVALID),
        (create_queue("q", "a"), Code.ALREADY_EXISTS),
        (create_queue("q", "b"), Code.ALREADY_EXISTS),
        (DeleteQueue("x"), Code.NOT_FOUND),
        (DeleteQueue("q"), Code.NOT_ALLOWED),
        (DeleteQueue("busy"), Code.NOT_ALLOWED),
        (DeleteQueue("busy", force=True), Code.NOT_ALLOWED),
        (DeleteAddress("busy", force=True), Code.NOT_ALLOWED),
        (PauseQueue("x"), Code.NOT_FOUND),
        (ResumeQueue("x"), Code.NOT_FOUND),
        (ResumeQueue("q"), Code.ALREADY_EXISTS),
        (PauseQueue("busy"), Code.ALREADY_EXISTS),
        (PurgeQueue("x"), Code.NOT_FOUND),
    ],
)
def test_refusals(world: World, command: Command, code: Code) -> None:
    world.ok(create_queue("q", "a"))
    world.send("a", b"x")
    world.attach(world.connect(), "busy")
    world.ok(PauseQueue("busy"))
    assert world.refused(command).code is code


def test_a_queue_with_all_it_can_have(world: World) -> None:
    lsn = world.ok(create_queue("q", "a", MULTICAST, durable=False, filter="k=1"))
    assert world.journal[lsn - 1].name == "QueueCreated"
    queue = world.queue("q")
    assert (queue.definition.routing_type, queue.definition.durable, queue.definition.filter) == (
        MULTICAST,
        False,
        "k=1",
    )
    world.ok(create_queue("p", "a", ANYCAST))
    assert queue.address.definition.routing_types == (ANYCAST, MULTICAST)
    world.send("a", b"x", headers={"k": "1"})
    world.restart()
    assert sorted(world.state.queue_by_name) == ["p"]
    assert world.ready("p") == [b"x"]


def test_a_queue_is_deleted_with_its_messages(world: World) -> None:
    world.send("q", b"1")
    world.send("q", b"2")
    lsn = world.broker.lsn
    assert world.ok(DeleteQueue("q", force=True)) == world.broker.lsn
    assert world.names_since(lsn) == ["Removed", "Removed", "QueueDeleted"]
    assert world.journal[lsn].reason == reasons.QUEUE_REMOVED
    world.send("q", b"3")
    assert world.ready("q") == [b"3"]
    consumer = world.attach(world.connect(), "q")
    world.ack(consumer, world.taken()[0].message)
    world.detach(consumer)
    world.ok(DeleteQueue("q"))


def test_an_address_is_deleted_with_its_queues(world: World) -> None:
    world.ok(create_queue("q1", "a"))
    world.ok(create_queue("q2", "a", MULTICAST))
    world.send("a", b"x")
    world.ok(DeleteAddress("a", force=True))
    assert world.state.queues == world.state.addresses == {}
    world.ok(CreateAddress("a"))
    world.ok(DeleteAddress("a"))


def test_a_purge_leaves_what_is_in_flight(world: World) -> None:
    for number in range(5):
        world.send("q", b"%d" % number)
    consumer = world.attach(world.connect(), "q", credit_messages=2, credit_bytes=0)
    world.nack(consumer, world.taken()[0].message)
    world.detach(consumer)
    consumer = world.attach(world.connect(), "q", credit_messages=2, credit_bytes=0)
    assert world.ok(PurgeQueue("q")) == world.broker.lsn
    assert world.in_flight("q") == world.bodies("q") == [b"0", b"1"]
    assert {event.reason for event in world.events_named("Removed")} == {reasons.ADMINISTRATION}
    assert world.ok(PurgeQueue("q")) == 0
    world.detach(consumer)
    assert world.ready("q") == [b"0", b"1"]


def test_a_queue_can_be_deleted_before_it_is_dispatched(world: World) -> None:
    world.send("q", b"x")
    world.handle(PauseQueue("q"))
    world.handle(DeleteQueue("q", force=True))
    world.turn()
    assert world.state.queues == {}
