"""The commands `journal archive`: listing an archive, verifying it, and fetching from it."""

from pathlib import Path
from typing import Any

import click

from daybook.tools.terminal.failures import Commands
from daybook.tools.terminal.history_options import (
    archive_option,
    config_option,
    data_argument,
    data_option,
    json_option,
)
from daybook.tools.terminal.paths import DIRECTORY, chosen


@click.group("archive", cls=Commands)
def archive_group() -> None:
    """List an archive, verify it, and fetch segments from it.

    The archive is never changed.
    """


@archive_group.command("list")
@data_argument
@data_option
@archive_option
@config_option
@json_option
@click.pass_context
def list_command(
    ctx: click.Context, /, directory: Path | None, data: Path | None, **flags: Any
) -> None:
    """List the archived segments; exit code 1 if there are gaps between them, or none.

    If a data directory is named, exit code 1 also says that its journal does not continue them.
    """
    path = chosen(ctx, directory, data)
    from daybook.tools import archiving  # noqa: PLC0415 (slow to import)

    with_live = directory is not None or data is not None
    archiving.list_segments(path, flags, with_live=with_live)


@archive_group.command("verify")
@data_argument
@data_option
@archive_option
@config_option
@json_option
@click.pass_context
def verify_command(
    ctx: click.Context, /, directory: Path | None, data: Path | None, **flags: Any
) -> None:
    """Check every object against its manifest, its blocks, and the chain from segment to segment.

    If a data directory is named, the check of the chain continues in its live journal. Exit code 1
    if anything is wrong.
    """
    path = chosen(ctx, directory, data)
    from daybook.tools import archiving  # noqa: PLC0415 (slow to import)

    with_live = directory is not None or data is not None
    archiving.verify(ctx, path, flags, with_live=with_live)


@archive_group.command("fetch")
@click.argument("target", type=DIRECTORY, metavar="TARGET")
@data_option
@archive_option
@config_option
@click.option("--from", "from_lsn", type=click.IntRange(1), metavar="LSN", help="First LSN.")
@click.option("--to", "to_lsn", type=click.IntRange(1), metavar="LSN", help="Last LSN.")
@click.option(
    "--segment", "segments", multiple=True, metavar="NAME", help="This segment; may be repeated."
)
@json_option
@click.pass_context
def fetch_command(ctx: click.Context, /, target: Path, data: Path | None, **flags: Any) -> None:
    """Copy segments to the directory TARGET, which `journal inspect TARGET` and other commands can
    read.

    All of the archive, or the segments that contain a range of LSNs, or those named. Segments that
    an earlier attempt fetched are kept.
    """
    first, last = flags["from_lsn"], flags["to_lsn"]
    if flags["segments"] and (first or last):
        raise click.UsageError("--segment and a range of LSNs exclude each other")
    if first is not None and last is not None and last < first:
        raise click.UsageError(f"--from {first} is behind --to {last}")
    from daybook.tools import archiving  # noqa: PLC0415 (slow to import)

    archiving.fetch(ctx, chosen(ctx, None, data), target, flags)


@archive_group.command("restore")
@click.argument("target", type=DIRECTORY, metavar="TARGET")
@data_option
@archive_option
@config_option
@json_option
@click.pass_context
def restore_command(ctx: click.Context, /, target: Path, data: Path | None, **flags: Any) -> None:
    """Make TARGET a data directory from the archive alone, which a broker can start on.

    For the day on which everything else is lost. The broker then is as it was at the last archived
    event; what came later was in the live journal only. An attempt that was interrupted may be
    repeated.
    """
    from daybook.tools import archiving  # noqa: PLC0415 (slow to import)

    archiving.restore(ctx, chosen(ctx, None, data), target, flags)
