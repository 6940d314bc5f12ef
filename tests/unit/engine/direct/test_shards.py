"""Sharded queues: shards on other brokers, one here, and how one is chosen (12.1.4.1)."""

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daybook.engine import commands as c
from daybook.engine.direct.choosing import shard_of_group
from daybook.engine.facts import reasons
from daybook.engine.facts.definitions import BY_GROUP, BY_LOAD, DistributionEntry, Waypoint
from daybook.engine.facts.events import GROUPED
from daybook.engine.facts.settlements import ACCEPTED, REJECTED, RELEASED
from daybook.engine.links.links import UNTRIED
from daybook.engine.messages.headers import build
from daybook.engine.refusals import Code
from tests.support.topology import create_queue
from tests.unit.engine.direct.test_forwarding import Heard
from tests.unit.engine.direct.test_phases import Linked

TABLE = (DistributionEntry(pattern="orders", waypoint=True),)
SHARDS = ("east", "west")


class Sharded(Linked):
    """A queue with shards in the east, in the west, and perhaps here."""

    def __init__(self, *, here: bool = True, shard_by: str = BY_LOAD, **options: Any) -> None:
        waypoint = Waypoint("orders", here, shard_by, SHARDS)
        super().__init__("orders", TABLE, (waypoint,), **options)
        self.west = self.connector("west")

    def shard(self, name: str, credit: int = 1000) -> int:
        connection = {"east": self.east, "west": self.west}[name]
        return self.out(credit, connection, name=f"orders out {name}", shard=name)

    def send_of(self, group: str, **values: Any) -> int:
        headers = build([("JMSXGroupID", group)]) if group else b""
        self.count += 1
        token = self.count
        send = c.Send(
            self.peer, "orders", headers, b"%d" % self.count,
            **{"sender": self.sender, "token": token, "format": GROUPED if group else 0, **values},
        )  # fmt: skip
        answer = self.world.ok(send)
        self.hear()
        return answer

    def run(self) -> None:
        for _ in range(4):
            self.hear()

    def settle_all(self, receiver: int, outcome: int = ACCEPTED) -> None:
        for number in list(self.world.broker.direct.receivers[receiver].outstanding):
            self.settle(receiver, number, outcome)

    @property
    def stored(self) -> list[bytes]:
        return self.world.bodies("orders")


# ---- the shard of this broker


def test_the_queue_here_takes_messages_while_no_other_shard_is_there() -> None:
    sharded = Sharded()
    assert sharded.heard.is_open
    assert sharded.send(persistent=True) > 0
    assert sharded.stored == [b"1"]
    assert sharded.heard.ends == {}
    assert sharded.breaches() == []


def test_the_shards_take_turns_while_none_is_behind() -> None:
    sharded = Sharded()
    east, west = sharded.shard("east"), sharded.shard("west")
    for _ in range(9):
        sharded.send()
        sharded.settle_all(east)
        sharded.settle_all(west)
        sharded.world.turn()
    assert [len(sharded.taken(each)) for each in (east, west)] == [3, 3]
    assert len(sharded.stored) == 3
    assert sharded.breaches() == []
    sharded.world.check()


def test_a_shard_that_settles_nothing_gets_little() -> None:
    sharded = Sharded()
    east = sharded.shard("east")
    for _ in range(100):
        sharded.send()
        sharded.world.turn()
    assert len(sharded.taken(east)) == 1
    assert len(sharded.stored) == 99


def test_receivers_here_get_from_all_shards() -> None:
    sharded, heard = Sharded(), Heard()
    sharded.send()
    consumer = sharded.attach()
    into = sharded.into(heard)
    sharded.run()
    assert sharded.bodies(consumer) == ["1"]
    sharded.send_by(into, "from east")
    assert sharded.bodies(consumer) == ["1", "from east"]
    sharded.settle_all(consumer)
    sharded.run()
    assert sharded.stored == []
    assert list(heard.ends) == ["t"]
    assert sharded.breaches() == []
    sharded.world.check()


def test_the_queue_here_is_emptied_as_soon_as_it_is_there() -> None:
    """The receiver came first, when there was no queue."""
    sharded = Sharded()
    consumer = sharded.attach()
    sharded.send()
    sharded.run()
    assert sharded.taken(consumer) == [1]
    sharded.send()
    sharded.run()
    assert sharded.taken(consumer) == [1, 2]
    sharded.world.settings(**{"#": {"config_delete_queues": "FORCE"}})
    for names in (frozenset({"orders"}), frozenset[str]()):
        sharded.world.handle(
            c.CreateQueue(
                "orders", sharded.world.queue("orders").definition, configured=True, adopts=True
            )
        )
        sharded.world.ok(c.DropUnlisted(frozenset(), names, frozenset()))
    sharded.run()
    assert "orders" not in sharded.world.state.queue_by_name
    sharded.send()
    sharded.run()
    assert sharded.taken(consumer) == [1, 2, 3]
    first, second, third = [each.decoded.link for each in sharded.world.events_named("Forwarded")]
    assert first == second
    assert 0 < first < third
    assert sharded.breaches() == []


def test_what_a_receiver_gives_back_stays_in_the_shard() -> None:
    sharded = Sharded()
    sharded.world.settings(**{"#": {"dead_letter_address": "DLQ"}})
    sharded.send()
    sharded.send()
    consumer = sharded.attach(credit=2)
    sharded.run()
    first, second = sharded.deliveries(consumer)
    sharded.settle(consumer, first.message, REJECTED)
    sharded.settle(consumer, second.message, RELEASED)
    sharded.run()
    assert sharded.stored == [b"2"]
    assert sharded.world.bodies("DLQ") == [b"1"]
    sharded.world.close(sharded.world.broker.direct.receivers[consumer].connection_id)
    sharded.run()
    assert not sharded.world.queue("orders").consumers
    assert sharded.breaches() == []


def test_whoever_names_the_queue_reaches_the_shard_here_alone() -> None:
    """Other brokers do, so that nothing goes in circles."""
    sharded = Sharded()
    east = sharded.shard("east")
    sharded.world.ok(create_queue("orders", "orders"))
    sharded.world.ok(c.Send(sharded.west, "orders", b"", b"x", queue="orders"))
    assert sharded.stored == [b"x"]
    peer = sharded.world.connect()
    consumer = sharded.world.attach(peer, "orders", queue="orders")
    sharded.world.dispatch()
    assert sharded.bodies(consumer) == ["x"]
    assert sharded.taken(east) == []


def test_a_refusal_names_the_queue_that_can() -> None:
    sharded = Sharded()
    refusal = sharded.world.refused(c.Attach(sharded.peer, "orders", filter="a = 1"))
    assert "a filter needs a queue; name that of this broker, orders::orders" in refusal.text


def test_a_shard_that_is_gone_leaves_what_it_had_in_doubt_and_the_others_continue() -> None:
    sharded = Sharded(here=False)
    sharded.shard("east"), sharded.shard("west")
    sharded.send()
    sharded.send()
    sharded.world.close(sharded.east, reasons.DISCONNECTED)
    sharded.hear()
    assert [each.modified for each in sharded.heard.ends.values()] == [True]
    assert sharded.heard.is_open
    sharded.world.close(sharded.west, reasons.DISCONNECTED)
    sharded.hear()
    assert not sharded.heard.is_open
    assert sharded.breaches() == []


def test_the_shard_here_outlives_a_restart() -> None:
    sharded = Sharded()
    sharded.send(persistent=True)
    sharded.world.restart()
    sharded.begin(TABLE)
    assert sharded.stored == [b"1"]
    consumer = sharded.attach()
    sharded.run()
    assert sharded.taken(consumer) == [1]


# ---- by group


def test_a_group_goes_to_one_shard_only() -> None:
    sharded = Sharded(shard_by=BY_GROUP)
    east, west = sharded.shard("east"), sharded.shard("west")
    where: dict[str, set[str]] = {}
    for number in range(60):
        group = f"g{number % 12}"
        before = len(sharded.taken(east)), len(sharded.taken(west))
        sharded.send_of(group)
        after = len(sharded.taken(east)), len(sharded.taken(west))
        place = {(1, 0): "east", (0, 1): "west"}.get(
            (after[0] - before[0], after[1] - before[1]), "local"
        )
        where.setdefault(group, set()).add(place)
    assert all(len(places) == 1 for places in where.values())
    assert set.union(*where.values()) == {"east", "west", "local"}
    assert sharded.breaches() == []


def _group_of(shard: str) -> str:
    names = (*SHARDS, "local")
    return next(f"g{n}" for n in range(100) if shard_of_group(f"g{n}", names) == shard)


def test_while_its_shard_is_away_a_group_goes_nowhere() -> None:
    sharded = Sharded(shard_by=BY_GROUP)
    west = sharded.shard("west")
    sharded.send_of(_group_of("east"))
    assert sharded.heard.ends == {1: UNTRIED}
    assert sharded.world.events_named("Forwarded")[-1].decoded.shard == "east"
    refusal = sharded.world.refused(
        c.Send(
            sharded.peer, "orders", build([("JMSXGroupID", _group_of("east"))]), b"x",
            format=GROUPED,
        )
    )  # fmt: skip
    assert "whose order would be lost" in refusal.text
    east = sharded.shard("east")
    sharded.send_of(_group_of("east"))
    sharded.send_of(_group_of("local"))
    assert (sharded.taken(east), sharded.taken(west)) == ([2], [])
    assert sharded.stored == [b"3"]
    assert sharded.breaches() == []


def test_groups_go_at_once_to_a_shard_that_a_reload_adds() -> None:
    sharded = Sharded(here=False, shard_by=BY_GROUP)
    east, west = sharded.shard("east"), sharded.shard("west")
    more = (*SHARDS, "north")
    groups = [f"g{number}" for number in range(40)]
    moved = {each for each in groups if shard_of_group(each, more) == "north"}
    for each in groups:
        sharded.send_of(each)
    before = len(sharded.taken(east)) + len(sharded.taken(west))
    waypoint = Waypoint("orders", False, BY_GROUP, more)
    sharded.world.ok(c.ChangeDistributions(TABLE, waypoints=(waypoint,)))
    north = sharded.out(1000, sharded.connector("north"), name="orders out north", shard="north")
    for each in groups:
        sharded.send_of(each)
    assert before == len(groups)
    assert len(sharded.taken(north)) == len(moved) > 0
    assert sharded.breaches() == []


def test_groups_of_a_shard_that_a_reload_removes_go_to_others() -> None:
    sharded = Sharded(here=False, shard_by=BY_GROUP)
    east, west = sharded.shard("east"), sharded.shard("west")
    group = next(f"g{n}" for n in range(100) if shard_of_group(f"g{n}", SHARDS) == "east")
    sharded.send_of(group)
    waypoint = Waypoint("orders", False, BY_GROUP, ("west",))
    sharded.world.ok(c.ChangeDistributions(TABLE, waypoints=(waypoint,)))
    sharded.send_of(group)
    assert (sharded.taken(east), sharded.taken(west)) == ([1], [2])
    assert sharded.breaches() == []


def test_what_an_earlier_version_released_for_a_shard_that_was_removed_is_right() -> None:
    """There an address in use kept its shards until its links had ended."""
    sharded = Sharded(here=False, shard_by=BY_GROUP)
    sharded.shard("west")
    used = sharded.world.broker.direct.addresses["orders"]
    group = next(f"g{n}" for n in range(100) if shard_of_group(f"g{n}", SHARDS) == "east")
    waypoint = Waypoint("orders", False, BY_GROUP, ("west",))
    sharded.world.ok(c.ChangeDistributions(TABLE, waypoints=(waypoint,)))
    used.follow(Waypoint("orders", False, BY_GROUP, SHARDS))
    sharded.send_of(group)
    assert sharded.world.events_named("Forwarded")[-1].decoded.shard == "east"
    assert sharded.breaches() == []


def test_without_a_group_the_load_decides() -> None:
    sharded = Sharded(here=False, shard_by=BY_GROUP)
    east, west = sharded.shard("east"), sharded.shard("west")
    for _ in range(4):
        sharded.send_of("")
    assert [len(sharded.taken(each)) for each in (east, west)] == [2, 2]


@given(st.text(), st.sets(st.text(min_size=1), min_size=2, max_size=6))
def test_a_shard_that_goes_moves_only_its_own_groups(group: str, shards: set[str]) -> None:
    before = shard_of_group(group, tuple(shards))
    assert before in shards
    for gone in shards:
        after = shard_of_group(group, tuple(shards - {gone}))
        assert after == before or gone == before


def test_the_shard_of_a_group_is_for_ever() -> None:
    names = ("east", "local", "west")
    assert [shard_of_group(f"g{n}", names) for n in range(6)] == [
        "west",
        "east",
        "east",
        "local",
        "east",
        "east",
    ]
    counts = Counter(shard_of_group(f"g{n}", names) for n in range(3000))
    assert all(900 < counts[name] < 1100 for name in names)


@pytest.mark.parametrize("shards", [("a", "a"), ("",), ("local",)])
def test_shards_have_names_of_their_own(shards: tuple[str, ...]) -> None:
    sharded = Sharded()
    with pytest.raises(ValueError, match="give each one its own"):
        sharded.world.handle(
            c.ChangeDistributions(TABLE, waypoints=(Waypoint("x", shards=shards),))
        )


# ---- large messages


def _large(sharded: Sharded) -> int | None:
    """Send a message in two pieces; return the answer."""
    sharded.count += 1
    send = c.Send(
        sharded.peer, "orders", b"", b"", sender=sharded.sender, token=sharded.count, link=1
    )
    lsn = 0
    for _ in range(2):
        lsn = sharded.world.ok(c.Chunk(send, b"half", lsn))
        send.chunks += (lsn,)
    send.body_bytes = 8
    answer = sharded.world.ok(send)
    sharded.hear()
    return answer


def test_a_large_message_enters_the_queue_here_and_comes_out() -> None:
    sharded = Sharded()
    assert _large(sharded) != c.FORWARDED
    (entry,) = sharded.world.entries("orders")
    consumer = sharded.attach()
    sharded.run()
    (got,) = sharded.deliveries(consumer)
    link = sharded.world.broker.direct.receivers[consumer]
    assert link.outstanding[got.message].message.chunks == entry.message.chunks
    sharded.settle_all(consumer)
    sharded.run()
    assert sharded.stored == []
    assert sharded.breaches() == []


def test_a_large_message_goes_to_another_shard() -> None:
    sharded = Sharded(here=False)
    east = sharded.shard("east")
    assert _large(sharded) == c.FORWARDED
    (got,) = sharded.deliveries(east)
    assert (
        sharded.world.broker.direct.receivers[east].outstanding[got.message].message.body_bytes == 8
    )
    assert sharded.breaches() == []


def test_a_full_queue_here_is_as_full_as_any() -> None:
    """Its sender hears of it, and no other shard gets the message instead."""
    sharded = Sharded()
    sharded.world.settings(orders={"max_size_messages": 1, "address_full_policy": "FAIL"})
    sharded.send()
    east = sharded.shard("east", credit=0)
    sharded.send()
    sharded.world.turn()
    refusal = sharded.world.refused(
        c.Send(sharded.peer, "orders", b"", b"x", sender=sharded.sender, token="x")
    )
    assert refusal.code is Code.LIMIT
    assert sharded.world.broker.direct.receivers[east].waits == 1
