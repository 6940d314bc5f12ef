"""Running `journal growth`: how many messages a queue had, step by step, or how many came to all
queues and left them."""

import math
import time
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import click

from daybook.client.control import is_running
from daybook.engine.core.queue_names import find_queue
from daybook.engine.refusals import Refusal
from daybook.history.event_finder import EventFinder
from daybook.history.moments import event_of, newest_lsn
from daybook.history.totals import (
    TOLD,
    Growth,
    QueueAt,
    growth_before,
    minutes_before,
    step_of,
)
from daybook.journal.disk import Disk
from daybook.server.administration.units import heading
from daybook.texts import counted, moment
from daybook.times import EPOCH, parse_time
from daybook.tools.history.past_states import opened
from daybook.tools.terminal.failures import Failure
from daybook.tools.terminal.moments import Moment
from daybook.tools.terminal.opening import history
from daybook.tools.terminal.printing import show_json, show_table


def run_whole(ctx: click.Context, path: Path, flags: dict[str, Any]) -> None:
    """Count the messages that came to all queues and left them, and print the steps. Raises
    click.UsageError and JournalError."""
    disk, _, _ = history(ctx, path, flags)
    with closing(EventFinder(disk, path)) as finder:
        end = _end(path, finder, flags["at"])
        assert end.time is not None
        until = end.time + 1
        begin = _since(flags["since"], end.time)
        told = minutes_before(finder, until, until - begin, math.inf, end.lsn)
        notes = [*told.notes(begin), *finder.notes]
    steps = told.steps(until, step_of(end.time - begin))
    if flags["as_json"]:
        rows = [{"begin": each.begin, "end": each.end} | each.counts for each in steps]
        show_json({"lsn": end.lsn, "steps": rows, "notes": notes})
        return
    show_table(
        ("from", "to", *map(heading, TOLD)),
        [
            (moment(each.begin)[:16], moment(each.end)[:19], *(each.counts[key] for key in TOLD))
            for each in steps
        ],
        f"all queues, after event {end.lsn}",
    )
    for note in notes:
        click.echo(f"note: {note}", err=True)


def run(ctx: click.Context, path: Path, name: str, flags: dict[str, Any]) -> None:
    """Count, and print the steps. Raises Failure, click.UsageError and JournalError."""
    disk, _, _ = history(ctx, path, flags)
    with closing(EventFinder(disk, path)) as finder:
        end = _end(path, finder, flags["at"])
        at = _queue_at(path, disk, name, end)
        since = _since(flags["since"], at.time)
        told = growth_before(finder, at, at.time - since, math.inf)
        notes = [*told.notes, *finder.notes]
    if flags["as_json"]:
        show_json({"queue": name, "lsn": at.lsn} | {"steps": _rows(told), "notes": notes})
        return
    show_table(
        ("from", "to", "came", "left", "messages"),
        [
            (moment(each.begin)[:16], moment(each.end)[:19], each.entered, each.left, each.messages)
            for each in told.steps
        ],
        f"{name}: {counted(at.messages, 'message')} after event {at.lsn}",
    )
    for note in notes:
        click.echo(f"note: {note}", err=True)


def _rows(told: Growth) -> list[dict[str, Any]]:
    return [each._asdict() for each in told.steps]


def _end(path: Path, finder: EventFinder, asked: Moment | None) -> Moment:
    """Return the moment that was asked for, as an event and a time: without one the newest event,
    now where a broker runs."""
    at = asked or Moment(newest_lsn(finder))
    lsn, decided = event_of(path, finder.disk, at.lsn, at.time, finder)
    if asked is None and is_running(path):
        return Moment(lsn, max(decided, time.time_ns() // 1000))
    return Moment(lsn, at.time if at.time is not None else decided)


def _since(text: str, end: int) -> int:
    """Return when the span begins that ends at a time. Raises click.UsageError."""
    try:
        since = parse_time(text, EPOCH + timedelta(microseconds=end))
    except ValueError as error:
        raise click.UsageError(f"--since: {error}") from error
    if since >= end:
        raise click.UsageError(f"--since must be before the end, which is {moment(end)} UTC")
    return since


def _queue_at(path: Path, disk: Disk, name: str, end: Moment) -> QueueAt:
    """Return a queue at a moment. Raises Failure and the errors of `opened`."""
    with opened(path, disk, end.lsn) as state:
        queue = find_queue(state, name)
        if isinstance(queue, Refusal):
            raise Failure(queue.text)
        assert end.time is not None
        return QueueAt(queue.id, queue.message_count, end.lsn, end.time)
