"""Handshakes have their turns."""

from collections.abc import Callable

from daybook.server.network.layers.handshakes import STEPS_PER_TURN, Handshakes


class Connection:
    def __init__(self, done: list["Connection"]) -> None:
        self._done = done

    def shake(self) -> None:
        self._done.append(self)


def test_a_flood_is_worked_off_in_order_a_few_in_a_turn() -> None:
    scheduled: list[Callable[[], None]] = []
    done: list[Connection] = []
    handshakes = Handshakes(scheduled.append)
    flood = [Connection(done) for _ in range(5)]
    for one in flood:
        handshakes.add(one)
    assert len(scheduled) == 1
    turns = 0
    while scheduled:
        before = len(done)
        scheduled.pop()()
        assert len(done) - before <= STEPS_PER_TURN
        turns += 1
    assert done == flood
    assert turns == 3
    assert len(handshakes) == 0
    handshakes.add(flood[0])
    assert len(scheduled) == 1
