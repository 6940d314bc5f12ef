"""Rates of a broker from two answers of its status, and when its disk is full."""

from typing import Any

import pytest

from daybook.server.monitoring.rates import RATES, DiskForecast, disk_forecast, rates_between

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
    expected = DiskForecast(9 * 60, "full in 9 min 0 s as this broker writes")
    assert disk_forecast(before, after, 60.0) == expected


FALLS = "as its free space falls, mostly because of others"


@pytest.mark.parametrize(
    ("after", "seconds", "words"),
    [
        (status(5 * GIB, 2 * GIB), 60, f"full in 1 min 0 s {FALLS}"),
        (status(9 * GIB, GIB), 540, f"full in 9 min 0 s {FALLS}"),
        (status(5 * GIB, GIB // 2), 60, f"full in 1 min 0 s {FALLS}"),
        (status(10 * GIB - 600, GIB), None, f"not full within 365 days {FALLS}"),
    ],
)
def test_others_may_fill_the_disk(after: dict[str, Any], seconds: int | None, words: str) -> None:
    assert disk_forecast(status(10 * GIB, GIB), after, 60.0) == DiskForecast(seconds, words)


@pytest.mark.parametrize(
    ("before", "after", "seconds", "words"),
    [
        (status(10, 1), status(9, 2), 49.0, "is not known before 50 s of figures"),
        (status(10, 1), status(None, 2), 60.0, "its free space was not measured"),
        ({}, {}, 0.0, "its free space was not measured"),
        (status(10, 1), status(10, 1), 90.0, "by whole segments, and did not in 1 min 30 s"),
        (status(10, 1), status(10, 1, 1), 90.0, "by whole segments, and did not in 1 min 30 s"),
        (status(10, 2), status(11, 1), 90.0, "index did not become larger in 1 min 30 s"),
        (status(10**18, 1), status(10**18, 2), 60.0, "not full within 365 days as this broker w"),
    ],
)
def test_a_missing_forecast_says_why(
    before: dict[str, Any], after: dict[str, Any], seconds: float, words: str
) -> None:
    found = disk_forecast(before, after, seconds)
    assert found.seconds is None
    assert words in found.words
