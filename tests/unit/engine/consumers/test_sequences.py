"""Consumers that get only messages from a sequence number on."""

import pytest

from daybook.engine import commands as c
from daybook.engine.facts.definitions import MULTICAST
from tests.support.paged_world import PagedWorld
from tests.support.topology import create_queue
from tests.support.world import World


@pytest.fixture(params=[World, lambda: PagedWorld(window=1, lag=2)], ids=["resident", "paged"])
def world(request: pytest.FixtureRequest) -> World:
    """A world, and one that keeps almost nothing in memory."""
    made: World = request.param()
    return made


def fill(world: World, *bodies: bytes, **values: object) -> list[int]:
    return [world.send("orders", body, **values) for body in bodies]


def test_from_a_number_on(world: World) -> None:
    sent = fill(world, b"a", b"b", b"c")
    consumer = world.attach(world.connect(), "orders", from_sequence=sent[1])
    assert [(each.body, each.message) for each in world.taken(consumer)] == [
        (b"b", sent[1]), (b"c", sent[2]),
    ]  # fmt: skip
    other = world.attach(world.connect(), "orders")
    assert world.taken_bodies(other) == [b"a"]
    world.check()


@pytest.mark.parametrize(("sequence", "expected"), [(0, [b"a", b"new"]), (-1, [b"new"])])
def test_from_the_head_and_from_the_tail(
    world: World, sequence: int, expected: list[bytes]
) -> None:
    fill(world, b"a")
    consumer = world.attach(world.connect(), "orders", from_sequence=sequence)
    fill(world, b"new")
    assert world.taken_bodies(consumer) == expected
    world.check()


def test_a_message_that_returns_stays_below_the_number(world: World) -> None:
    sent = fill(world, b"a", b"b")
    first = world.attach(world.connect(), "orders", credit_messages=1, credit_bytes=0)
    later = world.attach(world.connect(), "orders", from_sequence=sent[1])
    world.detach(first)
    fill(world, b"c")
    assert world.taken_bodies(later) == [b"b", b"c"]
    assert world.ready("orders") == [b"a"]
    world.check()


def test_with_a_filter_and_with_groups(world: World) -> None:
    connection = world.connect()
    for kind in ("big", "small", "big"):
        last = world.send("orders", kind.encode(), headers={"kind": kind})
    consumer = world.attach(connection, "orders", from_sequence=last - 1, filter="kind=big")
    assert [each.message for each in world.taken(consumer)] == [last]


def test_a_non_destructive_queue(world: World) -> None:
    world.ok(create_queue("orders", "orders", non_destructive=True))
    sent = fill(world, b"a", b"b")
    consumer = world.attach(world.connect(), "orders", from_sequence=sent[1])
    assert world.taken_bodies(consumer) == [b"b"]
    world.ok(c.UpdateQueue("orders", {"non_destructive": False}))
    world.ok(c.UpdateQueue("orders", {"non_destructive": True}))
    fill(world, b"c")
    assert b"a" not in world.taken_bodies(consumer)
    world.check()


def test_a_topic(world: World) -> None:
    consumer = world.attach(
        world.connect(), "news", routing_type=MULTICAST, from_sequence=world.broker.next_lsn + 5
    )
    for body in (b"a", b"b", b"c"):
        last = world.send("news", body, routing_type=MULTICAST)
    taken = world.taken(consumer)
    assert taken[-1].message == last
    assert 0 < len(taken) < 3


def test_the_numbers_grow_over_a_restart_and_a_new_queue_of_the_same_name(world: World) -> None:
    fill(world, b"a")
    world.restart()
    fill(world, b"b")
    world.ok(c.DeleteQueue("orders", force=True))
    fill(world, b"c")
    browser = world.attach(world.connect(), "orders", browses=True, from_sequence=0)
    taken = world.taken(browser)
    assert taken[0].body == b"c"
    assert taken[0].message > len(world.journal) - 5


@pytest.mark.parametrize(
    ("address", "sequence", "part"),
    [
        ("news.*", 5, "cannot be used with wildcards"),
        ("news.#", -1, "cannot be used with wildcards"),
        ("orders", -2, "from-seq is -2"),
        ("orders", 1 << 62, "from-seq is"),
    ],
)
def test_refused(world: World, address: str, sequence: int, part: str) -> None:
    command = c.Attach(world.connect(), address, from_sequence=sequence)
    assert part in world.refused(command).text


def test_a_browser_resumes_where_it_was(world: World) -> None:
    fill(world, b"a", b"b", b"c")
    reading = {"browses": True, "listens": True, "credit_policy": 2, "credit_bytes": 0}
    browser = world.attach(world.connect(), "orders", from_sequence=0, credit_messages=2, **reading)
    last = world.taken(browser)[-1].message
    world.restart()
    fill(world, b"d", priority=9)
    browser = world.attach(
        world.connect(), "orders", from_sequence=last + 1, credit_messages=9, **reading
    )
    fill(world, b"e")
    assert world.taken_bodies(browser) == [b"c", b"d", b"e"]
    world.check()


def test_a_scheduled_message_below_the_number_is_not_read(world: World) -> None:
    fill(world, b"later", due=world.now // 1000 + 1000)
    sent = fill(world, b"a")
    browser = world.attach(
        world.connect(), "orders", browses=True, listens=True, from_sequence=sent[0]
    )
    world.sleep(2)
    world.ok(c.DeliverDue())
    assert world.taken_bodies(browser) == [b"a"]
