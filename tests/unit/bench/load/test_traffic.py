"""Steady traffic: its ledger notices what is lost, doubled, out of order or settled already."""

import pytest

from bench.load.frames import LoadError
from bench.load.traffic import ACKNOWLEDGED, KINDS, RECEIPTED, SETTLED, Kind, Stream, Traffic

FLOW = Kind(queue="flow", arrives="flow", share=1000)
SICK = Kind(queue="sick", arrives="DLQ", share=1000, refused=True)


def stream_of(count: int, kind: Kind = FLOW) -> Stream:
    stream = Stream(0, kind)
    stream.marks.extend([RECEIPTED] * count)
    return stream


def test_shares_are_of_a_thousand() -> None:
    assert sum(kind.share for kind in KINDS) == 1000


def test_what_arrives_in_order_is_right() -> None:
    stream = stream_of(3)
    for number in (0, 1, 2):
        stream.arrive(number)
        stream.marks[number] |= ACKNOWLEDGED
    assert not stream.missing()


def test_what_does_not_arrive_is_missing() -> None:
    stream = stream_of(3)
    stream.marks[1] |= ACKNOWLEDGED
    assert stream.missing() == [0, 2]


@pytest.mark.parametrize("arrivals", [(0, 0), (1, 0), (3,)])
def test_doubled_disordered_and_invented_messages_are_found(arrivals: tuple[int, ...]) -> None:
    stream = stream_of(3)
    for number in arrivals[:-1]:
        stream.arrive(number)
    with pytest.raises(LoadError, match=f"message {arrivals[-1]} of flow was"):
        stream.arrive(arrivals[-1])


def test_after_a_kill_only_what_is_not_settled_may_come_again() -> None:
    stream = stream_of(2)
    stream.arrive(0)
    stream.arrive(1)
    stream.marks[0] |= SETTLED
    stream.begin()
    stream.arrive(1)
    with pytest.raises(LoadError, match="came back"):
        stream.arrive(0)


def test_a_message_dies_once_in_any_order() -> None:
    stream = stream_of(3, SICK)
    stream.arrive(2)
    stream.arrive(0)
    with pytest.raises(LoadError, match="message 2 of sick"):
        stream.arrive(2)


def test_nothing_sent_is_settled_at_once() -> None:
    traffic = Traffic()
    try:
        assert traffic.is_settled
        traffic.streams[0].marks.append(RECEIPTED)
        assert not traffic.is_settled
        with pytest.raises(LoadError, match="1 messages of flow"):
            traffic.check_settled()
    finally:
        traffic.close()
