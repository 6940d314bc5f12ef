"""Annotations of consumers on returned messages: the next deliveries show them."""

from typing import Any

import pytest

from daybook.engine.commands import (
    ActOnMessages,
    Attach,
    CreateAddress,
    CreateDivert,
    ExpireDue,
    RetryHeld,
    Rollback,
    Send,
    Settle,
)
from daybook.engine.facts import reasons
from daybook.engine.facts.definitions import ANYCAST, MULTICAST, DivertDefinition
from daybook.engine.facts.settlements import ACCEPTED, FAILED, REJECTED, RELEASED
from daybook.engine.facts.values import Symbol, Timestamp, Value
from daybook.engine.messages.annotations import BYTES_MAX, COUNT_MAX, DEPTH_MAX, packed, unpacked
from daybook.engine.refusals import Code
from daybook.engine.state.digest import digest
from tests.support.topology import create_queue
from tests.support.world import Delivery, World

WHY = Symbol("x-why")
WHO = Symbol("x-who")


def note(
    world: World, consumer: int, message: int, outcome: int = FAILED, **more: Any
) -> dict[Symbol | int, Value]:
    said: dict[Symbol | int, Value] = more.pop("said", {WHY: "broken", 7: [1, Timestamp(5)]})
    world.ok(Settle(consumer, message, outcome=outcome, annotations=said, **more))
    return said


def last(world: World) -> Delivery:
    return world.taken()[-1]


def shown(world: World) -> dict[Symbol | int, Value]:
    """The annotations of the last delivery."""
    return unpacked(last(world).annotations)


@pytest.mark.parametrize("outcome", [RELEASED, FAILED])
def test_the_next_delivery_shows_them(world: World, outcome: int) -> None:
    consumer = world.attach(world.connect(), "q")
    message = world.send("q", b"x")
    assert shown(world) == {}
    said = note(world, consumer, message, outcome)
    assert shown(world) == said
    world.check()
    world.ack(consumer, message)
    assert world.queue("q").bytes == 0
    world.check()


def test_an_equal_key_replaces_and_others_stay(world: World) -> None:
    consumer = world.attach(world.connect(), "q")
    message = world.send("q", b"x")
    note(world, consumer, message, said={WHY: "broken", WHO: "first"})
    note(world, consumer, message, said={WHY: None, 1: "number", Symbol("1"): "symbol"})
    assert shown(world) == {WHY: None, WHO: "first", 1: "number", Symbol("1"): "symbol"}
    world.nack(consumer, message)
    assert len(shown(world)) == 4
    world.check()


def test_an_event_has_only_what_was_noted_by_it(world: World) -> None:
    consumer = world.attach(world.connect(), "q")
    message = world.send("q", b"x")
    note(world, consumer, message, said={WHY: "a"})
    note(world, consumer, message, said={WHO: "b"})
    world.nack(consumer, message)
    noted = [unpacked(event.decoded.annotations) for event in world.events_named("Returned")[:2]]
    assert noted == [{WHY: "a"}, {WHO: "b"}]
    assert world.events_named("Returned")[2].detail == b""


def test_they_are_a_part_of_the_state_and_survive_a_restart(world: World) -> None:
    consumer = world.attach(world.connect(), "q")
    message = world.send("q", b"x")
    world.nack(consumer, message)
    world.detach(consumer)
    without = digest(world.state)
    consumer = world.attach(world.connect(), "q")
    said = note(world, consumer, message)
    world.detach(consumer)
    assert digest(world.state) != without
    world.restart()
    world.taken()
    world.attach(world.connect(), "q")
    assert shown(world) == said


def test_they_count_as_bytes_of_the_queue(world: World) -> None:
    consumer = world.attach(world.connect(), "q")
    message = world.send("q", b"x")
    world.send("q", b"y")
    queue = world.queue("q")
    before = queue.bytes, queue.weight
    for value in (bytes(1000), b""):
        said = note(world, consumer, message, said={WHY: value})
        growth = queue.bytes - before[0], queue.weight - before[1]
        assert growth == (len(packed(said)),) * 2
    world.check()
    for each in list(world.state.consumers[consumer].unacked):
        world.ack(consumer, each)
    assert (queue.bytes, queue.weight) == (0, 0)


def test_a_full_address_counts_them(world: World) -> None:
    world.settings(q={"max_size_bytes": 2000, "address_full_policy": "FAIL"})
    consumer = world.attach(world.connect(), "q")
    message = world.send("q", b"x")
    note(world, consumer, message, said={WHY: bytes(2000)})
    assert world.refused(Send(0, "q", b"", b"y")).code is Code.LIMIT


def test_each_queue_of_a_topic_has_its_own(world: World) -> None:
    world.ok(CreateAddress("t", (MULTICAST,)))
    consumers = []
    for name in ("a", "b"):
        world.ok(create_queue(name, "t", MULTICAST))
        consumers.append(world.ok(Attach(world.connect(), "t", queue=name)))
    message = world.send("t", b"x", routing_type=MULTICAST)
    world.taken()
    said = note(world, consumers[0], message)
    assert shown(world) == said
    world.nack(consumers[1], message)
    assert shown(world) == {}
    world.check()


def test_a_large_message_keeps_its_body(world: World) -> None:
    consumer = world.attach(world.connect(), "q")
    message = world.send_large("q", [b"one", b"two"])
    said = note(world, consumer, message)
    entry = world.state.consumers[consumer].unacked[message]
    assert world.large_body(entry.message) == b"onetwo"
    assert entry.message.body_bytes == 6
    assert shown(world) == said
    world.check()


# ---- annotations that cannot be kept


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({WHY: bytes(BYTES_MAX)}, "65,536"),
        ({number: None for number in range(COUNT_MAX + 1)}, "101 annotations; it can have 100"),
        ({"text": 1}, "use a symbol in ASCII"),
        ({True: 1}, "use a symbol in ASCII"),
        ({-1: 1}, "use a symbol in ASCII"),
        ({1 << 64: 1}, "use a symbol in ASCII"),
        ({Symbol("é"): 1}, "use a symbol in ASCII"),
        ({WHY: object()}, "values of the type object"),
        ({WHY: 1 << 64}, "cannot be kept"),
        ({WHY: "\ud800"}, "cannot be kept"),
        ({WHY: [[[[[[[[[1]]]]]]]]]}, f"more than {DEPTH_MAX} lists and maps"),
    ],
)
def test_what_a_message_cannot_keep_is_refused_and_nothing_else(
    world: World, said: dict[Any, Any], words: str
) -> None:
    consumer = world.attach(world.connect(), "q")
    message = world.send("q", b"x")
    other = world.send("q", b"y")
    refusal = world.refused(Settle(consumer, message, outcome=FAILED, annotations=said))
    assert words in refusal.text
    assert list(world.state.consumers[consumer].unacked) == [message, other]
    world.begin(world.state.consumers[consumer].connection_id)
    command = Settle(consumer, message, transaction="t", outcome=FAILED, annotations=said)
    assert words in world.refused(command).text
    world.nack(consumer, message)
    world.check()


def test_the_limit_is_that_of_all_together(world: World) -> None:
    consumer = world.attach(world.connect(), "q")
    message = world.send("q", b"x")
    note(world, consumer, message, said={number: None for number in range(COUNT_MAX)})
    for said in ({COUNT_MAX: None}, {0: bytes(BYTES_MAX - 100)}):
        command = Settle(consumer, message, outcome=FAILED, annotations=said)
        assert world.refused(command).code is Code.LIMIT
    note(world, consumer, message, said={0: "another", 99: "value"})
    assert len(shown(world)) == COUNT_MAX


def test_only_one_delivery_at_a_time_is_annotated(world: World) -> None:
    consumer = world.attach(world.connect(), "q")
    world.send("q", b"x")
    message = world.send("q", b"y")
    command = Settle(consumer, message, True, outcome=FAILED, annotations={WHY: 1})
    assert world.refused(command).code is Code.INVALID


def test_what_is_accepted_has_none(world: World) -> None:
    consumer = world.attach(world.connect(), "q")
    message = world.send("q", b"x")
    note(world, consumer, message, ACCEPTED)
    assert world.events_named("Acknowledged")
    world.check()


def test_what_was_only_shown_keeps_none(world: World) -> None:
    world.ok(create_queue("q", "q", non_destructive=True))
    consumer = world.attach(world.connect(), "q")
    message = world.send("q", b"x")
    note(world, consumer, message)
    world.detach(consumer)
    world.taken()
    world.attach(world.connect(), "q")
    assert shown(world) == {}
    world.check()


def test_in_a_transaction_they_hold_from_the_commit_on(world: World) -> None:
    connection = world.connect()
    consumer = world.attach(connection, "q")
    message = world.send("q", b"x")
    world.begin(connection)
    weight = world.broker.transactions.weight
    note(world, consumer, message, transaction="t", said={WHY: bytes(3000)})
    assert world.broker.transactions.weight - weight > 3000
    world.ok(Rollback(connection, "t"))
    world.nack(consumer, message)
    assert shown(world) == {}
    world.begin(connection)
    said = note(world, consumer, message, transaction="t")
    world.commit(connection)
    assert shown(world) == said
    world.check()


# ---- with the message to other places


def dead(world: World) -> None:
    world.settings(q={"dead_letter_address": "dead", "max_delivery_attempts": 2})
    world.ok(create_queue("dead", "dead"))


def test_a_dead_letter_has_them_with_what_the_last_attempt_noted(world: World) -> None:
    dead(world)
    consumer = world.attach(world.connect(), "q")
    message = world.send("q", b"x")
    note(world, consumer, message, said={WHY: "first", WHO: "me"})
    note(world, consumer, message, said={WHY: "last"})
    world.attach(world.connect(), "dead")
    assert shown(world) == {WHY: "last", WHO: "me"}
    world.check()


def test_what_is_rejected_takes_along_why(world: World) -> None:
    dead(world)
    consumer = world.attach(world.connect(), "q")
    said = note(world, consumer, world.send("q", b"x"), REJECTED)
    world.attach(world.connect(), "dead")
    assert shown(world) == said
    world.check()


def test_what_is_held_has_them_when_it_leaves(world: World) -> None:
    world.settings(q={"max_delivery_attempts": 1})
    consumer = world.attach(world.connect(), "q")
    said = note(world, consumer, world.send("q", b"x"))
    world.detach(consumer)
    assert world.queue("q").held_count == 1
    world.settings(q={"dead_letter_address": "dead", "max_delivery_attempts": 1})
    world.ok(create_queue("dead", "dead"))
    world.taken()
    world.ok(RetryHeld())
    world.attach(world.connect(), "dead")
    assert shown(world) == said
    world.check()


def test_what_expires_takes_them_along(world: World) -> None:
    world.settings(q={"expiry_address": "late"})
    world.ok(create_queue("late", "late"))
    consumer = world.attach(world.connect(), "q")
    message = world.send("q", b"x", expires=world.now // 1000 + 10)
    said = note(world, consumer, message)
    world.detach(consumer)
    world.now += 100_000
    world.ok(ExpireDue())
    world.attach(world.connect(), "late")
    assert shown(world) == said
    world.check()


@pytest.mark.parametrize("action", ["move", "copy", "priority"])
def test_an_administrator_takes_them_along(world: World, action: str) -> None:
    world.ok(create_queue("other", "other"))
    consumer = world.attach(world.connect(), "q")
    said = note(world, consumer, world.send("q", b"x"))
    world.detach(consumer)
    world.taken()
    world.ok(ActOnMessages("q", action, target="other", priority=9))
    world.attach(world.connect(), "q" if action == "priority" else "other")
    assert shown(world) == said
    world.check()


def test_what_goes_back_to_its_queue_has_them(world: World) -> None:
    dead(world)
    consumer = world.attach(world.connect(), "q")
    said = note(world, consumer, world.send("q", b"x"), REJECTED)
    world.ok(ActOnMessages("dead", "retry"))
    assert shown(world) == said
    world.check()


def test_the_diverts_of_a_dead_letter_address_have_them(world: World) -> None:
    dead(world)
    for exclusive in (False, True):
        world.ok(
            CreateDivert(
                DivertDefinition(
                    name="d", address="dead", forwarding_addresses=("copies",), exclusive=exclusive
                ),
                replaces=True,
            )
        )
        consumer = world.attach(world.connect(), "q")
        said = note(world, consumer, world.send("q", b"x"), REJECTED)
        world.detach(consumer)
        world.attach(world.connect(), "copies")
        assert shown(world) == said
    world.check()


def test_a_copy_that_a_divert_made_before_knows_nothing_of_them(world: World) -> None:
    definition = DivertDefinition(name="d", address="q", forwarding_addresses=("copies",))
    world.ok(create_queue("q", "q"))
    world.ok(CreateDivert(definition))
    consumer = world.attach(world.connect(), "q")
    world.send("q", b"x", routing_type=ANYCAST)
    note(world, consumer, last(world).message)
    world.taken()
    world.attach(world.connect(), "copies")
    assert shown(world) == {}


def test_history_of_a_dead_letter_address_has_them(world: World) -> None:
    world.settings(q={"dead_letter_address": "dead"}, dead={"retroactive_message_count": 5})
    world.ok(create_queue("dead", "dead", MULTICAST))
    consumer = world.attach(world.connect(), "q")
    said = note(world, consumer, world.send("q", b"x"), REJECTED)
    world.detach(consumer)
    world.taken()
    world.attach(world.connect(), "dead", routing_type=MULTICAST)
    assert shown(world) == said
    world.check()


def test_a_browser_sees_them(world: World) -> None:
    consumer = world.attach(world.connect(), "q")
    said = note(world, consumer, world.send("q", b"x"))
    world.detach(consumer)
    world.taken()
    world.ok(Attach(world.connect(), "q", browses=True))
    assert unpacked(world.taken()[0].annotations) == said


def test_a_lost_connection_notes_nothing(world: World) -> None:
    connection = world.connect()
    consumer = world.attach(connection, "q")
    message = world.send("q", b"x")
    said = note(world, consumer, message)
    world.close(connection, reasons.DISCONNECTED)
    world.taken()
    world.attach(world.connect(), "q")
    assert shown(world) == said
    assert world.events_named("Returned")[-1].detail == b""
