"""The limits of what a client creates: by user, and by the remaining memory."""

import pytest

from daybook.engine.commands import (
    Attach,
    Begin,
    Commit,
    DeleteQueue,
    DeleteSubscription,
    OpenConnection,
    Send,
)
from daybook.engine.refusals import Code
from tests.support.topology import create_queue
from tests.support.world import World


@pytest.fixture
def world() -> World:
    return World(max_queues_per_user=2, max_connections_per_user=2)


def test_queues_of_a_user(world: World) -> None:
    first, second = world.connect(), world.connect()
    world.send("a", b"x", first)
    world.attach(second, "t", durable_name="d")
    for command in (
        Send(first, "b", b"", b""),
        Attach(first, "c"),
        Attach(first, "t", durable_name="e"),
    ):
        assert "max-queues-per-user" in world.refused(command).text
    # Existing queues are used as ever, and temporary ones go with their subscription.
    world.send("a", b"x", first)
    world.attach(first, "t", durable_name="d")
    world.attach(first, "t", routing_type="multicast")
    # Administrators may.
    world.ok(create_queue("b", "b"))
    world.ok(DeleteQueue("a", force=True))
    world.send("e", b"x", first)
    world.check()


def test_who_made_a_queue_is_known_after_a_restart(world: World) -> None:
    connection = world.connect()
    world.send("a", b"x", connection)
    world.attach(connection, "t", durable_name="d")
    world.restart()
    assert world.state.queues_of == {"guest": 2}
    assert world.state.connections_of == {}
    connection = world.connect()
    assert world.refused(Send(connection, "b", b"", b"")).code is Code.LIMIT
    world.ok(DeleteSubscription("d"))
    world.send("b", b"x", connection)
    assert world.state.queues_of == {"guest": 2}


def test_queues_of_a_transaction_count_before_it_is_carried_out(world: World) -> None:
    connection = world.connect()
    world.begin(connection)
    for name in ("a", "b", "c"):
        world.ok(Send(connection, name, b"", b"x", transaction="t"))
    refusal = world.handle(Commit(connection, "t"))
    assert "max-queues-per-user" in getattr(refusal, "text", "")
    world.turn()
    assert world.state.queues_of == {}
    world.ok(Begin(connection, "t"))
    for name in ("a", "b", "a"):
        world.ok(Send(connection, name, b"", b"x", transaction="t"))
    world.commit(connection)
    assert world.state.queues_of == {"guest": 2}
    world.check()


def test_connections_of_a_user(world: World) -> None:
    first, _ = world.connect(), world.connect()
    assert "max-connections-per-user" in world.refused(OpenConnection("stomp", "p", "guest")).text
    world.ok(OpenConnection("stomp", "p", "other"))
    world.close(first)
    world.connect()
    world.check()


def test_without_memory_clients_make_nothing_more(world: World) -> None:
    connection = world.connect()
    world.send("a", b"x", connection, duplicate_id="1")
    world.broker.report_objects("no more queues", "")
    for command in (
        Send(connection, "b", b"", b""),
        Send(connection, "t", b"", b"", routing_type="multicast"),
        Send(connection, "a", b"", b"", duplicate_id="2"),
        Attach(connection, "b"),
        Attach(connection, "t", routing_type="multicast"),
    ):
        assert world.refused(command).text == "no more queues"
    # Commands that make room are allowed; and remembered ids are still known.
    consumer = world.attach(connection, "a")
    [delivery] = world.taken()
    world.send("a", b"x", connection, duplicate_id="1")
    world.nack(consumer, delivery.message)
    world.ok(create_queue("b", "b"))
    world.broker.report_objects("no more queues", "no more subscriptions")
    assert world.refused(Attach(connection, "a")).text == "no more subscriptions"
    world.broker.report_objects("", "")
    world.send("c", b"x", connection, duplicate_id="2")
    world.check()


def test_an_address_that_forgets_an_id_for_another_goes_on(world: World) -> None:
    world.settings(a={"id_cache_size": 1})
    connection = world.connect()
    world.send("a", b"x", connection, duplicate_id="1")
    world.broker.report_objects("no more queues", "")
    world.send("a", b"x", connection, duplicate_id="2")
    assert len(world.ready("a")) == 2


def test_dead_letters_find_their_queue_without_memory(world: World) -> None:
    world.settings(a={"max_delivery_attempts": 1, "dead_letter_address": "dead"})
    connection = world.connect()
    world.send("a", b"x", connection)
    consumer = world.attach(connection, "a")
    world.broker.report_objects("no more queues", "")
    world.nack(consumer, world.taken()[0].message)
    assert world.ready("dead") == [b"x"]
