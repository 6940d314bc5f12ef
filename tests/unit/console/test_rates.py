"""Rates of queues: from two looks, bounded."""

from typing import Any

import pytest

from daybook.console import samples
from daybook.console.samples import QUEUE_COUNTERS, Rates


def row(added: int) -> dict[str, Any]:
    return dict.fromkeys(QUEUE_COUNTERS, 0) | {"added": added}


def test_a_rate_is_the_change_since_an_earlier_look(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(samples, "LOOK_SECONDS", 1.0)
    rates = Rates(QUEUE_COUNTERS)
    assert rates.of("q", row(100), 10.0) == {}
    assert rates.of("q", row(100), 10.5) == {}, "too soon"
    assert rates.of("q", row(120), 12.0)["added"] == 10.0
    assert rates.of("q", row(120), 12.5)["added"] == 8.0
    assert rates.of("q", row(150), 15.0)["added"] == 10.0
    assert rates.of("q", row(3), 16.0) == {}, "a new queue of this name"
    assert rates.of("q", row(5), 18.0)["added"] == 1.0


def test_the_counters_of_few_queues_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(samples, "LOOKED_AT_MAX", 2)
    rates = Rates(QUEUE_COUNTERS)
    for name in "abc":
        assert rates.of(name, row(1), 1.0) == {}
    assert rates.of("a", row(9), 5.0) == {}, "forgotten"
    assert rates.of("c", row(9), 5.0)["added"] == 2.0
