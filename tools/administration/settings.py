"""Commands about address settings; most of them are described by the table of administration."""

from pathlib import Path
from typing import Any

import click

from daybook.server.administration import views
from daybook.server.administration.admin_requests import SettingsOf
from daybook.server.administration.units import unit_of_setting
from daybook.tools.administration.broker_access import broker_option
from daybook.tools.administration.request_commands import (
    add_commands,
    at_option,
    help_of,
    json_option,
    look,
)
from daybook.tools.terminal.failures import Commands
from daybook.tools.terminal.printing import show_json_pretty, show_table

SHOW = "show"


class _Settings(Commands):
    """The group `settings`, whose name may be followed by an address instead of a command."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        is_help = bool(args) and args[0] in ctx.help_option_names
        if args and not is_help and self.get_command(ctx, args[0]) is None:
            args = [SHOW, *args]
        return super().parse_args(ctx, args)


@click.group(cls=_Settings, subcommand_metavar="ADDRESS | COMMAND [ARGS]...")
def settings() -> None:
    """Show the settings of an address, and change settings of the running broker.

    `daybook settings orders` is short for `daybook settings show orders`.
    """


@settings.command(SHOW, help=help_of(SettingsOf))
@click.argument("name", metavar="ADDRESS")
@at_option
@broker_option
@json_option
def settings_show(name: str, data: Path, as_json: bool) -> None:
    """Show a table of settings."""
    answer = look(
        data,
        {"do": "settings", "address": name},
    )
    if as_json:
        show_json_pretty(answer)
        return
    if not answer["exists"]:
        click.echo(f"there is no address '{name}' yet; it would get these settings", err=True)
    show_table(
        ("key", "value", "unit", "from"),
        [
            (
                each["key"],
                each["value"],
                unit_of_setting(each["key"], each["value"]),
                _origin(each),
            )
            for each in answer["settings"]
        ],
    )


def _origin(each: dict[str, Any]) -> str:
    if not each["match"]:
        return str(each["from"])
    where = ", at run time" if each["from"] == views.RUN_TIME else ""
    return f"match {each['match']}{where}"


add_commands(settings)
