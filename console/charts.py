"""The chart of an answer to a query: which column is the axis, which ones are drawn, and why there
is none.

Of rows like hour, queue and number each queue is a series. Must never know requests or SQL: it
reads the columns and the texts of an answer.
"""

import json
import math
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any, Final, NamedTuple

from daybook.pipeline.sql.saved import NO_CHART
from daybook.texts import printable

CHARTS: Final = ("", "lines", "bars", NO_CHART)
CHARTED_MIN: Final = 2
"""The fewest rows of a chart."""
COLUMNS_MAX: Final = 6
"""So many columns of numbers are drawn, if no text divides the rows."""
SERIES_MAX: Final = 10
"""So many values of a text have a series each; the others are one together."""
BARS_MAX: Final = 600
"""More bars beside each other cannot be distinguished."""
LABEL_CHARS_MAX: Final = 60
OTHERS: Final = "others"
NEEDS: Final = "a chart needs two rows, and a column of numbers behind the first one"


class Chart(NamedTuple):
    """A chart: "" as the shape if there is none, and `why` unless it was declined; `plot` is what
    the script draws, in JSON."""

    shape: str = ""
    why: str = ""
    caption: str = ""
    note: str = ""
    plot: str = ""


class _Point(NamedTuple):
    place: float
    """Where it is on the axis."""
    label: str
    """How the axis calls that."""
    series: str
    numbers: tuple[float | None, ...]


def charted(answer: dict[str, Any], chosen: str) -> Chart:
    """Return the chart of an answer; `chosen` is one of CHARTS."""
    kinds = [each["kind"] for each in answer["columns"]]
    names = [each["name"] for each in answer["columns"]]
    if chosen == NO_CHART or not answer["rows"]:
        return Chart()
    if "number" not in kinds[1:]:
        return Chart(why=NEEDS)
    axis = _axis(kinds, answer["rows"])
    numbers = [at for at, kind in enumerate(kinds) if kind == "number" and at and at != axis]
    by = _dividing(kinds, answer["rows"], axis, numbers[0])
    points = _points(answer["rows"], kinds[axis], axis, by, numbers[:COLUMNS_MAX])
    if len(points) < CHARTED_MIN:
        return Chart(why=NEEDS)
    if by:
        named = ", ".join(names[at] for at in by)
        note = f"The chart is of {names[numbers[0]]}." if numbers[1:] else ""
        return _divided(points, kinds[axis], chosen, (names[axis], named, names[numbers[0]], note))
    if not chosen and len(kinds) > COLUMNS_MAX + 1:
        return Chart(
            why=f"more than {COLUMNS_MAX} columns behind the first one; choose lines or bars"
        )
    if kinds[axis] != "text" and len({each.place for each in points}) < CHARTED_MIN:
        return Chart(why=f"all rows have the same {names[axis]}, {points[0].label}")
    columns = [[each.numbers[at] for each in points] for at in range(len(points[0].numbers))]
    return Chart(
        shape=chosen or _shape(kinds[axis]), caption=names[axis],
        plot=_plot(
            kinds[axis], points, [names[at] for at in numbers[:COLUMNS_MAX]], columns,
            groups=[each.label for each in points],
        ),
    )  # fmt: skip


def _shape(kind: str) -> str:
    return "bars" if kind == "text" else "lines"


def _axis(kinds: Sequence[str], rows: Sequence[Sequence[Any]]) -> int:
    """Return the column of the axis: the first one, or a time behind a text that repeats."""
    before = kinds[1 : kinds.index("number", 1)]
    if kinds[0] == "text" and "time" in before and _repeats(rows, 0):
        return kinds.index("time")
    return 0


def _dividing(
    kinds: Sequence[str], rows: Sequence[Sequence[Any]], axis: int, number: int
) -> list[int]:
    """Return the columns of text by which the rows are several series."""
    texts = [at for at, kind in enumerate(kinds) if kind == "text" and at != axis]
    before = [at for at in texts if at < number]
    if _repeats(rows, axis):
        return before or texts
    # Of two queues, each with one hour of its own, a line through both would say nothing.
    is_of_several = len({tuple(map(str, (row[at] for at in before))) for row in rows}) > 1
    return before if kinds[axis] != "text" and is_of_several else []


def _repeats(rows: Sequence[Sequence[Any]], at: int) -> bool:
    return len({str(row[at]) for row in rows}) < len(rows)


def _points(
    rows: Sequence[Sequence[Any]], kind: str, axis: int, by: list[int], numbers: list[int]
) -> list[_Point]:
    """Return the points of the rows, those of times and numbers in their order."""
    places: dict[str, float] = {}
    points: list[_Point] = []
    for row in rows:
        label = _words(row[axis])
        place: float | None
        if kind != "text":
            place = _place(row[axis], kind)
        else:
            place = places.setdefault(label, len(places)) if by else len(points)
        if place is None:
            continue
        series = ", ".join(_words(row[at]) for at in by)
        points.append(_Point(place, label, series, tuple(_number(row[at]) for at in numbers)))
    return points if kind == "text" else sorted(points, key=lambda each: each.place)


def _divided(
    points: list[_Point], kind: str, chosen: str, named: tuple[str, str, str, str]
) -> Chart:
    """Return a chart of the first numbers with a series for each value of a text; `named` is the
    name of the axis, of the text and of the numbers, and a note."""
    axis, text, number, note = named
    found: dict[str, dict[float, float | None]] = {}
    for each in points:
        series = found.setdefault(each.series, {})
        if each.place in series:
            return Chart(
                why=f"several rows have the same {axis} and {text}; make one of them, as"
                " GROUP BY ALL does"
            )
        series[each.place] = each.numbers[0]
    labels = {each.place: each.label for each in points}
    if len(labels) == 1:
        # One moment: the values themselves are the axis.
        bars = [_Point(at, each.series, "", each.numbers) for at, each in enumerate(points)]
        note = " ".join(filter(None, (f"All rows have the same {axis}, {points[0].label}.", note)))
        columns = [[each.numbers[0] for each in bars]]
        return Chart(
            shape=chosen or "bars", caption=f"{number} of each {text}", note=note,
            plot=_plot("text", bars, [number], columns, groups=[each.label for each in bars]),
        )  # fmt: skip
    shown = sorted(found.items(), key=lambda each: -sum(abs(n or 0) for n in each[1].values()))
    if len(shown) > SERIES_MAX:
        note = " ".join(filter(None, (
            f"The {SERIES_MAX} largest of {len(shown):,}; {OTHERS} is the sum of the rest.", note,
        )))  # fmt: skip
        rest = _sums([series for _, series in shown[SERIES_MAX:]])
        shown = [*shown[:SERIES_MAX], (OTHERS, rest)]
    shape = chosen or _shape(kind)
    if shape == "bars" and len(labels) * len(shown) > BARS_MAX:
        return Chart(why=f"it would have more than {BARS_MAX} bars; ask for less, or choose lines")
    spread = _spread(sorted(labels), len(shown) if shape == "bars" else 1)
    ends = [_Point(place, labels[of], "", ()) for of, _, place in spread]
    columns = [
        [series.get(of) if shape == "lines" or index == at else None for of, at, _ in spread]
        for index, (_, series) in enumerate(shown)
    ]
    return Chart(
        shape=shape, caption=f"{number} of each {text}, by {axis}", note=note,
        plot=_plot(
            kind, ends, [name for name, _ in shown], columns, groups=list(labels.values()),
            is_divided=True,
        ),
    )  # fmt: skip


def _sums(series: list[dict[float, float | None]]) -> dict[float, float | None]:
    sums: dict[float, float | None] = {}
    for each in series:
        for place, number in each.items():
            sums[place] = (sums.get(place) or 0) + (number or 0)
    return sums


def _spread(places: list[float], count: int) -> list[tuple[float, int, float]]:
    """Return each place of the axis `count` times, with the number of the bar and where it is, so
    that bars stand beside each other."""
    step = min(after - before for before, after in pairwise(places))
    part = 0.8 * step / count
    return [
        (place, at, place + (at - (count - 1) / 2) * part)
        for place in places
        for at in range(count)
    ]


def _plot(
    kind: str, points: list[_Point], names: list[str], columns: list[list[float | None]], *,
    groups: list[str], is_divided: bool = False,
) -> str:  # fmt: skip
    return json.dumps(
        {
            "kind": kind, "names": [_short(each) for each in names], "isDivided": is_divided,
            "labels": [_short(each.label) for each in points],
            "groups": [_short(each) for each in groups] if kind == "text" else [],
            "columns": [[each.place for each in points], *columns],
        }
    )  # fmt: skip


def _short(text: str) -> str:
    shown = printable(text)
    return shown if len(shown) <= LABEL_CHARS_MAX else shown[: LABEL_CHARS_MAX - 1] + "…"


def _words(cell: Any) -> str:
    """Return a value of an answer as it is called in a chart."""
    if cell is None:
        return "null"
    return cell[0] + "…" if isinstance(cell, tuple | list) else str(cell)


def _place(cell: Any, kind: str) -> float | None:
    if kind == "number":
        return _number(cell)
    try:
        moment = datetime.fromisoformat(cell)
    except (TypeError, ValueError):
        # Null, or a time that calendars do not have, such as infinity.
        return None
    # A time without a zone is UTC, as all times of the console.
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _number(cell: Any) -> float | None:
    try:
        number = float(cell)
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None
