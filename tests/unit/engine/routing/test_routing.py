"""Which queues a message goes to."""

from typing import Any

import pytest

from daybook.engine.commands import CreateAddress, CreateDivert, Send
from daybook.engine.facts import details, events, reasons
from daybook.engine.facts.definitions import ANYCAST, MULTICAST, DivertDefinition
from daybook.engine.refusals import Code
from daybook.engine.routing.send_plan import EXPIRES_MAX
from tests.support.topology import create_queue
from tests.support.world import World


def add_queue(world: World, name: str, address: str, routing_type: str, text: str = "") -> None:
    world.ok(create_queue(name, address, routing_type, filter=text))


def test_anycast_takes_turns_over_the_queues(world: World) -> None:
    add_queue(world, "q1", "a", ANYCAST)
    add_queue(world, "q2", "a", ANYCAST)
    for number in range(10):
        world.send("a", b"%d" % number)
    assert world.ready("q1") == [b"0", b"2", b"4", b"6", b"8"]
    assert world.ready("q2") == [b"1", b"3", b"5", b"7", b"9"]


def test_anycast_passes_over_queues_whose_filter_refuses(world: World) -> None:
    add_queue(world, "big", "a", ANYCAST, "kind=big")
    add_queue(world, "any", "a", ANYCAST)
    for number in range(4):
        world.send("a", b"%d" % number, headers={"kind": "small"})
    world.send("a", b"b", headers={"kind": "big"})
    assert world.ready("any") == [b"0", b"1", b"2", b"3"]
    assert world.ready("big") == [b"b"]


def test_multicast_is_one_event_that_names_all_queues(world: World) -> None:
    for name in ("s1", "s2", "s3"):
        add_queue(world, name, "news", MULTICAST)
    world.send("news", b"x")
    (routed,) = world.events_named("Routed")
    queues = tuple(world.queue(name).id for name in ("s1", "s2", "s3"))
    assert routed.decoded.queues == queues
    assert routed.row[events.QUEUE] == 0
    messages = [world.queue(name).entries[routed.lsn].message for name in ("s1", "s2", "s3")]
    assert messages[0] is messages[1] is messages[2]
    assert world.ready("s2") == [b"x"]


def test_multicast_skips_queues_whose_filter_refuses(world: World) -> None:
    add_queue(world, "all", "news", MULTICAST)
    add_queue(world, "big", "news", MULTICAST, "kind=big")
    world.send("news", b"1", headers={"kind": "small"})
    world.send("news", b"2", headers={"kind": "big"})
    assert world.ready("all") == [b"1", b"2"]
    assert world.ready("big") == [b"2"]


@pytest.mark.parametrize(
    ("routing_type", "anycast", "multicast"),
    [(None, 1, 2), (ANYCAST, 1, 0), (MULTICAST, 0, 2)],
)
def test_both_types_on_one_address(
    world: World, routing_type: str | None, anycast: int, multicast: int
) -> None:
    for name, kind in (("q1", ANYCAST), ("q2", ANYCAST), ("s1", MULTICAST), ("s2", MULTICAST)):
        add_queue(world, name, "a", kind)
    world.send("a", b"x", routing_type=routing_type)
    assert len(world.ready("q1") + world.ready("q2")) == anycast
    assert len(world.ready("s1") + world.ready("s2")) == multicast


def test_fully_qualified_name_goes_to_one_queue_past_its_filter(world: World) -> None:
    add_queue(world, "q1", "a", ANYCAST)
    add_queue(world, "q2", "a", ANYCAST, "kind=big")
    add_queue(world, "s1", "a", MULTICAST)
    for _ in range(3):
        world.send("a", b"x", queue="q2")
    world.send("a", b"y", queue="s1")
    assert [len(world.ready(name)) for name in ("q1", "q2", "s1")] == [0, 3, 1]


def test_fully_qualified_name_creates_the_queue(world: World) -> None:
    world.send("a", b"x", queue="q")
    queue = world.queue("q")
    assert (queue.address.name, queue.definition.routing_type, queue.definition.auto_created) == (
        "a",
        ANYCAST,
        True,
    )


def test_fully_qualified_name_of_a_queue_elsewhere_is_refused(world: World) -> None:
    add_queue(world, "q", "a", ANYCAST)
    refusal = world.refused(Send(0, "b", b"", b"", queue="q"))
    assert refusal.code is Code.ALREADY_EXISTS
    assert "'a'" in refusal.text
    assert world.refused(Send(0, "", b"", b"", queue="nowhere")).code is Code.NOT_FOUND
    world.send("", b"x", queue="q")
    assert world.ready("q") == [b"x"]


def test_sending_anycast_creates_address_and_queue(world: World) -> None:
    world.send("orders", b"x")
    assert world.names_since(1) == ["AddressCreated", "QueueCreated", "Routed"]
    queue = world.queue("orders")
    assert (
        queue.definition.durable,
        queue.definition.temporary,
        queue.definition.auto_created,
    ) == (True, False, True)


def test_sending_multicast_creates_the_address_and_drops(world: World) -> None:
    world.send("news", b"x", routing_type=MULTICAST)
    assert world.names_since(1) == ["AddressCreated", "Dropped"]
    (dropped,) = world.events_named("Dropped")
    assert dropped.reason == reasons.NO_BINDING
    assert "news" not in world.state.queue_by_name


def test_sending_without_a_type_follows_the_address(world: World) -> None:
    world.ok(CreateAddress("news", (MULTICAST,)))
    world.send("news", b"x")
    assert "news" not in world.state.queue_by_name
    world.ok(CreateAddress("work", (ANYCAST,)))
    world.send("work", b"x")
    assert world.ready("work") == [b"x"]


def test_what_no_filter_takes_is_dropped_with_its_reason(world: World) -> None:
    add_queue(world, "s", "news", MULTICAST, "kind=big")
    world.send("news", b"x")
    add_queue(world, "q", "jobs", ANYCAST, "kind=big")
    answer = world.send("jobs", b"x")
    found = [event.reason for event in world.events_named("Dropped")]
    assert found == [reasons.NO_MATCHING_FILTER] * 2
    assert answer == world.broker.lsn


def test_settings_forbid_creation(world: World) -> None:
    world.settings(
        all={"auto_create_addresses": False},
        q__x={"auto_create_addresses": True, "auto_create_queues": False},
    )
    assert world.refused(Send(0, "a", b"", b"")).code is Code.NOT_FOUND
    refusal = world.refused(Send(0, "a", b"", b"", routing_type=MULTICAST))
    assert "auto-create-addresses" in refusal.text
    assert "auto-create-queues" in world.refused(Send(0, "q.x", b"", b"")).text
    world.ok(CreateAddress("a", (ANYCAST,)))
    assert world.refused(Send(0, "a", b"", b"", routing_type=MULTICAST)).code is Code.NOT_ALLOWED
    world.send("a", b"x", routing_type=ANYCAST)
    assert world.ready("a") == [b"x"]


@pytest.mark.parametrize(
    "values",
    [
        {"priority": 10},
        {"priority": -1},
        {"expires": -1},
        {"expires": EXPIRES_MAX + 1},
        {"expires": 1 << 70},
        {"due": EXPIRES_MAX + 1},
        {"address": ""},
        {"address": "a::b"},
        {"address": "a\nb"},
        {"queue": ""},
        {"queue": "a::b"},
    ],
)
def test_what_cannot_be_sent_is_refused(world: World, values: dict[str, object]) -> None:
    command = Send(**{"connection": 0, "address": "a", "headers": b"", "body": b"", **values})
    assert world.refused(command).code is Code.INVALID


@pytest.mark.parametrize("key", ["expires", "due"])
def test_a_refused_time_names_the_latest_one(world: World, key: str) -> None:
    values = {key: EXPIRES_MAX + 1}
    assert f"at most {EXPIRES_MAX}" in world.refused(Send(0, "a", b"", b"", **values)).text


def test_the_latest_expiry_and_both_ends_of_priority_are_taken(world: World) -> None:
    world.send("a", b"x", expires=EXPIRES_MAX, priority=9)
    world.send("a", b"y", priority=0)
    assert world.ready("a") == [b"x", b"y"]


@pytest.mark.parametrize("values", [{}, {"expires": 7}, {"queue": "q"}])
def test_routed_says_who_sent_what_where(world: World, values: dict[str, Any]) -> None:
    connection = world.connect()
    world.ok(create_queue("q", "a"))
    message = world.send("a", b"body", connection, priority=7, headers={"k": "v"}, **values)
    (event,) = world.events_named("Routed")
    queue = world.queue("q")
    assert event.row == events.row(
        events.ROUTED, reason=reasons.SENT, address=queue.address.id, queue=queue.id, priority=7,
        flags=events.PERSISTENT, message=message, connection=connection, time=world.now,
    )  # fmt: skip
    assert (event.lsn, event.headers, event.body) == (message, b"k:v\n", b"body")
    assert event.decoded == details.RoutedDetail(expires=values.get("expires", 0))


@pytest.mark.parametrize(("mode", "recorded"), [("decisions", b""), ("full", b"body")])
def test_non_persistent_messages_in_the_journal(world: World, mode: str, recorded: bytes) -> None:
    world.settings(mode)
    world.send("a", b"first")
    assert world.send("a", b"body", persistent=False) == 0
    assert world.ready("a") == [b"first", b"body"]
    _, routed = world.events_named("Routed")
    assert routed.body == recorded
    world.restart()
    assert world.ready("a") == [b"first"]


def test_ids_are_lsns_whatever_the_message(world: World) -> None:
    world.send("a", b"x")
    world.send("a", b"y", persistent=False)
    routed = [event.lsn for event in world.events_named("Routed")]
    assert list(world.queue("a").entries) == routed
    assert [event.row[events.MESSAGE] for event in world.events_named("Routed")] == routed


def test_full_means_full_with_an_expiry_too(world: World) -> None:
    world.settings("full")
    world.send("a", b"body", persistent=False, expires=1 << 50, headers={"k": "v"})
    (routed,) = world.events_named("Routed")
    assert (routed.headers, routed.body) == (b"k:v\n", b"body")


CAME_FROM = f"{'ab' * 16}/7/0123abcd"


def test_the_event_says_where_a_message_came_from(world: World) -> None:
    """Whether one queue gets it, several, or none; its copies only say what they are copies of."""
    add_queue(world, "m1", "m", MULTICAST)
    add_queue(world, "m2", "m", MULTICAST)
    world.ok(CreateDivert(DivertDefinition("d", "q", ("copies",))))
    world.ok(CreateAddress("nowhere", (MULTICAST,)))
    for address in ("q", "m", "nowhere"):
        world.send(address, b"x", came_from=CAME_FROM)
    world.send("q", b"x")
    assert [each.decoded.came_from for each in world.events_named("Routed")] == [
        CAME_FROM, "", CAME_FROM, "", "",
    ]  # fmt: skip
    assert [each.decoded.came_from for each in world.events_named("Dropped")] == [CAME_FROM]


def test_what_only_diverts_take_says_where_it_came_from(world: World) -> None:
    world.ok(CreateDivert(DivertDefinition("d", "q", ("copies",), exclusive=True)))
    world.send("q", b"x", came_from=CAME_FROM)
    assert [each.decoded.came_from for each in world.events_named("Diverted")] == [CAME_FROM]
    assert [each.decoded.came_from for each in world.events_named("Routed")] == [""]
