"""The message that has waited for longest: found by a few queues at a time."""

from typing import Any

import pytest

from daybook.engine.queues.queue import StoreError
from daybook.engine.state.state import State
from daybook.server.administration import views
from daybook.server.monitoring import oldest_message
from daybook.server.monitoring.oldest_message import (
    FIRST_PAUSE_SECONDS,
    LOOKED_AT,
    OldestMessage,
)
from daybook.server.process.ordered_lists import Order
from daybook.server.process.seen import Seen
from daybook.server.process.slices import at_once
from tests.support.models.memory_store import MemoryStore
from tests.support.paged_world import strip
from tests.support.topology import create_queue
from tests.support.world import SECOND, World, fold

USUAL = 0.1
NOTHING = {"oldest_ready": None, "oldest_ready_queue": None, "oldest_ready_age_seconds": None}


def filled(count: int) -> World:
    """A broker with a message in each of its queues; the last queue has the oldest."""
    world = World()
    for number in reversed(range(count)):
        world.send(f"q{number:05}", b"x")
        world.sleep(1)
    return world


def as_started(world: World) -> State:
    """The state of a broker that has just started: all messages are in the store alone."""
    store = MemoryStore(world.journal)
    store.advance(len(world.journal))
    return strip(fold(world.journal), store)


def ids_of(world: World, *queues: str) -> list[int]:
    return [world.queue(queue).newest for queue in queues]


def test_it_is_found_with_its_age_and_leaves() -> None:
    world = filled(3)
    world.state.attach_store(MemoryStore(world.journal))
    watch = OldestMessage()
    assert watch.status(0) == NOTHING
    watch.look(world.state)
    [oldest, second] = ids_of(world, "q00002", "q00001")
    expected = {"oldest_ready": oldest, "oldest_ready_queue": "q00002"}
    assert watch.status(world.now // 1000) == expected | {"oldest_ready_age_seconds": 3.0}
    consumer = world.attach(world.connect(), "q00002")
    assert len(world.taken(consumer)) == 1
    assert watch.status(world.now // 1000) == NOTHING
    watch.look(world.state)
    assert watch.status(world.now // 1000)["oldest_ready"] == second


def test_a_message_that_is_not_durable_came_just_now() -> None:
    world = World()
    world.state.attach_store(MemoryStore(world.journal[:1]))
    world.send("q", b"x")
    watch = OldestMessage()
    watch.look(world.state)
    assert watch.status(world.now)["oldest_ready_age_seconds"] == 0.0


def test_a_tick_looks_at_few_of_many() -> None:
    world = filled(LOOKED_AT + 1)
    watch = OldestMessage()
    watch.look(world.state)
    found = ids_of(world, f"q{LOOKED_AT:05}", "q00000")
    order = list(world.state.queues.values())
    assert order[0].name == f"q{LOOKED_AT:05}"
    # As long as no round is over, the best so far is reported.
    assert watch.status(0)["oldest_ready"] == found[0]
    del world.state.queues[order[0].id]
    assert watch.status(0) == NOTHING
    watch.look(world.state)
    watch.look(world.state)
    watch.look(world.state)
    assert watch.status(0)["oldest_ready_queue"] == f"q{LOOKED_AT - 1:05}"


def test_the_store_is_asked_for_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    world = filled(20)
    state = as_started(world)
    monkeypatch.setattr(oldest_message, "AT_ONCE", 5)
    monkeypatch.setattr(oldest_message, "LOOKED_AT", 5)
    monkeypatch.setattr(oldest_message, "LOOK_SECONDS", 60.0)
    watch = OldestMessage()
    asked = []
    firsts = MemoryStore.firsts

    def asking(store: MemoryStore, wanted: Any) -> Any:
        asked.append(len(wanted))
        return firsts(store, wanted)

    monkeypatch.setattr(MemoryStore, "firsts", asking)
    for tick in range(1, 5):
        watch.look(state)
        assert asked == [5] * tick
    for _ in range(3):
        watch.look(state)
    assert asked == [5] * 4
    assert watch.status(0)["oldest_ready_queue"] == "q00019"


def test_the_first_round_after_a_start_hurries() -> None:
    state = as_started(filled(LOOKED_AT + 1))
    watch = OldestMessage()
    pauses = []
    while not pauses or pauses[-1] < USUAL:
        assert watch.pause(USUAL) == FIRST_PAUSE_SECONDS
        watch.look(state)
        pauses.append(watch.pause(USUAL))
    assert len(pauses) >= 2
    assert all(each.paged.first for each in levels(state))
    watch.look(state)
    assert watch.pause(USUAL) == USUAL


def test_a_slow_store_ends_a_look(monkeypatch: pytest.MonkeyPatch) -> None:
    state = as_started(filled(3))
    monkeypatch.setattr(oldest_message, "AT_ONCE", 1)
    monkeypatch.setattr(oldest_message, "LOOK_SECONDS", -1.0)
    watch = OldestMessage()
    watch.look(state)
    assert sum(bool(level.paged.first) for level in levels(state)) == 1


def levels(state: State) -> list[Any]:
    return [level for queue in state.queues.values() for level in queue.levels if level is not None]


def test_lists_have_it_and_sort_by_its_age() -> None:
    world = filled(45)
    world.ok(create_queue("empty", "empty"))
    state = as_started(world)
    order = Order(sort="oldest_ready", descending=True)
    page = at_once(views.listing_queues(Seen(state.queues), order=order))
    rows = page["queues"]
    assert [each["queue"] for each in rows] == [f"q{each:05}" for each in range(44, -1, -1)] + [
        "empty"
    ]
    assert rows[0]["oldest_ready"] == world.queue("q00044").newest
    assert rows[0]["oldest_ready_since"] == (world.now - 45 * SECOND) // 1000
    assert (rows[-1]["oldest_ready"], rows[-1]["oldest_ready_since"]) == (None, None)
    named = views.queue_named(state, "q00044")
    assert isinstance(named, dict)
    assert named["queues"][0]["oldest_ready"] == rows[0]["oldest_ready"]


def test_a_store_that_cannot_be_read_leaves_the_column_empty(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    state = as_started(filled(2))

    def broken(*_: Any) -> Any:
        raise StoreError("it is broken")

    monkeypatch.setattr(MemoryStore, "load", broken)
    order = Order(sort="oldest_ready")
    rows = at_once(views.listing_queues(Seen(state.queues), order=order))["queues"]
    assert [each["oldest_ready"] for each in rows] == [None, None]
    watch = OldestMessage()
    watch.look(state)
    assert watch.status(0) == NOTHING
