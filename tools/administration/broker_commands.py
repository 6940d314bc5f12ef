"""Commands about the broker of a data directory: queues, addresses, diverts, clients, browse.

Most of them are described by the table of administration; here are those with options that depend
on more than a field.
"""

from base64 import b64decode
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
from daybook.server.administration.bodies import forms_of
from daybook.server.administration.message_requests import MessagePeek
from daybook.server.administration.request_rows import Attributes
from daybook.texts import moment, printable
from daybook.tools.administration.broker_access import broker_option
from daybook.tools.administration.queue_details import queue_show
from daybook.tools.administration.request_commands import (
    add_commands,
    at_option,
    attribute_options,
    change,
    command_of,
    help_of,
    if_missing_option,
    json_option,
    look,
)
from daybook.tools.terminal.failures import Commands, Failure
from daybook.tools.terminal.numbers import NUMBER
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


@queue.command("peek", help=help_of(MessagePeek))
@click.argument("name", metavar="QUEUE")
@click.argument("message", type=NUMBER)
@click.option(
    "--piece", type=NUMBER, default=1, metavar="N", help="Show this piece of the body, from 1 on."
)
@click.option(
    "--as", "form", type=click.Choice(("json", "xml", "text", "hex")), default=None,
    help="The form of the body; the first of these that fits, unless given.",
)  # fmt: skip
@at_option
@broker_option
@json_option
def queue_peek(
    name: str, message: int, piece: int, form: str | None, data: Path, as_json: bool
) -> None:
    """Show one message."""
    row = look(data, {"do": "peek", "queue": name, "message": message, "piece": piece})
    if as_json:
        show_json_pretty(row)
        return
    for key, value in row["standard"].items():
        click.echo(f"{key}: {printable(value)}")
    for each in row["properties"]:
        click.echo(f"{printable(each['name'])} ({each['type']}): {printable(each['value'])}")
    click.echo("")
    body = row["body"].encode() if "body" in row else b64decode(row["body_base64"])
    forms = dict(forms_of(body, is_whole=row["pieces"] == 1))
    if form is not None and form not in {key.lower() for key in forms}:
        raise Failure(f"this body has no such form; it has {', '.join(forms).lower()}")
    [text] = [text for key, text in forms.items() if key.lower() == form] or [*forms.values()][:1]
    for line in text.split("\n"):
        click.echo("\t".join(printable(part) for part in line.split("\t")))
    if row["pieces"] > 1:
        click.echo(f"piece {piece:,} of {row['pieces']:,}; see --piece", err=True)


queue.add_command(queue_show)


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


@click.group(cls=Commands)
def session() -> None:
    """Show the sessions of clients."""


@click.group(cls=Commands)
def transaction() -> None:
    """Show open transactions."""


@click.group(cls=Commands)
def host() -> None:
    """Show virtual hosts."""


@click.group(cls=Commands)
def acceptor() -> None:
    """Show where the broker listens."""


@click.group(cls=Commands)
def role() -> None:
    """Show the roles of users."""


for _group in (
    queue, address, divert, connection, link, auto_link, consumer, session, transaction, host,
    acceptor, role,
):  # fmt: skip
    add_commands(_group)

connectors: Final = command_of("connectors")
commands: Final = command_of("commands")


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
    help="Show this many messages; with --filter, look at 10,000 for them at most.",
)
@click.option(
    "--filter", "chosen_by", default="", metavar="CONDITION",
    help="Show only messages for which this is true, as in SQL-92 (docs/filters.md).",
)  # fmt: skip
@at_option
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
