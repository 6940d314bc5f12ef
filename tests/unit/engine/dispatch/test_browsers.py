"""Browsers: they read what is in a queue, and take nothing."""

from typing import Any

import pytest

from daybook.engine import commands as c
from daybook.engine.effects import Detached
from daybook.engine.facts import reasons
from daybook.engine.facts.definitions import MULTICAST
from daybook.engine.facts.events import SHOWN
from daybook.engine.queues.flights import ENDED_MAX, FILL_ENTRIES
from daybook.engine.refusals import Refusal
from tests.support.paged_world import PagedWorld
from tests.support.topology import create_queue
from tests.support.world import World

END = b""
"""The body of what comes behind the last message."""


@pytest.fixture(params=[World, lambda: PagedWorld(window=1, lag=2)], ids=["resident", "paged"])
def world(request: pytest.FixtureRequest) -> World:
    """A world, and one that keeps almost nothing in memory."""
    made: World = request.param()
    return made


def browse(world: World, address: str = "orders", **values: Any) -> int:
    connection = values.pop("connection", 0) or world.connect()
    wanted = {"browses": True, "acknowledges": False, "credit_policy": 0, **values}
    return world.attach(connection, address, **wanted)


def turns(world: World, count: int) -> None:
    """Let the broker continue its work in slices."""
    for _ in range(count):
        world.turn()


def fill(world: World, *bodies: bytes, address: str = "orders", **values: Any) -> list[int]:
    return [world.send(address, body, **values) for body in bodies]


def test_it_reads_everything_in_order_and_takes_nothing(world: World) -> None:
    fill(world, b"a", b"b", b"c")
    browser = browse(world)
    assert world.taken_bodies(browser) == [b"a", b"b", b"c", END]
    assert world.ready("orders") == [b"a", b"b", b"c"]
    consumer = world.attach(world.connect(), "orders")
    assert world.taken_bodies(consumer) == [b"a", b"b", b"c"]
    assert {each.attempt for each in world.taken()} == set()
    world.check()


def test_the_end_ends_the_browser(world: World) -> None:
    fill(world, b"a")
    browser = browse(world)
    assert world.taken_bodies(browser) == [b"a", END]
    assert browser not in world.state.consumers
    assert world.state.browser_count == 0
    (detached,) = world.events_named("ConsumerDetached")
    assert detached.reason == reasons.END_OF_BROWSE
    fill(world, b"b")
    assert world.taken(browser) == []
    world.check()


def test_an_empty_queue_has_an_end_at_once_and_is_created(world: World) -> None:
    browser = browse(world)
    assert world.taken_bodies(browser) == [END]
    assert world.queue("orders").message_count == 0


def test_one_that_listens_gets_what_comes(world: World) -> None:
    fill(world, b"a")
    browser = browse(world, listens=True)
    assert world.taken_bodies(browser) == [b"a"]
    fill(world, b"b")
    fill(world, b"c", priority=9)
    assert world.taken_bodies(browser) == [b"b", b"c"]
    world.check()


def test_the_order_is_that_of_delivery(world: World) -> None:
    fill(world, b"a", b"b")
    fill(world, b"high", priority=9)
    assert world.taken_bodies(browse(world)) == [b"high", b"a", b"b", END]
    assert world.taken_bodies(browse(world, from_sequence=0)) == [b"a", b"b", b"high", END]
    world.check()


def test_two_browsers_and_a_consumer_do_not_touch_each_other(world: World) -> None:
    fill(world, b"a", b"b")
    first, second = browse(world, listens=True), browse(world)
    consumer = world.attach(world.connect(), "orders", credit_messages=1, credit_bytes=0)
    assert world.taken_bodies(consumer) == [b"a"]
    assert world.taken_bodies(first) == [b"a", b"b"]
    assert world.taken_bodies(second) == [b"a", b"b", END]
    world.check()


def test_messages_in_flight_are_read_in_their_place(world: World) -> None:
    fill(world, b"a", b"b", b"c", b"d")
    world.attach(world.connect(), "orders", credit_messages=2, credit_bytes=0)
    assert world.in_flight("orders") == [b"a", b"b"]
    assert world.taken_bodies(browse(world)) == [b"a", b"b", b"c", b"d", END]
    assert world.taken_bodies(browse(world, from_sequence=0)) == [b"a", b"b", b"c", b"d", END]
    world.check()


def test_what_returns_is_not_read_twice(world: World) -> None:
    sent = fill(world, b"a", b"b")
    consumer = world.attach(world.connect(), "orders", credit_messages=1, credit_bytes=0)
    browser = browse(world, listens=True)
    assert world.taken_bodies(browser) == [b"a", b"b"]
    world.nack(consumer, sent[0])
    world.detach(consumer)
    fill(world, b"c")
    assert world.taken_bodies(browser) == [b"c"]
    world.check()


def test_more_in_flight_than_is_taken_up_at_a_time(world: World) -> None:
    count = 2 * FILL_ENTRIES + 7
    bodies = [b"%d" % number for number in range(count)]
    fill(world, *bodies)
    consumers = [world.attach(world.connect(), "orders", credit_messages=600) for _ in range(2)]
    assert len(world.in_flight("orders")) == count
    for values in ({}, {"from_sequence": 0}):
        browser = browse(world, **values)
        turns(world, 2)
        assert world.taken_bodies(browser) == [*bodies, END]
    browser = browse(world, credit_policy=2, credit_messages=50, credit_bytes=0, listens=True)
    turns(world, 2)
    assert world.taken_bodies(browser) == bodies[:50]
    world.close(world.state.consumers[consumers[0]].connection_id)
    world.credit(browser, count)
    assert world.taken_bodies(browser) == bodies[50:]
    world.check()


@pytest.mark.parametrize("values", [{}, {"from_sequence": 0}], ids=["by priority", "in sequence"])
def test_deliveries_that_ended_are_passed(world: World, values: dict[str, Any]) -> None:
    count = 3 * ENDED_MAX
    connection = world.connect()
    consumer = world.attach(connection, "orders", credit_messages=count + 2, credit_bytes=0)
    *ended, last = fill(world, *(b"%d" % number for number in range(count + 2)))
    browser = browse(
        world, credit_policy=2, credit_messages=1, credit_bytes=0, listens=True, **values
    )
    turns(world, 3)
    assert world.taken_bodies(browser) == [b"0"]
    world.ack(consumer, ended[-1], cumulative=True)
    world.credit(browser, 5)
    assert world.taken_bodies(browser) == [b"%d" % (count + 1)]
    # They are forgotten when a reader comes upon them, and not looked at again.
    flights = world.queue("orders").flights
    assert flights is not None
    found, _ = flights.behind(world.queue("orders").entries, 4, 0, count)
    assert [entry.message.id for entry in found] == [last]
    world.check()


def test_what_is_in_flight_is_only_remembered_for_browsers(world: World) -> None:
    world.attach(world.connect(), "orders", credit_messages=5, credit_bytes=0)
    fill(world, b"one", b"two")
    queue = world.queue("orders")
    assert queue.flights is None
    for _ in range(2):
        browser = browse(world, listens=True)
        fill(world, b"more")
        assert len(world.taken_bodies(browser)) == len(queue.entries)
        world.detach(browser)
        assert queue.flights is None


def test_what_is_delivered_before_it_reads_on_is_read_in_its_place(world: World) -> None:
    bodies = [b"%d" % number for number in range(20)]
    fill(world, *bodies)
    browser = browse(world, credit_policy=2, credit_messages=2, credit_bytes=0)
    consumer = world.attach(world.connect(), "orders", credit_messages=5, credit_bytes=0)
    world.credit(browser, 2)
    world.credit(consumer, 4)
    world.credit(browser, 100)
    assert world.taken_bodies(browser) == [*bodies, END]
    world.check()


def test_what_was_acknowledged_is_gone(world: World) -> None:
    sent = fill(world, b"a", b"b", b"c")
    browser = browse(world, credit_policy=2, credit_messages=1, credit_bytes=0)
    consumer = world.attach(world.connect(), "orders", credit_messages=2, credit_bytes=0)
    world.ack(consumer, sent[1])
    world.credit(browser, 5)
    assert world.taken_bodies(browser) == [b"a", b"c", END]


def test_scheduled_and_held_messages_are_read_when_they_are_ready(world: World) -> None:
    world.settings(all={"max_delivery_attempts": 1})
    fill(world, b"later", due=world.now // 1000 + 1000)
    (held,) = fill(world, b"held")
    consumer = world.attach(world.connect(), "orders", credit_messages=1, credit_bytes=0)
    world.nack(consumer, held)
    world.detach(consumer)
    assert world.held("orders") == [b"held"]
    fill(world, b"now")
    listening = browse(world, listens=True)
    assert world.taken_bodies(browse(world)) == [b"now", END]
    assert world.taken_bodies(listening) == [b"now"]
    world.sleep(2)
    world.ok(c.DeliverDue())
    world.ok(c.ReleaseHeld("orders"))
    assert world.taken_bodies(listening) == [b"later", b"held"]
    assert world.taken_bodies(browse(world)) == [b"later", b"held", b"now", END]
    world.check()


def test_a_filter_is_its_own(world: World) -> None:
    for body, kind in ((b"a", "big"), (b"b", "small"), (b"c", "big")):
        world.send("orders", body, headers={"kind": kind})
    assert world.taken_bodies(browse(world, filter="kind=big")) == [b"a", b"c", END]
    assert world.taken_bodies(browse(world, filter="kind=none")) == [END]
    assert (
        "the filter is wrong"
        in world.refused(c.Attach(world.connect(), "orders", filter="wrong", browses=True)).text
    )


def test_expired_messages_are_never_read(world: World) -> None:
    fill(world, b"old", expires=world.now // 1000 + 1000)
    fill(world, b"new")
    world.sleep(2)
    assert world.taken_bodies(browse(world)) == [b"new", END]
    assert len(world.events_named("Expired")) == 1
    world.check()


def test_an_expired_message_in_flight_is_passed_over(world: World) -> None:
    fill(world, b"old", expires=world.now // 1000 + 1000)
    world.attach(world.connect(), "orders")
    world.sleep(2)
    assert world.taken_bodies(browse(world)) == [END]
    assert world.in_flight("orders") == [b"old"]


# ---- flow control and acknowledgements


def test_credit_bounds_what_it_gets_and_the_end_needs_none(world: World) -> None:
    fill(world, b"a", b"b", b"c")
    browser = browse(world, credit_policy=2, credit_messages=2, credit_bytes=0)
    assert world.taken_bodies(browser) == [b"a", b"b"]
    world.credit(browser, 1)
    assert world.taken_bodies(browser) == [b"c", END]
    world.check()


def test_acknowledging_gives_credit_and_takes_nothing(world: World) -> None:
    sent = fill(world, b"a", b"b", b"c")
    browser = browse(world, acknowledges=True, credit_policy=1, credit_messages=1, credit_bytes=0)
    assert world.taken_bodies(browser) == [b"a"]
    world.ack(browser, sent[0])
    assert world.taken_bodies(browser) == [b"b"]
    world.nack(browser, sent[1])
    assert world.taken_bodies(browser) == [b"c", END]
    assert browser in world.state.consumers
    world.ack(browser, sent[2])
    assert browser not in world.state.consumers
    assert world.ready("orders") == [b"a", b"b", b"c"]
    assert [each.reason for each in world.events_named("Seen")] == [6, 8, 6]
    world.check()


def test_settled_in_a_transaction(world: World) -> None:
    sent = fill(world, b"a", b"b")
    connection = world.connect()
    browser = browse(world, connection=connection, acknowledges=True)
    world.begin(connection)
    world.ack(browser, sent[1], cumulative=True, transaction="t")
    assert browser in world.state.consumers
    world.commit(connection)
    assert browser not in world.state.consumers
    assert world.ready("orders") == [b"a", b"b"]
    world.check()


def test_the_end_comes_with_credit_when_what_it_waited_for_has_left(world: World) -> None:
    sent = fill(world, b"a", b"b")
    browser = browse(world, credit_policy=2, credit_messages=1, credit_bytes=0)
    consumer = world.attach(world.connect(), "orders")
    world.ack(consumer, sent[1])
    assert world.taken_bodies(browser) == [b"a"]
    world.credit(browser, 1)
    assert world.taken_bodies(browser) == [END]


def test_a_browser_without_room_holds_nothing_back(world: World) -> None:
    hanging = browse(world, connection=world.connect(room=0))
    consumer = world.attach(world.connect(), "orders", acknowledges=False)
    fill(world, b"a", b"b")
    assert world.taken_bodies(consumer) == [b"a", b"b"]
    assert world.taken_bodies(hanging) == [END]
    world.check()


# ---- not a consumer


@pytest.mark.parametrize(
    "attributes",
    [
        {"max_consumers": 1},
        {"exclusive": True},
        {"consumers_before_dispatch": 1},
        {"group_rebalance": True},
    ],
)
def test_no_rule_about_consumers_knows_it(world: World, attributes: dict[str, Any]) -> None:
    world.ok(create_queue("orders", "orders", **attributes))
    fill(world, b"a")
    browser = browse(world, listens=True)
    consumer = world.attach(world.connect(), "orders")
    assert world.taken_bodies(browser) == [b"a"]
    assert world.taken_bodies(consumer) == [b"a"]
    world.check()


def test_a_queue_that_waits_for_consumers_can_be_read(world: World) -> None:
    world.ok(create_queue("orders", "orders", consumers_before_dispatch=1))
    fill(world, b"a")
    assert world.taken_bodies(browse(world)) == [b"a", END]
    assert world.queue("orders").waits_since == 0


def test_a_paused_queue_can_be_read(world: World) -> None:
    fill(world, b"a")
    world.ok(c.PauseQueue("orders"))
    assert world.taken_bodies(browse(world)) == [b"a", END]


def test_a_queue_for_consumers_only_takes_nothing_for_a_browser(world: World) -> None:
    world.ok(create_queue("orders", "orders", purge_on_no_consumers=True))
    browser = browse(world, listens=True)
    fill(world, b"a")
    assert world.taken(browser) == []
    world.attach(world.connect(), "orders", credit_messages=0, credit_bytes=0)
    fill(world, b"b")
    assert world.taken_bodies(browser) == [b"b"]
    world.check()


def test_a_non_destructive_queue(world: World) -> None:
    world.ok(create_queue("orders", "orders", non_destructive=True))
    fill(world, b"a")
    consumer = world.attach(world.connect(), "orders")
    browser = browse(world)
    assert world.taken_bodies(consumer) == [b"a"]
    assert world.taken_bodies(browser) == [b"a", END]
    world.check()


def test_a_browser_that_listens_keeps_its_queue(world: World) -> None:
    fill(world, b"a")
    consumer = world.attach(world.connect(), "orders", acknowledges=False)
    browser = browse(world, listens=True)
    world.detach(consumer)
    world.ok(c.DeleteUnused())
    assert "orders" in world.state.queue_by_name
    world.detach(browser)
    world.ok(c.DeleteUnused())
    assert "orders" not in world.state.queue_by_name
    world.check()


def test_the_end_of_its_queue_is_its_end(world: World) -> None:
    fill(world, b"a")
    connection = world.connect()
    browser = browse(world, connection=connection, acknowledges=True, listens=True)
    world.begin(connection)
    world.ack(browser, world.taken(browser)[0].message, transaction="t")
    world.ok(c.DeleteQueue("orders", force=True))
    (event,) = world.events_named("ConsumerDetached")
    (told,) = world.effects
    assert isinstance(told, Detached)
    assert (told.consumer.id, told.reason) == (browser, reasons.QUEUE_REMOVED)
    assert (told.gate, told.text) == (event.lsn, "queue 'orders' was deleted")
    assert browser not in world.state.consumers
    refused = world.handle(c.Commit(connection, "t"))
    assert isinstance(refused, Refusal)
    assert "ended before the commit" in refused.text
    world.check()


def test_the_queue_of_a_subscription_ends_with_it_and_its_browser_too(world: World) -> None:
    connection = world.connect()
    consumer = world.attach(connection, "news", routing_type=MULTICAST)
    queue = world.state.consumers[consumer].queue.name
    browse(world, "news", connection=connection, queue=queue, listens=True, acknowledges=True)
    world.send("news", b"a", routing_type=MULTICAST)
    refused = world.refused(c.Attach(world.connect(), "news", queue=queue, browses=True))
    assert "belongs to another connection" in refused.text
    world.close(connection)
    assert not world.state.consumers
    world.check()


# ---- topics, durable subscriptions, restarts


def test_a_topic_has_nothing_to_browse(world: World) -> None:
    command = c.Attach(world.connect(), "news", routing_type=MULTICAST, browses=True)
    assert "keeps no messages to browse" in world.refused(command).text


def test_a_durable_subscription_stays_what_it_is(world: World) -> None:
    subscriber = world.attach(world.connect(), "news", durable_name="all", filter="kind=big")
    world.detach(subscriber)
    world.send("news", b"a", headers={"kind": "big"}, routing_type=MULTICAST)
    browser = browse(world, "other", durable_name="all", filter="kind=big")
    assert world.taken_bodies(browser) == [b"a", END]
    browser = browse(world, "news", durable_name="all", filter="kind=small")
    assert world.taken_bodies(browser) == [END]
    assert world.events_named("QueueUpdated") == []
    missing = world.refused(c.Attach(world.connect(), "news", durable_name="no", browses=True))
    assert "no durable subscription" in missing.text
    world.check()


def test_deleting_a_durable_subscription_by_a_browser_of_it(world: World) -> None:
    subscriber = world.attach(world.connect(), "news", durable_name="all")
    browser = browse(world, "news", durable_name="all", listens=True)
    assert "other consumers" in world.refused(c.Detach(browser, delete_durable=True)).text
    world.detach(subscriber)
    world.detach(browser, delete_durable=True)
    assert "dsub.all" not in world.state.queue_by_name
    world.check()


def test_a_restart_ends_all_browsers(world: World) -> None:
    fill(world, b"a")
    browse(world, listens=True, acknowledges=True)
    assert world.state.browser_count == 1
    world.restart()
    assert world.state.browser_count == 0
    assert world.taken_bodies(browse(world))[-2:] == [b"a", END]
    world.check()


def test_every_reading_is_recorded(world: World) -> None:
    sent = fill(world, b"a", b"b")
    browser = browse(world)
    shown = [each.row for each in world.journal if each.row[0] == SHOWN]
    assert [(row[7], row[8]) for row in shown] == [(number, browser) for number in sent]


# ---- bounded work


def test_a_long_queue_is_read_in_slices_and_consumers_have_their_share(world: World) -> None:
    bodies = [b"%d" % number for number in range(500)]
    fill(world, *bodies)
    connection = world.connect()
    world.broker.budget.allow(50)
    browser = world.broker.handle(
        c.Attach(connection, "orders", browses=True, acknowledges=False, credit_policy=0),
        world.now,
    )
    consumer = world.broker.handle(
        c.Attach(world.connect(), "orders", acknowledges=False, credit_policy=0), world.now
    )
    rounds = 0
    while world.broker.is_touched:
        world.broker.budget.allow(100)
        world.turn()
        rounds += 1
    assert rounds > 5
    read = [each.body for each in world.deliveries if each.consumer == browser]
    taken = [each.body for each in world.deliveries if each.consumer == consumer]
    assert taken == bodies
    assert read[-1] == END
    assert read[:-1] == sorted(read[:-1], key=int)
    world.check()


def test_browsers_take_turns(world: World) -> None:
    fill(world, *[b"%d" % number for number in range(300)])
    world.broker.budget.allow(1)
    for _ in range(3):
        world.broker.handle(
            c.Attach(world.connect(), "orders", browses=True, credit_policy=0), world.now
        )
    world.broker.budget.allow(700)
    world.turn()
    counts = [len(each.shown) for each in world.state.consumers.values()]
    assert len(counts) == 3
    assert max(counts) - min(counts) <= 100
    assert min(counts) > 0
    world.broker.budget.allow(1 << 60)
    world.check()


def test_a_paged_queue_stays_where_it_is() -> None:
    world = PagedWorld(window=1, lag=2)
    bodies = [b"%d" % number for number in range(1000)]
    fill(world, *bodies)
    queue = world.queue("orders")
    before = set(queue.entries)
    assert len(before) < 10
    for values in ({}, {"from_sequence": 0}, {"filter": "kind=none"}):
        browser = browse(world, **values)
        assert set(queue.entries) <= before
        assert len(world.taken(browser)) == (1 if "filter" in values else 1001)
    world.check()


@pytest.mark.parametrize("values", [{}, {"from_sequence": 0}])
@pytest.mark.parametrize("count", [20, 150])
def test_what_is_delivered_between_two_slices_is_read_in_its_place(
    world: World, values: dict[str, int], count: int
) -> None:
    bodies = [b"%d" % number for number in range(400)]
    fill(world, *bodies[:200])
    for body in bodies[200:]:
        world.send("orders", body, headers={"kind": "late"})
    # It takes what the browser has not reached.
    consumer = world.attach(
        world.connect(), "orders", filter="kind=late", credit_messages=1, credit_bytes=0
    )
    reading: dict[str, Any] = {"browses": True, "acknowledges": False, "credit_policy": 0, **values}
    world.broker.handle(c.Attach(world.connect(), "orders", **reading), world.now)
    world.taken()
    world.broker.budget.allow(60)
    world.turn()
    assert 5 < len(world.deliveries) < 200
    world.broker.handle(c.Credit(consumer, count), world.now)
    while world.broker.is_touched:
        world.broker.budget.allow(60)
        world.turn()
    world.broker.budget.allow(1 << 60)
    read = [each.body for each in world.deliveries if each.consumer != consumer]
    assert read == [*bodies, END]
    assert len(world.in_flight("orders")) == count + 1
    world.check()


def test_a_queue_that_gets_its_history_is_read_when_it_has_all(world: World) -> None:
    world.settings(news={"retroactive_message_count": 1000})
    bodies = [b"%d" % number for number in range(300)]
    for body in bodies[:250]:
        world.send("news", body, routing_type=MULTICAST)
    world.broker.budget.allow(20)
    world.broker.handle(create_queue("q", "news", MULTICAST), world.now)
    assert world.queue("q").recall is not None
    browser = browse(world, "news", queue="q", listens=True)
    world.send("news", bodies[250], routing_type=MULTICAST)
    assert world.taken(browser) == []
    while world.broker.has_more:
        world.broker.budget.allow(50)
        world.broker.go_on(world.now)
        world.turn()
    world.broker.budget.allow(1 << 60)
    world.turn()
    for body in bodies[251:]:
        world.send("news", body, routing_type=MULTICAST)
    assert world.taken_bodies(browser) == bodies
    world.check()


def test_nobody_browses_what_belongs_to_the_broker(world: World) -> None:
    world.settings(news={"retroactive_message_count": 10})
    world.send("news", b"a", routing_type=MULTICAST)
    name = next(name for name in world.state.queue_by_name if name.endswith(".retro"))
    connection = world.connect()
    for values in ({}, {"browses": True}):
        refusal = world.refused(c.Attach(connection, "", queue=name, **values))
        assert "history" in refusal.text or "belong" in refusal.text
