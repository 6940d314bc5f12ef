"""Opening the input of commands: the live journal of a data directory, and its archive."""

from pathlib import Path
from typing import Any, Final

import click

from daybook.client.standing_by import about_standby
from daybook.history.moments import lsn_at
from daybook.history.verification.verify_work import Source
from daybook.journal.archive.archive import Archive
from daybook.journal.data_directory import ARCHIVE, CONFIG
from daybook.journal.disk import Disk
from daybook.journal.pins import Pin
from daybook.recovery.signing.export_proof import redacted_in
from daybook.server.config_keys.toml_source import TomlError, read_toml
from daybook.tools.terminal.failures import Failure
from daybook.tools.terminal.moments import Moment

CONFIG_SECTION: Final = "journal"
CONFIG_KEY: Final = "archive-directory"


def opened_archive(path: Path, url: str | None, config_file: Path | None) -> Archive:
    """Open the archive of a data directory: the named one, else the configured one, else its
    folder.

    Raises ArchiveError, click.UsageError.
    """
    return Archive(archive_url(path, url, config_file))


def archive_url(path: Path, url: str | None, config_file: Path | None) -> str:
    """Return the URL of the archive of a data directory, as `opened_archive` finds it."""
    if url is not None and not url:
        raise click.UsageError("the URL of the archive is empty; leave it out, or name one")
    return url or _configured(path, config_file) or str(path / ARCHIVE)


def wants_archive(ctx: click.Context, flags: dict[str, Any]) -> bool:
    """Return whether a command was asked to begin with the archive."""
    # The environment only says where an archive is; options must ask for it, because it may be
    # large.
    named = (ctx.get_parameter_source(name) for name in ("url", "config_file"))
    return flags["with_archive"] or click.core.ParameterSource.COMMANDLINE in named


def named_archive(ctx: click.Context, flags: dict[str, Any]) -> str:
    """Return the archive that the command names, "" for the default one."""
    is_named = ctx.get_parameter_source("url") is click.core.ParameterSource.COMMANDLINE
    return flags["url"] or "" if is_named else ""


def lsn_of(disk: Disk, moment: Moment | None) -> int | None:
    """Return the event of a moment. Raises JournalError."""
    if moment is None:
        return None
    return lsn_at(disk, moment.time) if moment.time is not None else moment.lsn


def history(
    ctx: click.Context, path: Path, flags: dict[str, Any], *, whole: bool = False
) -> tuple[Disk, Pin, int]:
    """Open the history for a command: the live journal, after the archive if one is asked for.

    With `whole`, it has what the cluster of a node has not confirmed, too. Also return the pin that
    protects the live journal until the command ends, and the number of bytes to read. Raises
    JournalError and click.UsageError.
    """
    pin = ctx.with_resource(Pin(path))
    note_limits(path)
    is_wanted = wants_archive(ctx, flags)
    archive = archive_url(path, flags["url"], flags["config_file"]) if is_wanted else ""
    source = Source(path, archive)
    disk, total = ctx.with_resource(source.measured(is_named=bool(flags["url"]), whole=whole))
    return disk, pin, total


def note_limits(path: Path) -> None:
    """Print on standard error which parts an export lacks, and how far a standby is behind. Raises
    ExportError and OSError."""
    for note in filter(None, (redacted_in(path).note, about_standby(path))):
        click.echo(f"note: {note}", err=True)


def refuse_redacted(path: Path, what: str) -> None:
    """Refuse to make something from an export without bodies or headers. Raises Failure,
    ExportError and OSError."""
    redacted = redacted_in(path)
    if redacted.parts:
        parts = " and ".join(redacted.parts)
        raise Failure(
            f"{parts} were left out of the export {path}, so {what}: name the journal that it was "
            "made from"
        )


def _configured(path: Path, config_file: Path | None) -> str:
    """Return the archive in the configuration file, "" if there is none."""
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
