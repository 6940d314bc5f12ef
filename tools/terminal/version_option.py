"""The option --version of the command lines. Reading the version takes longer than the rest."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])


def version_option(command: Command) -> Command:
    """Add --version, which prints the name of the program and its version."""
    return click.option(
        "--version", is_flag=True, expose_value=False, is_eager=True, callback=_show,
        help="Show the version and exit.",
    )(command)  # fmt: skip


def _show(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        from daybook.version import VERSION  # noqa: PLC0415 (slow to import)

        click.echo(f"{ctx.info_name}, version {VERSION}")
        ctx.exit()
