"""The command `daybook config`: checks configuration files, and converts those of other brokers."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from daybook.tools.terminal.extras import why_missing
from daybook.tools.terminal.failures import Commands
from daybook.tools.terminal.paths import PathThatIsNamed

if TYPE_CHECKING:
    from daybook.server.configuration.config import Config

all_option = click.option(
    "--all", "show_all", is_flag=True, help="Also list the settings that Daybook does not need."
)
file_argument = click.argument(
    "file", type=PathThatIsNamed(dir_okay=False, path_type=Path), metavar="FILE"
)


@click.group(cls=Commands)
def config() -> None:
    """Check configuration files, and convert those of Artemis, Apollo, RabbitMQ and routers."""


@config.command("check")
@file_argument
@all_option
def config_check(file: Path, show_all: bool) -> None:
    """Check a broker.toml, or the configuration of another broker, without starting a broker.

    Everything that is wrong is printed with its line, and the exit code is 2. Certificates, keys
    and users are read too. Settings of another broker that are lost are listed on standard error;
    those that Daybook does not need are counted.
    """
    from daybook.server.configuration.config import ConfigError, load  # noqa: PLC0415 (slow to import)
    from daybook.server.network.layers.certificates import TlsError, check  # noqa: PLC0415

    found = load(file)
    try:
        check(found)
    except TlsError as error:
        raise ConfigError([f"{file}: {error}"]) from None
    if found.replication is not None:
        # Only where there are standbys.
        from daybook.server.standbys.node_checks import check_node  # noqa: PLC0415

        check_node(found)
    _show_findings(found.warnings, found.foreign.needless, show_all=show_all)
    if found.console.listen and (why := why_missing("console")):
        click.echo(f"the broker cannot start its console: {why}", err=True)
    _show_users(found)
    if found.foreign.users:
        what = "user is" if found.foreign.users == 1 else "users are"
        click.echo(
            f"{found.foreign.users:,} {what} taken over by the first start from"
            f" {found.foreign.folder}",
            err=True,
        )
    counts = {
        "acceptors": len(found.acceptors),
        "addresses": len(found.addresses),
        "queues": len(found.queues),
        "diverts": len(found.diverts),
        "address settings": len(found.address_settings),
        "distributions": len(found.distributions),
        "connectors": len(found.connectors),
        "auto-links": len(found.auto_links),
        "sharded queues": len(found.sharded_queues),
        "link routes": len(found.link_routes),
    }
    if found.replication is not None:
        counts["nodes"] = len(found.replication.nodes)
    listed = ", ".join(f"{count} {what}" for what, count in counts.items())
    noted = f" ({len(found.warnings)} warnings)" if found.warnings else ""
    click.echo(f"{file}: valid{noted}: {listed}")


def _show_users(found: "Config") -> None:
    """Say on standard error what a start would warn of about users. Raises UsersError."""
    # Hashing is slow to import.
    from daybook.server.configuration.host_config import all_names  # noqa: PLC0415
    from daybook.server.users.users import Users  # noqa: PLC0415

    users = Users.load(found.broker.users_file)
    if found.foreign.users and not users.has_file:
        # The first start takes them over.
        return
    users.allow_guest = found.broker.allow_guest
    for text in users.warnings(all_names(found.virtual_hosts)):
        click.echo(text, err=True)


@config.command("convert")
@file_argument
def config_convert(file: Path) -> None:
    """Print a broker.toml equivalent to the configuration of another broker.

    FILE is a broker.xml of Artemis, an apollo.xml, the definitions that RabbitMQ exports, or the
    qdrouterd.conf of a router. Lost settings are listed on standard error, and with unneeded ones
    in comments at the top.
    """
    from daybook.server.configuration.config import ConfigError, load  # noqa: PLC0415 (slow to import)
    from daybook.server.configuration.config_text import as_toml  # noqa: PLC0415 (slow to import)
    from daybook.server.foreign.findings import Findings  # noqa: PLC0415 (slow to import)
    from daybook.server.foreign.reading import read_foreign  # noqa: PLC0415 (slow to import)

    load(file)
    problems: list[str] = []
    findings = Findings()
    source = read_foreign(file, problems, findings)
    if source is None:
        problems.append(
            f"{file}: is none of broker.xml, apollo.xml, definitions.json and qdrouterd.conf"
        )
    if problems or source is None:
        raise ConfigError(problems)
    _show_findings(findings.lost, findings.needless, show_all=False)
    users = findings.rest()
    if users.users:
        click.echo(
            f"users are not in a broker.toml: `daybook user import {users.folder}` takes over"
            f" {users.users:,}",
            err=True,
        )
    click.echo(as_toml(source, file.name, findings.lost, findings.needless), nl=False)


def _show_findings(lost: Sequence[str], needless: Sequence[str], *, show_all: bool) -> None:
    """Print the lost settings and the number of unneeded ones, if there are any."""
    if lost:
        click.echo("you lose this, or must look at it:", err=True)
    for each in lost:
        click.echo(f"  {each}", err=True)
    if needless:
        hint = "" if show_all else " (--all lists them; `config convert` has them as comments)"
        click.echo(f"not needed here: {len(needless):,} elements{hint}", err=True)
    for each in needless if show_all else ():
        click.echo(f"  {each}", err=True)
