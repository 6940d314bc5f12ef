"""Subscriptions without the messages of their own connection."""

import pytest

from daybook.engine.commands import Attach, UpdateQueue
from daybook.engine.facts.definitions import MULTICAST
from tests.support.world import World

TOPIC = {"routing_type": MULTICAST}


def durable(world: World, connection: int, address: str = "news", **values: object) -> int:
    return world.attach(connection, address, durable_name="all", **values)


def test_a_subscriber_gets_only_what_others_sent() -> None:
    world = World()
    own, other = world.connect(), world.connect()
    quiet = world.attach(own, "news", no_local=True, **TOPIC)
    usual = world.attach(own, "news", **TOPIC)
    world.send("news", b"mine", own, **TOPIC)
    world.send("news", b"theirs", other, **TOPIC)
    assert world.taken_bodies(quiet) == [b"theirs"]
    assert world.taken_bodies(usual) == [b"mine", b"theirs"]
    world.check()


def test_own_messages_are_never_in_the_queue() -> None:
    world = World()
    own = world.connect()
    consumer = world.attach(own, "news", no_local=True, **TOPIC)
    world.send("news", b"mine", own, **TOPIC)
    assert world.state.consumers[consumer].queue.added == 0
    (dropped,) = world.events_named("Dropped")
    assert dropped.reason == 105
    world.check()


def test_several_subscribers_with_and_without() -> None:
    world = World()
    own, other = world.connect(), world.connect()
    first = world.attach(own, "news", no_local=True, **TOPIC)
    second = world.attach(other, "news", no_local=True, **TOPIC)
    world.send("news", b"a", own, **TOPIC)
    world.send("news", b"b", other, **TOPIC)
    assert (world.taken_bodies(first), world.taken_bodies(second)) == ([b"b"], [b"a"])
    world.check()


def test_with_wildcards_and_a_filter() -> None:
    world = World()
    own, other = world.connect(), world.connect()
    quiet = world.attach(own, "news.*", no_local=True, filter="kind=big", **TOPIC)
    for sender in (own, other):
        for kind in ("big", "small"):
            body = f"{kind} {sender == own}".encode()
            world.send("news.local", body, sender, headers={"kind": kind}, **TOPIC)
    assert world.taken_bodies(quiet) == [b"big False"]


def test_in_a_transaction() -> None:
    world = World()
    own, other = world.connect(), world.connect()
    quiet = world.attach(own, "news", no_local=True, **TOPIC)
    for sender, body in ((own, b"mine"), (other, b"theirs")):
        world.begin(sender)
        world.send("news", body, sender, transaction="t", **TOPIC)
        world.commit(sender)
    assert world.taken_bodies(quiet) == [b"theirs"]
    world.check()


def test_a_durable_subscription_goes_by_the_client_id() -> None:
    world = World()
    own = world.connect(client_id="shop")
    durable(world, own, no_local=True)
    world.close(own)
    again, other = world.connect(client_id="shop"), world.connect(client_id="bank")
    nameless = world.connect()
    for sender, body in ((again, b"mine"), (other, b"theirs"), (nameless, b"nobody's")):
        world.send("news", body, sender, **TOPIC)
    assert world.bodies("dsub.all") == [b"theirs", b"nobody's"]
    world.restart()
    again = world.connect(client_id="shop")
    world.send("news", b"mine", again, **TOPIC)
    consumer = durable(world, again, no_local=True)
    assert world.taken_bodies(consumer) == [b"theirs", b"nobody's"]
    assert len(world.events_named("QueueCreated")) == 1
    assert world.events_named("QueueUpdated") == []
    world.check()


def test_a_durable_subscription_changes_with_its_subscriber() -> None:
    world = World()
    own = world.connect(client_id="shop")
    durable(world, own)
    world.send("news", b"a", own, **TOPIC)
    durable(world, own, no_local=True)
    world.send("news", b"b", own, **TOPIC)
    durable(world, world.connect(client_id="bank"), no_local=True)
    world.send("news", b"c", own, **TOPIC)
    durable(world, own)
    world.send("news", b"d", own, **TOPIC)
    assert [each.decoded.changed[2:] for each in world.events_named("QueueUpdated")] == [
        ("no_local", "client_id"), ("client_id",), ("no_local", "client_id"),
    ]  # fmt: skip
    assert world.bodies("dsub.all") == [b"a", b"c", b"d"]
    world.check()


@pytest.mark.parametrize(
    ("command", "part"),
    [
        (Attach(0, "orders", no_local=True), "for subscriptions to topics"),
        (Attach(0, "news", queue="mine", no_local=True), "for subscriptions to topics"),
        (Attach(0, "news", durable_name="all", no_local=True), "connect with a client-id"),
    ],
)
def test_refused(command: Attach, part: str) -> None:
    world = World()
    command.connection = world.connect()
    assert part in world.refused(command).text


def test_a_queue_that_became_anycast_takes_everything() -> None:
    world = World()
    own = world.connect(client_id="shop")
    durable(world, own, no_local=True)
    world.ok(UpdateQueue("dsub.all", {"routing_type": "anycast"}))
    world.send("news", b"mine", own)
    assert world.bodies("dsub.all") == [b"mine"]
    world.check()


def test_what_the_broker_makes_of_a_message_is_nobodys_own() -> None:
    world = World()
    world.settings(all={"dead_letter_address": "dead", "max_delivery_attempts": 1})
    own = world.connect()
    dead = world.attach(own, "dead", no_local=True, **TOPIC)
    world.settings(
        all={
            "dead_letter_address": "dead",
            "max_delivery_attempts": 1,
            "dead_letter_policy": "DROP",
        }
    )
    consumer = world.attach(own, "orders")
    world.nack(consumer, world.send("orders", b"x", own))
    assert world.taken_bodies(dead) == [b"x"]
    world.check()


def test_the_list_of_such_queues_is_part_of_every_fold() -> None:
    world = World()
    own = world.connect()
    world.attach(own, "news", no_local=True, **TOPIC)
    assert len(world.state.without_own) == 1
    world.restart()
    assert not world.state.without_own
    world.check()
