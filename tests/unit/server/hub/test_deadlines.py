"""Deadlines of peers: set, moved and removed."""

from daybook.server.hub.deadlines import STALE_MIN, Deadlines


class Peer:
    """A connection that has deadlines."""

    def __init__(self) -> None:
        self.deadline = 0
        self.closed = False


def leave(deadlines: Deadlines[Peer], peer: Peer) -> None:
    peer.closed = True
    deadlines.forget(peer)


def test_peers_are_due_in_order_and_once() -> None:
    deadlines = Deadlines[Peer]()
    first, second, third = Peer(), Peer(), Peer()
    for peer, deadline in ((second, 20), (first, 10), (third, 30)):
        deadlines.set(peer, deadline)
    assert list(deadlines.due(20)) == [first, second]
    assert first.deadline == second.deadline == 0
    assert list(deadlines.due(20)) == []
    deadlines.set(third, 40)
    assert list(deadlines.due(39)) == []
    assert list(deadlines.due(40)) == [third]
    assert len(deadlines) == 0


def test_no_deadline_is_none() -> None:
    deadlines = Deadlines[Peer]()
    peer = Peer()
    deadlines.set(peer, 10)
    deadlines.set(peer, 0)
    assert list(deadlines.due(100)) == []


def test_peers_that_have_gone_leave_nothing_behind() -> None:
    deadlines = Deadlines[Peer]()
    stays = Peer()
    deadlines.set(stays, 10**18)
    for _ in range(10_000):
        peer = Peer()
        deadlines.set(peer, 10**18)
        leave(deadlines, peer)
        assert len(deadlines) <= 2 * STALE_MIN + 2
    assert list(deadlines.due(10**18)) == [stays]


def test_deadlines_that_change_often_are_few() -> None:
    deadlines = Deadlines[Peer]()
    peers = [Peer() for _ in range(10)]
    for number in range(10_000):
        deadlines.set(peers[number % 10], 10**18 + number)
    assert len(deadlines) <= 2 * STALE_MIN + 20
    assert set(deadlines.due(2 * 10**18)) == set(peers)
