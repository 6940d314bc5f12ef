"""Consumers with filters: nothing is looked at twice, nobody waits behind what is not theirs."""

import pytest

from daybook.engine.core.core import Options
from daybook.engine.dispatch.consumer_choice import TURN_ENTRIES
from daybook.engine.messages.message import Message
from daybook.engine.queues.level_scan import SCAN_ENTRIES
from tests.support.paged_world import PagedWorld
from tests.support.world import World

BIG = {"kind": "big"}
SMALL = {"kind": "small"}


class Counting:
    """A filter for big messages that counts how often it is asked."""

    asked = 0

    def matches(self, message: Message) -> bool:
        Counting.asked += 1
        return b"kind:big" in message.headers

    def work(self, message: Message) -> int:
        return 1


@pytest.fixture(params=["resident", "paged"])
def world(request: pytest.FixtureRequest) -> World:
    Counting.asked = 0
    world = World() if request.param == "resident" else PagedWorld(window=2, lag=2)
    world.broker.configure(Options(compile_filter=lambda text, name_of: Counting()))
    return world


def test_what_does_not_match_is_looked_at_once(world: World) -> None:
    peer = world.connect()
    world.attach(peer, "orders", filter="big", credit_messages=100)
    for _ in range(300):
        world.send("orders", b"", peer, headers=SMALL)
    assert not world.taken()
    assert Counting.asked == 300
    world.send("orders", b"mine", peer, headers=BIG)
    assert world.taken_bodies() == [b"mine"]
    assert Counting.asked == 301


def test_nobody_waits_behind_what_is_for_others(world: World) -> None:
    peer = world.connect()
    for number in range(SCAN_ENTRIES + 50):
        world.send("orders", b"%d" % number, peer, headers=SMALL)
    world.send("orders", b"mine", peer, headers=BIG)
    world.attach(peer, "orders", filter="big", credit_messages=1)
    assert world.taken_bodies() == [b"mine"]


def test_a_long_search_lets_others_have_their_turn() -> None:
    Counting.asked = 0
    world = World()
    world.broker.configure(Options(compile_filter=lambda text, name_of: Counting()))
    peer = world.connect()
    for _ in range(TURN_ENTRIES + 2 * SCAN_ENTRIES):
        world.send("orders", b"", peer, headers=SMALL)
    world.send("orders", b"mine", peer, headers=BIG)
    world.attach(peer, "orders", filter="big", credit_messages=1)
    assert Counting.asked <= TURN_ENTRIES + SCAN_ENTRIES
    assert world.broker.is_touched
    world.turn()
    assert world.taken_bodies() == [b"mine"]


def test_what_comes_back_is_considered_again(world: World) -> None:
    peer = world.connect()
    other = world.connect()
    for body in (b"1", b"2"):
        world.send("orders", body, peer, headers=BIG)
    taker = world.attach(other, "orders", credit_messages=2)
    assert world.taken_bodies(taker) == [b"1", b"2"]
    picky = world.attach(peer, "orders", filter="big", credit_messages=10)
    world.send("orders", b"3", peer, headers=SMALL)
    assert not world.taken(picky)
    world.close(other)
    assert world.taken_bodies(picky) == [b"1", b"2"]
