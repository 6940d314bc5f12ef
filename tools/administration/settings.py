"""Commands about address settings: `daybook settings ADDRESS`, `set` and `remove`."""

from pathlib import Path
from typing import Any

import click

from daybook.server.administration import views
from daybook.tools.administration.broker_access import broker_option, full_name
from daybook.tools.administration.broker_commands import change, json_option, look
from daybook.tools.terminal.failures import Commands
from daybook.tools.terminal.printing import show_json_pretty, show_table
from daybook.tools.terminal.units import unit_of_setting

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


@settings.command(SHOW)
@click.argument("name", metavar="ADDRESS")
@broker_option
@json_option
def settings_show(name: str, data: Path, as_json: bool) -> None:
    """Show the settings in force for an address, and where each comes from."""
    answer = look(
        data,
        {"do": "settings", "address": name},
        lambda state: views.settings(state, full_name(name)),
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


@settings.command("set")
@click.argument("match")
@click.argument("values", metavar="KEY=VALUE...", nargs=-1, required=True)
@broker_option
@json_option
def settings_set(match: str, values: tuple[str, ...], data: Path, as_json: bool) -> None:
    """Set keys of a match at run time, such as: settings set 'orders.#' redelivery-delay=5s

    They stay, over restarts and reloads, until they are removed, and override those that the
    configuration has for the same match.
    """
    given: dict[str, str] = {}
    for each in values:
        key, sign, value = each.partition("=")
        if not sign:
            raise click.UsageError(f"'{each}' is not KEY=VALUE")
        given[key.strip()] = value.strip()
    done = f"set {', '.join(given)} of match '{match}'"
    change(data, done, as_json, do="set-settings", match=match, values=given)


@settings.command("remove")
@click.argument("match")
@click.argument("keys", metavar="[KEY]...", nargs=-1)
@broker_option
@json_option
def settings_remove(match: str, keys: tuple[str, ...], data: Path, as_json: bool) -> None:
    """Remove keys of a match that were set at run time; without keys all of them."""
    what = f"{', '.join(keys)} of match" if keys else "match"
    change(
        data, f"removed {what} '{match}'", as_json, do="remove-settings", match=match,
        keys=list(keys),
    )  # fmt: skip
