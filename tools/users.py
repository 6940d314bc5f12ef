"""Commands about logins: `daybook user add|list|remove`. They edit the users file."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from daybook.journal.data_directory import USERS
from daybook.tools.administration import data_option, json_option
from daybook.tools.failures import Commands, Failure
from daybook.tools.paths import PathThatIsNamed
from daybook.tools.printing import show_json

if TYPE_CHECKING:
    from daybook.server.users import Users


@click.group(cls=Commands)
def user() -> None:
    """Manage logins. A running broker reads changes on SIGHUP."""


users_option = click.option(
    "--users-file", type=PathThatIsNamed(dir_okay=False, path_type=Path),
    help="Another file than users.toml in the data directory.",
)  # fmt: skip


def _users(data: Path, users_file: Path | None) -> "Users":
    if users_file is None and not data.is_dir():
        raise Failure(
            f"{data} is not a directory; name the broker's data directory with --data, or its "
            "users file with --users-file"
        )
    # Hashing is slow to import.
    from daybook.server.users import Users  # noqa: PLC0415

    return Users.load(users_file if users_file is not None else data / USERS)


def _can_ask() -> bool:
    return sys.stdin.isatty()


@user.command("add")
@click.argument("login")
@click.option("--passcode-stdin", is_flag=True, help="Read the passcode from standard input.")
@users_option
@data_option
def user_add(login: str, passcode_stdin: bool, users_file: Path | None, data: Path) -> None:
    """Add a user; asks for the passcode, which is never taken from the command line."""
    users = _users(data, users_file)
    if passcode_stdin:
        passcode = sys.stdin.readline().rstrip("\r\n")
    elif _can_ask():
        passcode = click.prompt("Passcode", hide_input=True, confirmation_prompt=True)
    else:
        raise click.UsageError(
            "standard input is no terminal, so the passcode cannot be asked for; to read it "
            "from there, use --passcode-stdin"
        )
    users.add(login, passcode)
    click.echo(f"added user '{login}' to {users.path}; a running broker reads it on SIGHUP")


@user.command("list")
@users_option
@data_option
@json_option
def user_list(users_file: Path | None, data: Path, as_json: bool) -> None:
    """List all logins."""
    logins = _users(data, users_file).logins()
    if as_json:
        show_json(logins)
    elif logins:
        click.echo("\n".join(logins))
    else:
        click.echo("there are no users; guest may log in from this machine", err=True)


@user.command("remove")
@click.argument("login")
@users_option
@data_option
def user_remove(login: str, users_file: Path | None, data: Path) -> None:
    """Remove a user."""
    users = _users(data, users_file)
    users.remove(login)
    click.echo(f"removed user '{login}' from {users.path}; a running broker reads it on SIGHUP")
