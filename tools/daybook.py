"""The command line `daybook`: running a broker, and sending requests to one."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from daybook.journal.data_directory import CONFIG
from daybook.tools.terminal.failures import Commands, Failure
from daybook.tools.terminal.failures import run as run_cli
from daybook.tools.terminal.paths import DIRECTORY, PathThatIsNamed
from daybook.tools.terminal.version_option import version_option

if TYPE_CHECKING:
    from collections.abc import Callable

    from daybook.server.configuration.config import Config
    from daybook.server.history.alone import Alone

CONTEXT: Final = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
DATA_NAME: Final = "data"
CONFIG_SOURCES: Final = (
    Path(__file__).resolve().parent.parent / "etc" / CONFIG,
    Path(sys.prefix) / "share" / "daybook" / CONFIG,
)
"""The path of the default configuration in a checkout, and in an installation."""


PLACES: Final = {
    "acceptor": "daybook.tools.administration.broker_commands:acceptor",
    "address": "daybook.tools.administration.broker_commands:address",
    "auto-link": "daybook.tools.administration.broker_commands:auto_link",
    "browse": "daybook.tools.administration.broker_commands:browse",
    "cluster": "daybook.tools.administration.cluster:cluster",
    "commands": "daybook.tools.administration.broker_commands:commands",
    "config": "daybook.tools.administration.configuration:config",
    "connection": "daybook.tools.administration.broker_commands:connection",
    "connectors": "daybook.tools.administration.broker_commands:connectors",
    "console": "daybook.tools.console:console",
    "consumer": "daybook.tools.administration.broker_commands:consumer",
    "divert": "daybook.tools.administration.broker_commands:divert",
    "drill": "daybook.tools.drills.command:drill_group",
    "health": "daybook.tools.administration.health:health",
    "host": "daybook.tools.administration.broker_commands:host",
    "lead": "daybook.tools.administration.cluster:lead",
    "link": "daybook.tools.administration.broker_commands:link",
    "pipeline": "daybook.tools.pipeline:pipeline_group",
    "queue": "daybook.tools.administration.queued_deaths:queue",
    "receive": "daybook.tools.administration.messages:receive",
    "role": "daybook.tools.administration.broker_commands:role",
    "send": "daybook.tools.administration.messages:send",
    "session": "daybook.tools.administration.broker_commands:session",
    "settings": "daybook.tools.administration.settings:settings",
    "status": "daybook.tools.administration.health:status",
    "transaction": "daybook.tools.administration.broker_commands:transaction",
    "user": "daybook.tools.administration.users:user",
}
"""The places of commands that have a module of their own."""


@click.group(cls=Commands, places=PLACES, context_settings=CONTEXT)
@version_option
def cli() -> None:
    """A durable message broker whose every decision is an event in an append-only journal."""


@cli.command()
@click.option(
    "--config", "config_file", type=PathThatIsNamed(dir_okay=False, path_type=Path), metavar="FILE",
    help="Configuration file, a broker.xml of Artemis, or a qdrouterd.conf; without one the"
    " defaults of etc/broker.toml are in force.",
)  # fmt: skip
@click.option(
    "--data", envvar="DAYBOOK_DATA", type=DIRECTORY, metavar="DIR",
    help="Data directory, whatever the configuration says; also $DAYBOOK_DATA. Default: ./data.",
)  # fmt: skip
@click.option(
    "--listen", multiple=True, metavar="PROTOCOL://HOST:PORT",
    help="Listen here instead of where the configuration says, and with a broker.xml besides; may "
    "be repeated. PROTOCOL is stomp for clients, amqp for those of AMQP 1.0 and JMS, amqp+stomp "
    "for both at one port, http for supervisors and Prometheus, control for administrators.",
)  # fmt: skip
@click.option(
    "--processes", type=click.Choice(("1", "3")),
    help="3: the journal is written and indexed by processes of their own (the default). 1: by "
    "threads of the broker, for a container with one core or little memory.",
)  # fmt: skip
@click.option(
    "--set", "overrides", multiple=True, metavar="KEY=VALUE",
    help="Set a configuration key, like journal.segment-bytes=16MiB; may be repeated.",
)  # fmt: skip
def serve(
    config_file: Path | None,
    data: Path | None,
    listen: tuple[str, ...],
    processes: str | None,
    overrides: tuple[str, ...],
) -> None:
    """Run a broker in the foreground, until SIGTERM or Ctrl-C.

    Prints one line with `ready` when it accepts connections. Flags beat the configuration file.
    """
    if sys.flags.optimize:
        raise Failure(
            "python runs with -O, which removes the assertions that guard the journal; start "
            "without -O and without PYTHONOPTIMIZE"
        )
    # Only this command needs an event loop; the others start faster without one.
    from daybook.server.configuration.config import load  # noqa: PLC0415
    from daybook.server.service import run  # noqa: PLC0415

    flags = [*overrides, *([f"data-directory={data}"] if data is not None else [])]
    flags += [f"processes={processes}"] if processes is not None else []

    def current() -> "Config":
        return load(config_file, flags, listen)

    config, cluster = current(), None
    if config.replication is not None:
        cluster = _cluster(config, current)
        # It may have changed while this process waited for the lead.
        config = current()
    sys.exit(run(config, current, cluster=cluster))


def _cluster(config: "Config", reload: "Callable[[], Config]") -> "Alone":
    """Run a node of a cluster, which does not return; in the broker that it starts, return what
    connects that to it, when the node leads."""
    # Only where there are standbys.
    from daybook.server.standbys.led import led  # noqa: PLC0415

    if (found := led()) is not None:
        return found
    from daybook.server.standbys import node_service  # noqa: PLC0415

    sys.exit(node_service.run(config, reload, node_service.command_line()))


@cli.command()
@click.argument("directory", type=PathThatIsNamed(file_okay=False, path_type=Path), metavar="DIR")
def init(directory: Path) -> None:
    """Create a directory with a commented broker.toml and an empty data directory.

    Existing files are not overwritten.
    """
    config_file = directory / CONFIG
    directory.mkdir(parents=True, exist_ok=True)
    text = default_configuration(directory / DATA_NAME)
    try:
        with config_file.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError as error:
        raise Failure(
            f"{config_file} exists already and was not changed; name another directory"
        ) from error
    (directory / DATA_NAME).mkdir(exist_ok=True)
    click.echo(f"made {config_file} and {directory / DATA_NAME}")
    click.echo(f"start the broker with: daybook serve --config {config_file}")


def default_configuration(data: Path) -> str:
    """The commented default configuration, with this data directory."""
    found = [path for path in CONFIG_SOURCES if path.is_file()]
    if not found:
        raise Failure(f"this installation lacks the default configuration {CONFIG_SOURCES[-1]}")
    text = found[0].read_text("utf-8")
    lines = text.splitlines(keepends=True)
    for number, line in enumerate(lines):
        if line.startswith("data-directory"):
            # A TOML string is a JSON string for every path that can be printed.
            lines[number] = f"data-directory = {json.dumps(str(data.resolve()))}\n"
    return "".join(lines)


def main() -> None:
    """Run the command line."""
    run_cli(cli, "daybook")


if __name__ == "__main__":
    main()
