"""Walks over a last value queue: acting on one message may replace others that are still ahead."""

from collections.abc import Callable
from typing import Any

import pytest

from daybook.engine.commands import ActOnMessages, CreateDivert, DeliverScheduled, RetryHeld
from daybook.engine.facts.definitions import DivertDefinition
from tests.support.paged_world import PagedWorld
from tests.support.topology import create_queue
from tests.support.world import World


@pytest.fixture(params=[World, lambda: PagedWorld(1, 0)], ids=["resident", "paged"])
def world(request: pytest.FixtureRequest) -> World:
    """Messages to the address `back` return to `q`, with the key B."""
    make: Callable[[], World] = request.param
    found = make()
    divert = DivertDefinition(
        name="d", address="back", forwarding_addresses=("q",), exclusive=True,
        add_properties=("k=B",),
    )  # fmt: skip
    found.ok(CreateDivert(divert))
    return found


def put(world: World, body: bytes, key: str, **values: Any) -> int:
    return world.send("q", body, headers={"k": key}, **values)


def bodies_after_restart(world: World) -> list[bytes]:
    world.restart()
    return world.bodies("q")


@pytest.fixture
def q(world: World) -> World:
    """A queue with two scheduled messages of one key: only the second is a value."""
    world.ok(create_queue("q", "q", last_value_key="k"))
    world.settings(q={"redelivery_delay": 60_000, "expiry_address": "back"})
    put(world, b"no value yet", "B", due=world.now // 1000 + 1000)
    consumer = world.attach(world.connect(), "q", credit_messages=1)
    world.nack(consumer, put(world, b"value", "B"))
    world.detach(consumer)
    assert world.queue("q").scheduled_count == 2
    return world


def test_delivering_before_the_time(q: World) -> None:
    q.ok(DeliverScheduled("q"))
    assert bodies_after_restart(q) == [b"no value yet"]


def test_expiring_all_that_there_is(q: World) -> None:
    command = ActOnMessages("q", "expire")
    while not command.is_done:
        q.ok(command)
    assert len(bodies_after_restart(q)) == 1


@pytest.mark.parametrize("kind", [{"exclusive": True}, {"non_destructive": True}], ids=str)
def test_expiring_on_the_way_to_a_consumer(world: World, kind: dict[str, Any]) -> None:
    world.ok(create_queue("q", "q", last_value_key="k", **kind))
    world.settings(q={"expiry_address": "back"})
    put(world, b"expires", "A", expires=world.now // 1000 + 10)
    put(world, b"value", "B")
    world.sleep(1)
    consumer = world.attach(world.connect(), "q")
    assert world.taken_bodies(consumer) == [b"expires"]
    assert bodies_after_restart(world) == [b"expires"]


def test_retrying_what_is_held(world: World) -> None:
    world.ok(create_queue("q", "q", last_value_key="k"))
    world.settings(q={"max_delivery_attempts": 1})
    consumer = world.attach(world.connect(), "q")
    for message in (put(world, b"first", "A"), put(world, b"second", "B")):
        world.nack(consumer, message)
    world.detach(consumer)
    assert world.queue("q").held_count == 2
    world.settings(q={"max_delivery_attempts": 1, "dead_letter_address": "back"})
    while world.broker.retry_due:
        world.ok(RetryHeld())
    assert bodies_after_restart(world) == [b"first"]
