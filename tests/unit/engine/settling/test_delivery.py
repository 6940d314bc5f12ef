"""The deliveries that a connection may have in flight, and their memory."""

import pytest

from daybook.engine.messages.message import (
    ENTRY_ALONE_BYTES,
    ENTRY_BYTES,
    LARGE_BYTES,
    MESSAGE_OVERHEAD_BYTES,
)
from daybook.engine.queues.consumer import Connection
from daybook.engine.settling.delivery import limit_unacked
from tests.support.world import World

EACH = MESSAGE_OVERHEAD_BYTES + ENTRY_BYTES + 100
"""The counted size of a delivery of 100 bytes."""


@pytest.fixture
def sated() -> tuple[World, Connection, int, int]:
    """A connection with two consumers that may have four deliveries in flight, and has."""
    world = World()
    world.broker.unacked_max = 4 * EACH
    connection = world.connect()
    for _ in range(10):
        world.send("a", bytes(100))
        world.send("b", bytes(100))
    first = world.attach(connection, "a", credit_messages=100)
    second = world.attach(connection, "b", credit_messages=100)
    return world, world.state.connections[connection], first, second


def test_a_connection_that_is_sated_gets_nothing_more(
    sated: tuple[World, Connection, int, int],
) -> None:
    world, connection, first, second = sated
    deliveries = world.taken(first)
    assert (len(deliveries), len(world.taken(second))) == (4, 0)
    assert connection.sated
    assert connection.unacked_bytes == 4 * EACH
    # A quarter must be free before it continues, then all of its queues are looked at.
    world.ack(first, deliveries[0].message)
    assert len(world.taken()) == 1
    world.check()


def test_other_queues_of_the_connection_are_woken(
    sated: tuple[World, Connection, int, int],
) -> None:
    world, connection, first, second = sated
    deliveries = world.taken(first)
    world.detach(first)
    assert not connection.sated or len(world.taken(second)) == 4
    assert {d.consumer for d in deliveries} == {first}
    assert connection.unacked_bytes == 4 * EACH
    world.check()


def test_rejections_and_the_end_of_a_connection_free_what_was_in_flight(
    sated: tuple[World, Connection, int, int],
) -> None:
    world, connection, first, _ = sated
    world.nack(first, world.taken(first)[-1].message, cumulative=True)
    assert len(world.taken()) == 4
    other = world.connect()
    world.close(connection.id)
    assert connection.unacked_bytes == 0
    world.attach(other, "a", credit_messages=100)
    assert len(world.taken()) == 4
    world.check()


def test_another_limit_holds_at_once(sated: tuple[World, Connection, int, int]) -> None:
    world, connection, _, second = sated
    world.taken()
    limit_unacked(world.broker, connection, 6 * EACH)
    world.turn()
    assert len(world.taken()) == 2
    limit_unacked(world.broker, connection, EACH)
    world.send("b", bytes(100))
    assert world.taken(second) == []


def test_what_does_not_acknowledge_is_never_sated() -> None:
    world = World()
    world.broker.unacked_max = EACH
    connection = world.connect()
    world.attach(connection, "a", acknowledges=False)
    for _ in range(10):
        world.send("a", bytes(100))
    assert len(world.taken()) == 10
    assert world.state.connections[connection].unacked_bytes == 0


def test_large_messages_and_shared_ones_count_for_what_is_in_memory() -> None:
    world = World()
    connection = world.connect()
    for _ in range(4):
        world.attach(connection, "news", routing_type="multicast")
    world.attach(connection, "q")
    world.send_large("q", [bytes(100_000)] * 3)
    theirs = world.state.connections[connection]
    assert theirs.unacked_bytes == LARGE_BYTES + ENTRY_BYTES
    before = world.broker.room.sizes.weight
    world.send("news", bytes(4_000))
    each = (4_000 + MESSAGE_OVERHEAD_BYTES + ENTRY_BYTES - ENTRY_ALONE_BYTES) // 4
    each += ENTRY_ALONE_BYTES
    assert theirs.unacked_bytes == LARGE_BYTES + ENTRY_BYTES + 4 * each
    assert world.broker.room.sizes.weight - before == 4 * each
    world.check()
