"""Message groups by consistent hashing: sticky, in order, with one consumer at a time."""

from collections import Counter
from typing import Any

import pytest

from daybook.engine.commands import ResetGroups, UpdateQueue
from daybook.engine.facts.events import GROUPED
from daybook.engine.facts.formats import LINES
from daybook.engine.queues import hashed_groups
from daybook.engine.queues.groups import key_of_name
from daybook.engine.queues.hashed_groups import HashedGroups, score_of
from daybook.engine.refusals import Code, Refusal
from tests.support.compiled import replaces_parts
from tests.support.paged_world import PagedWorld
from tests.support.topology import create_queue
from tests.support.world import World

WORLDS = [World, lambda: PagedWorld(window=1, lag=2)]


@pytest.fixture(params=WORLDS, ids=["resident", "paged"])
def world(request: pytest.FixtureRequest) -> World:
    found: World = request.param()
    found.ok(create_queue("q", "q", group_hashing=True))
    return found


def send(world: World, group: str, body: str = "", **more: Any) -> int:
    headers = {"message_group": group, **more.pop("headers", {})}
    more["format"] = LINES | GROUPED
    return world.send("q", (body or group).encode(), headers=headers, **more)


def attach(world: World, count: int = 1, credit: int = 1000, **more: Any) -> list[int]:
    more = {"credit_messages": credit, "credit_bytes": 0, **more}
    return [world.attach(world.connect(), "q", **more) for _ in range(count)]


def got(world: World, consumer: int) -> list[str]:
    return [body.decode() for body in world.taken_bodies(consumer)]


def ack_all(world: World, *consumers: int) -> None:
    for consumer in consumers:
        for message in list(world.state.consumers[consumer].unacked):
            world.ack(consumer, message)


def owners(world: World, consumers: list[int], count: int = 200) -> dict[str, int]:
    """Send a message of each of many groups, and acknowledge all: the consumer by group."""
    for number in range(count):
        send(world, f"g{number}")
    found = {body: each for each in consumers for body in got(world, each)}
    ack_all(world, *consumers)
    assert len(found) == count
    return found


def hashed(world: World) -> HashedGroups:
    found = world.state.queue_by_name["q"].groups
    assert isinstance(found, HashedGroups)
    return found


def owned(consumers: list[int], wanted: int) -> str:
    """The name of a group that belongs to one of these consumers."""
    names = (f"g{number}" for number in range(1000))
    return next(
        name
        for name in names
        if max(consumers, key=lambda each: score_of(key_of_name(name), each)) == wanted
    )


def test_a_group_is_sticky_and_idle_groups_need_no_memory(world: World) -> None:
    consumers = attach(world, 4)
    first = owners(world, consumers)
    assert owners(world, consumers) == first
    shares = Counter(first.values())
    assert set(shares) == set(consumers)
    assert max(shares.values()) < 2 * min(shares.values())
    groups = hashed(world)
    assert not groups.bound
    assert not groups.names
    assert (world.state.groups.flying, world.state.groups.known) == (0, 0)
    world.check()


def test_a_consumer_that_comes_takes_its_share_and_nothing_else_moves(world: World) -> None:
    consumers = attach(world, 4)
    before = owners(world, consumers)
    (late,) = attach(world)
    after = owners(world, [*consumers, late])
    moved = {group for group in before if before[group] != after[group]}
    assert {after[group] for group in moved} == {late}
    assert 20 < len(moved) < 65
    world.detach(late)
    assert owners(world, consumers) == before
    world.check()


def test_only_groups_that_move_wait_for_what_is_in_flight(world: World) -> None:
    consumers = attach(world, 2)
    names = [f"g{number}" for number in range(30)]
    for group in names:
        send(world, group, f"{group} 1")
    before = {each: set(got(world, each)) for each in consumers}
    (late,) = attach(world)
    for group in names:
        send(world, group, f"{group} 2")
    stayed = {each.split()[0] for consumer in consumers for each in got(world, consumer)}
    assert got(world, late) == []
    moved = set(names) - stayed
    assert 3 < len(moved) < 20
    # Each of them goes as soon as its own message is settled.
    for consumer in consumers:
        for message in list(world.state.consumers[consumer].unacked):
            body = world.state.queue_by_name["q"].entries[message].message.body.decode()
            world.ack(consumer, message)
            group, _ = body.split()
            assert got(world, late) == ([f"{group} 2"] if group in moved else [])
    assert sum(len(each) for each in before.values()) == len(names)
    world.check()


def test_the_order_within_a_group_is_kept_when_it_moves(world: World) -> None:
    (first,) = attach(world, credit=2)
    for number in range(6):
        send(world, "a", str(number))
    assert got(world, first) == ["0", "1"]
    late = attach(world, 8)
    assert not any(got(world, each) for each in late)
    ack_all(world, first)
    found = [each for each in late if (bodies := got(world, each)) and bodies == list("2345")]
    assert len(found) == 1
    world.check()


def test_a_consumer_that_leaves_gives_its_groups_in_order(world: World) -> None:
    consumers = attach(world, 3, credit=2)
    group = owned(consumers, consumers[1])
    for number in range(4):
        send(world, group, str(number))
    assert got(world, consumers[1]) == ["0", "1"]
    world.detach(consumers[1])
    rest = [consumers[0], consumers[2]]
    (heir,) = [each for each in rest if world.state.consumers[each].unacked]
    assert got(world, heir) == ["0", "1"]
    ack_all(world, heir)
    assert got(world, heir) == ["2", "3"]
    world.check()


def test_a_busy_consumer_delays_its_groups_and_nothing_else(world: World) -> None:
    busy, quick = attach(world, 2, credit=1)
    found = {each: owned([busy, quick], each) for each in (busy, quick)}
    send(world, found[busy], "b1")
    for body in ("b2", "b3"):
        send(world, found[busy], body)
    send(world, found[quick], "q1")
    assert (got(world, busy), got(world, quick)) == (["b1"], ["q1"])
    ack_all(world, quick)
    send(world, found[quick], "q2")
    assert (got(world, busy), got(world, quick)) == ([], ["q2"])
    for body in ("b2", "b3"):
        ack_all(world, busy)
        assert got(world, busy) == [body]
    world.check()


def test_what_waited_for_a_busy_consumer_that_leaves_goes_to_others(world: World) -> None:
    consumers = attach(world, 3, credit=1)
    sent = [f"g{number}" for number in range(12)]
    for group in sent:
        send(world, group)
    for _ in sent:
        ack_all(world, consumers[0], consumers[2])
    world.detach(consumers[1])
    for _ in sent:
        ack_all(world, consumers[0], consumers[2])
    taken = got(world, consumers[0]) + got(world, consumers[2])
    assert sorted(taken) == sorted(sent)
    world.check()


def test_messages_that_a_consumer_does_not_want_go_to_the_next_but_not_at_the_same_time(
    world: World,
) -> None:
    choosy = attach(world, 1, filter="kind=big")[0]
    rest = attach(world, 1)[0]
    group = owned([choosy, rest], choosy)
    send(world, group, "1", headers={"kind": "big"})
    send(world, group, "2", headers={"kind": "small"})
    send(world, group, "3", headers={"kind": "big"})
    assert (got(world, choosy), got(world, rest)) == (["1"], [])
    ack_all(world, choosy)
    assert (got(world, choosy), got(world, rest)) == ([], ["2"])
    ack_all(world, rest)
    assert (got(world, choosy), got(world, rest)) == (["3"], [])
    world.check()


def test_nobody_wants_it_until_somebody_comes(world: World) -> None:
    attach(world, 2, filter="kind=big")
    send(world, "a", headers={"kind": "small"})
    (late,) = attach(world)
    assert got(world, late) == ["a"]


def test_a_higher_priority_has_all_groups(world: World) -> None:
    low, high = attach(world)[0], attach(world, priority=3)[0]
    assert set(owners(world, [low, high], 30).values()) == {high}
    world.detach(high)
    assert set(owners(world, [low], 30).values()) == {low}


def test_messages_without_a_group_go_to_consumers_in_turn(world: World) -> None:
    one, other = attach(world, 2)
    for body in (b"1", b"2", b"3", b"4"):
        world.send("q", body)
    assert (got(world, one), got(world, other)) == (["1", "3"], ["2", "4"])


def test_a_negative_sequence_changes_nothing(world: World) -> None:
    consumers = attach(world, 4)
    send(world, "a", "1", headers={"JMSXGroupSeq": "-1"})
    send(world, "a", "2")
    assert [bodies for each in consumers if (bodies := got(world, each))] == [["1", "2"]]


def test_buckets_are_hashed(world: World) -> None:
    world.ok(UpdateQueue("q", {"group_buckets": 1}))
    consumers = attach(world, 4)
    assert len(set(owners(world, consumers, 30).values())) == 1
    world.ok(UpdateQueue("q", {"group_buckets": 0}))
    assert len(set(owners(world, consumers, 30).values())) == 4


@replaces_parts
def test_the_first_message_of_a_group_is_marked(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hashed_groups, "REMEMBERED_MAX", 3)
    world.ok(UpdateQueue("q", {"group_first_key": "first"}))
    (only,) = attach(world)
    for group in ("a", "b", "a", "c", "a", "d", "a"):
        send(world, group)
    # The fourth group makes it forget the first ones.
    marks = [b"first:true" in each.headers for each in world.taken()]
    assert marks == [True, True, False, True, False, True, True]
    assert world.state.consumers[only].handed == 7


def test_an_exclusive_queue_knows_no_groups_and_waits_when_it_ends(world: World) -> None:
    world.ok(UpdateQueue("q", {"exclusive": True}))
    one, *others = attach(world, 3)
    send(world, "a", "1")
    assert got(world, one) == ["1"]
    world.ok(UpdateQueue("q", {"exclusive": False}))
    for number in range(20):
        send(world, f"g{number}")
    assert not any(got(world, each) for each in (one, *others))
    ack_all(world, one)
    assert all(got(world, each) for each in (one, *others))
    world.check()


@pytest.mark.parametrize("before", [False, True])
def test_a_change_of_the_rule_waits_for_what_is_in_flight(world: World, before: bool) -> None:
    world.ok(UpdateQueue("q", {"group_hashing": before}))
    consumers = attach(world, 3)
    for number in range(20):
        send(world, f"g{number}")
    assert sum(len(got(world, each)) for each in consumers) == 20
    world.ok(UpdateQueue("q", {"group_hashing": not before}))
    for number in range(20):
        send(world, f"g{number}")
    assert not any(got(world, each) for each in consumers)
    ack_all(world, *consumers)
    assert sum(len(got(world, each)) for each in consumers) == 20
    ack_all(world, *consumers)
    assert world.state.groups.flying == 0
    world.check()


@pytest.mark.parametrize("group", ["", "a"])
def test_there_is_nothing_to_reset(world: World, group: str) -> None:
    attach(world)
    send(world, "a")
    refused = world.handle(ResetGroups("q", group))
    assert isinstance(refused, Refusal)
    assert refused.code is Code.NOT_ALLOWED
    assert "group-hashing" in refused.text


def test_every_way_out_gives_the_count_back(world: World) -> None:
    one, other = attach(world, 2, credit=10)
    messages = [send(world, f"g{number}") for number in range(12)]
    assert world.state.groups.flying == 12
    flying = world.state.consumers[one].unacked
    mine = [each for each in messages if each in flying]
    world.nack(one, mine[0])
    assert world.state.groups.flying == 12
    world.ack(one, mine[1])
    assert world.state.groups.flying == 11
    world.detach(one)
    world.detach(other)
    assert world.state.groups.flying == 0
    attach(world)
    assert world.state.groups.flying > 0
    world.restart()
    assert world.state.groups.flying == 0
    world.check()


def test_without_acknowledgements_nothing_is_in_flight(world: World) -> None:
    consumers = [world.attach(world.connect(), "q", acknowledges=False) for _ in range(3)]
    assert owners(world, consumers) == owners(world, consumers)
    assert world.state.groups.flying == 0


def test_shares_are_even_and_independent_of_the_order_of_ids() -> None:
    for numbers in (range(10, 20), range(1000, 4000, 300), [2**40 + each for each in range(10)]):
        shares = Counter(
            max(numbers, key=lambda number: score_of(key, number)) for key in range(5_000)
        )
        assert len(shares) == 10
        assert 400 < min(shares.values()) <= max(shares.values()) < 600
