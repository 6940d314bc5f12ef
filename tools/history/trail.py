"""Running `journal trail`: finds the messages that are asked for, and prints their history."""

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Final

import click

from daybook.history import trail, trail_drawing
from daybook.history.brokers import journeys
from daybook.history.brokers.journals import Journal
from daybook.history.brokers.journeys import Leg
from daybook.history.contents import (
    WithBody,
    WithHeader,
    check_is_there,
    found_messages,
    sha256_of,
)
from daybook.history.event_finder import EventFinder
from daybook.journal.disk import Disk
from daybook.texts import counted, moment
from daybook.tools.terminal.failures import Failure
from daybook.tools.terminal.opening import history
from daybook.tools.terminal.printing import dim_with_kind, show_json

MANY_EVENTS: Final = 1_000_000
"""From so many events without a catalog on, it is worth to say so."""


def run(ctx: click.Context, paths: Sequence[Path], message: int, flags: dict[str, Any]) -> None:
    """Print all events of the messages that are asked for; they are in the journal of the first
    data directory. Raises Failure, JournalError."""
    # The environment names an archive of one broker.
    own = flags if len(paths) == 1 else flags | {"url": None}
    finders = [_opened(ctx, path, own) for path in paths]
    try:
        if len(paths) > 1:
            journals = list(map(Journal, paths, finders))
            for each in [message] if message else _found(finders[0], paths[0], flags):
                _show_journey(journeys.follow(journals, each), flags)
        elif message:
            _show(trail.follow(finders[0], message, paths[0]), flags)
        else:
            _show_found(finders[0], paths[0], flags)
    finally:
        for finder in finders:
            _show_notes(finder)


def _opened(ctx: click.Context, path: Path, flags: dict[str, Any]) -> EventFinder:
    disk, _, _ = history(ctx, path, flags)
    finder = EventFinder(disk, path)
    ctx.call_on_close(finder.close)
    return finder


def _show_journey(legs: Sequence[Leg], flags: dict[str, Any]) -> None:
    """Print what happened to a message on each broker."""
    for number, leg in enumerate(legs):
        path = leg.journal.path
        if flags["as_json"]:
            told = _as_objects(leg.trail)
            told[-1] |= {"before": list(leg.before), "behind": list(leg.behind)}
            for each in told:
                show_json({"data": str(path), **each})
            continue
        if number:
            click.echo()
        click.echo(click.style(f"in {path}, data directory {leg.journal.data_id}:", bold=True))
        for text in leg.before:
            click.echo(text)
        _show_trail(leg.trail)
        for text in leg.behind:
            click.echo(text)


def _show_notes(finder: EventFinder) -> None:
    """Say on standard error what was read because it has no catalog."""
    for note in finder.notes:
        click.echo(f"note: {note}", err=True)
    missing = finder.uncatalogued()
    if missing >= MANY_EVENTS:
        click.echo(
            f"note: {missing:,} events are in no catalog, so they were searched; 'journal catalog' "
            "makes what is missing",
            err=True,
        )


def _found(finder: EventFinder, path: Path, flags: dict[str, Any]) -> Iterator[int]:
    """Yield the first messages that contain something, as many as are wanted. Raises Failure."""
    sought, what = _sought(finder.disk, flags)
    check_is_there(path, sought)
    count = 0
    for message in islice(found_messages(finder, sought, flags["from_message"]), flags["limit"]):
        yield message
        count += 1
    if not count:
        raise Failure(f"there is no message with {what} in {path}")


def _show_found(finder: EventFinder, path: Path, flags: dict[str, Any]) -> None:
    """Print the trails of all messages that contain something, each family once."""
    sought, what = _sought(finder.disk, flags)
    families = matches = 0
    begin = flags["from_message"]
    for message, told in trail.follow_each(finder, sought, path, begin):
        if told is not None and families == flags["limit"]:
            click.echo(
                f"{counted(matches, 'message')} with {what}, and there are more: see --limit,"
                f" or begin with --from {message}",
                err=True,
            )
            return
        matches += 1
        if told is None:
            continue
        if families and (flags["svg"] or flags["mermaid"]):
            raise Failure(
                f"there are several messages with {what}, and a drawing shows one: ask for "
                f"message {told.messages[0]}, or leave out --svg and --mermaid to see all"
            )
        if families and not flags["as_json"]:
            click.echo()
        _show(told, flags)
        families += 1
    if matches > 1 and not flags["as_json"]:
        click.echo(f"{counted(matches, 'message')} with {what}", err=True)
    if not families:
        missing = trail.missing_before(finder.disk, path)
        raise Failure(
            f"there is no message with {what}; a message that no queue took was dropped without "
            f"its content: "
            "`journal inspect --kind Dropped` lists it" + (f"; {missing}" if missing else "")
        )


def _sought(disk: Disk, flags: dict[str, Any]) -> tuple[WithHeader | WithBody, str]:
    """Return what is sought, and how to call it. Raises OSError."""
    if flags["header"] is not None:
        name, _, value = flags["header"].partition("=")
        return WithHeader(name, value), f"the header {name}={value}"
    if flags["body"] is not None:
        sha256, size = sha256_of(flags["body"])
        return WithBody(disk, sha256, size), f"the body in {flags['body']}"
    return WithBody(disk, bytes.fromhex(flags["body_sha256"])), "a body of this SHA-256"


def _show(told: trail.Trail, flags: dict[str, Any]) -> None:
    if flags["svg"] or flags["mermaid"]:
        click.echo(trail_drawing.svg(told) if flags["svg"] else trail_drawing.mermaid(told))
    elif flags["as_json"]:
        for each in _as_objects(told):
            show_json(each)
    else:
        _show_trail(told)


def _as_objects(told: trail.Trail) -> list[dict[str, Any]]:
    """Return a trail for programs: its steps, and the end."""
    now = [{"message": each, "where": where} for each, where in told.now]
    end = {"now": now, "missing": told.missing or None, "ended": told.ended or None}
    return [*map(trail.step_object, told.steps), end]


def _show_trail(told: trail.Trail) -> None:
    if told.missing:
        click.echo(f"earlier history is unavailable: {told.missing}")
    before = None
    for step in told.steps:
        if before is not None and step.told["time"] != before:
            click.echo(
                click.style(f"{'':10}{trail_drawing.between(before, step.told['time'])}", dim=True)
            )
        before = step.told["time"]
        click.echo(dim_with_kind(_step_line(step)))
        if step.transaction:
            click.echo(f"{'':10}in transaction {step.transaction}")
        for consequence in step.consequences:
            click.echo(f"{'':10}{consequence.text}")
    if told.ended:
        click.echo(f"later history is unavailable: {told.ended}")
    for message, where in told.now:
        click.echo(click.style(f"now: message {message} {where}", bold=True))


def _step_line(step: trail.Step) -> str:
    kind = step.told["kind"]
    return f"{step.event.lsn:>8}  {moment(step.told['time'])}  {kind:<21} {step.text}".rstrip()
