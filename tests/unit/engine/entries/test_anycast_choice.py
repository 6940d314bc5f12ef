"""Which of several anycast queues gets a message."""

from daybook.engine.entries.anycast_choice import FILTERS_MAX
from daybook.engine.facts.definitions import ANYCAST
from tests.support.topology import create_queue
from tests.support.world import World


def shards(world: World, *names: str) -> None:
    for name in names:
        world.ok(create_queue(name, "a", ANYCAST))


def counts(world: World, *names: str) -> tuple[int, ...]:
    return tuple(world.queue(name).message_count for name in names)


def test_queues_with_consumers_come_first_and_take_turns(world: World) -> None:
    shards(world, "q1", "q2", "q3")
    connection = world.connect()
    for name in ("q1", "q3"):
        world.attach(connection, "a", queue=name)
    for _ in range(10):
        world.send("a")
    assert counts(world, "q1", "q2", "q3") == (5, 0, 5)
    world.close(connection)
    for _ in range(3):
        world.send("a")
    assert counts(world, "q1", "q2", "q3") == (6, 1, 6)


def test_a_consumer_without_credit_still_serves_its_queue(world: World) -> None:
    shards(world, "q1", "q2")
    world.attach(world.connect(), "a", queue="q2", credit_messages=0, credit_bytes=0)
    for _ in range(4):
        world.send("a")
    assert counts(world, "q1", "q2") == (0, 4)


def test_a_group_stays_on_one_queue(world: World) -> None:
    shards(world, "q1", "q2", "q3")
    for group in "abcdefgh":
        before = counts(world, "q1", "q2", "q3")
        for _ in range(6):
            world.send("a", headers={"JMSXGroupID": group})
        after = counts(world, "q1", "q2", "q3")
        assert sorted(new - old for old, new in zip(before, after, strict=True)) == [0, 0, 6]
    assert min(counts(world, "q1", "q2", "q3")) > 0


def test_consumers_do_not_move_a_group(world: World) -> None:
    shards(world, "q1", "q2")
    world.send("a", headers={"JMSXGroupID": "g"})
    there, other = ("q1", "q2") if world.queue("q1").message_count else ("q2", "q1")
    world.attach(world.connect(), "a", queue=other)
    world.send("a", headers={"JMSXGroupID": "g"})
    assert counts(world, there, other) == (2, 0)


def test_a_group_passes_over_queues_whose_filter_refuses(world: World) -> None:
    shards(world, "q1")
    world.ok(create_queue("big", "a", ANYCAST, filter="kind=big"))
    for group in "abcd":
        world.send("a", headers={"JMSXGroupID": group, "kind": "small"})
    assert counts(world, "q1", "big") == (4, 0)


def test_asking_filters_is_bounded(world: World) -> None:
    shards(world, "q1", "q2")
    connection = world.connect()
    for _ in range(FILTERS_MAX + 1):
        world.attach(connection, "a", queue="q2", filter="kind=big")
    world.send("a", headers={"kind": "small"})
    world.send("a", headers={"kind": "small"})
    assert counts(world, "q1", "q2") == (0, 2)


def test_a_subscription_takes_the_first_queue_that_may_have_a_consumer(world: World) -> None:
    world.ok(create_queue("q1", "a", ANYCAST, max_consumers=1))
    shards(world, "q2")
    connection = world.connect()
    for name in ("q1", "q2", "q2"):
        consumer = world.attach(connection, "a")
        assert world.state.consumers[consumer].queue.name == name
