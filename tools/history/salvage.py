"""Running `journal salvage`: makes a data directory from the sound parts of another."""

import sys
from pathlib import Path
from typing import Any

import click
import msgspec

from daybook.client.control import is_running
from daybook.engine.queues.queue import StoreError
from daybook.history.workers import adding_up
from daybook.journal.archive.archive import Archive
from daybook.journal.archive.place import local_folder
from daybook.journal.errors import ArchiveError
from daybook.paging.snapshots.base import BaseDamaged
from daybook.paging.tables.tables import IndexDamaged, IndexUnwritable
from daybook.recovery.fold import FoldError
from daybook.recovery.readonly import opened, used_bytes
from daybook.recovery.salvage.salvage import salvage
from daybook.recovery.salvage.salvage_report import Missing, Report
from daybook.texts import counted, moment, printable
from daybook.tools.terminal.exit_codes import EXIT_WRONG
from daybook.tools.terminal.failures import Failure
from daybook.tools.terminal.opening import (
    opened_archive,
    refuse_redacted,
    wants_archive,
)
from daybook.tools.terminal.printing import progress, show_json

SHOWN_MAX = 100
"""How many of a list people are shown; JSON has more."""


def run(ctx: click.Context, source: Path, target: Path, flags: dict[str, Any]) -> None:
    """Salvage, print the report, and exit with 1 if anything is missing. Raises Failure."""
    total = used_bytes(opened(source))
    archive = _archive(ctx, source, flags)
    if archive is not None:
        _check_apart(target, archive)
    refuse_redacted(source, "the salvaged directory would have empty messages")
    if is_running(source):
        raise Failure(
            f"a broker runs on {source}: its writes would look like damage. Stop it "
            "first, or make a copy with: journal fork"
        )

    def note(text: str) -> None:
        click.echo(f"note: {text}", err=True)

    try:
        with progress("salvaging", (4 if archive else 3) * total) as told:
            report = salvage(source, target, archive=archive, note=note, progress=adding_up(told))
    except (BaseDamaged, IndexDamaged, IndexUnwritable, FoldError, StoreError) as error:
        raise Failure(f"{error}. There is no {target}") from error
    if flags["as_json"]:
        show_json(msgspec.to_builtins(report) | {"whole": report.is_whole})
    else:
        _show(report)
    if not report.is_whole:
        sys.exit(EXIT_WRONG)


def _archive(ctx: click.Context, source: Path, flags: dict[str, Any]) -> Archive | None:
    """Return the archive to take segments from, None if none was asked for. Raises ArchiveError."""
    if not wants_archive(ctx, flags):
        return None
    archive = opened_archive(source, flags["url"], flags["config_file"])
    entries, faults = archive.listed()
    if not entries and not faults:
        raise ArchiveError(archive.url, "no segment is archived here; is it the right place?")
    return archive


def _check_apart(target: Path, archive: Archive) -> None:
    """Raise Failure if the target lies in the archive, which is not changed."""
    folder = local_folder(archive.url)
    if folder is not None and target.resolve().is_relative_to(folder.resolve()):
        raise Failure(f"{target} lies in the archive {folder}, which is not changed: name another")


def _show(report: Report) -> None:
    click.echo(
        f"salvaged {counted(report.events, 'event')} in {counted(report.blocks, 'block')} of "
        f"{counted(report.segments, 'segment')}, up to event {report.last_lsn:,}, to "
        f"{report.directory}"
    )
    if report.state_lsn:
        click.echo(
            f"the state at event {report.state_lsn:,} is exact: {report.state_from} was sound"
        )
    if report.first_lsn > 1:
        click.echo(f"its history begins with event {report.first_lsn:,}")
    for each in report.from_archive:
        click.echo(
            f"FROM THE ARCHIVE {each.segment} (LSN {each.first_lsn} to {each.last_lsn}, "
            f"{each.bytes:,} bytes): in the source, {each.why}; {each.proof}"
        )
    if report.archive and not report.from_archive:
        click.echo(f"no segment came from the archive {report.archive}")
    for gap in report.gaps:
        click.secho(_gap_line(gap), fg="red")
    for broken in report.broken_chain:
        click.secho(
            f"CHAIN {broken.segment}, offset {broken.offset} (LSN {broken.lsn}): it does not carry "
            "the hash of the block before it; its own checksums are right",
            fg="red",
        )
    for kind, count in sorted(report.replaced.items()):
        click.echo(f"REPLACED {count:,} {kind}: they do not fit the events before them")
    for name in report.created:
        click.echo(f"CREATED {printable(name)}: events name it, and its creation is lost")
    for name in report.renamed:
        click.echo(f"RENAMED {printable(name)}: another still had its name")
    if report.uncertain:
        click.echo(
            f"queued before a gap: {counted(report.uncertain, 'message')}; those whose end is in "
            "it are kept, and may be delivered twice"
        )
    _show_messages("without content, removed", report.without_content, report.without_content_count)
    _show_messages("known by their ends only", report.unknown, report.unknown_count)
    what = "of which only the content is left, and not in which queue they were: not taken"
    _show_messages(what, report.astray, report.astray_count, "of address")
    for name, count in sorted(report.dropped.items()):
        click.secho(f"DROPPED {counted(count, 'message')} of queue {printable(name)}", fg="red")
    if report.is_whole:
        click.secho("no events are missing", fg="green")
    click.echo(
        f"its data id is {report.data_id}: it needs an archive of its own; start it with: "
        f"daybook serve --data {report.directory}"
    )


def _gap_line(gap: Missing) -> str:
    where = f"{gap.segment}, offset {gap.offset}, {gap.bytes:,} bytes: " if gap.segment else ""
    if not gap.events:
        return f"MISSING an unknown number of events after LSN {gap.last_lsn}: {where}{gap.what}"
    parts = [f"MISSING LSN {gap.first_lsn} to {gap.last_lsn}: {where}{gap.what}"]
    if gap.skipped:
        parts.append(f"{gap.skipped:,} of them never were events: a start had skipped their LSNs")
    if gap.kinds:
        parts.append(
            f"from {moment(gap.time_min)} to {moment(gap.time_max)}: {', '.join(gap.kinds)}; "
            f"queues, perhaps: {', '.join(map(printable, gap.queues)) or 'none that is left'}"
        )
    return "; ".join(parts)


def _show_messages(
    what: str, listed: list[tuple[str, int]], count: int, where: str = "in queue"
) -> None:
    if not count:
        return
    click.secho(f"MESSAGES {count:,} {what}", fg="red")
    for queue, message in listed[:SHOWN_MAX]:
        click.echo(f"  {message} {where} {printable(queue)}")
    if count > SHOWN_MAX:
        click.echo(f"  and {count - SHOWN_MAX:,} more: --json lists up to {len(listed):,}")
