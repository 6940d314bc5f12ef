"""Broker and indexer hear what the other said, however the bytes were cut."""

import socket
from collections.abc import Iterator

import pytest

from daybook.paging.tables.messages import Damaged, Durable, Ended, Indexed, Line, Said, Trouble

EVERYTHING: list[Said] = [
    Durable(7, digest=True),
    Indexed(9, "ab", 1.5, 4096),
    Trouble("no room"),
    Damaged("a page", index=True),
]


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


def test_everything_arrives_as_it_was_said(ends: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = Line(ends[0]), Line(ends[1])
    for message in EVERYTHING:
        ours.say(message)
    assert theirs.hear(1.0) == EVERYTHING


def test_what_has_no_room_waits_and_only_the_newest_does(
    ends: tuple[socket.socket, socket.socket],
) -> None:
    ours, theirs = Line(ends[0]), Line(ends[1])
    for lsn in range(1, 10_000):
        ours.offer(Durable(lsn, digest=lsn == 9_000))
    heard: list[Said] = []
    while not heard or heard[-1] != Durable(9_999, digest=True):
        heard += theirs.hear(1.0)
        ours.flush()
    lsns = [message.lsn for message in heard if isinstance(message, Durable)]
    assert lsns == sorted(set(lsns))
    assert len(lsns) < 9_999


def test_the_last_words_of_who_has_gone_are_heard_whatever_is_offered(
    ends: tuple[socket.socket, socket.socket],
) -> None:
    ours, theirs = Line(ends[0]), Line(ends[1])
    words = Damaged("segment 7", index=False, corrupt=True)
    theirs.say(words)
    theirs.close()
    ours.offer(Durable(1))
    ours.flush()
    assert ours.hear(1.0) == [words]
    with pytest.raises(Ended):
        ours.hear(1.0)


def test_a_message_may_come_in_pieces(ends: tuple[socket.socket, socket.socket]) -> None:
    Line(ends[0]).say(Trouble("x" * 100))
    data = ends[1].recv(1000)
    again, listener = socket.socketpair()
    with again, listener:
        line = Line(listener)
        for at in range(len(data) - 1):
            again.sendall(data[at : at + 1])
            assert line.hear(1.0) == []
        again.sendall(data[-1:])
        assert line.hear(1.0) == [Trouble("x" * 100)]


def test_silence_is_no_message(ends: tuple[socket.socket, socket.socket]) -> None:
    assert Line(ends[0]).hear(0.0) == []
    assert Line(ends[0]).hear(0.001) == []


def test_the_end_is_told(ends: tuple[socket.socket, socket.socket]) -> None:
    Line(ends[1]).close()
    with pytest.raises(Ended):
        Line(ends[0]).hear(None)
    with pytest.raises(Ended):
        Line(ends[0]).say(Trouble(""))
