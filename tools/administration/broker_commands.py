"""Commands about the broker of a data directory: queues, addresses, browse, settings.

They ask the running broker over its control socket. If no broker runs, reading commands fold the
journal instead, and report that on standard error.
"""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

from daybook.engine.core.queue_names import split
from daybook.engine.facts.definitions import (
    LIVE_ATTRIBUTES,
    QUEUE_ATTRIBUTES,
    Attribute,
    QueueDefinition,
)
from daybook.engine.names.names import host_and_name
from daybook.engine.refusals import Refusal
from daybook.server.administration import views
from daybook.tools.administration.broker_access import broker_option, full_name, reach, virtual_host
from daybook.tools.terminal.failures import Commands, Failure
from daybook.tools.terminal.printing import show_json, show_json_pretty, show_table
from daybook.tools.terminal.texts import moment
from daybook.tools.terminal.times import time_option
from daybook.tools.terminal.units import heading

if TYPE_CHECKING:
    from daybook.engine.state.state import State

json_option = click.option("--json", "as_json", is_flag=True, help="Print for programs.")


def attribute_options(
    attributes: tuple[Attribute, ...],
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Give a command an option for each attribute of a definition that can be asked for."""

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        for attribute in reversed(attributes):
            command = _attribute_option(attribute)(command)
        return command

    return decorate


def live_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command an option for each attribute of a queue that may change, without defaults."""
    for attribute in reversed(LIVE_ATTRIBUTES.values()):
        command = _attribute_option(msgspec.structs.replace(attribute, default=None))(command)
    return command


def _attribute_option(attribute: Attribute) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    name = f"--{attribute.key}"
    if attribute.kind is bool:
        return click.option(
            f"{name}/--not-{attribute.key}", default=attribute.default, show_default=True,
            help=attribute.doc,
        )  # fmt: skip
    if attribute.kind is tuple:
        return click.option(name, multiple=True, help=f"{attribute.doc} May be repeated.")
    kind: Any = attribute.kind
    if attribute.choices:
        kind = click.Choice(attribute.choices)
    elif attribute.kind is int:
        kind = click.IntRange(min=attribute.least)
    return click.option(
        name, type=kind, default=attribute.default, show_default=True, help=attribute.doc
    )


if_missing_option = click.option(
    "--if-missing", is_flag=True, help="Succeed if the same exists already."
)
force_option = click.option("--force", is_flag=True, help="Delete it together with its contents.")
QUEUE_COLUMNS: Final = (
    "queue", "address", "ready", "held", "scheduled", "in_flight", "consumers", "added",
    "acknowledged", "paused",
)  # fmt: skip
MORE_QUEUE_COLUMNS: Final = ("routing_type", "dead_lettered", "expired", "bytes")
ADDRESS_COLUMNS: Final = (
    "address", "routing_types", "queues", "messages", "bytes", "full_policy", "paging",
    "blocked_producers",
)  # fmt: skip
MORE_ADDRESS_COLUMNS: Final = (
    "routed", "unrouted", "remembered_ids", "retained", "max_size_bytes", "max_size_messages",
    "auto_created", "paused",
)  # fmt: skip
"""The columns that a narrow terminal may omit."""
IDEMPOTENT: Final = (
    "update-queue", "update-address", "set-settings", "reset-groups", "forget-retained",
)  # fmt: skip
"""Requests whose answer may say that it is so already, by the LSN 0."""
MODES: Final = ("anycast", "multicast")
NOTHING_TO_DO: Final = {
    "removed": ": it was empty",
    "released": ": it held nothing",
    "made_ready": ": nothing was scheduled in it",
}
"""What is printed about commands that did something with this number of messages, if it is 0."""


def look(
    data: Path, request: dict[str, Any], offline: Callable[["State"], dict[str, Any] | Refusal]
) -> dict[str, Any]:
    """Ask the running broker, else the journal."""
    answer = reach(data, request)
    if answer is not None:
        return answer
    # Slow to import, and not needed where a broker runs.
    from daybook.recovery.readonly import read_state  # noqa: PLC0415
    from daybook.tools.terminal.opening import opened  # noqa: PLC0415

    opened(data)
    state, lsn = read_state(data)
    click.echo(f"broker is not running; state at LSN {lsn}", err=True)
    result = offline(state)
    if isinstance(result, Refusal):
        raise Failure(result.text)
    return {"running": False, "lsn": lsn} | result


def look_at_all(
    data: Path, what: str, page_of: Callable[..., dict[str, Any]]
) -> list[dict[str, Any]]:
    """Return all rows that the broker lists in pages; without a broker, those of the journal."""
    rows: list[dict[str, Any]] = []
    offset: int | None = 0
    while offset is not None:
        page = look(
            data,
            {"do": what, "offset": offset},
            lambda state: page_of(state, limit=len(state.queues) + len(state.addresses)),
        )
        rows += page[what]
        offset = page["next_offset"]
    return on_host(rows, {"queues": "queue", "addresses": "address"}[what])


def on_host(rows: list[dict[str, Any]], key: str) -> list[dict[str, Any]]:
    """Return the rows of the virtual host that the command names, all if it names none; `key` is
    where a row has a full name. If there are none, a note says so."""
    host = virtual_host()
    found = [row for row in rows if host in (None, host_and_name(row[key])[0])]
    if rows and not found:
        click.echo(f"nothing on virtual host '{host}': other virtual hosts have some", err=True)
    return found


def demand(data: Path, request: dict[str, Any]) -> dict[str, Any]:
    """Ask the running broker for a change, and return its answer."""
    answer = reach(data, request)
    if answer is None:
        raise Failure(
            f"no broker runs on {data}, and only a running one can change anything; start it with "
            f"`daybook serve --data {data}`, or name another with --data"
        )
    return answer


def change(data: Path, done: str, as_json: bool, **request: Any) -> None:
    """Ask the running broker for a change, and print a line about it.

    In `done`, the keys of NOTHING_TO_DO in braces are replaced by the number of messages.
    """
    answer = demand(data, request)
    if as_json:
        show_json(answer)
    else:
        if answer.get("exists"):
            done = "it exists already, and nothing was changed"
        elif answer.get("lsn") == 0 and request["do"] in IDEMPOTENT:
            done = "it is so already, and nothing was changed"
        for what in NOTHING_TO_DO:
            done = done.replace(f"{{{what}}}", _counted(answer.get(what), what))
        click.echo(done)


def _counted(count: int | None, what: str) -> str:
    if count is None:
        return ""
    if count == 0:
        return NOTHING_TO_DO[what]
    return f": {count:,} message{'s' * (count > 1)} {what.replace('_', ' ')}"


@click.group(cls=Commands)
def queue() -> None:
    """Show queues and change them."""


@queue.command("list")
@broker_option
@json_option
def queue_list(data: Path, as_json: bool) -> None:
    """List all queues with their contents and counters."""
    rows = look_at_all(data, "queues", views.queues)
    show_rows(QUEUE_COLUMNS, rows, MORE_QUEUE_COLUMNS, as_json=as_json)


def show_rows(
    columns: tuple[str, ...],
    rows: list[dict[str, Any]],
    optional: tuple[str, ...] = (),
    *,
    as_json: bool = False,
) -> None:
    """Show rows as a table with these columns, or all of them as JSON.

    A narrow terminal may omit `optional` columns.
    """
    if as_json:
        show_json_pretty(rows)
        return
    columns += optional
    show_table(
        [heading(column) for column in columns],
        [[_cell(row[column]) for column in columns] for row in rows],
        optional=[heading(column) for column in optional],
    )


def _cell(value: Any) -> Any:
    if value is None:
        return ""
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else value


@queue.command("create")
@click.argument("name")
@click.option("--address", default="", help="Its address; the default is its name.")
@attribute_options(QUEUE_ATTRIBUTES)
@click.option(
    "--retroactive-after",
    type=click.IntRange(min=0),
    metavar="EVENT",
    default=0,
    help="Get only what was sent to the address after this event (LSN), of what it keeps.",
)
@click.option(
    "--retroactive-since",
    metavar="TIME",
    callback=time_option,
    help="Get only what was sent from this time on (UTC, or 10m for ago).",
)
@click.option("--not-retroactive", is_flag=True, help="Get nothing of what was sent before.")
@if_missing_option
@broker_option
@json_option
def queue_create(
    name: str, address: str, if_missing: bool, data: Path, as_json: bool, retroactive_after: int,
    retroactive_since: int | None, not_retroactive: bool, **attributes: Any,
) -> None:  # fmt: skip
    """Create a queue, and its address if that does not exist.

    NAME may be ADDRESS::QUEUE, instead of --address. If the address is retroactive, the queue
    begins with the messages that the address keeps.
    """
    said, name = split(name)
    if said and address not in ("", said):
        raise Failure(f"the name says address '{said}', and --address says '{address}'")
    address = said or address
    definition = QueueDefinition(name=name, **attributes)
    change(
        data, f"created queue '{name}'", as_json, if_missing=if_missing, do="create-queue",
        address=address, definition=msgspec.to_builtins(definition),
        after=-1 if not_retroactive else retroactive_after,
        since=-(-(retroactive_since or 0) // 1000),
    )  # fmt: skip


@queue.command("update")
@click.argument("name")
@live_options
@broker_option
@json_option
def queue_update(name: str, data: Path, as_json: bool, **attributes: Any) -> None:
    """Change attributes of a queue; its messages and consumers stay."""
    changes = {field: value for field, value in attributes.items() if value is not None}
    if not changes:
        raise click.UsageError("name at least one attribute, like --max-consumers 1")
    change(data, f"updated queue '{name}'", as_json, do="update-queue", queue=name, changes=changes)


@queue.command("delete")
@click.argument("name")
@force_option
@broker_option
@json_option
def queue_delete(name: str, force: bool, data: Path, as_json: bool) -> None:
    """Delete a queue that has no consumers."""
    change(
        data, f"deleted queue '{name}'{{removed}}", as_json, do="delete-queue", queue=name,
        force=force,
    )  # fmt: skip


@queue.command("purge")
@click.argument("name")
@broker_option
@json_option
def queue_purge(name: str, data: Path, as_json: bool) -> None:
    """Remove all messages from a queue that are not in flight."""
    change(data, f"purged queue '{name}'{{removed}}", as_json, do="purge-queue", queue=name)


@queue.command("release")
@click.argument("name")
@broker_option
@json_option
def queue_release(name: str, data: Path, as_json: bool) -> None:
    """Deliver messages again that are held because they had nowhere to go."""
    done = f"released queue '{name}'{{released}}"
    change(data, done, as_json, do="release-queue", queue=name)


@queue.command("deliver-scheduled")
@click.argument("name")
@broker_option
@json_option
def queue_deliver_scheduled(name: str, data: Path, as_json: bool) -> None:
    """Make the scheduled messages of a queue ready now, before their time."""
    done = f"queue '{name}'{{made_ready}}"
    change(data, done, as_json, do="deliver-scheduled", queue=name)


@queue.command("pause")
@click.argument("name")
@broker_option
@json_option
def queue_pause(name: str, data: Path, as_json: bool) -> None:
    """Stop delivering from a queue."""
    change(data, f"paused queue '{name}'", as_json, do="pause-queue", queue=name)


@queue.command("resume")
@click.argument("name")
@broker_option
@json_option
def queue_resume(name: str, data: Path, as_json: bool) -> None:
    """Resume delivering from a queue."""
    change(data, f"resumed queue '{name}'", as_json, do="resume-queue", queue=name)


@click.group(cls=Commands)
def address() -> None:
    """Show addresses and change them."""


@address.command("list")
@broker_option
@json_option
def address_list(data: Path, as_json: bool) -> None:
    """List all addresses with their queues."""
    rows = look_at_all(data, "addresses", views.addresses)
    if not as_json:
        for row in rows:
            row["queues"] += ["..."] if row["queue_count"] > len(row["queues"]) else []
    show_rows(ADDRESS_COLUMNS, rows, MORE_ADDRESS_COLUMNS, as_json=as_json)


@address.command("create")
@click.argument("name")
@click.option(
    "--routing-type", "routing_types", type=click.Choice(MODES), multiple=True,
    help="May be given twice; the default is anycast.",
)  # fmt: skip
@if_missing_option
@broker_option
@json_option
def address_create(
    name: str, routing_types: tuple[str, ...], if_missing: bool, data: Path, as_json: bool
) -> None:
    """Create an address, or add routing types to it."""
    change(
        data, f"created address '{name}'", as_json, if_missing=if_missing, do="create-address",
        address=name, routing_types=list(routing_types or ("anycast",)),
    )  # fmt: skip


@address.command("update")
@click.argument("name")
@click.option(
    "--routing-type", "routing_types", type=click.Choice(MODES), multiple=True, required=True,
    help="What it has from now on; may be given twice.",
)  # fmt: skip
@broker_option
@json_option
def address_update(name: str, routing_types: tuple[str, ...], data: Path, as_json: bool) -> None:
    """Give an address exactly these routing types."""
    change(
        data, f"updated address '{name}'", as_json, do="update-address", address=name,
        routing_types=list(routing_types),
    )  # fmt: skip


@address.command("pause")
@click.argument("name")
@broker_option
@json_option
def address_pause(name: str, data: Path, as_json: bool) -> None:
    """Stop delivering from all queues of an address, also those that it gets later."""
    change(data, f"paused address '{name}'", as_json, do="pause-address", address=name)


@address.command("resume")
@click.argument("name")
@broker_option
@json_option
def address_resume(name: str, data: Path, as_json: bool) -> None:
    """Resume delivering from the queues of an address, except those that are paused themselves."""
    change(data, f"resumed address '{name}'", as_json, do="resume-address", address=name)


@address.command("delete")
@click.argument("name")
@force_option
@broker_option
@json_option
def address_delete(name: str, force: bool, data: Path, as_json: bool) -> None:
    """Delete an address that has no queues, or with --force together with them."""
    change(
        data, f"deleted address '{name}'", as_json, do="delete-address", address=name, force=force
    )


@address.command("clear-id-cache")
@click.argument("name")
@broker_option
@json_option
def address_clear_id_cache(name: str, data: Path, as_json: bool) -> None:
    """Clear the duplicate ids that an address remembers."""
    change(
        data, f"address '{name}' has forgotten all duplicate ids", as_json, do="clear-id-cache",
        address=name,
    )  # fmt: skip


@address.command("forget")
@click.argument("name")
@broker_option
@json_option
def address_forget(name: str, data: Path, as_json: bool) -> None:
    """Remove the message that an address retains for subscriptions to come."""
    change(
        data, f"address '{name}' has forgotten the message that it retained", as_json,
        do="forget-retained", address=name,
    )  # fmt: skip


@click.command()
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
    """Show the messages of a queue without consuming them: in flight first, then in delivery
    order."""
    answer = look(
        data,
        {"do": "browse", "queue": name, "offset": offset, "limit": limit, "filter": chosen_by},
        lambda state: views.browse(
            state, full_name(name), offset=offset, limit=limit, chosen_by=chosen_by
        ),
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
