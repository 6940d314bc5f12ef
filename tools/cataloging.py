"""The command `journal catalog`: makes the catalogs that a journal does not have yet."""

from pathlib import Path
from typing import Any, Final

import click

from daybook.tools.terminal.history_options import (
    data_argument,
    data_option,
    history_options,
    json_option,
)
from daybook.tools.terminal.paths import chosen

PROCESSES_MAX: Final = 64


@click.command("catalog")
@data_argument
@data_option
@history_options
@json_option
@click.option(
    "--headers", default="*", metavar="NAMES", show_default=True,
    help="The headers that messages are found by: names with commas between them, or * for all.",
)  # fmt: skip
@click.option(
    "--processes", type=click.IntRange(1, PROCESSES_MAX), metavar="N",
    help="How many segments are read at the same time. Default: one for each core.",
)  # fmt: skip
@click.option("--again", is_flag=True, help="Make those that exist, too.")
@click.pass_context
def catalog_command(
    ctx: click.Context, /, directory: Path | None, data: Path | None, **flags: Any
) -> None:
    """Make catalogs, by which `journal trail` and `inspect` find a message without searching.

    The broker makes them for its own journal when it has time; this command makes those that are
    missing, also for archived segments (in DATA/archive-catalogs). It writes nothing else.
    """
    from daybook.tools import making_catalogs  # noqa: PLC0415 (slow to import)

    making_catalogs.run(ctx, chosen(ctx, directory, data), flags)
