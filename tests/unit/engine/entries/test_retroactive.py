"""Retroactive addresses: queues that are created later begin with what was sent before."""

from typing import Any

import pytest

from daybook.engine import commands as c
from daybook.engine.facts import events, reasons
from daybook.engine.facts.definitions import ANYCAST, MULTICAST
from daybook.engine.state import times
from daybook.engine.state.digest import digest
from daybook.engine.state.times import Times
from tests.support.paged_world import PagedWorld
from tests.support.topology import create_queue
from tests.support.world import World, fold

HISTORY = "$.artemis.internal.news.queue.multicast.retro"
PLACE = "$.artemis.internal.news.address.retro"


@pytest.fixture(params=["whole", "paged"])
def world(request: pytest.FixtureRequest) -> World:
    return World() if request.param == "whole" else PagedWorld(0, 3)


def put(world: World, first: int, last: int, address: str = "news", **values: Any) -> None:
    values.setdefault("routing_type", MULTICAST)
    for number in range(first, last + 1):
        world.now += 1000
        world.send(address, b"%d" % number, **values)


def make(world: World, name: str = "q", address: str = "news", **values: Any) -> None:
    after, since = values.pop("after", 0), values.pop("since", 0)
    command = create_queue(name, address, values.pop("routing_type", MULTICAST), **values)
    command.after, command.since = after, since
    world.ok(command)


def numbers(world: World, name: str = "q") -> list[int]:
    return [int(body) for body in world.ready(name)]


def why(world: World, name: str) -> list[str]:
    return [reasons.REASONS[each.reason][0] for each in world.events_named(name)]


def test_a_new_queue_begins_with_the_last_messages_in_order(world: World) -> None:
    world.settings(news={"retroactive_message_count": 10})
    put(world, 1, 12)
    make(world)
    put(world, 13, 14)
    assert numbers(world) == list(range(3, 15))
    make(world, "r")
    assert numbers(world, "r") == list(range(5, 15))
    assert numbers(world, HISTORY) == list(range(5, 15))
    assert world.queue("q").recalled == 10
    assert world.queue("q").added == 12
    assert why(world, "Removed") == ["ring-evicted"] * 4
    assert [event.name for event in world.journal if event.name.startswith("Recall")] == [
        "RecallStarted", *["Recalled"] * 10, "RecallEnded",
        "RecallStarted", *["Recalled"] * 10, "RecallEnded",
    ]  # fmt: skip
    world.restart()
    assert numbers(world) == list(range(3, 15))
    put(world, 15, 15)
    make(world, "s")
    assert numbers(world, "s") == list(range(6, 16))
    world.check()


def test_an_address_without_the_setting_keeps_nothing(world: World) -> None:
    world.settings(other={"retroactive_message_count": 10})
    put(world, 1, 3)
    make(world)
    assert numbers(world) == []
    assert world.state.histories == {}
    assert why(world, "Dropped") == ["no-binding"] * 3


def test_consumers_get_history_before_what_is_sent_now(world: World) -> None:
    world.settings(news={"retroactive_message_count": 3})
    put(world, 1, 5)
    one = world.attach(world.connect(), "news", routing_type=MULTICAST)
    put(world, 6, 6)
    assert world.taken_bodies(one) == [b"3", b"4", b"5", b"6"]
    two = world.attach(world.connect(), "news", routing_type=MULTICAST)
    assert world.taken_bodies(two) == [b"4", b"5", b"6"]


def test_only_what_passes_the_filter(world: World) -> None:
    world.settings(news={"retroactive_message_count": 4})
    for number in range(6):
        world.send(
            "news", b"%d" % number, routing_type=MULTICAST,
            headers={"kind": "big" if number % 2 else "small"},
        )  # fmt: skip
    make(world, filter="kind=big")
    assert numbers(world) == [3, 5]


def test_messages_of_several_priorities_are_the_last_ones_sent(world: World) -> None:
    world.settings(news={"retroactive_message_count": 4})
    for number in range(1, 8):
        put(world, number, number, priority=(number * 5) % 10)
    make(world)
    got = world.entries("q")
    assert [int(entry.message.body) for entry in got] == [4, 5, 6, 7]
    assert [entry.message.priority for entry in got] == [0, 5, 0, 5]


def test_age_and_bytes_are_limits_too(world: World) -> None:
    world.settings(news={"retroactive_max_age": 10_000}, other={"retroactive_bytes": 3 * (128 + 1)})
    put(world, 1, 3)
    world.sleep(6)
    put(world, 4, 5)
    world.sleep(5)
    make(world)
    assert numbers(world) == [4, 5]
    world.sleep(20)
    make(world, "r")
    assert numbers(world, "r") == []
    world.ok(c.ExpireDue())
    assert world.queue(HISTORY).message_count == 0
    assert set(why(world, "Removed")) == {"retroactive-max-age"}
    put(world, 1, 5, "other")
    make(world, "s", "other")
    assert numbers(world, "s") == [3, 4, 5]
    assert why(world, "Removed")[-2:] == ["retroactive-bytes"] * 2


def test_the_subscriber_chooses_where_to_begin(world: World) -> None:
    world.settings(news={"retroactive_message_count": 100})
    put(world, 1, 4)
    lsn = world.broker.lsn
    world.sleep(60)
    then = world.now // 1000
    put(world, 5, 8)
    make(world, "by-lsn", after=lsn)
    make(world, "by-time", since=then)
    make(world, "nothing", after=c.NO_HISTORY)
    make(world, "everything")
    assert numbers(world, "by-lsn") == [5, 6, 7, 8]
    assert numbers(world, "by-time") == [5, 6, 7, 8]
    assert numbers(world, "nothing") == []
    assert numbers(world, "everything") == list(range(1, 9))
    two = world.attach(
        world.connect(), "news", routing_type=MULTICAST, since=then, durable_name="two"
    )
    assert world.taken_bodies(two) == [b"5", b"6", b"7", b"8"]


def test_a_durable_subscription_gets_history_once(world: World) -> None:
    world.settings(news={"retroactive_message_count": 2})
    put(world, 1, 3)
    first = world.attach(world.connect(), "news", durable_name="one", routing_type=MULTICAST)
    for delivery in world.taken(first):
        world.ack(first, delivery.message)
    world.detach(first)
    again = world.attach(world.connect(), "news", durable_name="one", routing_type=MULTICAST)
    assert world.taken_bodies(again) == []


def test_each_anycast_queue_gets_all_of_it(world: World) -> None:
    world.settings(work={"retroactive_message_count": 3})
    put(world, 1, 5, "work", routing_type=ANYCAST)
    assert numbers(world, "work") == [1, 2, 3, 4, 5]
    make(world, "second", "work", routing_type=ANYCAST)
    assert numbers(world, "second") == [3, 4, 5]
    put(world, 6, 7, "work", routing_type=ANYCAST)
    assert sorted(numbers(world, "work") + numbers(world, "second")) == [
        1,
        2,
        3,
        3,
        4,
        4,
        5,
        5,
        6,
        7,
    ]


def test_a_typed_message_is_in_the_history_of_its_type(world: World) -> None:
    world.settings(both={"retroactive_message_count": 5})
    world.ok(c.CreateAddress("both", (ANYCAST, MULTICAST)))
    world.ok(create_queue("a", "both", ANYCAST))
    for number, routing_type in enumerate((ANYCAST, MULTICAST, None)):
        put(world, number, number, "both", routing_type=routing_type)
    make(world, "m", "both")
    make(world, "b", "both", routing_type=ANYCAST)
    assert numbers(world, "m") == [1, 2]
    assert numbers(world, "b") == [0, 2]


def test_turned_on_lowered_and_turned_off_while_the_broker_runs(world: World) -> None:
    put(world, 1, 2)
    world.settings(news={"retroactive_message_count": 5})
    put(world, 3, 8)
    assert numbers(world, HISTORY) == [4, 5, 6, 7, 8]
    world.settings(news={"retroactive_message_count": 2})
    assert numbers(world, HISTORY) == [7, 8]
    make(world)
    world.settings(news={})
    assert HISTORY not in world.state.queue_by_name
    assert PLACE not in world.state.address_by_name
    assert numbers(world) == [7, 8]
    make(world, "r")
    assert numbers(world, "r") == []
    world.check()


def test_history_ends_with_its_address(world: World) -> None:
    world.settings(news={"retroactive_message_count": 5})
    put(world, 1, 2)
    world.ok(c.DeleteAddress("news"))
    assert world.state.histories == {}
    assert PLACE not in world.state.address_by_name
    put(world, 3, 3)
    make(world)
    assert numbers(world) == [3]


def test_an_address_with_history_is_not_deleted_when_nobody_uses_it(world: World) -> None:
    world.settings(all={"retroactive_max_age": 5_000, "auto_delete_addresses_delay": 0})
    put(world, 1, 2)
    peer = world.connect()
    world.detach(world.attach(peer, "news", routing_type=MULTICAST))
    world.ok(c.DeleteUnused())
    assert "news" in world.state.address_by_name
    world.sleep(10)
    world.ok(c.ExpireDue())
    world.ok(c.DeleteUnused())
    assert "news" not in world.state.address_by_name
    assert world.state.histories == {}


def test_a_history_can_be_purged_and_its_messages_removed(world: World) -> None:
    world.settings(news={"retroactive_message_count": 5})
    put(world, 1, 4)
    world.ok(c.ActOnMessages(HISTORY, "remove", message=world.entries(HISTORY)[0].message.id))
    make(world)
    assert numbers(world) == [2, 3, 4]
    world.ok(c.PurgeQueue(HISTORY))
    make(world, "r")
    assert numbers(world, "r") == []
    assert numbers(world) == [2, 3, 4]
    put(world, 5, 5)
    make(world, "s")
    assert numbers(world, "s") == [5]


def test_only_the_broker_uses_a_history(world: World) -> None:
    world.settings(news={"retroactive_message_count": 5})
    put(world, 1, 2)
    peer = world.connect()
    world.ok(create_queue("q", "other"))
    for command in (
        c.Attach(peer, PLACE),
        c.Attach(peer, PLACE, queue=HISTORY),
        c.Attach(peer, "", queue=HISTORY),
        c.Send(peer, PLACE, b"", b"x", queue=HISTORY),
        c.Send(peer, "$.artemis.internal.x", b"", b"x"),
        c.UpdateQueue(HISTORY, {"max_consumers": -1}),
        c.DeleteQueue(HISTORY, force=True),
        c.ActOnMessages(HISTORY, "priority", priority=9),
        c.ActOnMessages("q", "move", target=HISTORY),
        create_queue("$.artemis.internal.mine", "other"),
        create_queue("mine", "$.artemis.internal.other"),
    ):
        world.refused(command)
    world.send(PLACE, b"9")
    assert why(world, "Dropped") == ["no-matching-filter"]
    assert numbers(world, HISTORY) == [1, 2]


def test_a_history_does_not_count_as_a_route(world: World) -> None:
    world.settings(
        news={
            "retroactive_message_count": 5, "dead_letter_address": "dead",
            "send_to_dla_on_no_route": True,
        }
    )  # fmt: skip
    put(world, 1, 1)
    assert numbers(world, "dead") == [1]
    assert numbers(world, HISTORY) == [1]
    assert world.state.address_by_name["news"].unrouted == 1
    assert world.state.address_by_name["news"].routed == 0


def test_expired_messages_are_not_recalled_and_history_copies_none(world: World) -> None:
    world.settings(news={"retroactive_message_count": 5, "expiry_address": "late"})
    put(world, 1, 1, expires=world.now // 1000 + 1000)
    put(world, 2, 2)
    make(world, "early")
    world.sleep(5)
    make(world)
    assert numbers(world) == [2]
    world.ok(c.ExpireDue())
    assert numbers(world, HISTORY) == [2]
    assert numbers(world, "early") == [2]
    assert numbers(world, "late") == [1]


def test_scheduled_messages_are_scheduled_in_the_new_queue_too(world: World) -> None:
    world.settings(news={"retroactive_message_count": 2})
    put(world, 1, 1)
    put(world, 2, 2, due=world.now // 1000 + 10_000)
    put(world, 3, 3)
    make(world)
    assert numbers(world) == [3]
    assert world.queue("q").scheduled_count == 1
    world.sleep(20)
    world.ok(c.DeliverDue())
    assert numbers(world) == [2, 3]
    make(world, "r")
    assert numbers(world, "r") == [2, 3]


def test_non_persistent_history_ends_with_the_broker(world: World) -> None:
    world.settings(news={"retroactive_message_count": 5})
    put(world, 1, 2, persistent=False)
    put(world, 3, 3)
    make(world)
    assert numbers(world) == [1, 2, 3]
    world.restart()
    assert numbers(world) == [3]
    make(world, "r")
    assert numbers(world, "r") == [3]


def test_large_messages(world: World) -> None:
    world.settings(news={"retroactive_message_count": 5})
    world.send_large("news", [b"ab", b"cd"], routing_type=MULTICAST)
    make(world)
    (entry,) = world.entries("q")
    assert world.large_body(entry.message) == b"abcd"


def test_a_last_value_queue_keeps_the_newest(world: World) -> None:
    world.settings(news={"retroactive_message_count": 10})
    for number in range(6):
        world.send("news", b"%d" % number, routing_type=MULTICAST, headers={"k": str(number % 2)})
    make(world, last_value_key="k")
    assert numbers(world) == [4, 5]
    world.send("news", b"6", routing_type=MULTICAST, headers={"k": "1"})
    assert numbers(world) == [4, 6]
    world.restart()
    world.send("news", b"7", routing_type=MULTICAST, headers={"k": "0"})
    assert numbers(world) == [6, 7]


def test_a_ring_and_a_queue_that_is_read(world: World) -> None:
    world.settings(news={"retroactive_message_count": 10})
    put(world, 1, 5)
    make(world, "ring", ring_size=2)
    make(world, "read", non_destructive=True)
    assert numbers(world, "ring") == [4, 5]
    peer = world.connect()
    for _ in range(2):
        reader = world.attach(peer, "news", queue="read")
        assert world.taken_bodies(reader) == [b"1", b"2", b"3", b"4", b"5"]


def test_queues_that_take_nothing_get_no_history(world: World) -> None:
    world.settings(news={"retroactive_message_count": 10})
    put(world, 1, 5)
    make(world, "off", enabled=False)
    make(world, "purged", purge_on_no_consumers=True)
    assert numbers(world, "off") == numbers(world, "purged") == []


def test_a_wildcard_subscription_gets_the_history_of_all_it_matches(world: World) -> None:
    world.settings(all={"retroactive_message_count": 2})
    for number, address in enumerate(("a.x", "b.x", "a.y", "a.x", "a.x", "b.x")):
        put(world, number, number, address)
    consumer = world.attach(world.connect(), "a.*", routing_type=MULTICAST)
    put(world, 6, 6, "a.z")
    assert world.taken_bodies(consumer) == [b"2", b"3", b"4", b"6"]


def test_transactions_and_diverts_enter_history(world: World) -> None:
    world.settings(all={"retroactive_message_count": 5})
    peer = world.connect()
    world.begin(peer)
    put(world, 1, 2, connection=peer, transaction="t")
    assert HISTORY not in world.state.queue_by_name
    world.commit(peer)
    put(world, 3, 3)
    make(world)
    assert numbers(world) == [1, 2, 3]


def test_a_message_that_is_full_elsewhere_is_not_history() -> None:
    world = World()
    world.settings(
        news={
            "retroactive_message_count": 5, "max_size_messages": 2, "address_full_policy": "DROP",
        }
    )  # fmt: skip
    make(world)
    put(world, 1, 4)
    assert numbers(world) == [1, 2]
    assert numbers(world, HISTORY) == [1, 2]


def test_a_history_never_blocks_producers() -> None:
    world = World()
    world.settings(
        all={"retroactive_message_count": 5, "max_size_messages": 2, "address_full_policy": "FAIL"}
    )
    put(world, 1, 9)
    assert numbers(world, HISTORY) == [5, 6, 7, 8, 9]
    assert world.state.address_by_name[PLACE].paging


def slices(world: World, units: int) -> int:
    count = 0
    while world.broker.has_more:
        world.broker.budget.allow(units)
        world.broker.go_on(world.now)
        world.turn()
        count += 1
    world.broker.budget.allow(1 << 62)
    world.turn()
    return count


@pytest.mark.parametrize("is_killed", [False, True])
def test_a_long_recall_goes_on_in_slices_while_messages_come(world: World, is_killed: bool) -> None:
    world.settings(news={"retroactive_message_count": 100})
    put(world, 1, 150)
    world.broker.budget.allow(10)
    make(world)
    peer = world.connect()
    consumer = world.attach(peer, "news", queue="q")
    before = world.queue("q").recalled
    assert 0 < before < 100
    put(world, 151, 160)
    assert world.queue(HISTORY).message_count > 100, "the queue is still to get some of it"
    world.check()
    assert world.taken(consumer) == []
    if is_killed:
        world.restart()
        consumer = world.attach(world.connect(), "news", queue="q")
    assert slices(world, 7) > 5
    assert [int(body) for body in world.taken_bodies(consumer)] == list(range(51, 161))
    assert world.queue(HISTORY).message_count == 100
    assert digest(fold(world.journal)) == digest(world.state)


def test_two_recalls_at_once_get_the_same_number(world: World) -> None:
    world.settings(news={"retroactive_message_count": 50})
    put(world, 1, 60)
    world.broker.budget.allow(10)
    make(world)
    put(world, 61, 70)
    world.broker.budget.allow(10)
    make(world, "r")
    slices(world, 7)
    assert numbers(world) == list(range(11, 71))
    assert numbers(world, "r") == list(range(21, 71))


def test_what_ends_a_recall(world: World) -> None:
    world.settings(news={"retroactive_message_count": 100})
    put(world, 1, 100)
    for name in ("purged", "deleted", "without"):
        world.broker.budget.allow(10)
        make(world, name)
    put(world, 101, 102)
    world.broker.budget.allow(1 << 62)
    world.ok(c.PurgeQueue("purged", limit=1000))
    world.ok(c.DeleteQueue("deleted", force=True))
    assert "RecallEnded" in [event.name for event in world.journal[-110:]]
    world.ok(c.PurgeQueue(HISTORY, limit=1000))
    slices(world, 50)
    assert numbers(world, "purged") == []
    got = numbers(world, "without")
    assert got[-2:] == [101, 102]
    assert 2 < len(got) < 100
    assert world.state.recalling == {}


def test_marks_of_the_time_are_few_and_near() -> None:
    marks = Times()
    now = 1_000_000_000
    for lsn in range(1, 60_000):
        now += times.GRAIN_US
        assert marks.needs_mark(now)
        marks.add(now, lsn)
        assert len(marks.marks) <= times.MARKS_MAX
    for age in (0, 1, 10, 1000, 50_000):
        then = now - age * times.GRAIN_US
        exact = 59_999 - age
        assert exact <= marks.since(then) <= exact + age // 64 + 1
        assert exact - age // 64 - 1 <= marks.before(then, now) <= exact
    assert marks.since(now + 1) == times.NEVER
    assert marks.before(0, now) == 0
    assert marks.before(now + 60_000_000, now + 61_000_000) == times.NEVER
    marks.add(now - 500, 60_000)
    assert marks.marks[-1] == (now - 500, 60_000)
    assert sorted(marks.marks) == marks.marks


def test_a_damaged_journal_is_told() -> None:
    world = World()
    world.settings(news={"retroactive_message_count": 5})
    put(world, 1, 2)
    make(world)
    for name in ("Recalled", "RecallEnded"):
        journal = [event for event in world.journal if event.name != "RecallStarted"]
        assert name in {event.name for event in journal}
    state = fold([e for e in world.journal if e.row[events.KIND] != events.RECALL_ENDED])
    assert state.queue_by_name["q"].recall is not None


def test_a_recall_continues_after_a_kill_while_nothing_is_sent(world: World) -> None:
    world.settings(news={"retroactive_message_count": 100})
    put(world, 1, 50)
    world.broker.budget.allow(10)
    make(world)
    assert 0 < world.queue("q").recalled < 50
    world.restart()
    slices(world, 7)
    assert numbers(world) == list(range(1, 51))
