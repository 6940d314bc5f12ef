"""Message groups: all messages of a group go to one consumer, and nobody waits for another's."""

from typing import Any

import msgspec
import pytest

from daybook.engine.commands import ExpireDue, Send, UpdateQueue
from daybook.engine.facts.events import GROUPED
from daybook.engine.facts.formats import LINES
from daybook.engine.queues import groups
from daybook.engine.queues.consumer import Connection, Consumer
from daybook.engine.queues.groups import GroupCount, Groups
from tests.support.compiled import replaces_parts
from tests.support.paged_world import PagedWorld
from tests.support.topology import create_queue, new_address, new_queue
from tests.support.world import World
from tests.support.worlds.second_format import MAPS, encode, installed

WORLDS = [World, lambda: PagedWorld(window=1, lag=2)]
SEQUENCE = "JMSXGroupSeq"


@pytest.fixture(params=WORLDS, ids=["resident", "paged"])
def world(request: pytest.FixtureRequest) -> World:
    found: World = request.param()
    return found


def send(
    world: World, body: str, name: str = "JMSXGroupID", address: str = "q", **more: Any
) -> int:
    """Send a message whose body begins with the letter of its group; none if it is a dash."""
    headers = more.pop("headers", {})
    if body[0] != "-":
        headers = {name: body[0], **headers}
        more["format"] = LINES | GROUPED
    return world.send(address, body.encode(), headers=headers, **more)


def consumers(world: World, count: int, credit: int = 100, **more: Any) -> list[int]:
    connection = world.connect()
    more = {"credit_messages": credit, "credit_bytes": 0, **more}
    return [world.attach(connection, "q", **more) for _ in range(count)]


def got(world: World, *numbers: int) -> list[str]:
    """Return the deliveries to each consumer since the last look."""
    return [" ".join(body.decode() for body in world.taken_bodies(each)) for each in numbers]


def ack_all(world: World, consumer: int) -> None:
    for message in list(world.state.consumers[consumer].unacked):
        world.ack(consumer, message)


def test_a_group_stays_with_its_consumer(world: World) -> None:
    first, second = consumers(world, 2)
    for body in ("a1", "b1", "a2", "a3", "b2", "c1", "d1", "c2"):
        send(world, body)
    assert got(world, first, second) == ["a1 a2 a3 c1 c2", "b1 b2 d1"]
    world.check()


@pytest.mark.parametrize("name", ["JMSXGroupID", "_AMQ_GROUP_ID", "message_group"])
def test_each_spelling_names_a_group(world: World, name: str) -> None:
    first, second = consumers(world, 2)
    for body in ("a1", "a2", "-1", "-2"):
        send(world, body, name)
    assert got(world, first, second) == ["a1 a2 -2", "-1"]


def test_an_empty_name_is_no_group(world: World) -> None:
    first, second = consumers(world, 2)
    for body in (b"1", b"2"):
        world.send("q", body, headers={"JMSXGroupID": ""}, format=GROUPED)
    assert got(world, first, second) == ["1", "2"]


def test_a_group_of_another_format() -> None:
    with installed():
        world = World()
        first, second = consumers(world, 2)
        world.ok(create_queue("x", "x"))
        for body in (b"1", b"2", b"3"):
            closing = {SEQUENCE: -1} if body == b"2" else {}
            world.ok(world_send(world, encode(closing, group_id="a"), body, MAPS | GROUPED))
        assert got(world, first, second) == ["1 2", "3"]


def world_send(world: World, headers: bytes, body: bytes, flags: int) -> Any:
    return Send(0, "q", headers, body, format=flags)


def test_a_busy_consumer_delays_its_group_and_nothing_else(world: World) -> None:
    slow, quick = consumers(world, 2, credit=1)
    for body in ("a1", "b1", "a2", "a3", "b2", "-1", "c1"):
        send(world, body)
    assert got(world, slow, quick) == ["a1", "b1"]
    for expected in ("b2", "-1", "c1"):
        ack_all(world, quick)
        assert got(world, slow, quick) == ["", expected]
    ack_all(world, quick)
    assert got(world, slow, quick) == ["", ""]
    ack_all(world, slow)
    assert got(world, slow, quick) == ["a2", ""]
    ack_all(world, slow)
    assert got(world, slow, quick) == ["a3", ""]
    world.check()


def test_another_consumer_gets_the_group_when_its_consumer_leaves(world: World) -> None:
    first, second = consumers(world, 2, credit=2)
    for body in ("a1", "a2", "a3", "a4"):
        send(world, body)
    assert got(world, first, second) == ["a1 a2", ""]
    world.detach(first)
    # In order, with what came back.
    assert got(world, second) == ["a1 a2"]
    ack_all(world, second)
    assert got(world, second) == ["a3 a4"]
    world.check()


def test_what_was_rejected_comes_again_to_the_same_consumer(world: World) -> None:
    first, second = consumers(world, 2)
    message = send(world, "a1")
    send(world, "b1")
    world.nack(first, message)
    assert got(world, first, second) == ["a1 a1", "b1"]


def test_a_negative_sequence_closes_a_group(world: World) -> None:
    first, second = consumers(world, 2)
    send(world, "a1")
    send(world, "a2", headers={SEQUENCE: "2"})
    send(world, "a3", headers={SEQUENCE: "-1"})
    send(world, "a4")
    assert got(world, first, second) == ["a1 a2 a3", "a4"]
    send(world, "a5", headers={"_AMQ_GROUP_SEQUENCE": "-7"})
    send(world, "a6")
    assert got(world, first, second) == ["a6", "a5"]


@pytest.mark.parametrize("value", ["0", "-0", "1", "-", "-x", "x", "", "--1"])
def test_other_sequences_close_nothing(world: World, value: str) -> None:
    first, second = consumers(world, 2)
    send(world, "a1", headers={SEQUENCE: value})
    send(world, "a2")
    assert got(world, first, second) == ["a1 a2", ""]


def test_a_closed_group_is_seen_again_by_those_who_passed_over_it(world: World) -> None:
    slow, quick = consumers(world, 2, credit=1)
    send(world, "a1")
    send(world, "b1")
    send(world, "a2", headers={SEQUENCE: "-1"})
    send(world, "a3")
    ack_all(world, quick)
    assert got(world, slow, quick) == ["a1", "b1"]
    # a2 goes to the consumer of the group, and then a3 may go to the other.
    ack_all(world, slow)
    assert got(world, slow, quick) == ["a2", "a3"]
    world.check()


def test_buckets(world: World) -> None:
    world.ok(create_queue("q", "q", group_buckets=1))
    first, second = consumers(world, 2)
    for body in ("a1", "b1", "c1", "-1", "-2"):
        send(world, body)
    assert got(world, first, second) == ["a1 b1 c1 -2", "-1"]
    assert len(world.queue("q").groups.bound) == 1  # type: ignore[union-attr]


def test_another_number_of_buckets_releases_all_groups(world: World) -> None:
    first, second = consumers(world, 2)
    for body in ("a1", "b1", "c1"):
        send(world, body)
    world.ok(UpdateQueue("q", {"group_buckets": 1}))
    for body in ("a2", "b2", "c2"):
        send(world, body)
    assert got(world, first, second) in (["a1 c1", "b1 a2 b2 c2"], ["a1 c1 a2 b2 c2", "b1"])
    assert world.state.groups.known == 1


def test_no_buckets_means_no_groups(world: World) -> None:
    world.ok(create_queue("q", "q", group_buckets=0))
    first, second = consumers(world, 2)
    for number in range(4):
        send(world, f"a{number}")
    assert got(world, first, second) == ["a0 a2", "a1 a3"]
    assert world.queue("q").groups is None


def test_the_first_of_a_group_is_marked(world: World) -> None:
    world.ok(create_queue("q", "q", group_first_key="first"))
    first, second = consumers(world, 2)
    send(world, "a1", headers={"first": "no"})
    for body in ("a2", "b1", "-1"):
        send(world, body)
    world.detach(first)
    marked = [each.body for each in world.taken() if b"first:true\n" in each.headers]
    # Again when another consumer has the group; not stored with the message.
    assert marked == [b"a1", b"b1", b"a1"]
    stored = {entry.message.body: entry.message.headers for entry in world.entries("q")}
    assert stored[b"a1"] == b"JMSXGroupID:a\nfirst:no\n"
    assert second in world.state.consumers
    world.check()


def test_the_first_of_an_exclusive_queue_is_marked(world: World) -> None:
    world.ok(create_queue("q", "q", group_first_key="first", exclusive=True))
    first, second = consumers(world, 2)
    for body in ("a1", "b1", "-1"):
        send(world, body)
    taken = world.taken(first)
    assert [b"first:true\n" in each.headers for each in taken] == [True, False, False]
    assert got(world, second) == [""]


def test_the_first_of_a_group_may_be_large(world: World) -> None:
    world.ok(create_queue("q", "q", group_first_key="first"))
    consumers(world, 1)
    world.send_large("q", [b"ab", b"c"], headers={"JMSXGroupID": "a"}, format=GROUPED)
    (delivery,) = world.taken()
    assert b"first:true\n" in delivery.headers
    (entry,) = world.entries("q")
    assert entry.message.body_bytes == 3


def test_another_consumer_takes_no_group_away(world: World) -> None:
    (first,) = consumers(world, 1)
    for body in ("a1", "b1"):
        send(world, body)
    (second,) = consumers(world, 1)
    for body in ("a2", "b2", "c1"):
        send(world, body)
    assert got(world, first, second) in (["a1 b1 a2 b2 c1", ""], ["a1 b1 a2 b2", "c1"])


def test_rebalance(world: World) -> None:
    world.ok(create_queue("q", "q", group_rebalance=True))
    (first,) = consumers(world, 1)
    for body in ("a1", "b1"):
        send(world, body)
    (second,) = consumers(world, 1)
    for body in ("a2", "b2", "a3", "b3"):
        send(world, body)
    found = got(world, first, second)
    assert sorted(found[1].split()) in (["a2", "a3"], ["b2", "b3"])
    world.check()


def test_rebalance_that_waits_for_what_is_in_flight(world: World) -> None:
    world.ok(create_queue("q", "q", group_rebalance=True, group_rebalance_pause_dispatch=True))
    (first,) = consumers(world, 1)
    for body in ("a1", "b1"):
        send(world, body)
    (second,) = consumers(world, 1)
    for body in ("a2", "b2", "-1"):
        send(world, body)
    assert got(world, first, second) == ["a1 b1", ""]
    one, other = list(world.state.consumers[first].unacked)
    world.ack(first, one)
    assert got(world, first, second) == ["", ""]
    world.ack(first, other)
    found = got(world, first, second)
    assert sorted(" ".join(found).split()) == ["-1", "a2", "b2"]
    assert all(found)
    world.check()


def test_filters_of_consumers(world: World) -> None:
    """A message that the consumer of a group refuses goes to another one, always the same."""
    connection = world.connect()
    big = world.attach(connection, "q", filter="kind=big")
    rest = [world.attach(connection, "q", filter="not kind=big") for _ in range(2)]
    for body, kind in (("a1", "big"), ("a2", "small"), ("a3", "big"), ("a4", "small"), ("a5", "x")):
        send(world, body, headers={"kind": kind})
    found = got(world, big, *rest)
    assert found[0] == "a1 a3"
    assert sorted(found[1:]) == ["", "a2 a4 a5"]
    world.check()


def test_a_higher_priority_gets_new_groups(world: World) -> None:
    (low,) = consumers(world, 1)
    send(world, "a1")
    (high,) = consumers(world, 1, priority=5)
    for body in ("a2", "b1", "b2"):
        send(world, body)
    assert got(world, low, high) == ["a1 a2", "b1 b2"]


def test_priorities_of_messages(world: World) -> None:
    slow, quick = consumers(world, 2, credit=1)
    send(world, "a1")
    send(world, "b1")
    send(world, "a2", priority=4)
    send(world, "a3", priority=9)
    ack_all(world, slow)
    assert got(world, slow, quick) == ["a1 a3", "b1"]
    ack_all(world, slow)
    assert got(world, slow, quick) == ["a2", ""]


def test_what_is_passed_over_still_expires(world: World) -> None:
    consumers(world, 2, credit=1)
    send(world, "a1")
    send(world, "a2", expires=world.now // 1000 + 1000)
    world.sleep(2)
    world.ok(ExpireDue())
    assert world.bodies("q") == [b"a1"]
    world.check()


def test_groups_begin_again_with_a_restart(world: World) -> None:
    first, _ = consumers(world, 2)
    for body in ("a1", "b1"):
        send(world, body)
    assert world.state.groups.known == 2
    world.restart()
    assert world.state.groups.known == 0
    third, fourth = consumers(world, 2, credit=1)
    assert got(world, third, fourth) == ["a1", "b1"]
    assert first not in world.state.consumers
    world.check()


def test_a_group_goes_to_one_queue_of_several() -> None:
    world = World()
    for name in ("x", "y", "z"):
        world.ok(create_queue(name, "s"))
    for group in "abcdefgh":
        for number in range(3):
            send(world, f"{group}{number}", address="s")
    bodies = {name: [body.decode() for body in world.bodies(name)] for name in "xyz"}
    places = {
        group: {name for name in "xyz" if any(body[0] == group for body in bodies[name])}
        for group in "abcdefgh"
    }
    assert all(len(found) == 1 for found in places.values())
    assert len(set.union(*places.values())) > 1


# ---- memory


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups, "KNOWN_PER_QUEUE_MAX", 2)
    monkeypatch.setattr(groups, "SHARED", 1)


@replaces_parts
@pytest.mark.usefixtures("narrow")
def test_groups_above_the_limit_share_a_place(world: World) -> None:
    first, second = consumers(world, 2)
    for body in ("a1", "b1", "c1", "d1", "e1", "a2", "b2", "c2", "d2"):
        send(world, body)
    assert got(world, first, second) == ["a1 c1 d1 e1 a2 c2 d2", "b1 b2"]
    assert len(world.queue("q").groups.bound) == 3  # type: ignore[union-attr]
    # A group that is closed gets no place of its own again: its messages must stay together.
    send(world, "a3", headers={SEQUENCE: "-1"})
    send(world, "a4")
    assert got(world, first, second) == ["a3 a4", ""]
    # One that shares a place is not closed, for others are there.
    send(world, "c3", headers={SEQUENCE: "-1"})
    send(world, "c4")
    assert got(world, first, second) == ["c3 c4", ""]
    world.check()


@replaces_parts
def test_all_queues_share_one_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    few = msgspec.structs.replace(groups.GROUPS, of_all=3, of_user=3, of_connection=3)
    monkeypatch.setattr(groups, "GROUPS", few)
    world = World()
    connection = world.connect()
    for name in ("x", "y"):
        world.attach(connection, name)
        for group in "abcdef":
            send(world, f"{group}1", address=name)
    assert world.state.groups.known <= 3 + 2 * groups.SHARED
    assert [min(world.queue(name).groups.bound) < 0 for name in ("x", "y")] == [True, True]  # type: ignore[union-attr]
    for consumer in list(world.state.consumers):
        world.detach(consumer)
    assert world.state.groups.known == 0


def test_a_broker_short_of_memory_knows_no_more_groups() -> None:
    world = World()
    consumers(world, 1)
    send(world, "a1")
    world.broker.report_objects("full", "")
    send(world, "b1")
    bound = world.queue("q").groups.bound  # type: ignore[union-attr]
    assert sorted(key >= 0 for key in bound) == [False, True]


def test_every_way_out_gives_the_count_back() -> None:
    count = GroupCount()
    one = Groups(count, -1)
    consumer = Consumer(1, Connection(1, "", "", ""), new_queue(1, "q", new_address(1, "q")))
    for key in (0, 1, 2, 3, 4, 0):
        one.bind(key, consumer, False)
    one.release(1, [])
    one.release(1, [])
    assert count.known == 4
    one.release_all([])
    assert count.known == 0


def test_scanning_a_long_queue_is_cut_by_the_budget() -> None:
    """An idle consumer passes over messages of others in slices, and only once."""
    world = World()
    (slow,) = consumers(world, 1, credit=1)
    for number in range(2_000):
        send(world, f"a{number}")
    assert got(world, slow) == ["a0"]
    consumers(world, 1)
    spent = world.broker.budget.spent
    world.turn()
    world.send("other")
    assert world.broker.budget.spent - spent < 20
    ack_all(world, slow)
    assert got(world, slow) == ["a1"]
    world.check()


def test_without_groups_nothing_waits_for_the_consumer_of_a_group(world: World) -> None:
    world.ok(create_queue("q", "q"))
    busy, idle = *consumers(world, 1, credit=1), *consumers(world, 1)
    send(world, "a1")
    send(world, "a2")
    assert got(world, busy, idle) == ["a1", ""]
    world.ok(UpdateQueue("q", {"group_buckets": 0}))
    assert got(world, busy, idle) == ["", "a2"]
    world.check()
