"""Messages of a queue from any place on: the same as by reading all before, in short slices."""

import random
from itertools import chain
from typing import Any

import pytest

from daybook.engine.commands import Settle
from daybook.engine.facts.settlements import RELEASED
from daybook.server.administration import views
from daybook.server.process.slices import SLICE, Slices, at_once
from tests.support.paged_world import PagedWorld
from tests.support.world import World

SEEDS = range(12)
ANY = 40


def ids_of(page: Any) -> list[int]:
    assert isinstance(page, dict), page
    return [row["message"] for row in page["messages"]]


def every(world: World, name: str = "q") -> list[int]:
    """All messages, read one after the other."""
    queue = world.queue(name)
    flying = (entry for consumer in queue.consumers for entry in consumer.unacked.values())
    return [entry.message.id for entry in chain(flying, queue.standing())]


def busy(chance: random.Random, world: World) -> None:
    """Messages of all priorities that were sent, delivered, returned, acknowledged, scheduled."""
    consumers = [
        world.attach(world.connect(), "q", credit_messages=chance.randint(0, 9)) for _ in range(2)
    ]
    for number in range(chance.randint(5, 60)):
        due = (world.now // 1000 + 60_000) if chance.random() < 0.1 else 0
        kind = {"kind": "big"} if number % 7 == 3 else {}
        priority = 4 if chance.random() < 0.7 else chance.randint(0, 9)
        world.send("q", b"%d" % number, headers=kind, priority=priority, due=due)
        for consumer in consumers:
            for delivery in world.taken(consumer):
                how = chance.random()
                if how < 0.3:
                    world.ack(consumer, delivery.message)
                elif how < 0.6:
                    world.ok(Settle(consumer, delivery.message, outcome=RELEASED))
        if chance.random() < 0.1:
            world.detach(consumers.pop())
            consumers.append(world.attach(world.connect(), "q", credit_messages=3))


def worlds(chance: random.Random) -> World:
    if chance.random() < 0.3:
        return World()
    return PagedWorld(chance.randint(0, 4), chance.randint(0, 9))


@pytest.mark.parametrize("seed", SEEDS)
def test_a_page_is_the_same_wherever_its_entries_are(seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(10):
        world = worlds(chance)
        busy(chance, world)
        known = every(world)
        assert len(known) == world.queue("q").message_count
        for offset in range(len(known) + 2):
            limit = chance.choice([1, 2, 5, 100])
            page = at_once(views.browse(world.state, "q", offset=offset, limit=limit))
            assert ids_of(page) == known[offset : offset + limit], (seed, offset, limit)
            following = offset + limit if offset + limit < len(known) else None
            assert page["next_offset"] == following
        world.check()


def test_a_filter_looks_on_until_the_page_is_full() -> None:
    world = PagedWorld(1, 0)
    for number in range(200):
        world.send("q", b"%d" % number, headers={"kind": "big"} if number % 50 == 49 else {})
    asked = {"chosen_by": "kind = 'big'", "limit": 3}
    page = at_once(views.browse(world.state, "q", **asked))
    assert [row["body"] for row in page["messages"]] == ["49", "99", "149"]
    assert (page["looked_at"], page["next_offset"]) == (150, 150)
    rest = at_once(views.browse(world.state, "q", offset=150, **asked))
    assert [row["body"] for row in rest["messages"]] == ["199"]
    assert (rest["looked_at"], rest["next_offset"]) == (50, None)
    bounded = at_once(views.browse(world.state, "q", look_at=120, **asked))
    assert len(bounded["messages"]) == 2
    assert bounded["next_offset"] == 120
    assert len(world.queue("q").entries) <= 2, "what was looked at does not stay in memory"


def steps(slices: Slices[Any]) -> tuple[list[int], Any]:
    looked = []
    while True:
        try:
            looked.append(next(slices))
        except StopIteration as end:
            return looked, end.value


def test_a_page_deep_in_a_long_queue_has_short_slices_and_few_of_them() -> None:
    world = World()
    for number in range(5 * SLICE):
        world.send("q", b"%d" % number)
    costs = {}
    for offset in (0, SLICE, 5 * SLICE - 50):
        looked, page = steps(views.browse(world.state, "q", offset=offset, limit=50))
        assert max(looked) <= SLICE
        assert len(page["messages"]) == 50
        costs[offset] = len(looked)
    assert costs[5 * SLICE - 50] <= costs[0] + 1


def test_messages_that_leave_between_two_slices_are_not_shown() -> None:
    world = World()
    for number in range(300):
        world.send("q", b"%d" % number)
    slices = views.browse(world.state, "q", offset=50, limit=200)
    next(slices)
    next(slices)
    consumer = world.attach(world.connect(), "q", credit_messages=1000)
    gone = [delivery.message for delivery in world.taken(consumer)]
    for message in gone:
        world.ack(consumer, message)
    _, page = steps(slices)
    assert len(page["messages"]) == views.READ_AT_ONCE
    assert page["next_offset"] is None


def test_a_queue_that_is_deleted_meanwhile_ends_the_page() -> None:
    world = World()
    for number in range(300):
        world.send("q", b"%d" % number)
    slices = views.browse(world.state, "q", limit=200)
    next(slices)
    del world.state.queues[world.queue("q").id]
    _, page = steps(slices)
    assert page["messages"] == []
