"""Commands about users: `daybook user add`, `passwd`, `role`, `show` and others.

They edit the users file; `show` also asks the running broker for its rules.
"""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from daybook.engine.names.names import qualified, wrong_with_host
from daybook.engine.settings.permissions import PERMISSIONS
from daybook.journal.data_directory import USERS
from daybook.server.administration.broker_requests import USER_TABLE, UserList
from daybook.server.administration.broker_views import user_row
from daybook.server.administration.units import cell
from daybook.server.administration.views import right_in_words
from daybook.tools.administration.broker_access import (
    URL_VARIABLE,
    broker_option,
    data_option,
    is_elsewhere,
    reach,
)
from daybook.tools.administration.request_commands import (
    help_of,
    json_option,
    rows_of,
    show_listed,
)
from daybook.tools.terminal.failures import Commands, Failure
from daybook.tools.terminal.paths import PathThatIsNamed
from daybook.tools.terminal.printing import show_json_pretty, show_table

if TYPE_CHECKING:
    from daybook.server.users.users import Users


@click.group(cls=Commands)
def user() -> None:
    """Manage users and their roles. A running broker reads changes on SIGHUP."""


users_option = click.option(
    "--users-file", type=PathThatIsNamed(dir_okay=False, path_type=Path),
    help="Another file than users.toml in the data directory.",
)  # fmt: skip


def _users(data: Path, users_file: Path | None) -> "Users":
    if users_file is None and not data.is_dir():
        first = "" if data.exists() else f"; before its first start, make it: mkdir -m 700 {data}"
        raise Failure(
            f"{data} is not a directory; name the broker's data directory with --data, or its "
            f"users file with --users-file{first}"
        )
    # Hashing is slow to import.
    from daybook.server.users.users import Users  # noqa: PLC0415

    path = users_file if users_file is not None else data / USERS
    url = os.environ.get(URL_VARIABLE)
    if url and users_file is None:
        click.echo(f"these users are in {path} here; the broker at {url} has its own", err=True)
    return Users.load(path)


def _can_ask() -> bool:
    return sys.stdin.isatty()


stdin_option = click.option(
    "--passcode-stdin", is_flag=True, help="Read the passcode from standard input."
)


def _passcode(from_stdin: bool) -> str:
    """Return the passcode that the user of the terminal types, or standard input has."""
    if from_stdin:
        return sys.stdin.readline().rstrip("\r\n")
    if _can_ask():
        typed: str = click.prompt("Passcode", hide_input=True, confirmation_prompt=True)
        return typed
    raise click.UsageError(
        "standard input is not a terminal, so the command cannot ask for the passcode; to read "
        "it from there, use --passcode-stdin"
    )


def _check_hosts(hosts: tuple[str, ...], data: Path, users_file: Path | None) -> None:
    """Refuse virtual hosts that the broker of the directory does not have.

    Without a running broker they cannot be checked; its next start warns about them.
    """
    source = click.get_current_context().get_parameter_source("data")
    if hosts and users_file is not None and source is click.core.ParameterSource.DEFAULT:
        # The file may be that of another broker than the one of the default directory.
        click.echo("the virtual hosts were not checked: --data does not name a broker", err=True)
        return
    for host in hosts:
        if wrong_with_host(host):
            # The command that writes the file reports that.
            return
        # Any question about the host: the broker refuses it if the host does not exist.
        if reach(data, {"do": "settings", "address": qualified(host, "any")}) is None:
            click.echo(
                "the virtual hosts were not checked, as no broker runs; its next start warns of any"
                " that its configuration does not list",
                err=True,
            )
            return


def _done(what: str, users: "Users") -> None:
    click.echo(f"{what} in {users.path}; a running broker reads it on SIGHUP")


def _note_verifier(login: str, users: "Users") -> None:
    """Say so if a new passcode has no verifier."""
    if not users.has_verifier(login):
        click.echo(
            f"user '{login}' cannot log in by SCRAM: login or passcode has characters that SASLprep"
            " (RFC 4013) changes or forbids",
            err=True,
        )


@user.command("add")
@click.argument("login")
@stdin_option
@click.option(
    "--no-passcode", is_flag=True,
    help="Without a passcode: the user logs in by a certificate or a token only.",
)  # fmt: skip
@click.option("--role", "roles", multiple=True, help="A role of the user. May be repeated.")
@click.option(
    "--virtual-host", "hosts", multiple=True, metavar="HOST",
    help="A virtual host that the user may use; without any, all. May be repeated.",
)  # fmt: skip
@users_option
@data_option
def user_add(
    login: str, passcode_stdin: bool, no_passcode: bool, roles: tuple[str, ...],
    hosts: tuple[str, ...], users_file: Path | None, data: Path,
) -> None:  # fmt: skip
    """Add a user; asks for the passcode, which is never taken from the command line."""
    users = _users(data, users_file)
    if no_passcode and passcode_stdin:
        raise click.UsageError("--no-passcode and --passcode-stdin exclude each other")
    _check_hosts(hosts, data, users_file)
    users.add(login, None if no_passcode else _passcode(passcode_stdin), roles, hosts)
    if not no_passcode:
        _note_verifier(login, users)
    click.echo(f"added user '{login}' to {users.path}; a running broker reads it on SIGHUP")


@user.command("import")
@click.argument("source", type=PathThatIsNamed(exists=True, path_type=Path), metavar="FILE")
@click.option(
    "--roles", "roles_file", type=PathThatIsNamed(exists=True, dir_okay=False, path_type=Path),
    help="File of the roles of Artemis; default: artemis-roles.properties beside FILE.",
)  # fmt: skip
@users_option
@data_option
def user_import(source: Path, roles_file: Path | None, users_file: Path | None, data: Path) -> None:
    """Take over the users of Artemis or RabbitMQ.

    FILE is the folder etc of a broker of Artemis, its artemis-users.properties, or the definitions
    of RabbitMQ, whose users come without passcodes. Users that exist already stay as they are.
    """
    # Reading configurations is slow to import.
    from daybook.server.foreign.findings import Findings  # noqa: PLC0415
    from daybook.server.foreign.importing import foreign_users  # noqa: PLC0415

    users = _users(data, users_file)
    findings = Findings()
    found = foreign_users(source, roles_file, findings)
    for each in findings.lost:
        click.echo(f"warning: {each}", err=True)
    if not found:
        raise Failure(f"there are no users in {source}")
    known = users.take_over(found)
    for login in known:
        click.echo(f"user '{login}' exists already and was not changed", err=True)
    for login in sorted(found.keys() - known):
        if not found[login].hash:
            click.echo(f"user '{login}' has no passcode: `daybook user passwd {login}`", err=True)
    _done(f"took over {len(found) - len(known):,} users", users)


@user.command("passwd")
@click.argument("login")
@stdin_option
@users_option
@data_option
def user_passwd(login: str, passcode_stdin: bool, users_file: Path | None, data: Path) -> None:
    """Give a user another passcode. At the next reload its connections are closed."""
    users = _users(data, users_file)
    if login not in users.logins():
        raise Failure(f"there is no user '{login}' in {users.path}")
    users.change_passcode(login, _passcode(passcode_stdin))
    _note_verifier(login, users)
    _done(f"changed the passcode of user '{login}'", users)


@user.command("disable")
@click.argument("login")
@users_option
@data_option
def user_disable(login: str, users_file: Path | None, data: Path) -> None:
    """Forbid logins of a user, but keep it. At the next reload its connections are closed."""
    users = _users(data, users_file)
    users.set_disabled(login, True)
    _done(f"disabled user '{login}'", users)


@user.command("enable")
@click.argument("login")
@users_option
@data_option
def user_enable(login: str, users_file: Path | None, data: Path) -> None:
    """Let a user that was disabled log in again."""
    users = _users(data, users_file)
    users.set_disabled(login, False)
    _done(f"enabled user '{login}'", users)


@user.command("list", help=help_of(UserList))
@users_option
@broker_option
@json_option
def user_list(users_file: Path | None, data: Path, as_json: bool) -> None:
    """Show the users of a file; with --url those that a broker elsewhere has."""
    if users_file is None and is_elsewhere():
        rows = rows_of(data, {"do": "users"}, USER_TABLE)
    else:
        users = _users(data, users_file)
        rows = [user_row(login, record) for login, record in sorted(users.records())]
    if rows or as_json:
        show_listed(USER_TABLE, rows, as_json=as_json)
    else:
        click.echo("there are no users; guest may log in from this machine", err=True)


def _cell(name: str, value: Any) -> str:
    return "all" if name == "hosts" and not value else cell(value) or "-"


@user.command("remove")
@click.argument("login")
@users_option
@data_option
def user_remove(login: str, users_file: Path | None, data: Path) -> None:
    """Remove a user."""
    users = _users(data, users_file)
    users.remove(login)
    click.echo(f"removed user '{login}' from {users.path}; a running broker reads it on SIGHUP")


@user.command("role")
@click.argument("login")
@click.option("--add", "added", multiple=True, metavar="ROLE", help="Give this role.")
@click.option("--remove", "removed", multiple=True, metavar="ROLE", help="Take this role away.")
@users_option
@data_option
def user_role(
    login: str, added: tuple[str, ...], removed: tuple[str, ...], users_file: Path | None,
    data: Path,
) -> None:  # fmt: skip
    """Give a user roles, and take others away. Rules of [[security-setting]] name roles."""
    if not added and not removed:
        raise click.UsageError("name at least one role, like --add sales")
    users = _users(data, users_file)
    users.change_roles(login, added, removed)
    found = users.find(login)
    roles = ", ".join(found.roles) if found is not None else ""
    _done(f"user '{login}' has {f'the roles {roles}' if roles else 'no roles'}", users)


@user.command("hosts")
@click.argument("login")
@click.argument("hosts", nargs=-1)
@click.option("--all", "of_all", is_flag=True, help="All virtual hosts, also those to come.")
@users_option
@data_option
def user_hosts(
    login: str, hosts: tuple[str, ...], of_all: bool, users_file: Path | None, data: Path
) -> None:
    """Let a user use only the virtual hosts that are named.

    At the next reload the connections of a user who may use fewer than before are closed.
    """
    if bool(hosts) == of_all:
        raise click.UsageError("name the virtual hosts, or give --all")
    users = _users(data, users_file)
    _check_hosts(hosts, data, users_file)
    users.set_hosts(login, hosts)
    named = f"the virtual hosts {', '.join(hosts)}" if hosts else "all virtual hosts"
    _done(f"user '{login}' may use {named}", users)


@user.command("token")
@click.argument("login")
@click.option("--remove", is_flag=True, help="Take the token away instead.")
@users_option
@data_option
def user_token(login: str, remove: bool, users_file: Path | None, data: Path) -> None:
    """Make a token with which a user administers a broker over the network, and print it.

    It replaces the one before, and cannot be shown again: only its hash is kept. The file is read
    by a running broker on SIGHUP.
    """
    users = _users(data, users_file)
    if remove:
        users.remove_token(login)
        _done(f"removed the token of user '{login}'", users)
        return
    click.echo(users.new_token(login))


@user.command("show")
@click.argument("login")
@click.option(
    "--address", default="#", show_default=True, help="Show its permissions at this address."
)
@click.option("--queue", default=None, help="The same for one queue of the address.")
@click.option(
    "--permission", default=None, type=click.Choice(tuple(PERMISSIONS)),
    help="Answer for this permission alone, in a sentence.",
)  # fmt: skip
@click.option(
    "--config", "config_file", type=PathThatIsNamed(exists=True, dir_okay=False, path_type=Path),
    help="By the rules of this file, instead of those of the running broker.",
)  # fmt: skip
@users_option
@broker_option
@json_option
def user_show(
    login: str, address: str, queue: str | None, permission: str | None, config_file: Path | None,
    users_file: Path | None, data: Path, as_json: bool,
) -> None:  # fmt: skip
    """Show a user, its permissions at an address, and the source of each answer.

    An address with wildcards stands for all addresses that match: `#` for all there are.
    """
    users = _users(data, users_file)
    if users.find(login) is None and login != "guest":
        raise Failure(f"there is no user '{login}' in {users.path}")
    found = users.find(login)
    known = user_row(login, found) if found is not None else {"user": login}
    request = {"do": "rights", "user": login, "address": address, "queue": queue}
    request |= {"permission": permission} if permission else {}
    if config_file is None:
        answer = reach(data, request)
        if answer is None:
            raise Failure(
                f"no broker runs on {data}; name the file with its rules, with --config FILE"
            )
    else:
        answer = _by_file(users, config_file, request)
    if as_json:
        show_json_pretty(known | {key: answer[key] for key in ("address", "queue", "permissions")})
        return
    if permission:
        click.echo(right_in_words(answer, answer["permissions"][0]))
        return
    for name, value in known.items():
        click.echo(f"{name + ':':<10}{_cell(name, value)}")
    if set(answer["roles"]) != set(known.get("roles", ())):
        click.echo("the running broker has other roles: send it SIGHUP", err=True)
    if not answer["has_rules"]:
        on = f" on {', '.join(known['hosts'])}" if known.get("hosts") else ""
        click.echo(f"there are no rules: every user may do everything{on}")
        return
    place = f"queue {queue} of {address}" if queue is not None else address
    click.echo(f"at {place}:")
    show_table(
        ("permission", "allowed", "by", "rule", "granted to"),
        [
            (
                row["permission"],
                _cell("allowed", row["allowed"]),
                row["by"],
                _rules(row),
                ", ".join(row["granted_to"]) or "nobody",
            )
            for row in answer["permissions"]
        ],
    )


def _by_file(users: "Users", config_file: Path, request: dict[str, Any]) -> dict[str, Any]:
    """Return the permissions of a user by a configuration file and the users file."""
    # Reading a configuration is slow to import.
    from daybook.engine.settings.permissions import Permissions  # noqa: PLC0415
    from daybook.server.administration.views import rights  # noqa: PLC0415
    from daybook.server.configuration.config import load  # noqa: PLC0415

    config = load(config_file)
    permissions = Permissions(
        config.security_settings, users.roles(), config.wildcards.syntax, config.host_security
    )
    only = request.get("permission", "")
    return rights(permissions, request["user"], request["address"], request["queue"], only)


def _rules(row: dict[str, Any]) -> str:
    if not row["rules"]:
        return "no rule covers it"
    text = ", ".join(row["rules"])
    return text if row["allowed"] or row["by"] or len(row["rules"]) == 1 else f"{text}, not all"
