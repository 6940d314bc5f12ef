"""The command `daybook queue show`: all that the page of a queue in the console shows, but no
rates, which need two looks.
"""

from pathlib import Path
from typing import Any, Final

import click

from daybook.client.control import ControlError
from daybook.engine.names.names import plain
from daybook.server.administration.admin_requests import CONSUMER_TABLE, QUEUE_TABLE, QueueOf
from daybook.server.administration.units import cell, heading, unit_of_setting
from daybook.texts import printable
from daybook.tools.administration.broker_access import broker_option
from daybook.tools.administration.request_commands import (
    Looking,
    asked_moment,
    at_option,
    help_of,
    json_option,
    rows_of,
    show_listed,
)
from daybook.tools.terminal.failures import Failure
from daybook.tools.terminal.printing import show_json_pretty, show_table

NOT_ALLOWED: Final = "not-allowed"
DEFAULT: Final = "default"


@click.command("show", help=help_of(QueueOf))
@click.argument("name", metavar="NAME")
@at_option
@broker_option
@json_option
def queue_show(name: str, data: Path, as_json: bool) -> None:
    """Show one queue with its consumers, the diverts of its address, and the settings there."""
    looking = Looking(data)
    answer = looking.ask({"do": "queue", "queue": name})
    [row] = answer["queues"]
    has_clients = answer.get("running", True) or asked_moment() is not None
    asked = {"do": "consumers-of", "queue": name}
    consumers = rows_of(data, asked, CONSUMER_TABLE, looking) if has_clients else []
    diverts = _diverts_of(looking, row["address"])
    settings = _if_allowed(looking, do="settings", address=row["address"]).get("settings", [])
    if as_json:
        lists = {"consumer_list": consumers, "diverts": diverts, "settings": settings}
        show_json_pretty([row | lists])
        return
    _show_row(row)
    if consumers:
        click.echo("\nconsumers")
        show_listed(CONSUMER_TABLE, consumers, as_json=False)
    if diverts:
        click.echo("")
        show_table(
            ("divert", "to", "exclusive"),
            [
                (each["divert"], cell(each["forwarding_addresses"]), each["exclusive"])
                for each in diverts
            ],
            "diverts of its address",
        )
    if settings:
        _show_settings(row["address"], settings)


def _show_row(row: dict[str, Any]) -> None:
    assert QUEUE_TABLE.shape is not None
    for key, value in QUEUE_TABLE.shape(row).items():
        click.echo(f"{heading(key)}: {cell(value, key)}".rstrip())


def _diverts_of(looking: Looking, address: str) -> list[dict[str, Any]]:
    """Return the diverts of an address; none for a user who may not list all."""
    diverts = _if_allowed(looking, do="diverts").get("diverts", [])
    return [each for each in diverts if each["address"] == address]


def _if_allowed(looking: Looking, **request: str) -> dict[str, Any]:
    """Return the answer to a request, empty for a user who may not ask that. Raises Failure."""
    try:
        return looking.ask(request)
    except Failure as error:
        cause = error.__cause__
        if not isinstance(cause, ControlError) or cause.code != NOT_ALLOWED:
            raise
        return {}


def _show_settings(address: str, settings: list[dict[str, Any]]) -> None:
    """Show the settings that are not defaults, and say how to see the others."""
    rows = [
        (each["key"], each["value"], unit_of_setting(each["key"], each["value"]), each["from"])
        for each in settings
        if each["from"] != DEFAULT
    ]
    click.echo("")
    if rows:
        show_table(("key", "value", "unit", "from"), rows, "settings of its address")
    name = printable(plain(address))
    click.echo(f"{len(settings) - len(rows)} settings have their defaults: daybook settings {name}")
