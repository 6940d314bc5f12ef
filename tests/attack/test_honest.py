"""The judge itself: an honest client beside no attack, and beside a broker that stands still."""

import os
import signal
import time

import pytest

from bench.load.frames import LoadError
from bench.load.honest import percentile
from tests.attack.honest import STANDSTILL_LEAST_MS, STANDSTILL_RATIO, Beside


def test_beside_nothing_nobody_is_harmed(beside: Beside) -> None:
    with beside.attack(memory_bytes=32 << 20):
        pass
    assert len(beside.attacked) > len(beside.quiet)


def test_a_broker_that_stands_still_is_seen(beside: Beside) -> None:
    with pytest.raises(AssertionError, match="one round took"):
        _stop_and_continue(beside)


def test_a_broker_that_grows_is_seen(beside: Beside) -> None:
    with (
        pytest.raises(AssertionError, match="grew by"),
        beside.attack(memory_bytes=-(1 << 40)),
    ):
        pass


def test_a_broker_that_ends_is_seen(beside: Beside) -> None:
    with pytest.raises(LoadError):
        _kill(beside)


def _stop_and_continue(beside: Beside) -> None:
    with beside.attack():
        # Of the rounds that these are compared with: others may have been quicker.
        alone = percentile(beside.quiet, 0.5)
        os.kill(beside.broker.process.pid, signal.SIGSTOP)
        time.sleep(2 * max(STANDSTILL_LEAST_MS, STANDSTILL_RATIO * alone) / 1000)
        os.kill(beside.broker.process.pid, signal.SIGCONT)


def _kill(beside: Beside) -> None:
    with beside.attack():
        beside.broker.process.kill()
        beside.honest.end()
