"""Commands about clients: `daybook connection list|close`, `daybook consumer list`.

They ask the running broker over its control socket; without a broker there are no clients.
"""

from pathlib import Path
from typing import Any, Final

import click

from daybook.tools.administration.broker_access import broker_option, reach, virtual_host
from daybook.tools.administration.broker_commands import json_option, on_host, show_rows
from daybook.tools.terminal.failures import Commands, Failure
from daybook.tools.terminal.printing import show_json

CONNECTION_COLUMNS: Final = ("connection", "user", "peer", "consumers", "transactions", "in_flight")
MORE_CONNECTION_COLUMNS: Final = ("host", "client_id", "protocol")
CONSUMER_COLUMNS: Final = ("consumer", "connection", "user", "queue", "in_flight", "ack_mode")
MORE_CONSUMER_COLUMNS: Final = (
    "subscription", "bundle", "filter", "credit_messages", "credit_bytes",
)  # fmt: skip


def ask_those_connected(data: Path, **request: Any) -> dict[str, Any]:
    """Ask the running broker about something that only connected clients have."""
    answer = reach(data, request)
    if answer is None:
        raise Failure(
            f"no broker runs on {data}, so nobody is connected; start it with "
            f"`daybook serve --data {data}`, or name another with --data"
        )
    return answer


def _all(data: Path, what: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    offset: int | None = 0
    while offset is not None:
        page = ask_those_connected(data, do=what, offset=offset)
        rows += page[what]
        offset = page["next_offset"]
    return rows


@click.group(cls=Commands)
def connection() -> None:
    """Show connections and close them."""


@connection.command("list")
@broker_option
@json_option
def connection_list(data: Path, as_json: bool) -> None:
    """List logged-in clients and their addresses."""
    host = virtual_host()
    rows = [row for row in _all(data, "connections") if host in (None, row["host"])]
    show_rows(CONNECTION_COLUMNS, rows, MORE_CONNECTION_COLUMNS, as_json=as_json)


@connection.command("close")
@click.argument("ids", nargs=-1, type=int, metavar="[CONNECTION]...")
@click.option("--user", metavar="LOGIN", help="Those of a user.")
@click.option("--peer", metavar="ADDRESS", help="Those from an address, or from ADDRESS:PORT.")
@broker_option
@json_option
def connection_close(
    ids: tuple[int, ...], user: str | None, peer: str | None, data: Path, as_json: bool
) -> None:
    """Close connections: by their numbers, of a user, from an address.

    A connection must match everything given. Its transactions are rolled back and its
    deliveries return to their queues; the client gets an ERROR frame.
    """
    if not ids and user is None and peer is None:
        raise click.UsageError("name connections, or give --user or --peer")
    answer = ask_those_connected(data, do="close-connections", ids=ids, user=user, peer=peer)
    if as_json:
        show_json(answer)
        return
    count = answer["closed"]
    if not count:
        raise Failure("no connection matches; `daybook connection list` shows all")
    click.echo(f"closed {count:,} connection{'s' * (count > 1)}")


@click.group(cls=Commands)
def consumer() -> None:
    """Show consumers."""


@consumer.command("list")
@broker_option
@json_option
def consumer_list(data: Path, as_json: bool) -> None:
    """List consumers and their queues."""
    rows = on_host(_all(data, "consumers"), "queue")
    show_rows(CONSUMER_COLUMNS, rows, MORE_CONSUMER_COLUMNS, as_json=as_json)
