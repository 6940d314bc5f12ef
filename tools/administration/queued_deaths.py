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
    Sums,
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
    "--whole", is_flag=True,
    help=f"With --group-by: add up the groups of the whole queue, {LOOKED_AT_MAX:,} messages at a"
    f" time; of the first {views.OFFSET_MAX + LOOKED_AT_MAX:,} at most.",
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
    whole: bool,
    offset: int,
    chosen_by: str,
    data: Path,
    as_json: bool,
) -> None:
    """Show the messages of a queue, and why, when and where those died that are dead letters or
    expired. Messages stay in the queue."""
    if whole and (not group_by or limit):
        raise click.UsageError("--whole adds up groups: give --group-by, and leave out --limit")
    if group_by:
        asked = {
            "do": "deaths", "queue": name, "by": group_by, "filter": chosen_by,
            "limit": limit or LOOKED_AT_MAX, "offset": offset,
        }  # fmt: skip
        found = _whole(asked, data) if whole else look(data, asked)
        _show_grouped(found, group_by, as_json=as_json)
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
    if left:
        further = f": --offset {following}" if following is not None else ""
        click.echo(
            f"{counted(left, 'message')} more, which this did not look at{further}", err=True
        )


def _whole(asked: dict[str, Any], data: Path) -> dict[str, Any]:
    """Return the groups of all parts of a queue, added up."""
    looking, sums = Looking(data), Sums(asked["by"])
    following: int | None = asked["offset"]
    while following is not None:
        following = sums.add(looking.ask(asked | {"offset": following}))
    return sums.answer()


def _show_grouped(told: dict[str, Any], field: str, *, as_json: bool) -> None:
    """Show how many messages have each value of a field."""
    if as_json:
        keys = ("queue", "in_queue", "left", "next_offset", "groups", "in_other_groups")
        show_json({key: told[key] for key in keys if key in told})
        return
    _show_groups(told["groups"], field)
    if told.get("in_other_groups"):
        click.echo(f"{counted(told['in_other_groups'], 'message')} in other groups", err=True)
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
