"""The command `daybook divert`: showing, creating and deleting diverts of a broker."""

from pathlib import Path
from typing import Any

import click
import msgspec

from daybook.engine.facts.definitions import DIVERT_ATTRIBUTES, DivertDefinition
from daybook.server.administration import divert_requests
from daybook.tools.administration.broker_access import broker_option
from daybook.tools.administration.broker_commands import (
    attribute_options,
    change,
    if_missing_option,
    json_option,
    look,
    on_host,
    show_rows,
)
from daybook.tools.terminal.failures import Commands

COLUMNS = ("divert", "address", "forwarding_addresses", "exclusive", "routing_type", "filter")
MORE_COLUMNS = ("add_properties", "remove_properties", "rename_properties")
"""The columns that a narrow terminal may omit."""


@click.group(cls=Commands)
def divert() -> None:
    """Show diverts and change them: copies of messages for other addresses."""


@divert.command("list")
@broker_option
@json_option
def divert_list(data: Path, as_json: bool) -> None:
    """List all diverts."""
    answer = look(data, {"do": "diverts"}, divert_requests.diverts)
    show_rows(COLUMNS, on_host(answer["diverts"], "divert"), MORE_COLUMNS, as_json=as_json)


@divert.command("create")
@click.argument("name")
@click.option("--address", required=True, help="Whose messages it takes; may have wildcards.")
@attribute_options(DIVERT_ATTRIBUTES)
@if_missing_option
@click.option("--replace", is_flag=True, help="Replace the divert of this name, if there is one.")
@broker_option
@json_option
def divert_create(
    name: str,
    address: str,
    if_missing: bool,
    replace: bool,
    data: Path,
    as_json: bool,
    **attributes: Any,
) -> None:
    """Create a divert; it takes the messages that come from then on."""
    definition = DivertDefinition(name=name, address=address, **attributes)
    change(
        data, f"created divert '{name}'", as_json, do="create-divert", replace=replace,
        if_missing=if_missing, definition=msgspec.to_builtins(definition),
    )  # fmt: skip


@divert.command("delete")
@click.argument("name")
@broker_option
@json_option
def divert_delete(name: str, data: Path, as_json: bool) -> None:
    """Delete a divert; what it copied before stays where it is."""
    change(data, f"deleted divert '{name}'", as_json, do="delete-divert", divert=name)
