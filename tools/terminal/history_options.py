"""Options shared by commands about history: which data directory, which archive, which output."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from daybook.tools.terminal.paths import DIRECTORY, PathThatIsNamed

Command = TypeVar("Command", bound=Callable[..., Any])

archive_option = click.option(
    "--archive", "url", envvar="DAYBOOK_ARCHIVE", metavar="URL",
    help="The archive: a directory, or a URL like s3://bucket/path. Default: $DAYBOOK_ARCHIVE, "
        "else that of the configuration, else DATA/archive.",
)  # fmt: skip
config_option = click.option(
    "--config", "config_file", type=PathThatIsNamed(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Configuration of the broker. Default: broker.toml beside the data directory.",
)  # fmt: skip
with_archive_option = click.option(
    "--with-archive", is_flag=True,
    help="Begin with the archived segments; so do --archive and --config.",
)  # fmt: skip
data_option = click.option(
    "--data", envvar="DAYBOOK_DATA", type=DIRECTORY, metavar="DIR",
    help="Data directory, instead of the argument. Default: $DAYBOOK_DATA, else ./data.",
)  # fmt: skip
several_data_option = click.option(
    "--data", "named", type=DIRECTORY, multiple=True, metavar="DIR",
    help="Data directory, besides the argument; may be repeated, for several brokers. Default: "
    "$DAYBOOK_DATA, else ./data.",
)  # fmt: skip
data_argument = click.argument("directory", required=False, metavar="[DATA]", type=DIRECTORY)
json_option = click.option("--json", "as_json", is_flag=True, help="Print for programs.")


def history_options(command: Command) -> Command:
    """Options of commands that read history, for `history`."""
    return archive_option(config_option(with_archive_option(command)))
