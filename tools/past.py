"""The broker as it was after an event: `journal inspect --at`, and what `journal diff` compares.

Shows the same views as those of a running broker. Must never know how the state was found.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import click

from daybook.engine.facts.events import TIME
from daybook.engine.refusals import Refusal
from daybook.engine.state.state import State
from daybook.history.beginning import before_the_first
from daybook.history.moments import last_lsn, lsn_at
from daybook.history.scan import event_at
from daybook.journal.disk import Disk
from daybook.journal.segments.segment import first_lsn_of
from daybook.paging.snapshots.base import BaseDamaged
from daybook.paging.tables.tables import IndexDamaged, IndexUnwritable
from daybook.recovery.fold import FoldError
from daybook.recovery.moments import state_at
from daybook.recovery.signing.export_proof import redacted_in
from daybook.server.administration import connections, views
from daybook.tools.terminal.failures import Failure
from daybook.tools.terminal.moments import Moment
from daybook.tools.terminal.printing import print_line, progress, show_json, show_table
from daybook.tools.terminal.texts import moment, printable, without_redacted

MESSAGES_DEFAULT: Final = 100
"""How many messages of a queue are shown."""
ROWS_MAX: Final = 1000
"""How many rows of a table are shown to people; JSON has all."""


def found(directory: Path, disk: Disk, asked: Moment) -> Moment:
    """Return the event of a moment with its time. Raises Failure, ExportError and JournalError."""
    lsn = lsn_at(disk, asked.time) if asked.time is not None else asked.lsn
    event = event_at(disk, lsn) if lsn else None
    if event is None and lsn < first_lsn_of(disk):
        raise Failure(
            f"the journal begins with event {first_lsn_of(disk)}, after "
            f"{moment(asked.time) if asked.time is not None else f'event {lsn}'}; "
            f"{before_the_first(directory, disk)}"
        )
    if event is None:
        raise Failure(f"the journal ends with event {last_lsn(disk)}, before event {lsn}")
    return Moment(lsn, event.row[TIME])


@contextmanager
def opened(directory: Path, disk: Disk, lsn: int) -> Iterator[State]:
    """Yield the state after an event. Raises Failure and JournalError."""

    def note(text: str) -> None:
        click.echo(text, err=True)

    try:
        with progress("folding", 100) as advance:

            def folded(done: int, total: int) -> None:
                advance(100 * done // total)

            with state_at(directory, disk, lsn, note=note, progress=folded) as state:
                yield state
    except (BaseDamaged, IndexDamaged, IndexUnwritable, FoldError) as error:
        raise Failure(str(error)) from error


def run(directory: Path, disk: Disk, asked: Moment, flags: dict[str, Any]) -> None:
    """Print the broker after an event, or one queue of it. Raises Failure and JournalError."""
    at = found(directory, disk, asked)
    with opened(directory, disk, at.lsn) as state:
        if flags["queue"]:
            _show_queue(state, at, flags | {"redacted": redacted_in(directory).parts})
        elif flags["as_json"]:
            show_json(overview(state, at))
        else:
            _show_overview(overview(state, at))


def overview(state: State, at: Moment) -> dict[str, Any]:
    """Return everything that exists at a moment, except messages."""
    return {
        "lsn": at.lsn,
        "time": at.time,
        **views.counts(state),
        "list_of_queues": _all(lambda offset: views.queues(state, offset=offset), "queues"),
        "list_of_addresses": _all(
            lambda offset: views.addresses(state, offset=offset), "addresses"
        ),
        "list_of_connections": _all(
            lambda offset: connections.connections(state, offset), "connections"
        ),
        "list_of_consumers": _all(lambda offset: connections.consumers(state, offset), "consumers"),
        "settings": state.settings.to_dict(),
        "settings_at_run_time": state.settings.live_to_dict(),
    }


def _all(page: Callable[[int], dict[str, Any]], what: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    offset: int | None = 0
    while offset is not None:
        answer = page(offset)
        rows += answer[what]
        offset = answer["next_offset"]
    return rows


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
    held = [without_redacted(_with_holder(state, row), flags["redacted"]) for row in told]
    count = state.queue_by_name[flags["queue"]].message_count
    if flags["as_json"]:
        show_json({"lsn": at.lsn, "time": at.time, "queue": flags["queue"], "in_queue": count})
        for row in held:
            show_json(row)
        return
    click.echo(
        f"queue {printable(flags['queue'])} after event {at.lsn} ({moment(at.time or 0)} UTC): "
        f"{count:,} messages"
    )
    if not held:
        return
    headings = ("message", "state", "held by", "deliveries", "priority", "bytes", "expires")
    show_table(headings, [_line_of(row) for row in held])
    if flags["bodies"]:
        for row in held:
            print_line(f"{row['message']:>10}  {_body_of(row)}")
    if count > len(held):
        click.echo(f"and {count - len(held):,} more: --limit")


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
        page = views.browse(state, name, offset=offset, limit=min(limit, views.PAGE_MAX))
        if isinstance(page, Refusal):
            raise Failure(page.text)
        yield from page["messages"]
        limit -= len(page["messages"])
        offset = page["next_offset"]
