"""`daybook queue messages`: the messages of a queue, and why they died, also by groups.

Reads pages of the running broker, else of the journal. It reads deaths from the headers that the
broker wrote into dead letters and expired messages. Must never change anything.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import click

from daybook.server.administration import views
from daybook.server.administration.deaths import (
    CRITERIA,
    FIELDS,
    LOOKED_AT_MAX,
    NUMBERS,
    death_in,
    next_page,
)
from daybook.texts import counted, moment, printable
from daybook.tools.administration.broker_access import broker_option
from daybook.tools.administration.broker_commands import queue
from daybook.tools.administration.request_commands import Looking, at_option, json_option, look
from daybook.tools.terminal.printing import show_json, show_table

__all__ = ["queue"]

TEXT_LENGTH_MAX: Final = 60


def _pages(name: str, begin: int, end: int, chosen_by: str, data: Path) -> Iterator[dict[str, Any]]:
    """Yield pages of a queue, from one place in it to another."""
    looking = Looking(data)
    offset: int | None = begin
    while offset is not None and offset < end:
        page = looking.ask(next_page(name, offset, end, chosen_by))
        yield page
        offset = page["next_offset"]


@queue.command("messages")
@click.argument("name")
@click.option(
    "--group-by", type=click.Choice(CRITERIA),
    help="Count messages by an attribute of their death: its reason, the queue or address they "
        "were in, the"
    " error or the user of the consumer, how the last delivery ended, or the hour or day.",
)  # fmt: skip
@click.option(
    "--limit", type=click.IntRange(1, LOOKED_AT_MAX), default=None, metavar="N",
    help=f"Look at this many messages; {views.PAGE_DEFAULT} unless given, with --group-by"
    f" {LOOKED_AT_MAX:,}, which is the most.",
)  # fmt: skip
@click.option(
    "--offset", type=click.IntRange(0, views.OFFSET_MAX), default=0, metavar="N",
    help="Pass over this many messages first.",
)  # fmt: skip
@click.option(
    "--filter", "chosen_by", default="", metavar="CONDITION",
    help="Only messages for which this is true, as in SQL-92 (docs/filters.md).",
)  # fmt: skip
@at_option
@broker_option
@json_option
def queue_messages(
    name: str,
    group_by: str | None,
    limit: int | None,
    offset: int,
    chosen_by: str,
    data: Path,
    as_json: bool,
) -> None:
    """Show the messages of a queue, and why, when and where those died that are dead letters or
    expired. Messages stay in the queue."""
    if group_by:
        asked = {
            "do": "deaths", "queue": name, "by": group_by, "filter": chosen_by,
            "limit": limit or LOOKED_AT_MAX, "offset": offset,
        }  # fmt: skip
        _show_grouped(asked, data, as_json=as_json)
        return
    most = limit or views.PAGE_DEFAULT
    rows: list[dict[str, Any]] = []
    page: dict[str, Any] = {}
    for page in _pages(name, offset, offset + most, chosen_by, data):
        rows += [row | {"death": death_in(row["headers"])} for row in page["messages"]]
    left = page["in_queue"] - page["next_offset"] if page["next_offset"] is not None else 0
    told: dict[str, Any] = {"queue": page["queue"], "in_queue": page["in_queue"], "left": left}
    if as_json:
        show_json(told | {"messages": rows})
    else:
        _show(rows)
        _show_left(left, page["next_offset"])


def _show_left(left: int, following: int | None) -> None:
    if following is not None:
        click.echo(
            f"{counted(left, 'message')} more, which this did not look at: --offset {following}",
            err=True,
        )


def _show_grouped(asked: dict[str, Any], data: Path, *, as_json: bool) -> None:
    """Show how many messages have each value of a field."""
    told = look(data, asked)
    if as_json:
        show_json(
            {key: told[key] for key in ("queue", "in_queue", "left", "next_offset", "groups")}
        )
        return
    _show_groups(told["groups"], asked["by"])
    _show_left(told["left"], told["next_offset"])


def _show_groups(groups: list[dict[str, Any]], field: str) -> None:
    show_table(
        (field, "messages", "first death", "last death"),
        [
            (
                _shortened(group[field]), group["messages"], _when(group["first_time"]),
                _when(group["last_time"]),
            )
            for group in groups
        ],
    )  # fmt: skip


def _show(rows: list[dict[str, Any]]) -> None:
    table = []
    for row in rows:
        death = row["death"] or dict.fromkeys((*FIELDS, *NUMBERS))
        table.append(
            (
                str(row["message"]), row["state"], death["reason"], death["ended"],
                death["attempts"], death["count"], _when(death["time"]), death["queue"],
                death["user"], _shortened(death["error"]), row["body_bytes"],
            )
        )  # fmt: skip
    show_table(
        (
            "message", "state", "died of", "last delivery", "attempts", "deaths", "last death",
            "queue", "user", "error", "bytes",
        ),
        table,
    )  # fmt: skip


def _when(milliseconds: int | None) -> str | None:
    return moment(milliseconds * 1000) if milliseconds is not None else None


def _shortened(text: str | None) -> str | None:
    if not text:
        return text
    text = printable(text)
    return text if len(text) <= TEXT_LENGTH_MAX else text[: TEXT_LENGTH_MAX - 3] + "..."
