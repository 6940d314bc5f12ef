"""Addresses and queues on demand: creation, names, and refusals."""

import pytest

from daybook.engine.commands import CreateAddress, DeleteAddress, Send
from daybook.engine.facts import events, reasons
from daybook.engine.facts.definitions import ANYCAST, MULTICAST
from daybook.engine.refusals import Code, Refusal
from daybook.engine.topology.topology import check_name, find_address
from tests.support.topology import create_queue
from tests.support.world import World


@pytest.mark.parametrize("name", ["a", "a.b", "a:b", "Äö", "x" * 4096, "tempo", "dsub.a"])
def test_names_that_are_fine(name: str) -> None:
    assert check_name("queue", name) is None


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("", "it is empty"),
        ("a::b", "divides address and queue"),
        ("::", "divides address and queue"),
        ("a\n", "control characters"),
        ("\x00", "control characters"),
        ("\u200b", "control characters"),
        ("\ud800", "control characters"),
        (" a", "begins or ends with a space"),
        ("a.*", "'*' is reserved"),
        ("#", "'#' is reserved"),
        ("{a}", "'{' is reserved"),
        ("a,b", "',' is reserved"),
        ("temp.x", "belong to temporary destinations"),
        ("ä" * 2049, "4,098 bytes, and 4,096 are the most"),
    ],
)
def test_names_that_are_not(name: str, why: str) -> None:
    refusal = check_name("queue", name)
    assert refusal is not None
    assert refusal.code is Code.INVALID
    assert "not a name for the queue" in refusal.text
    assert why in refusal.text
    assert len(refusal.text) < 300


def test_no_name_is_made_that_a_protocol_cannot_reach(world: World) -> None:
    before = len(world.journal)
    for command in (
        create_queue("a*", "a"),
        create_queue("a", "temp.x"),
        CreateAddress("x" * 5000, (ANYCAST,)),
    ):
        answer = world.handle(command)
        assert isinstance(answer, Refusal)
        assert answer.code is Code.INVALID
    assert len(world.journal) == before


def test_creation_on_demand_says_so_and_by_whom(world: World) -> None:
    connection = world.connect()
    world.send("q", b"x", connection)
    address, queue = world.journal[-3:-1]
    for event in (address, queue):
        assert event.reason == reasons.ON_DEMAND
        assert event.row[events.CONNECTION] == connection
        assert event.decoded.auto_created
    found = find_address(world.broker, "q")
    assert found is not None
    assert (found.host, found.definition.routing_types, found.definition.auto_created) == (
        "default",
        (ANYCAST,),
        True,
    )


def test_a_routing_type_is_added_on_demand(world: World) -> None:
    world.send("a", b"1", routing_type=MULTICAST)
    world.send("a", b"2", routing_type=ANYCAST)
    assert world.state.address_by_name["a"].definition.routing_types == (
        ANYCAST,
        MULTICAST,
    )
    assert world.ready("a") == [b"2"]
    assert len(world.events_named("AddressUpdated")) == 1


def test_numbers_are_not_used_again(world: World) -> None:
    world.send("a", b"x")
    first = world.queue("a")
    world.ok(DeleteAddress("a", force=True))
    world.restart()
    world.send("a", b"y")
    assert world.queue("a").id == first.id + 1
    assert world.queue("a").address.id == first.address.id + 1


def test_a_queue_is_unique_in_the_broker_not_on_its_address(world: World) -> None:
    world.ok(create_queue("q", "a"))
    refusal = world.refused(Send(0, "q", b"", b""))
    assert refusal.code is Code.ALREADY_EXISTS
    assert refusal.text.endswith("a queue's name is unique on its virtual host")


def test_what_was_sent_to_an_address_that_is_gone(world: World) -> None:
    """A durable subscription moved away; the address of its messages was deleted."""
    world.settings(new={"max_delivery_attempts": 1, "dead_letter_address": "dead"})
    connection = world.connect()
    world.detach(world.attach(connection, "old", durable_name="d"))
    message = world.send("old", b"x", routing_type=MULTICAST, expires=world.now // 1000 + 10_000)
    consumer = world.attach(connection, "new", durable_name="d")
    world.ok(DeleteAddress("old"))
    world.nack(consumer, message)
    assert world.ready("dead") == [b"x"]


def test_an_address_that_exists_needs_no_permission(world: World) -> None:
    world.ok(CreateAddress("a", (MULTICAST,)))
    world.settings(all={"auto_create_addresses": False, "auto_create_queues": False})
    world.send("a", b"x")
    assert world.journal[-1].name == "Dropped"
