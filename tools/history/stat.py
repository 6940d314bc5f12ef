"""Running `journal stat`: sizes of the segments, events by kind, and messages by queue."""

from pathlib import Path
from typing import Any

import click
import msgspec

from daybook.history.descriptions import kind_name
from daybook.history.totals import QUEUE_KINDS, Totals
from daybook.journal.segments.stat import JournalStat, stat
from daybook.levels import LEVEL_MIN, release_of
from daybook.paging.snapshots.archived_snapshots import archived_sizes
from daybook.texts import moment
from daybook.tools.terminal.opening import history
from daybook.tools.terminal.printing import progress, show_json, show_table


def run(ctx: click.Context, path: Path, flags: dict[str, Any]) -> None:
    """Count, and print the figures. Raises JournalError."""
    disk, _, _ = history(ctx, path, flags)
    figures = stat(disk)
    totals = Totals()
    with progress("counting", figures.segments[-1].last_lsn) as advance:
        totals.count(disk, advance)
    snapshots = archived_sizes(disk)
    if flags["as_json"]:
        told = {"archived_snapshots": len(snapshots), "archived_snapshot_bytes": sum(snapshots)}
        show_json(_stat_object(figures, totals) | told)
    else:
        _show_stat(figures, totals)
        if snapshots:
            click.echo(f"\n{len(snapshots):,} archived snapshots, {sum(snapshots):,} bytes")


def _span(figures: JournalStat) -> tuple[int, int]:
    """Times of the first and the last event; zeros if there are none."""
    with_events = [segment for segment in figures.segments if segment.events]
    if not with_events:
        return 0, 0
    return (
        min(segment.time_min for segment in with_events),
        max(segment.time_max for segment in with_events),
    )


def _stat_object(figures: JournalStat, totals: Totals) -> dict[str, Any]:
    first, last = _span(figures)
    return {
        "data_id": figures.data_id,
        "segments": msgspec.to_builtins(figures.segments),
        "level": max(figures.levels),
        "release": release_of(max(figures.levels)),
        "events": figures.events,
        "file_bytes": figures.file_bytes,
        "raw_bytes": figures.raw_bytes,
        "stored_bytes": figures.stored_bytes,
        "ratio": figures.ratio,
        "time_min": first,
        "time_max": last,
        "kinds": dict(totals.by_kind()),
        "queues": totals.by_queue(),
    }


def _show_stat(figures: JournalStat, totals: Totals) -> None:
    first, last = _span(figures)
    show_table(
        ("state", "first LSN", "last LSN", "blocks", "marks", "events", "bytes used"),
        [
            (
                "sealed" if segment.sealed else "active", segment.first_lsn,
                segment.last_lsn, segment.blocks, segment.marks, segment.events,
                segment.used_bytes,
            )
            for segment in figures.segments
        ],
        "segments, named by their first LSN",
    )  # fmt: skip
    click.echo(
        f"\n{figures.events:,} events, {figures.raw_bytes:,} bytes stored as "
        f"{figures.stored_bytes:,} bytes (ratio {figures.ratio:.2f})"
    )
    for level, lsn in sorted(figures.levels.items())[-1:]:
        since = f" since event {lsn}" if level > LEVEL_MIN else ""
        click.echo(f"feature level {level}{since}: read by Daybook {release_of(level)} and later")
    if first:
        click.echo(f"from {moment(first)} to {moment(last)} UTC\n")
    show_table(("kind", "events"), totals.by_kind(), "events by kind")
    click.echo("")
    headings = [kind_name(kind) for kind in QUEUE_KINDS]
    show_table(
        ("queue", *headings),
        [(row["queue"], *[row[name] for name in headings]) for row in totals.by_queue()],
        "queues",
    )
