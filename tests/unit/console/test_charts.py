"""Which chart an answer has, and why it has none."""

import json
from typing import Any

import pytest

from daybook.console.charts import BARS_MAX, OTHERS, Chart, charted

HOUR = "2026-11-30T0{}:00:00.000000Z"
SHORT_OF_ROWS = "a chart needs two rows"


def answer(kinds: str, *rows: tuple[Any, ...]) -> dict[str, Any]:
    """Return an answer; `kinds` has a letter for each column: time, text or number."""
    named = {"t": ("hour", "time"), "q": ("queue", "text"), "n": ("messages", "number")}
    columns = [dict(zip(("name", "kind"), named[each], strict=True)) for each in kinds]
    return {"columns": columns, "rows": [list(row) for row in rows]}


def plot_of(chart: Chart) -> dict[str, Any]:
    assert chart.shape, chart.why
    found: dict[str, Any] = json.loads(chart.plot)
    return found


def test_each_value_of_a_text_is_a_series() -> None:
    asked = answer(
        "tqn", (HOUR.format(2), "a", "5"), (HOUR.format(1), "b", "70"), (HOUR.format(1), "a", "1")
    )
    chart = charted(asked, "")
    assert (chart.shape, chart.caption) == ("lines", "messages of each queue, by hour")
    plot = plot_of(chart)
    assert plot["names"] == ["b", "a"], "the largest is first"
    assert plot["columns"][0][1] - plot["columns"][0][0] == 3600
    assert plot["columns"][1:] == [[70.0, None], [1.0, 5.0]]
    assert plot["labels"] == [HOUR.format(1), HOUR.format(2)]


def test_bars_of_several_series_stand_beside_each_other() -> None:
    rows = [(HOUR.format(hour), queue, "1") for hour in range(3) for queue in "ab"]
    plot = plot_of(charted(answer("tqn", *rows), "bars"))
    places = plot["columns"][0]
    assert len(set(places)) == 6
    assert places == sorted(places)
    assert plot["columns"][1] == [1, None] * 3
    assert plot["columns"][2] == [None, 1] * 3
    many = [(str(hour), queue, "1") for hour in range(BARS_MAX // 2 + 1) for queue in "ab"]
    assert "choose lines" in charted(answer("nqn", *many), "bars").why
    assert charted(answer("nqn", *many), "").shape == "lines"


def test_one_moment_has_a_bar_for_each_value() -> None:
    chart = charted(answer("tqn", (HOUR.format(1), "a", "5"), (HOUR.format(1), "b", "70")), "")
    assert chart.shape == "bars"
    assert chart.note == f"All rows have the same hour, {HOUR.format(1)}."
    plot = plot_of(chart)
    assert (plot["kind"], plot["groups"]) == ("text", ["a", "b"])
    assert plot["columns"] == [[0, 1], [5.0, 70.0]]


def test_few_series_are_drawn_and_the_others_are_added_up() -> None:
    rows = [(HOUR.format(hour), f"q{n}", str(n + 1)) for hour in (1, 2) for n in range(13)]
    chart = charted(answer("tqn", *rows), "")
    assert chart.note == "The 10 largest of 13; others is the sum of the rest."
    plot = plot_of(chart)
    assert plot["names"] == [f"q{n}" for n in range(12, 2, -1)] + [OTHERS]
    assert plot["columns"][-1] == [1 + 2 + 3] * 2


def test_only_the_first_numbers_are_divided() -> None:
    rows = [(HOUR.format(hour), queue, "1", "9") for hour in (1, 2) for queue in "ab"]
    chart = charted(answer("tqnn", *rows), "")
    assert plot_of(chart)["columns"][1:] == [[1, 1], [1, 1]]
    assert chart.note == "The chart is of messages."


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        (answer("tn", (HOUR.format(1), "5"), (HOUR.format(1), "6")), "all rows have the same hour"),
        (answer("tqn", *[(HOUR.format(1), "a", "5")] * 2), "the same hour and queue"),
        (answer("tqn", (HOUR.format(1), "a", "5")), SHORT_OF_ROWS),
        (answer("tq", *[(HOUR.format(1), "a")] * 2), SHORT_OF_ROWS),
        (answer("tn", (None, "5"), ("infinity", "5")), SHORT_OF_ROWS),
    ],
)
def test_a_chart_that_would_say_nothing_has_a_reason(asked: dict[str, Any], why: str) -> None:
    for chosen in ("", "lines", "bars"):
        assert why in charted(asked, chosen).why
        assert not charted(asked, chosen).shape
    assert charted(asked, "none") == Chart()


def test_texts_come_first_too() -> None:
    plain = charted(answer("qnn", ("a", "1", "nan"), ("b", "2", None)), "")
    assert plot_of(plain)["columns"] == [[0, 1], [1, 2], [None, None]]
    rows = [(queue, HOUR.format(hour), "1") for queue in "ab" for hour in (1, 2)]
    assert charted(answer("qtn", *rows), "").caption == "messages of each queue, by hour"
    last = charted(answer("qtn", ("a", HOUR.format(1), "1"), ("b", HOUR.format(2), "2")), "")
    assert (last.shape, last.caption) == ("bars", "queue"), "a time of each queue is not an axis"
    crossed = [(one, other, "1") for one in "ab" for other in "xy"]
    plot = plot_of(charted(answer("qqn", *crossed), ""))
    assert (plot["groups"], plot["names"]) == (["a", "b"], ["x", "y"])


def test_queues_of_different_hours_are_not_one_line() -> None:
    rows = ((HOUR.format(1), "a", "5"), (HOUR.format(2), "b", "6"))
    assert plot_of(charted(answer("tqn", *rows), ""))["names"] == ["b", "a"]


def test_hostile_names_are_shown_as_escapes() -> None:
    rows = [("\u202e" + "x" * 500, "1"), (("cut", 900), "2")]
    labels = plot_of(charted(answer("qn", *rows), ""))["labels"]
    assert "\u202e" not in labels[0]
    assert len(labels[0]) <= 60
    assert labels[1] == "cut…"
