"""Running `journal diff`: what changed between two moments."""

from contextlib import closing
from pathlib import Path
from typing import Any

import click

from daybook.history.changes import changes, dropped
from daybook.history.differences import KEYS, difference, named
from daybook.history.event_finder import EventFinder
from daybook.server.administration.overview import overview
from daybook.texts import moment, printable
from daybook.tools.history.past_states import found, states
from daybook.tools.terminal.moments import Moment
from daybook.tools.terminal.opening import history
from daybook.tools.terminal.printing import show_json, show_table


def run(
    ctx: click.Context, path: Path, first: Moment, second: Moment, flags: dict[str, Any]
) -> None:
    """Print what changed. Raises Failure, click.UsageError and JournalError."""
    disk, _, _ = history(ctx, path, flags)
    before, after = found(path, disk, first), found(path, disk, second)
    if after.lsn < before.lsn:
        raise click.UsageError(
            f"the second moment (event {after.lsn}) is before the first (event {before.lsn})"
        )
    with closing(states(path, disk, (before.lsn, after.lsn))) as both:
        sides = zip(both, (before, after), strict=True)
        told = difference(*(overview(state, at.lsn, at.time) for state, at in sides))
    with closing(EventFinder(disk, path)) as finder:
        told |= changes(path, finder, before.lsn, after.lsn)
        told |= dropped(path, finder, before.lsn, after.lsn)
    if flags["as_json"]:
        show_json(told)
    else:
        _show(told)


def _show(told: dict[str, Any]) -> None:
    first, last = told["from"], told["to"]
    click.echo(
        f"from event {first['lsn']} ({moment(first['time'])}) to event {last['lsn']} "
        f"({moment(last['time'])}) UTC"
    )
    is_same = True
    for what, (name, _) in KEYS.items():
        changes = told[what]
        for sign, which in (("+", "new"), ("-", "gone")):
            for row in changes[which]:
                is_same = False
                click.echo(f"{sign} {what}: {printable(named(row, name))}")
        for change in changes["changed"]:
            is_same = False
            click.echo(
                f"~ {what}: {printable(str(change['name']))}: {change['attribute']} was "
                f"{_shown(change['from'])}, is {_shown(change['to'])}"
            )
    for change in told["settings"]:
        is_same = False
        when = " (at run time)" if change["at_run_time"] else ""
        click.echo(
            f"~ setting {change['key']} of match {printable(change['match'])}{when}: was "
            f"{_shown(change['from'])}, is {_shown(change['to'])}"
        )
    _show_changes(told)
    is_same = is_same and not told["changes"]
    if told["standing"]:
        click.echo("")
        rows = [
            (row["queue"], row["messages"].replace("_", " "), row["before"], row["after"])
            for row in told["standing"]
        ]
        show_table(("queue", "messages", "before", "after"), rows, "standing")
    if told["traffic"]:
        headings = tuple(key.replace("_", " ") for key in told["traffic"][0])
        click.echo("")
        show_table(headings, [tuple(row.values()) for row in told["traffic"]], "messages")
    elif is_same and not (told["standing"] or told["dropped"]):
        click.echo("nothing changed")
    _show_dropped(told)


def _show_changes(told: dict[str, Any]) -> None:
    """Show what was changed on the way, also what was changed back."""
    if not told["changes"]:
        return
    click.echo("")
    rows = [
        (str(row["lsn"]), moment(row["time"]), row["kind"], row["text"], row["by"])
        for row in told["changes"]
    ]
    show_table(("event", "time", "change", "what", "by"), rows)
    if told["more_changes"]:
        click.echo("there are more changes; `journal inspect` shows all", err=True)


def _show_dropped(told: dict[str, Any]) -> None:
    """Show how many messages were dropped at each address, and why."""
    if not told["dropped"]:
        return
    click.echo("")
    rows = [tuple(row.values()) for row in told["dropped"]]
    show_table(("address", "reason", "messages"), rows, "dropped")
    if told["more_dropped"]:
        click.echo("more messages were dropped than were counted", err=True)


def _shown(value: Any) -> str:
    return "not set" if value is None else printable(str(value))
