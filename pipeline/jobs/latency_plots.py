"""Draws the latency job's tables as PNG files.

Latencies are on a logarithmic scale, because they span many orders of magnitude. Colour-blind
people can distinguish the colours; line styles and hatches differ too. If there are many queues,
the busiest have rows of their own and the others share one. Must never know where the tables come
from.
"""

from collections.abc import Callable, Sequence
from datetime import timedelta
from math import log10
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from matplotlib.axes import Axes
from matplotlib.colors import PowerNorm
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from daybook.pipeline.jobs.latency_spread import Spread
from daybook.pipeline.jobs.latency_tables import MEASURES

ROWS_MOST: Final = 20
NAME_MOST: Final = 32
"""Longer names are cut in the middle."""
LEAST_MS: Final = 0.001
"""A logarithmic scale has no zero: shorter latencies are drawn here."""
BINS: Final = 8
"""Number of bins in each power of ten."""
HOUR: Final = timedelta(hours=1)
DPI: Final = 120

# Okabe and Ito's colours, which colour-blind people can distinguish.
BLUE, ORANGE, GREEN, VERMILION = "#0072B2", "#E69F00", "#009E73", "#D55E00"
PURPLE, GREY = "#CC79A7", "#888888"
LINES: Final = (
    ("p50_ms", "p50", BLUE, "-", "o"), ("p90_ms", "p90", GREEN, "--", "s"),
    ("p99_ms", "p99", VERMILION, "-.", "^"), ("max_ms", "max", GREY, ":", "x"),
)  # fmt: skip
PARTS: Final = (
    ("nacked", "rejected by the consumer", BLUE, ""),
    ("disconnected", "connection lost", ORANGE, "//"),
    ("restart", "restart of the broker", GREEN, "\\\\"),
    ("returned_otherwise", "returned otherwise", GREY, ".."),
    ("dead_lettered", "dead-lettered", VERMILION, "xx"),
)  # fmt: skip

Row = dict[str, Any]
Tables = dict[str, pa.Table]


def draw(tables: Tables, directory: Path) -> list[Path]:
    """Draw the figures that have data; return the files. Raises OSError."""
    drawn = []
    pictures: tuple[tuple[str, Callable[[Tables], Figure | None]], ...] = (
        ("latency_over_hours.png", over_hours),
        ("latency_of_queues.png", of_queues),
        ("hot_spots.png", hot_spots),
        ("slow_consumers.png", slow_consumers),
    )
    for name, picture in pictures:
        figure = picture(tables)
        if figure is not None:
            figure.savefig(directory / name, dpi=DPI, bbox_inches="tight")
            drawn.append(directory / name)
    return drawn


def over_hours(tables: Tables) -> Figure | None:
    """Draw percentiles over the hours in which messages were routed, a panel for each measure."""
    rows = tables["latency_by_hour"].to_pylist()
    if not rows:
        return None
    figure = Figure(figsize=(10, 8), layout="constrained")
    panels = figure.subplots(len(MEASURES), 1, sharex=True)
    for panel, measure in zip(panels, MEASURES, strict=True):
        told = {row["hour"]: row for row in rows if row["measure"] == measure}
        hours = _all_hours(sorted(told))
        for column, label, color, style, marker in LINES:
            # Hours without messages are gaps, not lines.
            values = [_drawn(told[hour][column]) if hour in told else None for hour in hours]
            panel.plot(hours, values, style, color=color, marker=marker, markersize=4, label=label)
        panel.set_title(measure, loc="left")
        _log_axis(panel, "y")
        panel.grid(visible=True, alpha=0.3)
    shown = [row["hour"] for row in rows]
    panels[-1].set_xlim(min(shown) - HOUR, max(shown) + HOUR)
    locator = AutoDateLocator()  # type: ignore[no-untyped-call]
    panels[-1].xaxis.set_major_locator(locator)
    dates = ConciseDateFormatter(locator)  # type: ignore[no-untyped-call]
    panels[-1].xaxis.set_major_formatter(dates)
    panels[-1].set_xlabel("hour in which the message was routed (UTC)")
    figure.suptitle("Latency by hour")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper right", ncols=len(LINES), frameon=False)
    return figure


def _all_hours(hours: Sequence[Any]) -> list[Any]:
    """Return the hours, with an empty one inserted where hours are missing."""
    found = []
    for hour, following in zip(hours, [*hours[1:], None], strict=True):
        found.append(hour)
        if following is not None and following - hour > HOUR:
            found.append(hour + HOUR)
    return found


def of_queues(tables: Tables) -> Figure | None:
    """Draw the distribution of each queue's latencies: a strip, darker where there are more."""
    spreads = _spreads(tables)
    if not spreads:
        return None
    counts: dict[str, int] = {}
    for (_, queue), spread in spreads.items():
        counts[queue] = counts.get(queue, 0) + spread.count
    named = sorted(counts, key=lambda queue: (-counts[queue], queue))
    groups = [(_short(queue), [queue]) for queue in named[:ROWS_MOST]]
    if named[ROWS_MOST:]:
        groups.append((f"{len(named) - ROWS_MOST} others", named[ROWS_MOST:]))
    figure = Figure(figsize=(14, max(1.8 + 0.32 * len(groups), 3)), layout="constrained")
    panels = figure.subplots(1, len(MEASURES), sharey=True)
    edges = _edges(list(spreads.values()))
    # The colour scale is finer for small shares, so that the tails are visible.
    darkest = max(max(_shares(spread, edges)) for spread in spreads.values())
    norm = PowerNorm(0.5, vmin=0, vmax=darkest)
    for panel, measure in zip(panels, MEASURES, strict=True):
        together = []
        for _, queues in groups:
            spread = Spread()
            for queue in queues:
                if (measure, queue) in spreads:
                    spread.include(spreads[measure, queue])
            together.append(spread)
        image = _strips(panel, together, edges, norm)
        panel.set_title(measure, loc="left")
        _log_axis(panel, "x", ticks=5)
    panels[0].set_yticks(range(len(groups)), [name for name, _ in groups])
    panels[0].invert_yaxis()
    panels[0].set_ylabel("queue, the busiest first")
    figure.suptitle("Latency by queue")
    figure.colorbar(image, ax=panels, label="share of messages, %", pad=0.01)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False)
    return figure


def _spreads(tables: Tables) -> dict[tuple[str, str], Spread]:
    """Rebuild the histograms of queues, with their maxima."""
    found: dict[tuple[str, str], Spread] = {}
    for row in tables["histogram"].to_pylist():
        spread = found.setdefault((row["measure"], row["queue"]), Spread())
        spread.add(row["from_us"], row["count"], row["from_us"])
    for row in tables["latency_by_queue"].to_pylist():
        spread = found[row["measure"], row["queue"]]
        spread.most = max(spread.most, round(row["max_ms"] * 1000))
    return found


def _edges(spreads: list[Spread]) -> list[float]:
    """Return the edges of bins that cover all values, in milliseconds."""
    most = max(_drawn(spread.most / 1000) for spread in spreads)
    first = min(_drawn(min(spread.counts) / 1000) for spread in spreads)
    lowest, highest = int(BINS * log10(first) // 1), int(BINS * log10(most) // 1) + 1
    return [10 ** (step / BINS) for step in range(lowest, highest + 1)]


def _strips(panel: Axes, spreads: list[Spread], edges: list[float], norm: PowerNorm) -> Any:
    """Draw a strip for each, with marks at percentiles."""
    # Empty bins are not drawn.
    shares = [[each or float("nan") for each in _shares(spread, edges)] for spread in spreads]
    lines = [at - 0.5 for at in range(len(spreads) + 1)]
    image = panel.pcolormesh(edges, lines, shares, cmap="Blues", norm=norm)
    panel.hlines(lines[1:-1], edges[0], edges[-1], color="white", linewidth=3)
    # The smaller mark is drawn last, because both may be at the same place.
    marks = (("p99", 99, "D", ORANGE, 6), ("p50", 50, "o", "white", 4))
    present = [at for at, spread in enumerate(spreads) if spread.count]
    for label, percent, marker, color, size in marks:
        values = [_drawn(spreads[at].percentiles(percent)[0] / 1000) for at in present]
        panel.plot(
            values, present, linestyle="", marker=marker, markersize=size, label=label,
            markerfacecolor=color, markeredgecolor="black", markeredgewidth=0.8, clip_on=False,
        )  # fmt: skip
    most = [_drawn(spreads[at].most / 1000) for at in present]
    panel.plot(most, present, linestyle="", marker="|", color=VERMILION, markersize=9, label="max")
    return image


def _shares(spread: Spread, edges: list[float]) -> list[float]:
    """Return the percentage of values in each bin."""
    lowest = round(BINS * log10(edges[0]))
    shares = [0.0] * (len(edges) - 1)
    for value, count in spread.buckets():
        at = int(BINS * log10(_drawn(value / 1000)) // 1) - lowest
        shares[min(max(at, 0), len(shares) - 1)] += 100 * count / spread.count
    return shares


def hot_spots(tables: Tables) -> Figure | None:
    """Draw redeliveries and dead letters by queue, those with the most first."""
    rows = [row for row in tables["hot_spots"].to_pylist() if _troubles(row)]
    if not rows:
        return None
    rows.sort(key=lambda row: (-_troubles(row), row["queue"]))
    shown, others = rows[:ROWS_MOST], rows[ROWS_MOST:]
    if others:
        summed = {name: sum(row[name] for row in others) for name, *_ in PARTS}
        totals = {name: sum(row[name] for row in others) for name in ("redelivered", "delivered")}
        share = 100 * totals["redelivered"] / max(totals["delivered"], 1)
        name = f"{len(others)} others"
        shown.append({"queue": name, **summed, **totals, "redelivered_percent": share})
    figure = Figure(figsize=(10, 1.8 + 0.32 * len(shown)), layout="constrained")
    panel = figure.subplots()
    places = range(len(shown))
    left = [0] * len(shown)
    for name, label, color, hatch in PARTS:
        values = [row[name] for row in shown]
        panel.barh(
            places, values, left=left, color=color, hatch=hatch, edgecolor="white", label=label
        )
        left = [before + value for before, value in zip(left, values, strict=True)]
    for at, row in enumerate(shown):
        text = f" {left[at]:,} ({row['redelivered_percent']:.1f} % redelivered)"
        panel.text(left[at], at, text, va="center", fontsize=8)
    panel.set_yticks(places, [_short(row["queue"]) for row in shown])
    panel.set_ylim(len(shown) - 0.4, -0.6)
    panel.margins(x=0.25)
    panel.set_xlim(left=0)
    panel.set_xlabel("deliveries that came back, and dead letters")
    panel.set_ylabel("queue")
    panel.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    panel.spines[["top", "right"]].set_visible(False)
    figure.suptitle("Hot spots: redelivery and dead letters by queue")
    figure.legend(loc="outside lower center", ncols=len(PARTS), frameon=False)
    return figure


def _troubles(row: Row) -> int:
    return sum(row[name] for name, *_ in PARTS)


def slow_consumers(tables: Tables) -> Figure | None:
    """Draw consumers against the median of their queue, the slowest first."""
    rows = tables["slow_consumers"].to_pylist()[:ROWS_MOST]
    if not rows:
        return None
    figure = Figure(figsize=(10, 1.8 + 0.32 * len(rows)), layout="constrained")
    panel = figure.subplots()
    places = list(range(len(rows)))
    p50, p99, usual = (
        [_drawn(row[name]) for row in rows] for name in ("p50_ms", "p99_ms", "queue_p50_ms")
    )
    panel.hlines(places, p50, p99, color=BLUE, linewidth=2, alpha=0.6, label="p50 to p99")
    panel.plot(p50, places, "o", color=BLUE, label="p50 of the consumer")
    panel.plot(usual, places, "|", color=VERMILION, markersize=14, label="p50 of its queue")
    names = [f"{row['consumer']} · {_short(row['queue'])}" for row in rows]
    panel.set_yticks(places, names)
    for at, row in enumerate(rows):
        text = f"  {row['times_slower']:.1f} x its queue, {row['in_flight']:,} in flight"
        panel.text(max(p99[at], usual[at]), at, text, va="center", fontsize=8)
    panel.set_ylim(len(rows) - 0.4, -0.6)
    _log_axis(panel, "x")
    lowest, highest = min(p50 + usual), max(p99 + usual)
    panel.set_xlim(lowest / 2, highest * (highest / lowest) ** 0.35 * 2)
    panel.grid(visible=True, axis="x", alpha=0.3)
    panel.set_ylabel("consumer · queue")
    panel.set_xlabel("delivered to acknowledged")
    panel.spines[["top", "right"]].set_visible(False)
    figure.suptitle("Slow consumers, against their queue")
    figure.legend(loc="outside lower center", ncols=3, frameon=False)
    return figure


def _drawn(value: float) -> float:
    return max(value, LEAST_MS)


def _log_axis(panel: Axes, which: str, ticks: int = 8) -> None:
    """Make an axis logarithmic, with ticks in µs, ms, s or h."""
    if which == "x":
        panel.set_xscale("log")
        axis: Any = panel.xaxis
    else:
        panel.set_yscale("log")
        axis = panel.yaxis
    axis.set_major_locator(LogLocator(numticks=ticks))
    axis.set_minor_locator(LogLocator(subs=range(2, 10), numticks=50))
    axis.set_minor_formatter(NullFormatter())
    axis.set_major_formatter(FuncFormatter(lambda value, _: duration(value)))


def duration(ms: float) -> str:
    """Format milliseconds in a suitable unit."""
    if ms <= LEAST_MS:
        return "≤ 1 µs"
    for limit, unit, size in (
        (1, "µs", 0.001), (1000, "ms", 1), (10_000_000, "s", 1000),
    ):  # fmt: skip
        if ms < limit:
            return f"{ms / size:,.4g} {unit}"
    return f"{ms / 3_600_000:,.3g} h"


def _short(name: str) -> str:
    if len(name) <= NAME_MOST:
        return name
    half = NAME_MOST // 2
    return f"{name[: half - 1]}…{name[-half:]}"
