"""Commands about the broker of a data directory: queues, addresses, diverts, clients, browse.

Most of them are described by the table of administration; here are those with options that depend
on more than a field.
"""

from pathlib import Path
from typing import Any, Final

import click
import msgspec

from daybook.engine.core.queue_names import split
from daybook.engine.facts.definitions import (
    QUEUE_ATTRIBUTES,
    QueueDefinition,
)
from daybook.server.administration import views
from daybook.server.administration.admin_requests import (
    Browse,
    QueueCreation,
)
from daybook.server.administration.request_rows import Attributes
from daybook.texts import moment
from daybook.tools.administration.broker_access import broker_option
from daybook.tools.administration.request_commands import (
    add_commands,
    attribute_options,
    change,
    command_of,
    help_of,
    if_missing_option,
    json_option,
    look,
)
from daybook.tools.terminal.failures import Commands, Failure
from daybook.tools.terminal.printing import show_json_pretty, show_table
from daybook.tools.terminal.times import time_option


@click.group(cls=Commands)
def queue() -> None:
    """Show queues and change them."""


@queue.command("create", help=help_of(QueueCreation))
@click.argument("name")
@click.option("--address", default="", help="Its address; the default is its name.")
@attribute_options(Attributes(QUEUE_ATTRIBUTES, QueueDefinition))
@click.option(
    "--retroactive-after",
    type=click.IntRange(min=0),
    metavar="EVENT",
    default=0,
    help="Get only kept messages that were sent to the address after this event (LSN).",
)
@click.option(
    "--retroactive-since",
    metavar="TIME",
    callback=time_option,
    help="Get only kept messages sent since this time (UTC, or 10m for ago).",
)
@click.option(
    "--not-retroactive", is_flag=True, help="Get none of the messages that the address keeps."
)
@if_missing_option
@broker_option
@json_option
def queue_create(
    name: str, address: str, if_missing: bool, data: Path, as_json: bool, retroactive_after: int,
    retroactive_since: int | None, not_retroactive: bool, **attributes: Any,
) -> None:  # fmt: skip
    """Ask for a queue with these attributes."""
    said, name = split(name)
    if said and address not in ("", said):
        raise Failure(f"the name says address '{said}', and --address says '{address}'")
    address = said or address
    definition = QueueDefinition(name=name, **attributes)
    change(
        data, QueueCreation.ways[0], as_json,
        if_missing=if_missing, do="create-queue", address=address,
        definition=msgspec.to_builtins(definition),
        after=-1 if not_retroactive else retroactive_after,
        since=-(-(retroactive_since or 0) // 1000),
    )  # fmt: skip


@click.group(cls=Commands)
def address() -> None:
    """Show addresses and change them."""


@click.group(cls=Commands)
def divert() -> None:
    """Show diverts and change them: copies of messages for other addresses."""


@click.group(cls=Commands)
def connection() -> None:
    """Show connections and close them."""


@click.group(cls=Commands)
def link() -> None:
    """Show the links by which clients send and receive."""


@click.group(cls=Commands, name="auto-link")
def auto_link() -> None:
    """Show the links that the broker attaches by itself to others."""


@click.group(cls=Commands)
def consumer() -> None:
    """Show consumers."""


for _group in (queue, address, divert, connection, link, auto_link, consumer):
    add_commands(_group)

connectors: Final = command_of("connectors")


@click.command(help=help_of(Browse))
@click.argument("name", metavar="QUEUE")
@click.option(
    "--offset",
    type=click.IntRange(0, views.OFFSET_MAX),
    default=0,
    help="Skip this many messages.",
)
@click.option(
    "--limit",
    type=click.IntRange(1, views.PAGE_MAX),
    default=views.PAGE_DEFAULT,
    show_default=True,
    help="Show this many messages; with --filter, look at so many.",
)
@click.option(
    "--filter", "chosen_by", default="", metavar="CONDITION",
    help="Show only messages for which this is true, as in SQL-92 (docs/filters.md).",
)  # fmt: skip
@broker_option
@json_option
def browse(name: str, offset: int, limit: int, chosen_by: str, data: Path, as_json: bool) -> None:
    """Show a page of a queue."""
    answer = look(
        data,
        {"do": "browse", "queue": name, "offset": offset, "limit": limit, "filter": chosen_by},
    )
    if as_json:
        show_json_pretty(answer)
        return
    show_table(
        ("message", "state", "attempts", "priority", "expires", "due", "bytes", "body"),
        [
            (
                str(row["message"]), row["state"], row["delivery_count"], row["priority"],
                *(moment(row[time] * 1000) if row[time] else None for time in ("expires", "due")),
                row["body_bytes"], _preview(row),
            )
            for row in answer["messages"]
        ],
    )  # fmt: skip
    if answer["next_offset"] is not None:
        left = answer["in_queue"] - answer["next_offset"]
        click.echo(f"{left:,} more; continue with --offset {answer['next_offset']}", err=True)


def _preview(row: dict[str, Any]) -> str:
    text = str(row.get("body", f"base64 {row.get('body_base64')}"))
    text = "".join(each if each.isprintable() else "\N{MIDDLE DOT}" for each in text[:61])
    return text if len(text) <= 60 else text[:57] + "..."
