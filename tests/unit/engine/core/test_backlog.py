"""The backlog of dispatch: many queues that were touched at once keep nobody else waiting."""

import pytest

from daybook.engine import commands as c
from daybook.engine.core.backlog import Backlog, owner_of
from daybook.engine.dispatch.dispatch import FEW, LINE_UNITS
from daybook.engine.facts import reasons
from daybook.engine.facts.definitions import MULTICAST
from daybook.engine.limits.budget import NO_LIMIT
from daybook.engine.queues.consumer import Connection
from daybook.engine.settling.delivery import limit_unacked
from daybook.engine.state.sizes import size_of
from tests.support.world import World

SUBSCRIBERS = 5 * FEW
TURN = 2 * LINE_UNITS


def crowd(world: World, topic: str = "news", count: int = SUBSCRIBERS) -> int:
    """Return a connection with many subscriptions to a topic."""
    connection = world.connect()
    for number in range(count):
        world.attach(
            connection, topic, routing_type=MULTICAST, credit_messages=99, credit_bytes=9999,
            subscription=str(number),
        )  # fmt: skip
    return connection


def a_turn(world: World) -> list[int]:
    """Dispatch within a budget; return the consumers that got something."""
    broker = world.broker
    broker.budget.allow(TURN)
    broker.dispatch(world.now)
    spent, broker.budget.limit = broker.budget.spent - broker.budget.limit, NO_LIMIT
    assert spent < LINE_UNITS
    effects, broker.effects = broker.effects, []
    return [consumer.id for consumer, *_ in effects]


def publish(world: World, topic: str) -> None:
    """Send, let the message arrive, and dispatch nothing yet."""
    world.broker.handle(c.Send(0, topic, b"", b"x", routing_type=MULTICAST), world.now)
    world.broker.go_on(world.now)


def test_lines_take_turns_and_a_queue_waits_once() -> None:
    world = World()
    crowd(world, count=3)
    crowd(world, count=2)
    queues = list(world.state.queues.values())
    backlog = Backlog()
    backlog.add(queues)
    backlog.add(queues[:1])
    assert (bool(backlog), len(backlog)) == (True, 5)
    owner, line = backlog.begin()
    assert owner == owner_of(queues[0])
    assert list(line) == [queue.id for queue in queues[:3]]
    line.popitem(last=False)
    # Meanwhile somebody touched it again.
    backlog.add(queues[:1])
    backlog.end(owner, line)
    other, line = backlog.begin()
    assert other == owner_of(queues[3])
    backlog.end(other, type(line)())
    owner, line = backlog.begin()
    assert list(line) == [queues[number].id for number in (1, 2, 0)]
    assert not backlog


def test_a_queue_is_in_the_line_of_the_connection_that_it_serves() -> None:
    world = World()
    connection = world.connect()
    world.send("q", b"x")
    queue = world.queue("q")
    assert queue is not None
    assert owner_of(queue) == 0
    world.attach(connection, "q")
    assert owner_of(queue) == connection


def test_a_message_to_many_keeps_nobody_else_waiting() -> None:
    world = World()
    crowd(world)
    honest = world.attach(world.connect(), "q")
    world.taken()
    publish(world, "news")
    first = a_turn(world)
    assert 0 < len(first) < SUBSCRIBERS
    # It comes behind all of them, and is served with the first ones of the next turn.
    world.broker.handle(c.Send(0, "q", b"", b"honest"), world.now)
    assert honest in a_turn(world)
    turns = 2
    while world.broker.is_touched:
        a_turn(world)
        turns += 1
    assert turns < SUBSCRIBERS
    assert world.state.queues
    assert all(queue.ready_count == 0 for queue in world.state.queues.values())


def test_what_is_held_is_counted_before_all_queues_were_looked_at() -> None:
    world = World()
    crowd(world)
    publish(world, "news")
    world.broker.budget.allow(0)
    world.broker.dispatch(world.now)
    world.broker.budget.limit = NO_LIMIT
    address = world.state.address_by_name["news"]
    assert (world.broker.room.sizes.bytes, world.broker.room.sizes.messages) == size_of(address)


def test_a_queue_that_is_gone_is_not_looked_at() -> None:
    world = World()
    connection = crowd(world)
    publish(world, "news")
    world.broker.budget.allow(0)
    world.broker.dispatch(world.now)
    world.broker.budget.limit = NO_LIMIT
    world.close(connection, reasons.DISCONNECTED)
    assert world.state.queues == {}
    assert a_turn(world) == []
    assert not world.broker.is_touched


def test_an_address_that_pages_has_its_own_sums() -> None:
    world = World()
    world.settings(news={"max-size-bytes": 1})
    connection = crowd(world, count=3)
    for _ in range(4):
        publish(world, "news")
    world.turn()
    address = world.state.address_by_name["news"]
    assert address.paging
    assert world.broker.room.sizes.of_paging(address) == size_of(address)
    queue = address.queues()[0]
    world.detach(queue.consumers[0].id)
    assert world.broker.room.sizes.of_paging(address) == size_of(address)
    world.close(connection, reasons.DISCONNECTED)
    assert world.broker.room.sizes.of_paging(address) == (0, 0)


@pytest.mark.parametrize("sated", [False, True])
def test_a_limit_that_changes_touches_only_what_it_concerns(sated: bool) -> None:
    world = World()
    number = crowd(world, count=3)
    connection: Connection = world.state.connections[number]
    world.turn()
    connection.sated = sated
    limit_unacked(world.broker, connection, 1 << 20)
    assert bool(world.broker.touched) is sated
    assert not connection.sated
