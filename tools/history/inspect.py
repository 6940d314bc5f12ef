"""Running `journal inspect`: prints the events of a journal as a story, as far as they are
durable."""

import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any, Final, TypeAlias

import click
import msgspec
from msgspec.structs import replace

from daybook.client.control import is_running
from daybook.engine.refusals import Refusal
from daybook.engine.state.state import State
from daybook.history.changes import Askers, Former, is_after_a_crash
from daybook.history.descriptions import as_object, line, skipped_words
from daybook.history.event_finder import EventFinder
from daybook.history.initial_state import before_the_first, what_is_missing
from daybook.history.names import Names
from daybook.history.scan import Event
from daybook.history.selection import (
    Question,
    begin_of_last,
    begins_before,
    begun,
    parse_kinds,
)
from daybook.journal.blocks.format import FIRST_LSN, segment_first_lsn
from daybook.journal.disk import Disk
from daybook.journal.errors import JournalError
from daybook.journal.pins import Pin
from daybook.journal.segments.segment import first_lsn_of, segment_names
from daybook.journal.segments.stat import stat
from daybook.recovery.signing.export_proof import redacted_in
from daybook.server.administration import views
from daybook.server.administration.overview import overview
from daybook.server.process.slices import at_once
from daybook.texts import counted, moment, printable, without_redacted
from daybook.tools.history.past_states import found, opened
from daybook.tools.terminal.failures import Failure
from daybook.tools.terminal.moments import Moment
from daybook.tools.terminal.opening import history
from daybook.tools.terminal.printing import dim_with_kind, print_line, show_json, show_table

FOLLOW_SECONDS: Final = 0.1
MESSAGES_DEFAULT: Final = 100
"""How many messages of a queue are shown."""
ROWS_MAX: Final = 1000
"""How many rows of a table are shown to people; JSON has all."""

About: TypeAlias = tuple[EventFinder, Askers, Former]
"""What else is found out about each event."""


def run(ctx: click.Context, path: Path, flags: dict[str, Any]) -> None:
    """Print the events that the flags select. Raises Failure, click.UsageError, JournalError."""
    if flags["at"] is not None:
        _check_alone(flags)
        disk, _, _ = history(ctx, path, flags)
        _show_past(path, disk, flags["at"], flags)
        return
    question = _question(flags)
    disk, pin, _ = history(ctx, path, flags)
    flags = flags | {"redacted": redacted_in(path)}
    _note_beginning(path, disk, question)
    finder = EventFinder(disk, path)
    ctx.call_on_close(finder.close)
    is_proven = is_running(path)
    if flags["last"]:
        begin = begin_of_last(
            finder, path, question, flags["last"], proven=is_proven, joins=not flags["as_json"]
        )
        question = replace(question, from_lsn=begin)
    inspection = begun(path, finder, question, reads_names=flags["follow"], note=_note)
    follow = Following(disk, pin) if flags["follow"] else None
    found = inspection.runs(joins=not flags["as_json"], proven=is_proven, follow=follow)
    about = finder, Askers(finder, grows=follow is not None), Former(finder, path)
    try:
        told = _print(found, inspection.names, about, flags)
    except KeyboardInterrupt:
        if not follow:
            raise
        return
    if not told and inspection.unknown:
        raise Failure(_never_was(path, finder, question))
    if not told:
        _explain_silence(disk, question)
    for text in finder.notes:
        _note(f"note: {text}")


def _note(text: str) -> None:
    click.echo(text, err=True)


def _print(
    found: Iterator[tuple[Event, int]],
    names: Names,
    about: About,
    flags: dict[str, Any],
) -> int:
    """Print events; return how many."""
    told = 0
    for event, last_lsn in islice(found, flags["limit"]):
        told += 1
        print_line(_told(event, names, about, flags) + _up_to(event, last_lsn))
        if event.body and not flags["as_json"]:
            print_line(f"{'':10}{printable(event.body.decode('utf-8', 'backslashreplace'))}")
    return told


def _check_alone(flags: dict[str, Any]) -> None:
    """Refuse what chooses events where a state is asked for. Raises click.UsageError."""
    options = {
        "from_lsn": "--from", "to_lsn": "--to", "since": "--since", "until": "--until",
        "address": "--address", "message": "--message", "kinds": "--kind",
        "connection": "--connection", "last": "--last", "follow": "--follow",
    }  # fmt: skip
    for flag, option in options.items():
        if flags[flag]:
            raise click.UsageError(
                f"--at shows a state and {option} chooses events: give one of them"
            )
    if not flags["queue"] and (flags["bodies"] or flags["limit"]):
        raise click.UsageError("with --at, --bodies and --limit are for the messages of a --queue")


def _up_to(event: Event, last_lsn: int) -> str:
    """Return what stands behind the line of events that are joined."""
    return f": {skipped_words(event.lsn, last_lsn)}" if last_lsn > event.lsn else ""


def _explain_silence(disk: Disk, question: Question) -> None:
    """Report on standard error that there is nothing to show because the journal ends before."""
    last = stat(disk).segments[-1].last_lsn
    if question.from_lsn > last:
        click.echo(
            f"nothing to show: the journal ends at LSN {last}, before --from {question.from_lsn}",
            err=True,
        )


def _note_beginning(path: Path, disk: Disk, question: Question) -> None:
    """Say on standard error that a part of what is asked for left the journal, or was never in
    it."""
    # Damage there is reported if it is in what was asked for.
    with suppress(JournalError):
        if begins_before(disk, question):
            click.echo(f"note: {what_is_missing(path, disk)}", err=True)


def _told(event: Event, names: Names, about: About, flags: dict[str, Any]) -> str:
    if flags["as_json"]:
        return msgspec.json.encode(as_object(event, names, flags["redacted"])).decode()
    finder, askers, former = about
    asked = askers.words(event)
    told = line(
        event, names, flags["redacted"], former.before(event),
        is_crash=is_after_a_crash(finder, event),
    )  # fmt: skip
    told += f"; {asked}" if asked else ""
    return dim_with_kind(told)


def _question(flags: dict[str, Any]) -> Question:
    """Return the filters of the flags; click.UsageError if they contradict each other."""
    try:
        kinds = parse_kinds(flags["kinds"])
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    if flags["last"] and flags["limit"]:
        raise click.UsageError("--last and --limit exclude each other")
    first, last = flags["from_lsn"] or 1, flags["to_lsn"]
    if last is not None and last < first:
        raise click.UsageError(f"--from {first} is behind --to {last}")
    since, until = flags["since"], flags["until"]
    if since is not None and until is not None and until < since:
        raise click.UsageError(f"--since ({moment(since)}) is behind --until ({moment(until)})")
    return Question(
        first, last, since, until, flags["address"], flags["queue"], flags["message"] or 0,
        kinds, flags["connection"] or 0, flags["bodies"],
    )  # fmt: skip


class Following:
    """Waits at the end of the journal, and releases history that was read."""

    def __init__(self, disk: Disk, pin: Pin, seconds: float = FOLLOW_SECONDS) -> None:
        self._disk: Final = disk
        self._pin: Final = pin
        self._seconds: Final = seconds
        self._newest_lsn = 1

    def __call__(self) -> bool:
        """Wait a moment; return True, because there may be more to read."""
        sys.stdout.flush()
        # The end of the previous call has been read, that of this call perhaps not.
        self._pin.advance(self._newest_lsn)
        newest = segment_names(self._disk)[-1:]
        self._newest_lsn = max((segment_first_lsn(name) or 1 for name in newest), default=1)
        time.sleep(self._seconds)
        return True


def _never_was(path: Path, finder: EventFinder, question: Question) -> str:
    """Return that there never was a queue or address, and which there were."""
    disk = finder.disk
    inspection = begun(path, finder, question, reads_names=True, note=_note)
    inspection.read_names(question.to_lsn)
    what = inspection.unknown
    name = question.queue if what == "queue" else question.address
    names = inspection.known(what)
    shown = ", ".join(repr(each) for each in names[:10]) + (", ..." if len(names) > 10 else "")
    first_lsn = first_lsn_of(disk)
    if first_lsn > FIRST_LSN and not inspection.known_lsn:
        return (
            f"no event here gives the name of the {what} '{name}', and names from before event "
            f"{first_lsn} are not known: {before_the_first(path, disk)}. Named here: "
            + (shown or "none")
        )
    since = f"since event {inspection.known_lsn} there was no" if inspection.known_lsn else ""
    return f"{since or 'up to here there never was the'} {what} '{name}'; there were: " + (
        shown or "none"
    )


# ---- the broker as it was (--at)


def _show_past(directory: Path, disk: Disk, asked: Moment, flags: dict[str, Any]) -> None:
    """Print the broker after an event, or one queue of it. Raises Failure and JournalError."""
    at = found(directory, disk, asked)
    with opened(directory, disk, at.lsn) as state:
        if flags["queue"]:
            _show_queue(state, at, flags | {"redacted": redacted_in(directory).parts})
        elif flags["as_json"]:
            show_json(overview(state, at.lsn, at.time))
        else:
            _show_overview(overview(state, at.lsn, at.time))


def _show_overview(told: dict[str, Any]) -> None:
    click.echo(f"after event {told['lsn']} ({moment(told['time'])} UTC)\n")
    tables = (
        ("queues", {"queue": "queue", "address": "address", "ready": "ready",
                    "in_flight": "in flight", "scheduled": "scheduled", "held": "held",
                    "consumers": "consumers", "bytes": "bytes", "paused": "paused"}),
        ("addresses", {"address": "address", "routing_types": "routing types",
                       "queue_count": "queues", "messages": "messages", "bytes": "bytes",
                       "paging": "paging"}),
        ("connections", {"connection": "id", "user": "user", "peer": "peer",
                         "client_id": "client id", "protocol": "protocol",
                         "consumers": "consumers", "in_flight": "in flight"}),
        ("consumers", {"consumer": "id", "connection": "connection", "user": "user",
                       "queue": "queue", "subscription": "subscription", "filter": "filter",
                       "in_flight": "in flight"}),
    )  # fmt: skip
    for what, columns in tables:
        rows = told[f"list_of_{what}"]
        _show_rows(what, columns, rows)
    _show_settings(told)


def _show_rows(what: str, columns: dict[str, str], rows: list[dict[str, Any]]) -> None:
    if not rows:
        click.echo(f"no {what}\n")
        return
    shown = [[_cell(row[key]) for key in columns] for row in rows[:ROWS_MAX]]
    show_table(tuple(columns.values()), shown, what)
    if len(rows) > ROWS_MAX:
        click.echo(f"and {len(rows) - ROWS_MAX:,} more: --json has all")
    click.echo("")


def _cell(value: Any) -> Any:
    return ", ".join(value) if isinstance(value, list | tuple) else value


def _show_settings(told: dict[str, Any]) -> None:
    origins = (("settings", "configuration"), ("settings_at_run_time", "run time"))
    rows = [
        (match, key, value, origin)
        for which, origin in origins
        for match, values in told[which].items()
        for key, value in values.items()
    ]
    if rows:
        show_table(("match", "key", "value", "from"), rows, "settings")
    else:
        click.echo("no settings but the defaults")


def _show_queue(state: State, at: Moment, flags: dict[str, Any]) -> None:
    """Print the messages of a queue, in the order of their delivery, and their holders."""
    told = _messages(state, flags["queue"], flags["limit"] or MESSAGES_DEFAULT)
    rows = [without_redacted(_with_holder(state, row), flags["redacted"]) for row in told]
    count = state.queue_by_name[flags["queue"]].message_count
    if flags["as_json"]:
        show_json({"lsn": at.lsn, "time": at.time, "queue": flags["queue"], "in_queue": count})
        for row in rows:
            show_json(row)
        return
    click.echo(
        f"queue {printable(flags['queue'])} after event {at.lsn} ({moment(at.time or 0)} UTC): "
        f"{counted(count, 'message')}"
    )
    if not rows:
        return
    headings = ("message", "state", "held by", "deliveries", "priority", "bytes", "expires")
    show_table(headings, [_line_of(row) for row in rows])
    if flags["bodies"]:
        for row in rows:
            print_line(f"{row['message']:>10}  {_body_of(row)}")
    if count > len(rows):
        click.echo(f"and {count - len(rows):,} more: --limit")


def _body_of(row: dict[str, Any]) -> str:
    body = row.get("body", "(binary)")
    return printable(body) if body is not None else "(redacted)"


def _line_of(row: dict[str, Any]) -> tuple[Any, ...]:
    expires = moment(row["expires"] * 1000) if row["expires"] else None
    return (
        row["message"], row["state"], row["held_by"], row["delivery_count"], row["priority"],
        row["body_bytes"], expires,
    )  # fmt: skip


def _with_holder(state: State, row: dict[str, Any]) -> dict[str, Any]:
    """Add the holder of a message in delivery."""
    consumer = state.consumers.get(row["consumer"]) if row["consumer"] else None
    if consumer is None:
        return row | {"held_by": None}
    connection = consumer.connection
    client = f" ({connection.client_id})" if connection.client_id else ""
    who = f"{connection.user or '?'}{client} from {connection.peer}, consumer {consumer.id}"
    return row | {"held_by": who}


def _messages(state: State, name: str, limit: int) -> Iterator[dict[str, Any]]:
    """Yield messages of a queue, at most so many. Raises Failure if there is no such queue."""
    offset: int | None = 0
    while limit and offset is not None:
        page = at_once(views.browse(state, name, offset=offset, limit=min(limit, views.PAGE_MAX)))
        if isinstance(page, Refusal):
            raise Failure(page.text)
        yield from page["messages"]
        limit -= len(page["messages"])
        offset = page["next_offset"]
