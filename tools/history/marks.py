"""Running `journal marks`: the marks of the time line, some at a time."""

from contextlib import closing
from pathlib import Path
from typing import Any

import click

from daybook.history.event_finder import EventFinder
from daybook.history.reports.marks import MARKS_MAX, Mark, marks_before
from daybook.journal.disk import Disk
from daybook.texts import moment
from daybook.tools.terminal.moments import Moment
from daybook.tools.terminal.opening import history, lsn_of
from daybook.tools.terminal.printing import show_json, show_table


def run(ctx: click.Context, path: Path, flags: dict[str, Any]) -> None:
    """Print the marks that the flags select. Raises click.UsageError and JournalError."""
    disk, _, _ = history(ctx, path, flags)
    with closing(EventFinder(disk, path)) as finder:
        end = _end(disk, flags["before"])
        told = marks_before(finder, path, flags["limit"] or MARKS_MAX, end)
        notes = finder.notes
    if flags["as_json"]:
        show_json(told)
        return
    show_table(("event or report", "time", "kind", "what"), [_row(each) for each in told.marks])
    if told.older:
        click.echo(f"note: there are older marks: --before {told.older}", err=True)
    for note in notes:
        click.echo(f"note: {note}", err=True)


def _end(disk: Disk, asked: Moment | None) -> int:
    """Return the event before which marks are shown, 0 for the newest. The event of a time is
    one of them. Raises JournalError."""
    if asked is None:
        return 0
    lsn = lsn_of(disk, asked)
    assert lsn is not None
    return max(1, lsn if asked.time is None else lsn + 1)


def _row(mark: Mark) -> tuple[str, str, str, str]:
    place = str(mark.lsn) if mark.lsn else mark.report
    failed = " (failed)" if mark.is_bad and not mark.lsn else ""
    return place, moment(mark.time), f"{mark.kind}{failed}", mark.text
