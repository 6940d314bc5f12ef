"""Administration of messages: move, copy, retry, expire, remove, change priority."""

from collections.abc import Callable
from typing import Any

import pytest

from daybook.engine.commands import (
    ActOnMessages,
    Command,
    DeleteQueue,
    DeleteUnused,
    DeliverDue,
    ExpireDue,
)
from daybook.engine.facts import reasons
from daybook.engine.facts.definitions import MULTICAST
from daybook.engine.messages.headers import as_dict
from daybook.engine.names.names import host_and_name
from daybook.engine.refusals import Code
from tests.support.paged_world import PagedWorld
from tests.support.topology import create_queue
from tests.support.world import World
from tests.support.worlds.deaths import other_headers


@pytest.fixture(params=[World, lambda: PagedWorld(1, 0)], ids=["resident", "paged"])
def any_world(request: pytest.FixtureRequest) -> World:
    """A world in memory, or one that has all but one entry in the store."""
    make: Callable[[], World] = request.param
    return make()


def act(world: World, queue: str, action: str, **values: Any) -> ActOnMessages:
    """Do something in slices, as the control socket does; return the command."""
    command = ActOnMessages(queue, action, **values)
    turns = 0
    while not command.is_done:
        world.broker.budget.allow(40)
        world.ok(command)
        turns += 1
        assert turns < 1000
    return command


def fill(world: World, queue: str = "q", count: int = 6) -> list[int]:
    """Put messages into a queue, every second of them big."""
    for number in range(count):
        headers = {"kind": "big"} if number % 2 else {}
        world.send(queue, b"%d" % number, headers=headers)
    return [entry.message.id for entry in world.entries(queue)]


def dead(world: World, address: str, body: bytes = b"x", **values: Any) -> None:
    """A message whose only attempt fails."""
    connection = world.connect(host=host_and_name(address)[0])
    consumer = world.attach(connection, address, **values)
    world.send(address, body, connection, routing_type=values.get("routing_type"))
    for delivery in world.taken(consumer):
        world.nack(consumer, delivery.message)
    world.close(connection)


@pytest.mark.parametrize("action", ["move", "copy"])
def test_a_limit_is_for_the_first_messages_that_match(any_world: World, action: str) -> None:
    world = any_world
    fill(world, count=12)
    world.ok(create_queue("other", "other"))
    command = act(world, "q", action, target="other", filter="kind=big", total=4, limit=3)
    assert (command.acted, command.passed_over) == (4, 0)
    assert world.bodies("other") == [b"1", b"3", b"5", b"7"]
    assert len(world.bodies("q")) == (8 if action == "move" else 12)
    # A limit may be higher than the number of messages, and a part may end at it.
    assert act(world, "q", action, target="other", total=1, most=1).acted == 1
    assert act(world, "q", action, target="other", total=99).acted == len(world.bodies("other")) - 5


def test_move_with_a_filter_says_where_each_came_from(any_world: World) -> None:
    world = any_world
    ids = fill(world)
    world.ok(create_queue("other", "elsewhere", filter="kind=none"))
    command = act(world, "q", "move", target="elsewhere::other", filter="kind=big")
    assert (command.acted, command.passed_over) == (3, 0)
    assert world.bodies("q") == [b"0", b"2", b"4"]
    assert world.bodies("other") == [b"1", b"3", b"5"]
    headers = as_dict(world.entries("other")[0].message.headers)
    assert headers["_AMQ_ORIG_ADDRESS"] == headers["_AMQ_ORIG_QUEUE"] == "q"
    assert headers["_AMQ_ORIG_MESSAGE_ID"] == str(ids[1])
    assert headers["_AMQ_ORIG_ROUTING_TYPE"] == "0"
    for event in world.events_named("Moved"):
        copy = world.journal[event.lsn]
        assert (copy.name, copy.lsn) == ("Routed", event.row[10])
        assert copy.row[10] == event.row[7]
    world.restart()
    world.check()
    assert world.bodies("other") == [b"1", b"3", b"5"]


def test_copies_leave_the_original(any_world: World) -> None:
    world = any_world
    fill(world, count=3)
    world.ok(create_queue("other", "elsewhere"))
    assert act(world, "q", "copy", target="other").acted == 3
    assert world.bodies("q") == world.bodies("other") == [b"0", b"1", b"2"]
    world.restart()
    world.check()


def test_what_expires_does_so_after_a_move(world: World) -> None:
    world.send("q", b"x", expires=world.now // 1000 + 1000)
    world.ok(create_queue("other", "elsewhere"))
    act(world, "q", "move", target="other")
    world.sleep(2)
    world.ok(ExpireDue())
    assert world.bodies("other") == []


def test_one_message_by_its_id(any_world: World) -> None:
    world = any_world
    ids = fill(world)
    act(world, "q", "remove", message=ids[3])
    assert world.bodies("q") == [b"0", b"1", b"2", b"4", b"5"]
    assert world.events_named("Removed")[0].reason == reasons.ADMINISTRATION
    assert world.refused(ActOnMessages("q", "remove", message=ids[3])).code is Code.NOT_FOUND


def test_some_messages_by_their_ids_in_parts(any_world: World) -> None:
    world = any_world
    ids = fill(world)
    world.ok(create_queue("other", "elsewhere"))
    wanted = (ids[4], ids[1], 10**9, ids[2])
    command = act(world, "q", "move", target="other", chosen=wanted, limit=1)
    assert (command.acted, command.passed_over) == (3, 1)
    assert command.whys == {"not in the queue any more": 1}
    assert world.bodies("q") == [b"0", b"3", b"5"]
    assert world.bodies("other") == [b"4", b"1", b"2"]
    world.restart()
    world.check()


def test_chosen_messages_in_flight_stay(world: World) -> None:
    ids = fill(world, count=3)
    consumer = world.attach(world.connect(), "q", credit_messages=1, credit_bytes=0)
    assert len(world.taken(consumer)) == 1
    command = act(world, "q", "remove", chosen=tuple(ids))
    assert command.whys == {"in flight to a consumer": 1}
    assert world.bodies("q") == [b"0"]


def test_what_is_in_flight_is_left_alone(world: World) -> None:
    fill(world, count=3)
    consumer = world.attach(world.connect(), "q", credit_messages=1, credit_bytes=0)
    (delivery,) = world.taken(consumer)
    assert act(world, "q", "remove").acted == 2
    assert world.bodies("q") == [b"0"]
    refusal = world.refused(ActOnMessages("q", "remove", message=delivery.message))
    assert "in flight" in refusal.text
    world.ack(consumer, delivery.message)
    world.check()


def test_dead_letters_go_back_to_their_queue(any_world: World) -> None:
    world = any_world
    world.settings(all={"max_delivery_attempts": 1, "dead_letter_address": "DLQ"})
    for number in range(3):
        dead(world, "q", b"%d" % number)
    dead(world, "news", b"n", durable_name="d", routing_type=MULTICAST)
    world.send("DLQ", b"nobody knows from where")
    command = act(world, "DLQ", "retry")
    assert (command.acted, command.passed_over) == (4, 1)
    assert world.bodies("q") == [b"0", b"1", b"2"]
    assert world.bodies("dsub.d") == [b"n"]
    assert world.bodies("DLQ") == [b"nobody knows from where"]
    (entry, *_) = world.entries("q")
    assert other_headers(entry.message.headers) == {}
    assert entry.delivery_count == 0
    world.restart()
    world.check()


def test_a_queue_of_the_name_of_its_address_is_created_again(world: World) -> None:
    world.settings(all={"max_delivery_attempts": 1, "dead_letter_address": "DLQ"})
    dead(world, "q")
    dead(world, "news", b"n", durable_name="d", routing_type=MULTICAST)
    world.ok(DeleteUnused())
    world.ok(DeleteQueue("dsub.d"))
    assert "q" not in world.state.queue_by_name
    command = act(world, "DLQ", "retry")
    assert (command.acted, command.passed_over) == (1, 1)
    assert world.bodies("q") == [b"x"]
    assert world.bodies("DLQ") == [b"n"]


def test_what_no_queue_took_is_routed_again(world: World) -> None:
    world.settings(all={"dead_letter_address": "DLA", "send_to_dla_on_no_route": True})
    world.send("news", b"x", routing_type=MULTICAST)
    assert act(world, "DLA", "retry").passed_over == 1
    world.ok(create_queue("late", "news", MULTICAST))
    assert act(world, "DLA", "retry").acted == 1
    assert world.bodies("late") == [b"x"]


def test_it_is_routed_again_by_its_routing_type(world: World) -> None:
    world.settings(news={"dead_letter_address": "DLA", "send_to_dla_on_no_route": True})
    world.send("news", b"x", routing_type=MULTICAST)
    world.ok(create_queue("shared", "news"))
    assert act(world, "DLA", "retry").passed_over == 1
    world.ok(create_queue("late", "news", MULTICAST))
    assert act(world, "DLA", "retry").acted == 1
    assert (world.bodies("late"), world.bodies("shared")) == ([b"x"], [])
    (entry,) = world.entries("late")
    assert other_headers(entry.message.headers) == {}


def test_a_queue_is_created_again_with_its_routing_type(world: World) -> None:
    world.settings(q={"dead_letter_address": "DLA", "max_delivery_attempts": 1})
    world.ok(create_queue("q", "q", MULTICAST))
    dead(world, "q", queue="q")
    world.ok(DeleteQueue("q"))
    assert act(world, "DLA", "retry").acted == 1
    assert world.queue("q").definition.routing_type == MULTICAST
    assert world.bodies("q") == [b"x"]


def test_expire_sends_to_the_expiry_address_or_drops(any_world: World) -> None:
    world = any_world
    fill(world, count=2)
    act(world, "q", "expire", filter="kind=big")
    world.settings(all={"expiry_address": "late"})
    act(world, "q", "expire")
    assert world.bodies("q") == []
    assert world.bodies("late") == [b"0"]
    assert world.queue("q").expired == 2
    assert act(world, "late", "expire").passed_over == 1


def test_another_priority_puts_messages_behind_those_that_have_it(any_world: World) -> None:
    world = any_world
    world.send("q", b"high", priority=9)
    fill(world, count=4)
    command = act(world, "q", "priority", priority=9, filter="kind=big")
    assert command.acted == 2
    assert world.ready("q") == [b"high", b"1", b"3", b"0", b"2"]
    assert act(world, "q", "priority", priority=9).passed_over == 3
    world.restart()
    assert world.ready("q") == [b"high", b"1", b"3", b"0", b"2"]
    world.check()


def test_messages_that_come_meanwhile_are_left_alone(world: World) -> None:
    fill(world, count=4)
    command = ActOnMessages("q", "remove", limit=1)
    world.ok(command)
    world.send("q", b"late")
    while not command.is_done:
        world.ok(command)
    assert world.bodies("q") == [b"late"]
    assert command.acted == 4


def test_held_and_scheduled_messages_are_reached(world: World) -> None:
    world.settings(all={"max_delivery_attempts": 1})
    dead(world, "q", b"held")
    world.settings(all={"max_delivery_attempts": 5, "redelivery_delay": 100_000})
    dead(world, "p", b"scheduled")
    world.ok(create_queue("other", "elsewhere"))
    for name in ("q", "p"):
        act(world, name, "move", target="other")
    assert world.ready("other") == [b"held", b"scheduled"]
    world.check()


@pytest.mark.parametrize(
    ("action", "values", "queue"),
    [
        ("move", {"target": "other"}, "other"),
        ("copy", {"target": "other"}, "other"),
        ("priority", {"priority": 7}, "q"),
    ],
)
def test_what_its_sender_scheduled_waits_in_its_new_place(
    any_world: World, action: str, values: dict[str, Any], queue: str
) -> None:
    world = any_world
    world.ok(create_queue("other", "elsewhere", last_value_key="kind"))
    world.send("q", b"x", headers={"kind": "big"}, due=world.now // 1000 + 60_000)
    act(world, "q", action, **values)
    assert (world.ready(queue), world.queue(queue).scheduled_count) == ([], 1)
    world.restart()
    world.sleep(60)
    world.ok(DeliverDue())
    assert world.ready(queue) == [b"x"]
    world.check()


def test_a_failed_message_still_waits_with_another_priority(any_world: World) -> None:
    world = any_world
    world.settings(all={"redelivery_delay": 60_000})
    dead(world, "q", b"x")
    act(world, "q", "priority", priority=7)
    assert (world.ready("q"), world.queue("q").scheduled_count) == ([], 1)
    world.check()


def test_large_messages_keep_their_body(world: World) -> None:
    world.send_large("q", [b"a" * 10, b"b" * 10])
    world.ok(create_queue("other", "elsewhere"))
    act(world, "q", "move", target="other")
    act(world, "other", "priority", priority=7)
    (entry,) = world.entries("other")
    assert world.large_body(entry.message) == b"a" * 10 + b"b" * 10
    world.restart()
    world.check()


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (ActOnMessages("none", "remove"), "there is no queue 'none'"),
        (ActOnMessages("q", "paint"), "'paint' is not an action; they are move"),
        (ActOnMessages("q", "move", target="none"), "there is no queue 'none'"),
        (ActOnMessages("q", "copy", target="q"), "is the target itself"),
        (ActOnMessages("q", "priority", priority=10), "from 0 to 9"),
        (ActOnMessages("q", "remove", filter="rubbish"), "the filter is wrong"),
        (ActOnMessages("q", "remove", message=10_000), "does not have message 10000"),
    ],
)
def test_what_is_impossible_is_refused(world: World, command: Command, words: str) -> None:
    world.ok(create_queue("q", "q"))
    assert words in world.refused(command).text
