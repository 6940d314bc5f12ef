"""The commands `journal archive`: what an archive holds, proving it, and fetching from it."""

import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, TypeVar

import click
import msgspec

from daybook.journal.archive.archive import Archive, ArchiveReport
from daybook.journal.archive.manifest import ArchiveEntry
from daybook.journal.data_directory import ARCHIVE, CONFIG, JOURNAL
from daybook.journal.disk import Disk, RealDisk
from daybook.journal.errors import ArchiveError
from daybook.journal.pins import Pin
from daybook.journal.segment import first_lsn_of, segment_names
from daybook.server.toml_source import TomlError, read_toml
from daybook.tools.failures import EXIT_WRONG, Failure
from daybook.tools.paths import DIRECTORY, PathThatIsNamed, chosen, opened
from daybook.tools.printing import adding_up, progress, show_json, show_table
from daybook.tools.story import moment

CONFIG_SECTION: Final = "journal"
CONFIG_KEY: Final = "archive-directory"

Command = TypeVar("Command", bound=Callable[..., Any])

archive_option = click.option(
    "--archive", "url", envvar="DAYBOOK_ARCHIVE", metavar="URL",
    help="The archive: a directory, or a URL like s3://bucket/path. Default: $DAYBOOK_ARCHIVE, "
    "else what the configuration says, else DATA/archive.",
)  # fmt: skip
config_option = click.option(
    "--config", "config_file", type=PathThatIsNamed(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Configuration of the broker. Default: broker.toml beside the data directory.",
)  # fmt: skip
with_archive_option = click.option(
    "--with-archive", is_flag=True,
    help="Begin with what has left the live journal for the archive; --archive or --config too.",
)  # fmt: skip
data_option = click.option(
    "--data", envvar="DAYBOOK_DATA", type=DIRECTORY, metavar="DIR",
    help="Data directory, instead of the argument. Default: $DAYBOOK_DATA, else ./data.",
)  # fmt: skip
data_argument = click.argument("directory", required=False, metavar="[DATA]", type=DIRECTORY)
json_option = click.option("--json", "as_json", is_flag=True, help="Print for programs.")


@click.group("archive")
def archive_group() -> None:
    """Ask an archive what it holds, prove it, and fetch segments from it.

    The archive is never changed.
    """


def history_options(command: Command) -> Command:
    """Options of commands that read history, for `history`."""
    return archive_option(config_option(with_archive_option(command)))


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
    """List the archived segments; exit code 1 if there are gaps between them, or no archive."""
    archive = opened_archive(chosen(ctx, directory, data), flags["url"], flags["config_file"])
    entries = archive.entries()
    if not entries and not archive.exists():
        raise ArchiveError(archive.url, "there is no archive here; name its place with --archive")
    missing = gaps(entries)
    if flags["as_json"]:
        show_json({"url": archive.url, "segments": entries, "gaps": missing})
    else:
        _show_entries(archive, entries)
        for first, last in missing:
            click.secho(f"MISSING LSN {first} to {last}", fg="red")
    if missing:
        sys.exit(EXIT_WRONG)


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

    If a data directory is named, the chain is followed on into its live journal. Exit code 1 if
    anything is wrong.
    """
    path = chosen(ctx, directory, data)
    archive = opened_archive(path, flags["url"], flags["config_file"])
    total = archive.segment_bytes()
    live = None
    if directory is not None or data is not None:
        ctx.with_resource(Pin(path))
        live = opened(path)
        total += used_bytes(live)
    with progress("verifying", total) as told:
        report = archive.verify(live, progress=adding_up(told))
    if not report.archived and not report.faults:
        raise Failure(f"{archive.url}: no segment is archived here")
    if flags["as_json"]:
        show_json(msgspec.to_builtins(report) | {"ok": report.ok})
    else:
        _show_report(report, with_live=live is not None)
    if not report.ok:
        sys.exit(EXIT_WRONG)


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
    """Copy segments to the directory TARGET, which `journal inspect TARGET` and all others read.

    All of the archive, or the segments that hold a range of LSNs, or those named. What an earlier
    attempt fetched is kept.
    """
    first, last = flags["from_lsn"], flags["to_lsn"]
    if flags["segments"] and (first or last):
        raise click.UsageError("--segment and a range of LSNs exclude each other")
    if first is not None and last is not None and last < first:
        raise click.UsageError(f"--from {first} is behind --to {last}")
    archive = opened_archive(chosen(ctx, None, data), flags["url"], flags["config_file"])
    wanted: dict[str, Any] = {
        "names": flags["segments"] or None, "from_lsn": first, "to_lsn": last,
    }  # fmt: skip
    total = sum(entry.bytes for entry in archive.chosen(**wanted))
    disk = RealDisk(target / JOURNAL)
    disk.create()
    with progress("fetching", total) as told:
        entries = archive.fetch(disk, **wanted, progress=adding_up(told))
    if flags["as_json"]:
        show_json({"url": archive.url, "target": str(target), "segments": entries})
    else:
        click.echo(
            f"fetched {len(entries)} segments, LSN {entries[0].first_lsn} to "
            f"{entries[-1].last_lsn}, to {disk.path}"
        )


def opened_archive(path: Path, url: str | None, config_file: Path | None) -> Archive:
    """The archive of a data directory: as named, else as configured, else the folder in it.

    Raises ArchiveError, click.UsageError.
    """
    if url is not None and not url:
        raise click.UsageError("the URL of the archive is empty; leave it out, or name one")
    return Archive(url or _configured(path, config_file) or str(path / ARCHIVE))


def history(ctx: click.Context, path: Path, flags: dict[str, Any]) -> tuple[Disk, Pin, int]:
    """What a command reads: the live journal, behind the archive if one is asked for.

    With it the pin that holds the live journal until the command ends, and the bytes that there
    are to read. Raises JournalError and click.UsageError.
    """
    pin = ctx.with_resource(Pin(path))
    live = opened(path)
    total = used_bytes(live)
    # The environment says where an archive is; that it is wanted must be said, for it may be large.
    named = (ctx.get_parameter_source(name) for name in ("url", "config_file"))
    if not flags["with_archive"] and click.core.ParameterSource.COMMANDLINE not in named:
        return live, pin, total
    archive = opened_archive(path, flags["url"], flags["config_file"])
    if not archive.entries() and (flags["url"] or first_lsn_of(live) > 1):
        # To go on without it would prove less than was asked for.
        raise ArchiveError(archive.url, "no segment is archived here; is it the right place?")
    return ctx.with_resource(archive.reading(live)), pin, total + archive.segment_bytes()


def _configured(path: Path, config_file: Path | None) -> str:
    """What the configuration file says, "" if it says nothing or there is none."""
    beside = path.absolute().parent / CONFIG
    file = config_file or beside
    if config_file is None and not beside.is_file():
        return ""
    try:
        source = read_toml(file)
    except TomlError as error:
        raise click.UsageError(str(error)) from error
    section = source.data.get(CONFIG_SECTION, {})
    value = section.get(CONFIG_KEY, "") if isinstance(section, dict) else ""
    if not isinstance(value, str):
        where = source.where((CONFIG_SECTION, CONFIG_KEY))
        raise click.UsageError(f"{where}: {CONFIG_KEY} must be a directory or a URL, in quotes")
    if config_file is not None and not value:
        raise click.UsageError(
            f"{file}: there is no {CONFIG_KEY} in [{CONFIG_SECTION}]; name it, or use --archive"
        )
    return value


def used_bytes(disk: RealDisk) -> int:
    """Bytes that there are to read; too much by what is reserved in the newest segment."""
    return sum((disk.path / name).stat().st_size for name in segment_names(disk))


def gaps(entries: tuple[ArchiveEntry, ...]) -> list[tuple[int, int]]:
    """First and last LSN of what is missing between archived segments."""
    return [
        (one.last_lsn + 1, other.first_lsn - 1)
        for one, other in pairwise(entries)
        if other.first_lsn > one.last_lsn + 1
    ]


def _show_entries(archive: Archive, entries: tuple[ArchiveEntry, ...]) -> None:
    if not entries:
        click.echo(f"no segment is archived in {archive.url}")
        return
    show_table(
        ("first LSN", "last LSN", "bytes", "from (UTC)", "to (UTC)", "archived (UTC)"),
        [
            (
                entry.first_lsn, entry.last_lsn, entry.bytes, moment(entry.time_min),
                moment(entry.time_max), moment(entry.archived_at),
            )
            for entry in entries
        ],
        f"segments in {archive.url}, named by their first LSN",
        optional=("archived (UTC)",),
    )  # fmt: skip
    total = sum(entry.bytes for entry in entries)
    click.echo(f"\n{len(entries):,} segments, {total:,} bytes")


def _show_report(report: ArchiveReport, *, with_live: bool) -> None:
    click.echo(
        f"{report.archived:,} segments, {report.archived_bytes:,} bytes, LSN {report.first_lsn} to "
        f"{report.last_lsn} in {report.url}"
    )
    if with_live:
        click.echo(f"followed into the live journal up to LSN {report.report.last_lsn}")
    for name in report.unlisted:
        click.echo(f"{name} has no manifest: archiving it was cut short; it will be tried again")
    for fault in report.faults:
        click.secho(
            f"DAMAGED {fault.url}, offset {fault.offset} (LSN {fault.lsn}): {fault.what}", fg="red"
        )
    if report.ok:
        click.echo(f"last hash {report.report.last_hash}")
        click.secho("intact", fg="green")
