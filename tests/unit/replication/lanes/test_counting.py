"""A broker counts acknowledgements itself, and tells its node later."""

import pytest

from daybook.journal.places import BEFORE_ALL, Place
from daybook.replication.lanes.counting import Counting, End
from daybook.replication.messages import Ack
from daybook.replication.quorum import Acks

NODES = ("a", "b", "c")


def place(number: int) -> Place:
    return Place(1, 100 * number)


def shared(counting: Counting, number: int, lanes: int = 2) -> bool:
    """Send a block over lanes, and write it; return whether the node has to hear it at once."""
    assert counting.may_send(place(number - 1), lanes)
    counting.sent(place(number))
    return counting.wrote(place(number), number, lanes)


@pytest.fixture
def counting() -> Counting:
    """One whose node has heard of the first block, and confirmed it."""
    found = Counting(Acks.MAJORITY, NODES)
    assert not found.may_send(BEFORE_ALL, 2)
    assert found.wrote(place(1), 1, 2)
    assert found.tell(everything=True) == ({}, End(place(1), 1))
    found.is_trusted = True
    return found


@pytest.mark.parametrize(
    ("acks", "needed"), [(Acks.NONE, 0), (Acks.ONE, 1), (Acks.MAJORITY, 1), (Acks.ALL, 0)]
)
def test_lanes_are_of_use_where_some_followers_are_enough(acks: Acks, needed: int) -> None:
    assert Counting(acks, NODES).needed == needed
    counting = Counting(acks, NODES)
    counting.wrote(place(1), 1, 2)
    assert counting.may_send(place(1), 2) == bool(needed)


def test_a_block_goes_behind_another_one_of_its_segment(counting: Counting) -> None:
    assert not counting.may_send(Place(2, 64), 2)
    assert not counting.may_send(place(2), 2)
    assert not counting.may_send(place(1), 0)
    assert counting.may_send(place(1), 1)


def test_enough_acknowledgements_count_once_the_own_disk_has_it(counting: Counting) -> None:
    counting.sent(place(2))
    counting.acked("b", Ack(place(2), 2))
    assert counting.durable == 1
    counting.wrote(place(2), 2, 2)
    assert counting.durable == 2


def test_nothing_counts_before_the_node_has_counted(counting: Counting) -> None:
    counting.is_trusted = False
    shared(counting, 2)
    counting.acked("b", Ack(place(2), 2))
    assert counting.durable == 0
    counting.is_trusted = True
    assert counting.durable == 2


def test_what_a_lost_follower_had_does_not_count(counting: Counting) -> None:
    shared(counting, 2)
    counting.acked("b", Ack(place(3), 3))
    counting.lost("b")
    shared(counting, 3)
    assert counting.durable == 2
    assert counting.tell(everything=True).acks == {}


def test_the_node_hears_first_of_what_followers_have(counting: Counting) -> None:
    assert not shared(counting, 2)
    counting.acked("b", Ack(place(2), 2))
    # Node c owes its answer: it gets the block from the node if that does not come in time.
    assert counting.tell(everything=False) == ({"b": Ack(place(2), 2)}, None)
    assert counting.is_behind
    assert counting.tell(everything=False) == ({}, End(place(2), 2))
    assert not counting.is_behind


def test_what_all_have_is_told_at_once(counting: Counting) -> None:
    shared(counting, 2)
    both = {each: Ack(place(2), 2) for each in "bc"}
    for node, ack in both.items():
        counting.acked(node, ack)
    assert counting.tell(everything=False) == (both, End(place(2), 2))


def test_the_node_ships_what_not_all_get_over_lanes(counting: Counting) -> None:
    assert shared(counting, 2, lanes=1)
    assert counting.tell(everything=True).end == End(place(2), 2)
    assert counting.wrote(Place(2, 100), 3, 2)
