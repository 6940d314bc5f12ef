"""Opening the input of commands: the live journal of a data directory, and its archive."""

from pathlib import Path
from typing import Any, Final

import click

from daybook.journal.archive.archive import Archive
from daybook.journal.data_directory import ARCHIVE, CONFIG
from daybook.journal.disk import Disk, RealDisk
from daybook.journal.errors import ArchiveError, NoJournal
from daybook.journal.pins import Pin
from daybook.journal.segments.segment import first_lsn_of, segment_names
from daybook.recovery.readonly import journal_disk
from daybook.recovery.signing.export_proof import redacted_in
from daybook.server.config_keys.toml_source import TomlError, read_toml
from daybook.texts import printable
from daybook.tools.terminal.failures import Failure

CONFIG_SECTION: Final = "journal"
CONFIG_KEY: Final = "archive-directory"


def opened(path: Path) -> RealDisk:
    """Open the disk of a data directory's journal, whose segments must all be files. Raises
    NoJournal."""
    disk = journal_disk(path)
    for name in segment_names(disk):
        if not (disk.path / name).is_file():
            raise NoJournal(
                f"{disk.path / name} is not a file, but has the name of a segment; move it "
                f"away, and "
                "restore the segment of that name from a backup if there was one"
            )
    return disk


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


def history(ctx: click.Context, path: Path, flags: dict[str, Any]) -> tuple[Disk, Pin, int]:
    """Open the history for a command: the live journal, after the archive if one is asked for.

    Also return the pin that protects the live journal until the command ends, and the number of
    bytes to read. Raises JournalError and click.UsageError.
    """
    pin = ctx.with_resource(Pin(path))
    note_redaction(path)
    live = opened(path)
    total = used_bytes(live)
    if not wants_archive(ctx, flags):
        return live, pin, total
    archive = opened_archive(path, flags["url"], flags["config_file"])
    if not archive.entries() and (flags["url"] or first_lsn_of(live) > 1):
        # Without the archive the command would prove less than was asked for.
        raise ArchiveError(archive.url, "no segment is archived here; is it the right place?")
    return ctx.with_resource(archive.reading(live)), pin, total + archive.segment_bytes()


def note_redaction(path: Path) -> None:
    """Print on standard error which parts an export lacks. Raises ExportError and OSError."""
    redacted = redacted_in(path)
    if redacted.parts:
        parts = " and ".join(redacted.parts)
        names = ", ".join(printable(name) for _, name in redacted.shown)
        but = f", but for messages of {names} that are not large" if names else ""
        click.echo(
            f"note: {parts} were left out of this export{but}; it has only their hashes",
            err=True,
        )


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


def used_bytes(disk: RealDisk) -> int:
    """Return the bytes to read; too many by the reserved space of the newest segment."""
    return sum((disk.path / name).stat().st_size for name in segment_names(disk))
