"""When the disk is full, as the overview says it: only by what the broker itself writes."""

from typing import Any

import pytest

from daybook.console.pages.overview import full_in
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
    assert full_in(samples((10 * GIB, GIB), (9 * GIB, 2 * GIB))) == 9 * 60
    assert full_in(samples((10 * GIB, GIB), (None, GIB), (8 * GIB, 3 * GIB))) == 8 * 60


@pytest.mark.parametrize(
    "figures",
    [
        ((10 * GIB, GIB), (5 * GIB, GIB)),
        ((10 * GIB, GIB), (5 * GIB, 2 * GIB)),
        ((10 * GIB, 2 * GIB), (5 * GIB, GIB)),
        ((10 * GIB, GIB),),
        ((None, GIB), (None, 2 * GIB)),
        (),
    ],
)
def test_what_others_write_says_nothing_about_the_end(figures: Any) -> None:
    assert full_in(samples(*figures)) is None


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
