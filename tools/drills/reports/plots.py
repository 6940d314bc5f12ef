"""Plots as SVG within a page, without scripts, fonts or files from elsewhere.

Colours are classes that the page's style gives. Must never know the meaning of the plotted values.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from html import escape
from math import ceil, floor, log10
from typing import Final

from daybook.tools.drills.reports.report import Line, Mark, Spread

WIDTH: Final = 760
HEIGHT: Final = 240
LEFT: Final = 64
RIGHT: Final = 30
TOP: Final = 14
BOTTOM: Final = 46
TICKS: Final = 5
POINTS_MAX: Final = 1500
ROUND: Final = 1000
"""From here on numbers at axes have no decimals."""


class _Scale:
    """Maps values of an axis to pixels, with ticks at round values."""

    def __init__(self, low: float, high: float, begin: float, end: float) -> None:
        self.ticks: Final = _round_ticks(low, high if high > low else low + 1)
        self._low = min(low, self.ticks[0])
        self._high = max(high, self.ticks[-1], self._low + 1e-9)
        self._begin = begin
        self._end = end

    def __call__(self, value: float) -> float:
        share = (value - self._low) / (self._high - self._low)
        return round(self._begin + share * (self._end - self._begin), 1)


def _round_ticks(low: float, high: float) -> list[float]:
    rough = (high - low) / TICKS
    power = 10.0 ** floor(log10(rough))
    step = next(power * each for each in (1, 2, 5, 10) if power * each >= rough)
    first = floor(low / step)
    return [round(number * step, 10) for number in range(first, ceil(high / step) + 1)]


def text_of(value: float) -> str:
    """Return a number as it stands at an axis."""
    return f"{value:,.0f}" if value == int(value) or value >= ROUND else f"{value:,.4g}"


def _axes(across: _Scale, up: _Scale, names: tuple[str, str]) -> list[str]:
    bottom, middle = HEIGHT - BOTTOM, (TOP + HEIGHT - BOTTOM) / 2
    parts = []
    for tick in up.ticks:
        y = up(tick)
        parts.append(f'<line class="grid" x1="{LEFT}" y1="{y}" x2="{WIDTH - RIGHT}" y2="{y}"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{y + 4}" class="right">{text_of(tick)}</text>')
    for tick in across.ticks:
        x = across(tick)
        parts.append(f'<line class="tick" x1="{x}" y1="{bottom}" x2="{x}" y2="{bottom + 4}"/>')
        parts.append(f'<text x="{x}" y="{bottom + 17}" class="middle">{text_of(tick)}</text>')
    parts.append(
        f'<line class="axis" x1="{LEFT}" y1="{bottom}" x2="{WIDTH - RIGHT}" y2="{bottom}"/>'
        f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 8}" class="middle name">'
        f"{escape(names[0])}</text>"
        f'<text x="14" y="{middle}" class="middle name" transform="rotate(-90 14 {middle})">'
        f"{escape(names[1])}</text>"
    )
    return parts


def _svg(parts: Sequence[str], title: str) -> str:
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(title)}">'
        + "".join(parts)
        + "</svg>"
    )


def histogram(spread: Spread) -> str:
    """Plot a distribution, with its median and 99th percentile."""
    assert spread.bars is not None
    bars = spread.bars
    across = _Scale(bars.low, bars.high, LEFT, WIDTH - RIGHT)
    up = _Scale(0, max(bars.counts), HEIGHT - BOTTOM, TOP)
    parts = _axes(across, up, (f"{spread.name} ({spread.unit})", "how often"))
    width = (bars.high - bars.low) / len(bars.counts)
    for number, count in enumerate(bars.counts):
        if count:
            x, end = across(bars.low + number * width), across(bars.low + (number + 1) * width)
            y = up(count)
            parts.append(
                f'<rect class="bar" x="{x}" y="{y}" width="{max(end - x - 0.7, 0.7):.1f}" '
                f'height="{HEIGHT - BOTTOM - y:.1f}"><title>{count:,}</title></rect>'
            )
    # Names of neighbours that lie close together are set at different heights.
    for row, (name, value) in enumerate((("median", spread.p50), ("99 %", spread.p99))):
        x = across(value)
        side = "right" if x > WIDTH * 0.8 else "left"
        shift = -4 if side == "right" else 4
        parts.append(
            f'<line class="mark" x1="{x}" y1="{TOP}" x2="{x}" y2="{HEIGHT - BOTTOM}"/>'
            f'<text x="{x + shift}" y="{TOP + 10 + 14 * row}" class="{side} marked">'
            f"{name} {text_of(value)}</text>"
        )
    return _svg(parts, spread.name)


def line(drawn: Line) -> str:
    """Plot a value over another one, with bands for events meanwhile."""
    points = _thinned(drawn.points, drawn.marks)
    ends = [each.until for each in drawn.marks]
    across = _Scale(
        min(0, *(x for x, _ in points)), max([x for x, _ in points] + ends), LEFT, WIDTH - RIGHT
    )
    up = _Scale(0, max(y for _, y in points), HEIGHT - BOTTOM, TOP)
    parts = _axes(across, up, (drawn.across, drawn.up))
    for mark in drawn.marks:
        x = across(mark.at)
        parts.append(
            f'<rect class="band" x="{x}" y="{TOP}" width="{max(across(mark.until) - x, 1.5):.1f}" '
            f'height="{HEIGHT - BOTTOM - TOP}"><title>{escape(mark.what)}</title></rect>'
        )
    if drawn.dots:
        parts += [f'<circle class="dot" cx="{across(x)}" cy="{up(y)}" r="2.2"/>' for x, y in points]
    else:
        path = " ".join(f"{across(x)},{up(y)}" for x, y in points)
        parts.append(f'<polyline class="line" points="{path}"/>')
    return _svg(parts, drawn.name)


def _thinned(points: list[tuple[float, float]], marks: Sequence[Mark]) -> list[tuple[float, float]]:
    """Return every n-th point, and all where something happened: there values leap."""
    step = max(1, -(-len(points) // POINTS_MAX))
    places = [x for x, _ in points]
    kept = set(range(0, len(points), step))
    for mark in marks:
        first, last = bisect_left(places, mark.at), bisect_right(places, mark.until)
        kept.update(range(max(first - 2, 0), min(last + 2, len(points))))
    return [points[number] for number in sorted(kept)]
