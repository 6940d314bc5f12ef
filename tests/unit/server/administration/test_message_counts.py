"""How many messages an action would concern: the same as it then acts on."""

from collections.abc import Callable
from typing import Any

import pytest

from daybook.engine.commands import PauseQueue
from daybook.engine.refusals import Refusal
from daybook.server.administration import message_counts
from daybook.server.administration.message_counts import counting
from daybook.server.process.slices import at_once
from tests.support.paged_world import PagedWorld
from tests.support.world import World
from tests.unit.engine.administration.test_message_moves import act, dead, fill


@pytest.fixture(params=[World, lambda: PagedWorld(1, 0)], ids=["resident", "paged"])
def any_world(request: pytest.FixtureRequest) -> World:
    """A world in memory, or one that has all but one entry in the store."""
    make: Callable[[], World] = request.param
    return make()


def count(world: World, name: str, chosen_by: str = "") -> dict[str, Any]:
    told = at_once(counting(world.state, name, chosen_by))
    assert not isinstance(told, Refusal), told
    [row] = told["counts"]
    return dict(row)


def test_as_many_are_counted_as_an_action_then_concerns(any_world: World) -> None:
    world = any_world
    fill(world)
    world.settings(all={"max_delivery_attempts": 1})
    dead(world, "q", b"held")
    world.ok(PauseQueue("q"))
    row = count(world, "q", "kind = 'big'")
    assert (row["matching"], row["looked_at"], row["in_queue"]) == (3, 7, 7)
    assert count(world, "q")["matching"] == 7
    world.restart()
    assert count(world, "q", "kind = 'big'") == row
    assert act(world, "q", "remove", filter="kind = 'big'").acted == 3
    assert count(world, "q", "kind = 'big'")["matching"] == 0


def test_messages_in_flight_are_not_counted(any_world: World) -> None:
    world = any_world
    fill(world, count=4)
    consumer = world.attach(world.connect(), "q", credit_messages=1, credit_bytes=0)
    assert len(world.taken(consumer)) == 1
    row = count(world, "q")
    assert (row["matching"], row["in_flight"], row["in_queue"]) == (3, 1, 4)


def test_only_so_many_are_looked_at(any_world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world = any_world
    monkeypatch.setattr(message_counts, "LOOKED_AT_MAX", 5)
    monkeypatch.setattr(message_counts, "ASKED_AT_ONCE", 2)
    fill(world, count=9)
    row = count(world, "q", "kind = 'big'")
    assert (row["looked_at"], row["matching"]) == (5, 2)


def test_a_queue_that_goes_meanwhile_has_none(any_world: World) -> None:
    world = any_world
    fill(world, count=2)
    slices = counting(world.state, "q", "kind = 'big'")
    next(slices)
    world.state.queues.clear()
    with pytest.raises(StopIteration) as ended:
        next(slices)
    assert ended.value.value["counts"][0]["matching"] == 0


def test_what_is_wrong_is_refused(any_world: World) -> None:
    world = any_world
    fill(world, count=1)
    for name, chosen_by, why in (
        ("none", "", "there is no queue"),
        ("q", "a =", "filter is wrong"),
    ):
        told = at_once(counting(world.state, name, chosen_by))
        assert isinstance(told, Refusal)
        assert why in told.text
