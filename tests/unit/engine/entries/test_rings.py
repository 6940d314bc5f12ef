"""Ring queues: a fixed number of ready messages; the first one leaves for the next."""

from typing import Any

import pytest

from daybook.engine import commands as c
from daybook.engine.facts import events, reasons
from daybook.engine.queues.queue import Queue
from tests.support.paged_world import PagedWorld
from tests.support.topology import create_queue
from tests.support.world import World


def put(world: World, text: str, **values: Any) -> list[int]:
    """Send a message for each letter, all in one turn."""
    ids = []
    for letter in text:
        answer = world.handle(c.Send(0, "q", b"", letter.encode(), **values))
        assert isinstance(answer, int)
        ids.append(world.broker.lsn)
    world.turn()
    return ids


def there(world: World) -> str:
    return b"".join(world.ready("q")).decode()


def got(world: World) -> str:
    return b"".join(each.body for each in world.deliveries).decode()


def evicted(world: World) -> int:
    rows = [each.row for each in world.journal if each.name == "Removed"]
    found = sum(row[events.REASON] == reasons.RING_EVICTED for row in rows)
    assert found == world.queue("q").evicted
    return found


@pytest.fixture
def ring(world: World) -> World:
    world.ok(create_queue("q", "q", ring_size=3))
    return world


def test_a_ring_of_three_with_a_b_c_d(ring: World) -> None:
    for letter in "ABC":
        put(ring, letter)
    assert (there(ring), evicted(ring)) == ("ABC", 0)
    put(ring, "D")
    assert (there(ring), evicted(ring)) == ("BCD", 1)
    ring.check()


def test_many_in_one_turn_leave_the_last_ones(ring: World) -> None:
    put(ring, "ABCDEFGH")
    assert (there(ring), evicted(ring)) == ("FGH", 5)
    ring.check()


def test_what_is_in_delivery_does_not_count_and_returns_over_the_size(ring: World) -> None:
    connection = ring.connect()
    ring.attach(connection, "q")
    put(ring, "ABCD")
    queue: Queue = ring.queue("q")
    assert (got(ring), queue.message_count, queue.in_flight_count) == ("ABCD", 4, 4)
    assert evicted(ring) == 0
    ring.close(connection)
    assert (there(ring), evicted(ring)) == ("BCD", 1)
    ring.check()


@pytest.mark.parametrize("end", ["restart", "nack", "rollback"])
def test_whatever_returns_them(ring: World, end: str) -> None:
    connection = ring.connect()
    consumer = ring.attach(connection, "q", credit_messages=2, credit_bytes=0)
    ids = put(ring, "AB")
    put(ring, "CDE")
    assert there(ring) == "CDE"
    if end == "restart":
        ring.restart()
    elif end == "nack":
        ring.credit(consumer, -5)
        ring.nack(consumer, ids[0])
        ring.nack(consumer, ids[1])
    else:
        ring.begin(connection)
        ring.ack(consumer, ids[1], cumulative=True, transaction="t")
        ring.abort(connection)
        ring.detach(consumer)
    assert (there(ring), evicted(ring)) == ("CDE", 2)
    ring.check()


def test_one_that_returns_into_the_middle_leaves_itself(ring: World) -> None:
    put(ring, "A")
    consumer = ring.attach(ring.connect(), "q", filter="kind=big", credit_messages=1)
    big = ring.send("q", b"b", headers={"kind": "big"})
    put(ring, "CD")
    assert there(ring) == "ACD"
    ring.credit(consumer, -5)
    ring.nack(consumer, big)
    assert there(ring) == "ACD"
    ring.check()


def test_a_waiting_consumer_gets_all_of_them(ring: World) -> None:
    ring.attach(ring.connect(), "q", acknowledges=False)
    put(ring, "ABCDEFGH")
    assert (got(ring), evicted(ring)) == ("ABCDEFGH", 0)
    ring.check()


def test_a_scheduled_message_is_evicted_when_it_is_due_and_the_ring_is_full(ring: World) -> None:
    ring.settings(q={"redelivery_delay": 300_000})
    consumer = ring.attach(ring.connect(), "q", credit_messages=1, credit_bytes=0)
    (first,) = put(ring, "A")
    ring.nack(consumer, first)
    ring.detach(consumer)
    put(ring, "BCD")
    queue = ring.queue("q")
    assert (there(ring), queue.message_count, queue.scheduled_count) == ("BCD", 4, 1)
    ring.sleep(301)
    ring.ok(c.DeliverDue(10))
    assert (there(ring), evicted(ring)) == ("BCD", 1)
    ring.check()


def test_the_scheduled_message_at_12_05(ring: World) -> None:
    noon = ring.now
    counts = []
    put(ring, "A", due=noon // 1000 + 300_000)
    for minute, letter in enumerate("BCD", 1):
        ring.now = noon + minute * 60_000_000
        put(ring, letter)
        counts.append((ring.queue("q").message_count, ring.queue("q").scheduled_count))
    assert counts == [(2, 1), (3, 1), (4, 1)]
    ring.now = noon + 300_000_000
    ring.ok(c.DeliverDue(10))
    assert (there(ring), evicted(ring)) == ("BCD", 1)
    ring.check()


def test_a_smaller_size_does_not_shrink_it_at_once(ring: World) -> None:
    put(ring, "ABC")
    ring.ok(c.UpdateQueue("q", {"ring_size": 1}))
    assert there(ring) == "ABC"
    put(ring, "D")
    assert there(ring) == "BCD"
    ring.attach(ring.connect(), "q", acknowledges=False, credit_messages=2, credit_bytes=0)
    assert there(ring) == "D"
    put(ring, "E")
    assert there(ring) == "E"
    ring.check()


def test_a_queue_that_becomes_a_ring_keeps_what_it_has(world: World) -> None:
    world.ok(create_queue("q", "q"))
    put(world, "ABCDE")
    world.ok(c.UpdateQueue("q", {"ring_size": 2}))
    assert there(world) == "ABCDE"
    put(world, "F")
    assert there(world) == "BCDEF"
    world.ok(c.UpdateQueue("q", {"ring_size": -1}))
    put(world, "GH")
    assert there(world) == "BCDEFGH"
    world.check()


def test_another_size_in_the_same_turn_forgets_nothing(ring: World) -> None:
    for letter in b"ABCDEF":
        ring.handle(c.Send(0, "q", b"", bytes([letter])))
    ring.ok(c.UpdateQueue("q", {"ring_size": 4}))
    assert there(ring) == "CDEF"
    ring.check()


def test_the_setting_holds_for_every_queue_without_a_size(world: World) -> None:
    world.ok(create_queue("made", "q"))
    world.ok(create_queue("own", "other", ring_size=5))
    put(world, "ABCD")
    world.settings(all={"default_ring_size": 3})
    assert b"".join(world.ready("made")) == b"ABCD"
    for letter in "EF":
        world.send("q", letter.encode())
        world.send("other", letter.encode())
    assert b"".join(world.ready("made")) == b"CDEF"
    for number in range(9):
        world.send("news", b"%d" % number)
        world.send("other", b"%d" % number)
    assert b"".join(world.ready("news")) == b"678"
    assert b"".join(world.ready("own")) == b"45678"
    world.check()


def test_a_setting_at_run_time_makes_rings_too(world: World) -> None:
    put(world, "ABCD")
    world.ok(c.SetSettings("q", {"default-ring-size": 2}))
    put(world, "E")
    assert there(world) == "BCDE"
    world.restart()
    assert there(world) == "DE"
    world.ok(c.RemoveSettings("q"))
    put(world, "FGH")
    assert there(world) == "DEFGH"
    world.check()


def test_the_head_has_the_highest_priority(ring: World) -> None:
    put(ring, "AB", priority=1)
    put(ring, "C", priority=9)
    put(ring, "D", priority=1)
    assert there(ring) == "ABD"
    ring.check()


def test_a_paused_ring_is_a_ring(ring: World) -> None:
    ring.ok(c.PauseQueue("q"))
    ring.attach(ring.connect(), "q")
    put(ring, "ABCD")
    assert there(ring) == "BCD"
    ring.check()


def test_a_ring_that_is_read_loses_its_first(world: World) -> None:
    world.ok(create_queue("q", "q", ring_size=2, non_destructive=True))
    world.attach(world.connect(), "q")
    put(world, "A")
    put(world, "BC")
    assert (got(world), there(world)) == ("ABC", "BC")
    world.check()


def test_a_ring_of_last_values_counts_keys(world: World) -> None:
    world.ok(create_queue("q", "q", ring_size=2, last_value_key="k"))
    for key in "ABABCC":
        world.send("q", key.encode(), headers={"k": key})
    assert there(world) == "BC"
    assert (world.queue("q").replaced, world.queue("q").evicted) == (3, 1)
    world.check()


def test_eviction_is_cut_by_the_budget_and_goes_on(ring: World) -> None:
    ring.ok(c.PauseQueue("q"))
    for number in range(500):
        ring.handle(c.Send(0, "q", b"", b"%d" % number))
    ring.broker.budget.allow(60)
    ring.turn()
    assert ring.queue("q").ready_count > 100
    for _ in range(20):
        ring.broker.budget.allow(60)
        ring.turn()
    assert ring.ready("q") == [b"497", b"498", b"499"]
    ring.check()


@pytest.mark.parametrize("lag", [0, 3, 1000])
def test_paged_messages_count(lag: int) -> None:
    world = PagedWorld(1, lag=lag)
    world.ok(create_queue("q", "q", ring_size=5))
    put(world, "ABCDEFGHIJ")
    put(world, "K")
    assert there(world) == "GHIJK"
    world.restart()
    put(world, "L")
    assert there(world) == "HIJKL"
    world.check()
