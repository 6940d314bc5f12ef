"""When the disk is full, as the overview says it, and why it may not say when."""

from typing import Any

import pytest

from daybook.console.pages.overview import forecast
from daybook.console.pages.past import slider_of
from daybook.console.samples import Sample

GIB = float(1 << 30)


def samples(*figures: tuple[float | None, float]) -> list[Sample]:
    """Samples of the free room and of the journal, a minute apart."""
    return [
        Sample(60.0 * number, {"disk_free": free, "journal": journal, "index": 0.0})
        for number, (free, journal) in enumerate(figures)
    ]


def test_the_disk_is_full_when_the_broker_has_filled_it() -> None:
    filled = samples((10 * GIB, GIB), (9 * GIB, 2 * GIB))
    assert forecast(filled) == (9 * 60, "full in 9 min 0 s as this broker writes")
    with_a_gap = samples((10 * GIB, GIB), (None, GIB), (8 * GIB, 3 * GIB))
    assert forecast(with_a_gap).seconds == 8 * 60


def test_what_others_write_fills_the_disk_too() -> None:
    for figures in ((5 * GIB, GIB), (5 * GIB, 2 * GIB)):
        told = forecast(samples((10 * GIB, GIB), figures))
        assert told.seconds == 60
        assert "mostly because of others" in told.words


@pytest.mark.parametrize(
    ("figures", "words"),
    [
        (((10 * GIB, GIB),), "is not known before 50 s"),
        (((None, GIB), (None, 2 * GIB)), "was not measured"),
        (((10 * GIB, GIB), (10 * GIB, GIB)), "whole segments, and did not in 1 min 0 s"),
        ((), "was not measured"),
    ],
)
def test_the_figures_say_why_there_is_no_forecast(figures: Any, words: str) -> None:
    told = forecast(samples(*figures))
    assert told.seconds is None
    assert words in told.words


def test_a_slider_has_places_for_times_whatever_the_numbers_of_events() -> None:
    marks = [{"time": time} for time in (65_000_000, 35_001_000, 35_000_999, 5_000_000, 1_000)]
    span = {
        "first": {"lsn": 1, "time": 5_000_000}, "last": {"lsn": 10**9, "time": 65_000_000},
        "marks": marks,
    }  # fmt: skip
    made = slider_of(span, 35_000_000)
    assert made == {
        "first": 5000, "last": 65_000, "step": 60, "at": 35_000,
        "marks": [5000, 35_000, 35_060, 65_000],
    }  # fmt: skip
    assert slider_of(span, 65_000_000)["at"] == 65_000
    brief = {"first": {"time": 5_000_000}, "last": {"time": 5_000_400}, "marks": []}
    assert slider_of(brief, 5_000_400) == {
        "first": 5000, "last": 5000, "step": 1, "at": 5000, "marks": [],
    }  # fmt: skip
