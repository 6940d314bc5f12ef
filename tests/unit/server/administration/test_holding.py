"""Lists of consumers say how long each has held its oldest message, and how much it settles."""

from typing import Any

import pytest

from daybook.engine import commands as c
from daybook.engine.facts.settlements import RELEASED
from daybook.engine.state.state import State
from daybook.server.administration import connections
from daybook.server.administration.overview import overview
from daybook.server.process.ordered_lists import Order
from daybook.server.process.slices import at_once
from tests.support.topology import create_queue
from tests.support.world import World


@pytest.fixture
def world() -> World:
    return World()


def rows_of(state: State, **order: Any) -> list[dict[str, Any]]:
    page = at_once(connections.listing_consumers(state, 0, order=Order(**order)))
    rows: list[dict[str, Any]] = page["consumers"]
    return rows


def held(world: World) -> tuple[int | None, int | None]:
    (row,) = rows_of(world.state)
    return row["oldest_in_flight"], row["oldest_in_flight_since"]


@pytest.mark.parametrize("non_destructive", [False, True])
def test_the_oldest_message_in_flight_is_the_one_that_was_delivered_first(
    world: World, *, non_destructive: bool
) -> None:
    world.ok(create_queue("q", "q", non_destructive=non_destructive))
    consumer = world.attach(world.connect(), "q")
    assert held(world) == (None, None)
    times, ids = [], []
    for _ in range(3):
        world.sleep(2)
        ids.append(world.send("q"))
        times.append(world.now // 1000)
    assert held(world) == (ids[0], times[0])
    world.ack(consumer, ids[1])
    assert held(world) == (ids[0], times[0])
    world.ack(consumer, ids[0])
    assert held(world) == (ids[2], times[2])
    (row,) = rows_of(world.state)
    assert (row["delivered"], row["in_flight"], row["settled"]) == (3, 1, 2)
    world.ack(consumer, ids[2])
    assert held(world) == (None, None)


def test_a_message_that_returned_is_held_since_its_new_delivery(world: World) -> None:
    consumer = world.attach(world.connect(), "q")
    message = world.send("q")
    world.sleep(5)
    world.ok(c.Settle(consumer, message, outcome=RELEASED))
    world.turn()
    assert held(world) == (message, world.now // 1000)


def test_consumers_are_sorted_by_how_long_they_hold_something(world: World) -> None:
    busy, slow, idle = (world.attach(world.connect(), name) for name in ("a", "b", "c"))
    world.send("b")
    world.sleep(1)
    world.send("a")
    by_age = rows_of(world.state, sort="oldest_in_flight", descending=True)
    assert [row["consumer"] for row in by_age] == [slow, busy, idle]


def test_a_credit_that_is_used_up_is_0(world: World) -> None:
    """A client that grants messages alone has no credit of bytes; neither says -100,000."""
    by_messages = world.attach(world.connect(), "m", credit_messages=9, credit_bytes=0)
    by_bytes = world.attach(world.connect(), "b", credit_messages=0, credit_bytes=500)
    for queue in "mb":
        world.send(queue, bytes(100))
    world.turn()
    rows = {row["consumer"]: row for row in rows_of(world.state)}
    found = [
        (rows[each]["credit_messages"], rows[each]["credit_bytes"])
        for each in (by_messages, by_bytes)
    ]
    assert found == [(8, 0), (0, 400)]
    for column, first in (("credit_messages", by_messages), ("credit_bytes", by_bytes)):
        assert rows_of(world.state, sort=column, descending=True)[0]["consumer"] == first


def test_the_past_knows_since_when_and_not_what_no_event_says(world: World) -> None:
    world.attach(world.connect(), "q", credit_messages=7)
    world.sleep(3)
    message, since = world.send("q"), world.now // 1000
    world.sleep(3)
    world.follow()
    (row,) = overview(world.follower, 0, 0)["list_of_consumers"]
    assert (row["oldest_in_flight"], row["oldest_in_flight_since"]) == (message, since)
    unknown = ("credit_messages", "credit_bytes", "delivered", "settled")
    assert [row[name] for name in unknown] == [None] * 4
