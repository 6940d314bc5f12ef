"""Queues that deliver only once enough consumers came, or the first one has waited long enough."""

import pytest

from daybook.engine.commands import CreateQueue, DeliverDue
from daybook.engine.facts import reasons
from daybook.engine.facts.definitions import QueueDefinition
from daybook.engine.facts.mismatch import MismatchError
from daybook.engine.state.timers import NEVER
from daybook.server.administration.views import every_queue
from tests.support.paged_world import PagedWorld
from tests.support.topology import create_queue
from tests.support.world import World, fold

WORLDS = [World, lambda: PagedWorld(window=1, lag=2)]


@pytest.fixture(params=WORLDS, ids=["resident", "paged"])
def world(request: pytest.FixtureRequest) -> World:
    found: World = request.param()
    found.ok(DeliverDue())
    return found


def waiting(world: World, count: int = 2, delay: int = -1) -> None:
    """A queue that waits for so many consumers, with three messages."""
    definition = {"consumers_before_dispatch": count, "delay_before_dispatch": delay}
    world.ok(create_queue("q", "q", **definition))
    for body in (b"0", b"1", b"2"):
        world.send("q", body)


def wake(world: World, seconds: float) -> None:
    """Let time pass, and do what a tick of the hub does."""
    world.sleep(seconds)
    if world.broker.wakes(world.now):
        world.ok(DeliverDue())


def test_it_waits_for_the_second_consumer(world: World) -> None:
    waiting(world)
    connection = world.connect()
    world.attach(connection, "q")
    wake(world, 3600)
    assert world.taken() == []
    assert every_queue(world.state)[0]["waits_for_consumers"]
    world.attach(connection, "q")
    assert world.taken_bodies() == [b"0", b"1", b"2"]
    (started,) = world.events_named("DispatchStarted")
    assert started.reason == reasons.CONSUMERS_CAME
    world.check()


def test_the_turn_begins_with_the_first_consumer(world: World) -> None:
    waiting(world)
    connection = world.connect()
    first, second = (world.attach(connection, "q") for _ in range(2))
    assert [each.consumer for each in world.taken()] == [first, second, first]


def test_it_begins_by_itself_when_the_delay_is_over(world: World) -> None:
    """Nothing but time: no message, no consumer, no acknowledgement wakes it."""
    waiting(world, 3, 5_000)
    connection = world.connect()
    world.attach(connection, "q")
    world.sleep(1)
    # The delay counts from the first consumer.
    world.attach(connection, "q")
    wake(world, 3.999)
    assert world.taken() == []
    wake(world, 0.001)
    assert world.taken_bodies() == [b"0", b"1", b"2"]
    (started,) = world.events_named("DispatchStarted")
    assert started.reason == reasons.DELAY_OVER
    assert world.state.wake_at == NEVER
    world.check()


def test_what_has_begun_goes_on_until_the_last_consumer_left(world: World) -> None:
    waiting(world)
    connection = world.connect()
    first, second = (world.attach(connection, "q") for _ in range(2))
    world.detach(first)
    world.taken()
    world.send("q", b"3")
    assert world.taken_bodies(second) == [b"3"]
    world.detach(second)
    third = world.attach(connection, "q")
    assert world.taken(third) == []
    world.attach(connection, "q")
    assert world.taken(third)
    world.check()


def test_it_has_begun_even_if_nothing_was_there_to_deliver(world: World) -> None:
    world.ok(create_queue("q", "q", consumers_before_dispatch=2))
    connection = world.connect()
    first, second = (world.attach(connection, "q") for _ in range(2))
    world.detach(second)
    world.send("q", b"x")
    assert world.taken_bodies(first) == [b"x"]


@pytest.mark.parametrize("count", [0, 1])
def test_one_consumer_waits_for_nobody(world: World, count: int) -> None:
    waiting(world, count, 5_000)
    world.attach(world.connect(), "q")
    assert len(world.taken()) == 3
    assert world.events_named("DispatchStarted") == []


def test_nobody_waits_any_more_when_the_consumer_leaves(world: World) -> None:
    waiting(world, 2, 5_000)
    connection = world.connect()
    consumer = world.attach(connection, "q")
    world.detach(consumer)
    wake(world, 6)
    assert world.events_named("DispatchStarted") == []
    # The delay begins again.
    world.attach(connection, "q")
    wake(world, 4.9)
    assert world.taken() == []
    wake(world, 0.1)
    assert len(world.taken()) == 3


def test_the_wait_is_the_same_after_a_fold_and_ends_with_a_restart(world: World) -> None:
    waiting(world, 2, 5_000)
    world.attach(world.connect(), "q")
    world.check()
    folded = fold(world.journal)
    assert [queue.waits_since for queue in folded.queues.values()] == [world.now]
    assert list(folded.waiting) == list(folded.queues)
    world.restart()
    assert world.queue("q").waits_since == 0
    wake(world, 60)
    assert world.taken() == []
    world.check()


def test_settings_give_it_to_queues_that_do_not_say_it(world: World) -> None:
    world.settings(
        all={
            "default_consumers_before_dispatch": 2, "default_delay_before_dispatch": 1_000,
            "default_purge_on_no_consumers": True,
        }
    )  # fmt: skip
    world.send("used")
    world.ok(CreateQueue("a", QueueDefinition(name="made")))
    world.ok(CreateQueue("a", QueueDefinition(name="own", consumers_before_dispatch=3)))
    connection = world.connect()
    world.attach(connection, "t", routing_type="multicast")
    world.attach(connection, "t", durable_name="d")
    found = {
        queue.name: (
            queue.definition.consumers_before_dispatch, queue.definition.delay_before_dispatch,
        )
        for queue in world.state.queues.values()
    }  # fmt: skip
    # Nobody else can come to the queue of a subscription.
    (temporary,) = [name for name in found if name.startswith("t.sub-")]
    assert found.pop(temporary) == (0, -1)
    assert found == {"used": (2, 1000), "made": (2, 1000), "own": (3, 1000), "dsub.d": (2, 1000)}
    assert all(each.definition.purge_on_no_consumers for each in world.state.queues.values())


def test_many_queues_wake_in_their_order(world: World) -> None:
    connection = world.connect()
    for number in range(4):
        name = f"q{number}"
        delay = 4_000 - 1_000 * number
        world.ok(create_queue(name, name, consumers_before_dispatch=2, delay_before_dispatch=delay))
        world.send(name, name.encode())
        world.attach(connection, name)
    got = []
    for _ in range(5):
        wake(world, 1)
        got.append(world.taken_bodies())
    assert got == [[b"q3"], [b"q2"], [b"q1"], [b"q0"], []]
    world.check()


def test_an_event_that_does_not_fit_is_found(world: World) -> None:
    waiting(world)
    connection = world.connect()
    for _ in range(2):
        world.attach(connection, "q")
    started = world.events_named("DispatchStarted")
    with pytest.raises(MismatchError, match="begins to deliver and does already"):
        fold(world.journal + started)
