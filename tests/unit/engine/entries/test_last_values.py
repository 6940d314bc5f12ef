"""Last value queues: of the messages with one key the newest stays."""

from typing import Any

import pytest

from daybook.engine import commands as c
from daybook.engine.facts import events, reasons
from daybook.engine.facts.definitions import MULTICAST
from daybook.engine.queues.latest import PRUNE_MIN, Latest
from tests.support.paged_world import PagedWorld
from tests.support.topology import create_queue
from tests.support.world import World


def put(world: World, body: str, key: str | None = "k", **values: Any) -> int:
    headers = {"ticker": key} if key is not None else {}
    return world.send("q", body.encode(), headers=headers, **values)


def removed(world: World) -> list[tuple[int, int, int]]:
    """Reason, message, and the event that replaced it."""
    rows = [each.row for each in world.journal if each.name == "Removed"]
    return [(row[events.REASON], row[events.MESSAGE], row[events.RELATED]) for row in rows]


@pytest.fixture
def q(world: World) -> World:
    world.ok(create_queue("q", "q", last_value_key="ticker"))
    return world


def test_a_newer_message_takes_the_place_of_the_older_one_at_the_end(q: World) -> None:
    first = put(q, "a", "A")
    put(q, "b", "B")
    put(q, "none", None)
    newer = put(q, "A2", "A")
    assert q.ready("q") == [b"b", b"none", b"A2"]
    assert removed(q) == [(reasons.REPLACED, first, newer)]
    assert q.queue("q").replaced == 1
    put(q, "none too", None)
    assert q.queue("q").message_count == 4
    q.check()


def test_the_key_by_default(world: World) -> None:
    world.ok(create_queue("q", "q", last_value=True))
    for body, name in ((b"1", "_AMQ_LVQ_NAME"), (b"2", "_AMQ_LVQ_NAME"), (b"3", "ticker")):
        world.send("q", body, headers={name: "A"})
    assert world.ready("q") == [b"2", b"3"]
    world.check()


def test_only_the_own_key_of_a_queue_counts(q: World) -> None:
    for body in (b"1", b"2"):
        q.send("q", body, headers={"_AMQ_LVQ_NAME": "A"})
    assert q.ready("q") == [b"1", b"2"]


def test_several_queues_compare_different_keys(world: World) -> None:
    for name, key in (("one", "x"), ("two", "y"), ("all", "")):
        world.ok(create_queue(name, "news", MULTICAST, last_value_key=key))
    for x, y in ("aa", "ab", "bb"):
        world.send("news", (x + y).encode(), headers={"x": x, "y": y})
    assert world.ready("one") == [b"ab", b"bb"]
    assert world.ready("two") == [b"aa", b"bb"]
    assert len(world.ready("all")) == 3
    world.check()


def test_an_acknowledged_value_is_gone_and_the_next_replaces_nothing(q: World) -> None:
    put(q, "1")
    consumer = q.attach(q.connect(), "q")
    q.ack(consumer, q.deliveries[0].message)
    q.detach(consumer)
    put(q, "2")
    assert q.ready("q") == [b"2"]
    assert removed(q) == []
    q.check()


def test_one_in_flight_that_is_acknowledged_leaves_so(q: World) -> None:
    first = put(q, "1")
    consumer = q.attach(q.connect(), "q", credit_messages=1, credit_bytes=0)
    put(q, "2")
    assert q.in_flight("q") == [b"1"]
    q.ack(consumer, first)
    assert removed(q) == []
    assert [each.body for each in q.deliveries] == [b"1", b"2"]
    q.check()


@pytest.mark.parametrize("end", ["close", "nack", "restart", "dead", "lost"])
def test_one_in_flight_that_returns_leaves_if_it_was_replaced(q: World, end: str) -> None:
    q.settings(q={"max_delivery_attempts": 1 if end == "dead" else 10, "redelivery_delay": 50})
    first = put(q, "1")
    connection = q.connect()
    consumer = q.attach(connection, "q", credit_messages=1, credit_bytes=0)
    second = put(q, "2")
    if end == "restart":
        q.restart()
    elif end in ("nack", "dead"):
        q.nack(consumer, first)
    else:
        q.close(connection, reasons.CLOSED if end == "close" else reasons.DISCONNECTED)
    assert q.bodies("q") == [b"2"]
    assert removed(q) == [(reasons.REPLACED, first, second)]
    q.check()


def test_it_leaves_also_if_the_newer_one_left_before(q: World) -> None:
    first = put(q, "1")
    slow = q.attach(q.connect(), "q", credit_messages=1, credit_bytes=0)
    second = put(q, "2")
    fast = q.attach(q.connect(), "q")
    q.ack(fast, second)
    q.detach(fast)
    q.nack(slow, first)
    assert q.bodies("q") == []
    q.check()


def test_one_that_returns_and_was_not_replaced_stays_and_is_replaced_then(q: World) -> None:
    first = put(q, "1")
    consumer = q.attach(q.connect(), "q", credit_messages=1, credit_bytes=0)
    q.nack(consumer, first)
    q.detach(consumer)
    assert q.ready("q") == [b"1"]
    put(q, "2")
    assert q.ready("q") == [b"2"]
    q.check()


def test_one_that_waits_for_its_redelivery_is_replaced_at_once(q: World) -> None:
    q.settings(q={"redelivery_delay": 5000})
    first = put(q, "1")
    consumer = q.attach(q.connect(), "q", credit_messages=1, credit_bytes=0)
    q.nack(consumer, first)
    q.detach(consumer)
    assert q.queue("q").scheduled_count == 1
    put(q, "2")
    assert q.bodies("q") == [b"2"]
    q.check()


def test_a_held_one_is_replaced(q: World) -> None:
    q.settings(q={"expiry_address": "late"}, late={"auto_create_queues": False})
    put(q, "1", expires=q.now // 1000 + 10)
    q.sleep(1)
    q.ok(c.ExpireDue(10))
    assert q.held("q") == [b"1"]
    put(q, "2")
    assert q.bodies("q") == [b"2"]
    q.check()


def test_the_value_itself_may_expire(q: World) -> None:
    put(q, "1")
    put(q, "2", expires=q.now // 1000 + 10)
    q.sleep(1)
    q.ok(c.ExpireDue(10))
    assert q.bodies("q") == []
    put(q, "3")
    assert q.bodies("q") == [b"3"]
    q.check()


def test_a_non_destructive_one_always_has_the_newest_of_each_key(world: World) -> None:
    world.ok(create_queue("q", "q", last_value_key="ticker", non_destructive=True))
    for number in range(6):
        put(world, str(number), "AB"[number % 2])
    first = world.attach(world.connect(), "q")
    put(world, "new", "A")
    second = world.attach(world.connect(), "q")
    assert [each.body for each in world.deliveries if each.consumer == first] == [
        b"4",
        b"5",
        b"new",
    ]
    assert [each.body for each in world.deliveries if each.consumer == second] == [b"5", b"new"]
    world.check()


def test_a_scheduled_message_is_no_value_before_its_time(q: World) -> None:
    soon = q.now // 1000 + 1000
    put(q, "later", due=soon)
    scheduled = q.queue("q").newest
    first = put(q, "1")
    second = put(q, "2")
    assert removed(q) == [(reasons.REPLACED, first, second)]
    assert q.queue("q").scheduled_count == 1
    q.sleep(2)
    q.ok(c.DeliverDue(10))
    assert q.bodies("q") == [b"later"]
    put(q, "3")
    assert q.bodies("q") == [b"3"]
    assert [message for _, message, _ in removed(q)] == [first, second, scheduled]
    q.check()


def test_a_value_in_delivery_is_replaced_by_one_that_is_due(q: World) -> None:
    put(q, "later", due=q.now // 1000 + 1000)
    first = put(q, "1")
    consumer = q.attach(q.connect(), "q", credit_messages=1, credit_bytes=0)
    q.sleep(2)
    q.ok(c.DeliverDue(10))
    q.nack(consumer, first)
    assert q.bodies("q") == [b"later"]
    q.check()


def test_a_transaction_replaces_at_its_commit(q: World) -> None:
    put(q, "1")
    connection = q.connect()
    q.begin(connection)
    put(q, "2", connection=connection, transaction="t")
    put(q, "3", connection=connection, transaction="t")
    assert q.ready("q") == [b"1"]
    q.commit(connection)
    assert q.ready("q") == [b"3"]
    q.check()


def test_a_large_message_is_a_value_too(q: World) -> None:
    put(q, "1")
    q.send_large("q", [b"big", b"ger"], headers={"ticker": "k"})
    assert q.queue("q").message_count == 1
    put(q, "3")
    assert q.ready("q") == [b"3"]
    q.check()


def test_settings_make_queues_that_do_not_say_it_themselves(world: World) -> None:
    world.settings(all={"default_last_value_key": "ticker"}, own={"default_last_value_queue": True})
    put(world, "1")
    put(world, "2")
    assert world.ready("q") == [b"2"]
    world.ok(create_queue("own", "own", last_value_key="mine"))
    assert world.queue("own").definition.keyed_by == "mine"
    world.ok(create_queue("made", "made"))
    assert world.queue("made").definition.keyed_by == "ticker"
    world.restart()
    put(world, "3")
    assert world.ready("q") == [b"3"]
    world.check()


@pytest.mark.parametrize("lag", [0, 5, 1000])
def test_paged_messages_are_found_by_their_key(lag: int) -> None:
    world = PagedWorld(1, lag=lag)
    world.ok(create_queue("q", "q", last_value_key="ticker"))
    for number in range(200):
        put(world, str(number), str(number % 50))
    assert world.ready("q") == [b"%d" % number for number in range(150, 200)]
    world.restart()
    put(world, "new", "7")
    assert world.ready("q") == [b"%d" % n for n in range(150, 200) if n % 50 != 7] + [b"new"]
    world.check()


def test_keys_that_the_store_has_leave_memory() -> None:
    world = PagedWorld(1, lag=0)
    world.ok(create_queue("q", "q", last_value_key="ticker"))
    for number in range(10 * PRUNE_MIN):
        put(world, str(number), str(number))
    assert len(world.queue("q").latest or ()) <= PRUNE_MIN
    assert world.queue("q").message_count == 10 * PRUNE_MIN


def test_without_a_store_keys_of_messages_that_left_are_forgotten(q: World) -> None:
    consumer = q.attach(q.connect(), "q")
    for number in range(10 * PRUNE_MIN):
        q.ack(consumer, put(q, "x", str(number)))
    assert len(q.queue("q").latest or ()) <= PRUNE_MIN
    q.check()


def test_a_key_is_kept_as_long_as_an_older_message_may_return() -> None:
    latest = Latest()
    for number in range(4):
        latest.note(bytes([number]), number, 10 + number)
    latest.forget_gone({1}, 12)
    assert [message for _, message, _ in latest.items()] == [1, 3]


def test_the_event_says_the_key(q: World) -> None:
    put(q, "1", "A")
    detail = next(each.decoded for each in q.journal if each.name == "Routed")
    assert detail.last_values == {q.queue("q").id: "A"}
