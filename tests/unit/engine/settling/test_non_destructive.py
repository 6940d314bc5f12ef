"""Non-destructive queues: every consumer reads everything, and removes nothing."""

import pytest

from daybook.engine import commands as c
from daybook.engine.facts import events, reasons
from daybook.engine.facts.definitions import MULTICAST
from daybook.engine.facts.settlements import FAILED, REJECTED, RELEASED
from daybook.engine.queues.entry import AGAIN_MAX
from tests.support.paged_world import PagedWorld
from tests.support.topology import create_queue
from tests.support.world import MANY, World


def sent(world: World, count: int, first: int = 0, **values: int) -> list[int]:
    return [world.send("q", b"%d" % number, **values) for number in range(first, first + count)]


def got(world: World, consumer: int) -> list[bytes]:
    return [each.body for each in world.deliveries if each.consumer == consumer]


def numbers(*values: int) -> list[bytes]:
    return [b"%d" % value for value in values]


def kinds(world: World, kind: int) -> list[tuple[int, int]]:
    """Reason and message of all events of a kind."""
    rows = [event.row for event in world.journal]
    return [(row[events.REASON], row[events.MESSAGE]) for row in rows if row[events.KIND] == kind]


@pytest.fixture
def q(world: World) -> World:
    world.ok(create_queue("q", "q", non_destructive=True))
    return world


def test_every_consumer_reads_everything_from_the_front_on(q: World) -> None:
    sent(q, 2)
    first = q.attach(q.connect(), "q")
    assert got(q, first) == numbers(0, 1)
    sent(q, 1, 2)
    second = q.attach(q.connect(), "q")
    sent(q, 1, 3)
    assert got(q, first) == got(q, second) == numbers(0, 1, 2, 3)
    assert q.queue("q").ready_count == 4
    q.check()


def test_no_settlement_removes_or_returns_anything(q: World) -> None:
    ids = sent(q, 4)
    consumer = q.attach(q.connect(), "q")
    q.ack(consumer, ids[0])
    for number, outcome in ((1, FAILED), (2, RELEASED), (3, REJECTED)):
        q.ok(c.Settle(consumer, ids[number], outcome=outcome))
    assert kinds(q, events.SEEN) == [
        (reasons.BY_CONSUMER, ids[0]), (reasons.NACK, ids[1]), (reasons.GIVEN_BACK, ids[2]),
        (reasons.REFUSED, ids[3]),
    ]  # fmt: skip
    assert q.ready("q") == numbers(0, 1, 2, 3)
    assert got(q, consumer) == numbers(0, 1, 2, 3)
    assert "not in flight" in q.refused(c.Settle(consumer, ids[0])).text
    assert set(q.counts("q").values()) == {0}
    q.check()


def test_a_cumulative_settlement_ends_all_up_to_it(q: World) -> None:
    ids = sent(q, 4)
    consumer = q.attach(q.connect(), "q")
    q.ack(consumer, ids[2], cumulative=True)
    assert [message for _, message in kinds(q, events.SEEN)] == ids[:3]
    assert list(q.state.consumers[consumer].shown) == ids[3:]
    q.check()


def test_a_transaction_settles_at_its_commit_and_not_at_a_rollback(q: World) -> None:
    ids = sent(q, 2)
    connection = q.connect()
    consumer = q.attach(connection, "q")
    q.begin(connection)
    q.ack(consumer, ids[0], transaction="t")
    q.abort(connection)
    assert kinds(q, events.SEEN) == []
    q.begin(connection)
    q.ack(consumer, ids[1], cumulative=True, transaction="t")
    q.commit(connection)
    assert [message for _, message in kinds(q, events.SEEN)] == ids
    q.check()


def test_credit_limits_each_consumer_on_its_own_and_returns(q: World) -> None:
    ids = sent(q, 5)
    slow = q.attach(q.connect(), "q", credit_messages=1, credit_bytes=0)
    fast = q.attach(q.connect(), "q")
    assert got(q, slow) == numbers(0)
    assert got(q, fast) == numbers(0, 1, 2, 3, 4)
    q.ack(slow, ids[0])
    assert got(q, slow) == numbers(0, 1)
    q.nack(slow, ids[1])
    assert got(q, slow) == numbers(0, 1, 2)
    q.check()


def test_what_is_in_flight_ends_with_its_consumer(q: World) -> None:
    sent(q, 3)
    connection = q.connect()
    q.attach(connection, "q")
    gone = q.state.connections[connection]
    assert gone.shown_bytes == gone.unacked_bytes > 0
    q.close(connection, reasons.DISCONNECTED)
    assert gone.unacked_bytes == 0
    assert kinds(q, events.SEEN) == []
    again = q.attach(q.connect(), "q")
    assert [(d.body, d.attempt, d.redelivered) for d in q.deliveries if d.consumer == again] == [
        (b"0", 1, False), (b"1", 1, False), (b"2", 1, False),
    ]  # fmt: skip
    q.check()


def test_a_consumer_that_leaves_with_much_is_detached_in_slices(q: World) -> None:
    sent(q, 300)
    consumer = q.attach(q.connect(), "q")
    parts = 0
    while True:
        q.broker.budget.allow(60)
        answer = q.handle(c.Detach(consumer))
        q.turn()
        parts += 1
        if isinstance(answer, int):
            break
    assert parts > 3
    q.check()


def test_a_connection_with_too_much_to_settle_waits(q: World) -> None:
    ids = sent(q, 100)
    connection = q.connect()
    q.state.connections[connection].unacked_max = 10 * 512
    consumer = q.attach(connection, "q")
    assert len(got(q, consumer)) == 10
    for message in ids[:5]:
        q.ack(consumer, message)
    assert len(got(q, consumer)) >= 13
    q.check()


def test_priorities_and_filters_hold_for_each_reader(q: World) -> None:
    q.send("q", b"low", priority=1)
    q.send("q", b"high", priority=9, headers={"kind": "big"})
    q.send("q", b"mid", headers={"kind": "big"})
    every = q.attach(q.connect(), "q")
    some = q.attach(q.connect(), "q", filter="kind=big")
    assert got(q, every) == [b"high", b"mid", b"low"]
    assert got(q, some) == [b"high", b"mid"]
    q.send("q", b"new", priority=9)
    assert got(q, every)[-1] == b"new"
    q.check()


def test_expiry_and_purge_remove(q: World) -> None:
    q.send("q", b"short", expires=q.now // 1000 + 10)
    sent(q, 2)
    first = q.attach(q.connect(), "q")
    q.sleep(1)
    second = q.attach(q.connect(), "q")
    assert got(q, first) == [b"short", b"0", b"1"]
    assert got(q, second) == numbers(0, 1)
    q.ok(c.PurgeQueue("q"))
    assert q.queue("q").message_count == 0
    third = q.attach(q.connect(), "q")
    assert got(q, third) == []
    # A shown message can be settled although it is gone.
    q.ack(first, q.deliveries[0].message)
    q.check()


def test_a_scheduled_message_is_read_once_when_it_is_due(q: World) -> None:
    q.send("q", b"later", due=q.now // 1000 + 1000)
    consumer = q.attach(q.connect(), "q")
    sent(q, 2)
    q.sleep(2)
    q.ok(c.DeliverDue(10))
    sent(q, 1, 2)
    assert got(q, consumer) == [b"0", b"1", b"later", b"2"]
    later = q.attach(q.connect(), "q")
    assert got(q, later) == [b"later", b"0", b"1", b"2"]
    q.check()


def test_an_exclusive_one_shows_itself_to_one_consumer(world: World) -> None:
    world.ok(create_queue("q", "q", non_destructive=True, exclusive=True))
    sent(world, 2)
    first = world.attach(world.connect(), "q")
    second = world.attach(world.connect(), "q")
    assert (got(world, first), got(world, second)) == (numbers(0, 1), [])
    world.detach(first)
    assert got(world, second) == numbers(0, 1)
    world.check()


def test_it_may_become_an_ordinary_queue_and_again_one_that_is_read(q: World) -> None:
    ids = sent(q, 2)
    consumer = q.attach(q.connect(), "q")
    q.ok(c.UpdateQueue("q", {"non_destructive": False}))
    assert got(q, consumer) == numbers(0, 1, 0, 1)
    for _ in range(2):
        q.ack(consumer, ids[0])
    assert q.bodies("q") == numbers(1)
    q.ok(c.UpdateQueue("q", {"non_destructive": True}))
    q.nack(consumer, ids[1])
    assert got(q, consumer)[4:] == []
    q.ack(consumer, ids[1])
    later = q.attach(q.connect(), "q")
    assert got(q, later) == numbers(1)
    q.check()


def test_without_acknowledgement_nothing_is_remembered(q: World) -> None:
    sent(q, 2)
    consumer = q.attach(q.connect(), "q", acknowledges=False)
    assert got(q, consumer) == numbers(0, 1)
    assert not q.state.consumers[consumer].shown
    assert len(kinds(q, events.SHOWN)) == 2
    q.check()


def test_the_setting_is_for_new_queues_of_all_kinds(world: World) -> None:
    world.settings(all={"default_non_destructive": True})
    sent(world, 1)
    world.ok(create_queue("made", "made"))
    connection = world.connect()
    world.attach(connection, "news", routing_type=MULTICAST, durable_name="d")
    for name in ("q", "made", "dsub.d"):
        assert world.queue(name).definition.non_destructive
    world.restart()
    assert world.queue("q").definition.non_destructive


def test_after_a_restart_everything_is_there_and_read_again(q: World) -> None:
    sent(q, 3)
    consumer = q.attach(q.connect(), "q")
    q.ack(consumer, q.deliveries[0].message)
    q.restart()
    again = q.attach(q.connect(), "q")
    assert got(q, again)[-3:] == numbers(0, 1, 2)
    q.check()


def test_what_was_held_and_is_released_is_read_behind_the_cursor(q: World) -> None:
    q.settings(q={"expiry_address": "late"}, late={"auto_create_queues": False})
    late = q.send("q", b"late", expires=q.now // 1000 + 10)
    consumer = q.attach(q.connect(), "q", credit_messages=0, credit_bytes=0)
    sent(q, 1)
    q.sleep(1)
    q.credit(consumer, 5)
    assert got(q, consumer) == numbers(0)
    assert q.held("q") == [b"late"]
    q.settings(q={"expiry_address": "q"})
    q.retry()
    assert got(q, consumer) == [b"0", b"late"]
    assert late in q.state.consumers[consumer].shown
    q.check()


def test_the_memory_for_what_returned_behind_a_cursor_is_bounded(q: World) -> None:
    q.settings(q={"expiry_address": "late"}, late={"auto_create_queues": False})
    count = AGAIN_MAX + 50
    soon = q.now // 1000 + 10
    for number in range(count):
        q.send("q", b"%d" % number, expires=soon)
    consumer = q.attach(q.connect(), "q", credit_messages=1, credit_bytes=0)
    q.sleep(1)
    q.ok(c.ExpireDue(count))
    sent(q, 1, count)
    q.ack(consumer, q.deliveries[0].message)
    assert got(q, consumer) == numbers(0, count)
    q.settings(q={"expiry_address": "q"})
    q.retry()
    reader = q.state.consumers[consumer]
    assert len(reader.again) == AGAIN_MAX
    q.credit(consumer, 2 * count)
    assert set(got(q, consumer)) == set(numbers(*range(count + 1)))
    assert not reader.again
    q.check()


def test_the_budget_cuts_it_and_everybody_comes_to_a_turn(q: World) -> None:
    sent(q, 2000)
    consumers = [q.attach(q.connect(), "q", credit_messages=0, credit_bytes=0) for _ in range(3)]
    for consumer in consumers:
        q.handle(c.Credit(consumer, MANY, 0))
    q.broker.budget.allow(500)
    q.turn()
    assert sum(len(got(q, each)) for each in consumers) < 2000
    for _ in range(12):
        q.broker.budget.allow(500)
        q.turn()
    assert all(len(got(q, each)) > 100 for each in consumers)
    q.broker.budget.allow(MANY)
    q.turn()
    q.turn()
    assert [len(got(q, each)) for each in consumers] == [2000] * 3
    q.check()


def test_what_is_paged_is_read_and_stays_paged() -> None:
    world = PagedWorld(1, lag=0)
    world.settings(all={"max_size_bytes": 0})
    world.ok(create_queue("q", "q", non_destructive=True))
    sent(world, 30)
    world.connect()
    for _ in range(2):
        consumer = world.attach(world.connect(), "q")
        assert got(world, consumer) == numbers(*range(30))
    world.check()
