"""Diverts: which messages they take, what copies look like, and what they never do."""

from typing import Any

import pytest

from daybook.engine.commands import (
    Commit,
    CreateAddress,
    CreateDivert,
    DeleteDivert,
    ExpireDue,
    Send,
)
from daybook.engine.facts import events, reasons
from daybook.engine.facts.definitions import ANYCAST, MULTICAST, DivertDefinition
from daybook.engine.messages.headers import as_dict, build
from daybook.engine.refusals import Code, Refusal
from daybook.engine.state.diverts import COPIES_MAX
from tests.support.topology import create_queue
from tests.support.world import World


def divert(name: str, address: str, *targets: str, **values: Any) -> CreateDivert:
    replaces = values.pop("replaces", False)
    definition = DivertDefinition(
        name=name, address=address, forwarding_addresses=targets, **values
    )
    return CreateDivert(definition, replaces)


def headers(world: World, queue: str) -> dict[str, str]:
    return as_dict(world.entries(queue)[-1].message.headers)


def test_a_divert_copies_to_each_forwarding_address(world: World) -> None:
    world.ok(divert("d", "a", "b", "c"))
    lsn = world.send("a", b"x", headers={"kind": "big"})
    for name in ("a", "b", "c"):
        assert world.ready(name) == [b"x"]
    routed = world.events_named("Routed")
    assert [each.row[events.REASON] for each in routed] == [
        reasons.SENT, reasons.DIVERT, reasons.DIVERT
    ]  # fmt: skip
    original = routed[0].lsn
    assert {each.row[events.RELATED] for each in routed[1:]} == {original}
    assert lsn == world.broker.lsn
    found = headers(world, "b")
    assert found["_AMQ_ORIG_ADDRESS"] == "a"
    assert found["_AMQ_ORIG_QUEUE"] == "d"
    assert found["_AMQ_ORIG_MESSAGE_ID"] == str(original)
    assert found["kind"] == "big"
    assert "_AMQ_ORIG_ROUTING_TYPE" not in found


def test_an_exclusive_divert_takes_the_message_away(world: World) -> None:
    world.ok(create_queue("a", "a", ANYCAST))
    world.ok(divert("also", "a", "c"))
    world.ok(divert("d", "a", "b", exclusive=True))
    world.send("a", b"x")
    assert (world.ready("a"), world.ready("b")) == ([], [b"x"])
    assert "c" not in world.state.queue_by_name
    (diverted,) = world.events_named("Diverted")
    assert diverted.decoded.diverts == ("d",)
    assert diverted.row[events.MESSAGE] == diverted.lsn
    assert headers(world, "b")["_AMQ_ORIG_MESSAGE_ID"] == str(diverted.lsn)


def test_a_filter_chooses_and_sees_the_original(world: World) -> None:
    world.ok(create_queue("a", "a", ANYCAST))
    world.ok(
        divert("d", "a", "b", exclusive=True, filter="kind=big", add_properties=("kind=small",))
    )
    world.send("a", b"1", headers={"kind": "big"})
    world.send("a", b"2", headers={"kind": "small"})
    assert (world.ready("a"), world.ready("b")) == ([b"2"], [b"1"])
    assert headers(world, "b")["kind"] == "small"


def test_properties_are_changed(world: World) -> None:
    changes = {
        "add_properties": ("region=eu=west",),
        "remove_properties": ("secret", "destination", "missing"),
        "rename_properties": ("old=new", "missing=other"),
    }
    world.ok(divert("d", "a", "b", **changes))
    sent = {"destination": "/queue/a", "secret": "s", "old": "o", "kept": "k"}
    world.send("a", b"x", headers=sent)
    found = headers(world, "b")
    assert {name: found.get(name) for name in ("region", "new", "kept", "destination")} == {
        "region": "eu=west", "new": "o", "kept": "k", "destination": "/queue/a"
    }  # fmt: skip
    assert not {"secret", "old", "other"} & found.keys()
    assert headers(world, "a") == sent


@pytest.mark.parametrize(
    ("routing_type", "sent", "queues"),
    [
        ("strip", None, {"any", "multi"}),
        ("strip", MULTICAST, {"any", "multi"}),
        ("pass", None, {"any", "multi"}),
        ("pass", MULTICAST, {"multi"}),
        ("anycast", MULTICAST, {"any"}),
        ("multicast", ANYCAST, {"multi"}),
    ],
)
def test_routing_types_of_copies(
    world: World, routing_type: str, sent: str | None, queues: set[str]
) -> None:
    world.ok(create_queue("any", "b", ANYCAST))
    world.ok(create_queue("multi", "b", MULTICAST))
    world.ok(divert("d", "a", "b", routing_type=routing_type))
    world.send("a", b"x", routing_type=sent)
    assert {name for name in ("any", "multi") if world.ready(name)} == queues
    number = {None: None, ANYCAST: "0", MULTICAST: "1"}[sent]
    assert headers(world, queues.pop()).get("_AMQ_ORIG_ROUTING_TYPE") == number


def test_diverts_follow_each_other_and_tell_the_last_step(world: World) -> None:
    world.ok(divert("one", "a", "b"))
    world.ok(divert("two", "b", "c", exclusive=True))
    world.send("a", b"x")
    assert (world.ready("a"), world.ready("c")) == ([b"x"], [b"x"])
    assert "b" not in world.state.queue_by_name
    found = headers(world, "c")
    assert (found["_AMQ_ORIG_ADDRESS"], found["_AMQ_ORIG_QUEUE"]) == ("b", "two")


@pytest.mark.parametrize(
    ("address", "target"), [("a", "a"), ("b", "a"), ("c", "a"), ("#", "z"), ("*", "a")]
)
def test_no_divert_leads_in_a_circle(world: World, address: str, target: str) -> None:
    world.ok(divert("one", "a", "b"))
    world.ok(divert("two", "b", "c"))
    refusal = world.refused(divert("three", address, target))
    assert refusal.code is Code.NOT_ALLOWED
    assert "in a circle" in refusal.text
    world.send("a", b"x")
    assert world.ready("c") == [b"x"]


def test_copies_of_a_message_are_bounded(world: World) -> None:
    for number in range(9):
        world.ok(divert(f"d{number}", f"a{number}", f"a{number + 1}"))
        if number < 8:
            world.ok(divert(f"e{number}", f"a{number}", f"a{number + 1}"))
    refusal = world.refused(divert("e8", "a8", "a9"))
    assert f"more than {COPIES_MAX} copies" in refusal.text
    world.send("a0", b"x")
    assert world.queue("a9").message_count == 256


def test_patterns_are_counted_together(world: World) -> None:
    targets = [f"t{number}" for number in range(100)]
    for number in range(9):
        world.ok(divert(f"p{number}", f"n{number}.*", *targets))
    world.ok(divert("a", "a", *targets))
    world.refused(divert("b", "a", "t"))
    world.refused(divert("c", "n.#", "t"))
    world.ok(divert("d", "b", "t"))
    world.refused(divert("z", "z", *targets, "one-more"))


def test_wildcards_choose_the_addresses(world: World) -> None:
    world.ok(divert("d", "news.#", "log"))
    for name in ("news", "news.eu", "newsletter"):
        world.send(name, name.encode())
    assert world.ready("log") == [b"news", b"news.eu"]


def test_a_divert_alone_is_enough_of_a_place(world: World) -> None:
    world.ok(CreateAddress("a", (MULTICAST,)))
    world.ok(divert("d", "a", "b"))
    world.send("a", b"x", duplicate_id="1")
    world.send("a", b"x", duplicate_id="1")
    assert world.ready("b") == [b"x"]
    assert not world.events_named("Dropped")[:-1]
    assert world.events_named("Dropped")[-1].row[events.REASON] == reasons.DUPLICATE


def test_an_address_needs_no_queue_for_an_exclusive_divert(world: World) -> None:
    world.settings(a={"auto_create_queues": False})
    world.ok(divert("d", "a", "b", exclusive=True))
    world.send("a", b"x")
    assert world.ready("b") == [b"x"]
    assert "a" not in world.state.queue_by_name


def test_a_copy_that_nobody_takes_is_dropped(world: World) -> None:
    world.settings(b={"auto_create_queues": False})
    world.ok(divert("d", "a", "b"))
    world.send("a", b"x")
    assert world.ready("a") == [b"x"]
    (dropped,) = world.events_named("Dropped")
    assert dropped.row[events.REASON] == reasons.UNROUTABLE
    assert dropped.row[events.RELATED] == world.events_named("Routed")[0].lsn


def test_a_full_target_refuses_the_sender(world: World) -> None:
    world.settings(b={"max_size_messages": 1, "address_full_policy": "FAIL"})
    world.ok(divert("d", "a", "b", filter="kind=big"))
    world.send("a", headers={"kind": "big"})
    refusal = world.refused(_send("a", {"kind": "big"}))
    assert "address 'b'" in refusal.text
    world.send("a", headers={"kind": "small"})
    assert world.queue("a").message_count == 2


def _send(address: str, pairs: dict[str, str]) -> Send:
    return Send(0, address, build(pairs.items()), b"")


def test_a_full_target_drops_only_the_copy(world: World) -> None:
    world.settings(b={"max_size_messages": 1, "address_full_policy": "DROP"})
    world.ok(divert("d", "a", "b"))
    for _ in range(3):
        world.send("a")
    assert (world.queue("a").message_count, world.queue("b").message_count) == (3, 1)


def test_copies_are_in_the_transaction_of_the_send(world: World) -> None:
    world.ok(divert("d", "a", "b", exclusive=True))
    connection = world.connect()
    world.begin(connection)
    world.send("a", b"x", connection=connection, transaction="t")
    assert "b" not in world.state.queue_by_name
    world.abort(connection)
    assert "b" not in world.state.queue_by_name
    world.begin(connection)
    world.send("a", b"y", connection=connection, transaction="t")
    world.commit(connection)
    assert world.ready("b") == [b"y"]
    (diverted,), (routed,) = world.events_named("Diverted"), world.events_named("Routed")
    assert diverted.decoded.transaction == routed.decoded.transaction == "t"
    (committed,) = world.events_named("TransactionCommitted")
    assert committed.decoded.first <= diverted.lsn < routed.lsn < committed.lsn


def test_a_full_target_refuses_the_commit(world: World) -> None:
    world.settings(b={"max_size_messages": 0, "address_full_policy": "FAIL"})
    world.ok(divert("d", "a", "b", filter="kind=big"))
    connection = world.connect()
    world.begin(connection)
    for kind in ("small", "big"):
        world.send("a", connection=connection, transaction="t", headers={"kind": kind})
    refused = world.handle(Commit(connection, "t"))
    assert isinstance(refused, Refusal)
    assert "address 'b'" in refused.text
    assert not world.events_named("Routed")


def test_a_queue_that_a_copy_creates_is_needed_elsewhere_in_the_transaction(world: World) -> None:
    world.ok(divert("d", "a", "b"))
    connection = world.connect()
    world.begin(connection)
    world.send("a", connection=connection, transaction="t")
    world.send("c", connection=connection, transaction="t", queue="b")
    refused = world.handle(Commit(connection, "t"))
    assert isinstance(refused, Refusal)
    assert refused.code is Code.ALREADY_EXISTS


def test_dead_letters_are_diverted(world: World) -> None:
    world.settings(a={"max_delivery_attempts": 1, "dead_letter_address": "DLA"})
    world.ok(divert("d", "DLA", "b", exclusive=True))
    message = world.send("a", b"x")
    connection = world.connect()
    world.nack(world.attach(connection, "a"), message)
    assert world.ready("b") == [b"x"]
    found = headers(world, "b")
    assert (found["_AMQ_ORIG_ADDRESS"], found["_AMQ_ORIG_QUEUE"]) == ("DLA", "d")
    (letter,), (diverted,) = world.events_named("DeadLettered"), world.events_named("Diverted")
    assert letter.row[events.RELATED] == diverted.lsn
    assert diverted.row[events.RELATED] == message


def test_dead_letters_are_held_if_the_target_of_a_divert_takes_none(world: World) -> None:
    world.settings(
        a={"max_delivery_attempts": 1, "dead_letter_address": "DLA"},
        b={"auto_create_queues": False},
    )
    world.ok(divert("d", "DLA", "b", exclusive=True))
    message = world.send("a", b"x")
    world.nack(world.attach(world.connect(), "a"), message)
    assert world.held("a") == [b"x"]
    world.ok(create_queue("b", "b", ANYCAST))
    world.retry()
    assert world.ready("b") == [b"x"]


def test_expired_messages_are_copied(world: World) -> None:
    world.settings(a={"expiry_address": "late"})
    world.ok(divert("d", "late", "b"))
    world.send("a", b"x", expires=world.now // 1000 + 10)
    world.sleep(1)
    world.ok(ExpireDue())
    assert (world.ready("late"), world.ready("b")) == ([b"x"], [b"x"])


def test_large_messages_are_copied_without_their_chunks(world: World) -> None:
    world.ok(divert("d", "a", "b", exclusive=True))
    world.send_large("a", [b"one", b"two"])
    (entry,) = world.entries("b")
    assert world.large_body(entry.message) == b"onetwo"
    assert len(world.events_named("ChunkReceived")) == 2


def test_copies_keep_their_expiry_unless_their_address_says_otherwise(world: World) -> None:
    world.settings(c={"no_expiry": True})
    world.ok(divert("d", "a", "b", "c"))
    expires = world.now // 1000 + 60_000
    world.send("a", b"x", expires=expires)
    assert [world.entries(name)[0].message.expires for name in "abc"] == [expires, expires, 0]


def test_a_full_name_passes_diverts_by(world: World) -> None:
    world.ok(create_queue("a", "a", ANYCAST))
    world.ok(divert("d", "a", "b", exclusive=True))
    world.send("a", b"x", queue="a")
    assert world.ready("a") == [b"x"]


def test_diverts_are_replaced_deleted_and_survive(world: World) -> None:
    world.ok(divert("d", "a", "b"))
    assert world.refused(divert("d", "a", "b")).code is Code.ALREADY_EXISTS
    assert world.refused(divert("d", "a", "c")).code is Code.ALREADY_EXISTS
    world.ok(divert("d", "a", "c", replaces=True))
    assert world.refused(divert("d", "a", "c", replaces=True)).code is Code.ALREADY_EXISTS
    world.restart()
    world.send("a", b"1")
    assert world.ready("c") == [b"1"]
    world.ok(DeleteDivert("d"))
    world.refused(DeleteDivert("d"))
    world.restart()
    world.send("a", b"2")
    assert world.ready("c") == [b"1"]
    assert world.ready("a") == [b"1", b"2"]


@pytest.mark.parametrize(
    ("name", "address", "targets", "values", "text"),
    [
        ("", "a", ("b",), {}, "the name is wrong"),
        ("d?d", "a", ("b",), {}, "has '?'"),
        ("d", "", ("b",), {}, "address is ''"),
        ("d", "a.b#", ("b",), {}, "must be a word of its own"),
        ("d", "a.{[}", ("b",), {}, "whose regular expression is wrong"),
        ("d", "a", (), {}, "1 to 100 forwarding addresses"),
        ("d", "a", ("b.*",), {}, "is reserved"),
        ("d", "a", ("b",), {"add_properties": ("x",)}, "is not a pair"),
        ("d", "a", ("b",), {"rename_properties": ("x=",)}, "not a property that a divert can set"),
        (
            "d",
            "a",
            ("b",),
            {"add_properties": ("destination=x",)},
            "'destination' is not a property",
        ),
        ("d", "a", ("b",), {"add_properties": ("message-id=x",)}, "'message-id' is not a property"),
        ("d", "a", ("b",), {"add_properties": ("x=" + "y" * 5000,)}, "longer than 4,096"),
    ],
)
def test_definitions_that_are_wrong(
    world: World, name: str, address: str, targets: tuple[str, ...], values: Any, text: str
) -> None:
    assert text in world.refused(divert(name, address, *targets, **values)).text


# ---- messages that no queue takes

UNROUTED = {"send_to_dla_on_no_route": True, "dead_letter_address": "DLA"}


def test_what_no_queue_takes_passes_the_diverts_of_the_dead_letter_address(world: World) -> None:
    world.settings(news=UNROUTED)
    world.ok(divert("d", "DLA", "audit"))
    world.send("news", b"x", routing_type=MULTICAST)
    assert (world.ready("DLA"), world.ready("audit")) == ([b"x"], [b"x"])
    first, second = world.events_named("Routed")
    assert (first.reason, second.reason) == (reasons.NO_ROUTE, reasons.DIVERT)
    assert second.row[events.RELATED] == first.lsn
    found = headers(world, "audit")
    assert (found["_AMQ_ORIG_ADDRESS"], found["_AMQ_ORIG_QUEUE"]) == ("DLA", "d")
    world.restart()
    world.check()


def test_an_exclusive_divert_of_the_dead_letter_address_takes_it_away(world: World) -> None:
    world.settings(news=UNROUTED)
    world.ok(divert("d", "DLA", "audit", exclusive=True, filter="_AMQ_ORIG_ADDRESS = 'news'"))
    world.send("news", b"x", routing_type=MULTICAST, due=world.now // 1000 + 1000)
    assert (world.ready("DLA"), world.ready("audit")) == ([], [b"x"])
    (diverted,) = world.events_named("Diverted")
    assert diverted.decoded.diverts == ("d",)


def test_a_copy_that_no_queue_takes_names_its_original(world: World) -> None:
    world.ok(CreateAddress("news", (MULTICAST,)))
    world.settings(news=UNROUTED)
    world.ok(divert("d", "a", "news", exclusive=True))
    world.send("a", b"x", routing_type=MULTICAST)
    (diverted,) = world.events_named("Diverted")
    (copy,) = world.events_named("Routed")
    assert (copy.reason, copy.row[events.RELATED]) == (reasons.NO_ROUTE, diverted.lsn)
    assert world.ready("DLA") == [b"x"]
    world.check()


def test_a_circle_by_way_of_the_dead_letter_address_ends(world: World) -> None:
    world.ok(CreateAddress("news", (MULTICAST,)))
    world.ok(CreateAddress("more", (MULTICAST,)))
    both = UNROUTED | {"default_address_routing_type": "MULTICAST"}
    world.settings(news=both, more=both)
    world.ok(divert("d", "DLA", "more", "news"))
    world.send("news", b"x", routing_type=MULTICAST)
    # The message itself, and the two copies, for which nobody is there either.
    assert world.ready("DLA") == [b"x", b"x", b"x"]
    world.check()


def test_in_a_transaction_a_queue_of_such_a_copy_is_needed_elsewhere(world: World) -> None:
    world.settings(news=UNROUTED)
    world.ok(divert("d", "DLA", "b"))
    connection = world.connect()
    world.begin(connection)
    news = {"routing_type": MULTICAST, "connection": connection, "transaction": "t"}
    world.send("news", **news)
    world.send("c", connection=connection, transaction="t", queue="b")
    refused = world.handle(Commit(connection, "t"))
    assert isinstance(refused, Refusal)
    assert refused.code is Code.ALREADY_EXISTS
    world.begin(connection, "u")
    world.send("news", b"y", **(news | {"transaction": "u"}))
    world.commit(connection, "u")
    assert world.ready("b") == [b"y"]
