"""The command line `daybook`: running a broker, and talking to one."""

import sys
from pathlib import Path

import click

from tools.failures import Commands, Failure

CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


@click.group(cls=Commands, context_settings=CONTEXT)
def cli() -> None:
    """A durable message broker whose every decision is an event in an append-only journal."""


@cli.command()
@click.option(
    "--config", "config_file", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
    help="Configuration file; without one the defaults of etc/broker.toml are in force.",
)  # fmt: skip
@click.option("--data", type=click.Path(path_type=Path), metavar="DIR", help="Data directory.")
@click.option(
    "--listen", multiple=True, metavar="stomp://HOST:PORT",
    help="Listen here instead of where the configuration says; may be repeated.",
)  # fmt: skip
@click.option(
    "--set", "overrides", multiple=True, metavar="KEY=VALUE",
    help="Set a configuration key, like journal.segment-bytes=16MiB; may be repeated.",
)  # fmt: skip
def serve(
    config_file: Path | None, data: Path | None, listen: tuple[str, ...], overrides: tuple[str, ...]
) -> None:
    """Run a broker in the foreground, until SIGTERM or Ctrl-C.

    Prints one line with `ready` when it accepts connections. Flags beat the configuration file.
    """
    if sys.flags.optimize:
        raise Failure(
            "python runs with -O, which removes the assertions that guard what is written to the "
            "journal; start without -O and without PYTHONOPTIMIZE"
        )
    # Only this command needs an event loop; the others start faster without one.
    from server.config import load  # noqa: PLC0415
    from server.service import run  # noqa: PLC0415

    flags = [*overrides, *([f"data-directory={data}"] if data is not None else [])]
    config = load(config_file, flags, listen)
    sys.exit(run(config, lambda: load(config_file, flags, listen)))


def main() -> None:
    """Run the command line."""
    cli(prog_name="daybook")


if __name__ == "__main__":
    main()
