"""The guard takes signals whatever the loop does, and ends what does not end by itself."""

import os
import signal
from collections.abc import Iterator

import pytest

from daybook.server.process import guard as guarding
from daybook.server.process.guard import ENDED, STALL_SECONDS, Guard
from tests.support.process import wait_for


class Clock:
    """Time as a test wants it."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def guard(clock: Clock) -> Iterator[Guard]:
    made = Guard(30.0, clock)
    yield made
    made.close()


@pytest.fixture
def ends(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How often, and with which code, the process would have been ended."""
    codes: list[int] = []
    monkeypatch.setattr(guarding.os, "_exit", codes.append)
    return codes


def test_signals_are_handed_over_and_nothing_else_of_them_is_left(guard: Guard) -> None:
    before = signal.getsignal(signal.SIGTERM)
    taken: list[int] = []
    guard.begin(taken.append, str)
    os.kill(os.getpid(), signal.SIGHUP)
    wait_for(lambda: taken, "the first")
    os.kill(os.getpid(), signal.SIGTERM)
    wait_for(lambda: taken == [signal.SIGHUP, signal.SIGTERM], "both")
    assert signal.getsignal(signal.SIGTERM) is not before


def test_all_is_as_before_when_it_is_closed() -> None:
    before = signal.getsignal(signal.SIGTERM)
    guard = Guard(1.0)
    guard.begin(lambda _: None, str)
    guard.close()
    assert signal.getsignal(signal.SIGTERM) is before
    assert not signal.pthread_sigmask(signal.SIG_BLOCK, ()) & guarding.SIGNALS


def test_time_is_counted_from_the_first_word(guard: Guard, clock: Clock, ends: list[int]) -> None:
    clock.now += 100
    guard.count_down()
    clock.now += 20
    guard.count_down()
    assert guard.seconds_left == 10
    guard.look()
    assert ends == []
    clock.now += 10
    guard.look()
    assert ends == [ENDED]


def test_a_loop_that_stands_still_is_told_of_once(
    guard: Guard, clock: Clock, ends: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    monkeypatch.setattr(guarding.log, "error", lambda text, **_: said.append(text))
    monkeypatch.setattr(guarding.log, "info", lambda text, **_: said.append(text))
    for _ in range(3):
        clock.now += STALL_SECONDS
        guard.look()
    assert len(said) == 1
    assert "stands still" in said[0]
    guard.beat()
    guard.look()
    guard.look()
    assert said[1:] == ["the broker continues"]
    assert ends == []
