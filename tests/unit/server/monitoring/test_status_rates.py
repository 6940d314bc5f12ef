"""Rates of a broker from two answers of its status, and when its disk is full."""

from typing import Any

import pytest

from daybook.server.monitoring.rates import RATES, disk_full_in, rates_between

GIB = 1 << 30


def status(free: int | None, journal: int, index: int = 0) -> dict[str, Any]:
    return {"disk_free_bytes": free, "journal_bytes": journal, "index_bytes": index}


def test_rates_are_changes_of_counters() -> None:
    before = dict.fromkeys(RATES.values(), 10)
    found = rates_between(before, before | {"messages_added": 40, "messages_expired": 11}, 10.0)
    assert found == {
        "in": 3.0, "out": 0.0, "acknowledged": 0.0, "dead_lettered": 0.0, "expired": 0.1,
    }  # fmt: skip


def test_a_broker_that_started_again_has_no_rates_yet() -> None:
    before = dict.fromkeys(RATES.values(), 10)
    after = dict.fromkeys(RATES.values(), 3)
    assert set(rates_between(before, after, 10.0).values()) == {None}
    assert set(rates_between(before, {}, 10.0).values()) == {None}
    assert set(rates_between(before, before, 0.0).values()) == {None}


def test_the_disk_is_full_by_what_the_broker_writes() -> None:
    before, after = status(10 * GIB, GIB), status(9 * GIB, GIB + GIB // 2, GIB // 2)
    assert disk_full_in(before, after, 60.0) == 9 * 60
    assert disk_full_in(before, after, 49.0) is None


@pytest.mark.parametrize(
    "after",
    [status(5 * GIB, 2 * GIB), status(9 * GIB, GIB), status(None, 2 * GIB), status(GIB, GIB + 1)],
)
def test_the_end_of_the_disk_is_not_always_to_be_seen(after: dict[str, Any]) -> None:
    assert disk_full_in(status(10 * GIB, GIB), after, 60.0) is None
    assert disk_full_in(status(10**18, GIB), status(10**18, GIB + 1), 60.0) is None
