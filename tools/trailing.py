"""Running `journal trail`: prints the history of a message."""

from pathlib import Path
from typing import Any

import click

from daybook.tools import timeline, trail
from daybook.tools.failures import Failure
from daybook.tools.opening import history
from daybook.tools.printing import dim_with_kind, show_json
from daybook.tools.texts import moment


def run(ctx: click.Context, path: Path, message: int, flags: dict[str, Any]) -> None:
    """Print all events of a message. Raises Failure, JournalError."""
    disk, _, _ = history(ctx, path, flags)
    try:
        told = trail.follow(disk, message, path)
    except trail.NoSuchMessageError as error:
        raise Failure(str(error)) from error
    if flags["svg"] or flags["mermaid"]:
        click.echo(timeline.svg(told) if flags["svg"] else timeline.mermaid(told))
    elif flags["as_json"]:
        for step in told.steps:
            show_json(trail.step_object(step))
        now = [{"message": each, "where": where} for each, where in told.now]
        show_json({"now": now, "missing": told.missing or None})
    else:
        _show_trail(told)


def _show_trail(told: trail.Trail) -> None:
    if told.missing:
        click.echo(f"what came first is not told: {told.missing}")
    before = None
    for step in told.steps:
        if before is not None and step.told["time"] != before:
            click.echo(
                click.style(f"{'':10}{timeline.between(before, step.told['time'])}", dim=True)
            )
        before = step.told["time"]
        click.echo(dim_with_kind(_step_line(step)))
        if step.transaction:
            click.echo(f"{'':10}in transaction {step.transaction}")
        for consequence in step.consequences:
            click.echo(f"{'':10}{consequence}")
    for message, where in told.now:
        click.echo(click.style(f"now: message {message} {where}", bold=True))


def _step_line(step: trail.Step) -> str:
    kind = step.told["kind"]
    return f"{step.event.lsn:>8}  {moment(step.told['time'])}  {kind:<21} {step.text}".rstrip()
