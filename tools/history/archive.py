"""Running `journal archive`: listing an archive, verifying it, and fetching from it."""

import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import click
import msgspec

from daybook.history.workers import adding_up
from daybook.journal.archive.archive import Archive, ArchiveFault, ArchiveReport
from daybook.journal.archive.manifest import ArchiveEntry
from daybook.journal.archive.snapshots import snapshots_in
from daybook.journal.blocks.format import snapshot_name
from daybook.journal.data_directory import JOURNAL
from daybook.journal.disk import RealDisk
from daybook.journal.errors import ArchiveError, JournalError
from daybook.journal.pins import Pin
from daybook.paging.snapshots.archived_snapshots import archived_lsns, restore_archived
from daybook.paging.tables.tables import IndexDamaged, IndexUnwritable
from daybook.recovery.readonly import opened, used_bytes
from daybook.recovery.salvage.restoring import restore_archive
from daybook.scratch_folders import scratch_folder
from daybook.texts import moment
from daybook.tools.terminal.exit_codes import EXIT_WRONG
from daybook.tools.terminal.failures import Failure
from daybook.tools.terminal.opening import opened_archive
from daybook.tools.terminal.printing import progress, show_json, show_table


def list_segments(path: Path, flags: dict[str, Any], *, with_live: bool) -> None:
    """Print the archived segments, and with `with_live` whether the journal of the data directory
    continues them. Raises ArchiveError, click.UsageError."""
    archive = opened_archive(path, flags["url"], flags["config_file"])
    entries = archive.entries()
    if not entries and not archive.exists():
        raise ArchiveError(archive.url, "there is no archive here; name the archive with --archive")
    missing = gaps(entries)
    wrong = archive.joint(RealDisk(path / JOURNAL)).wrong if with_live else ""
    sizes = archive.snapshot_sizes()
    snapshots = [{"lsn": lsn, "bytes": sizes[snapshot_name(lsn)]} for lsn in snapshots_in(sizes)]
    if flags["as_json"]:
        told = {"segments": entries, "snapshots": snapshots[::-1], "gaps": missing}
        show_json({"url": archive.url, **told} | ({"wrong": wrong} if wrong else {}))
    else:
        _show_entries(archive, entries, sizes)
        for first, last in missing:
            click.secho(f"MISSING LSN {first} to {last}", fg="red")
        if wrong:
            click.secho(f"WRONG {archive.url}: {wrong}", fg="red")
    if missing or wrong or not entries:
        sys.exit(EXIT_WRONG)


def verify(ctx: click.Context, path: Path, flags: dict[str, Any], *, with_live: bool) -> None:
    """Verify the archive, and with `with_live` its seam to the live journal. Raises Failure."""
    archive = opened_archive(path, flags["url"], flags["config_file"])
    total = archive.segment_bytes()
    live = None
    if with_live:
        ctx.with_resource(Pin(path))
        live = opened(path, may_be_empty=True)
        total += used_bytes(live)
    with progress("verifying", total) as told:
        report = archive.verify(live, progress=adding_up(told))
    with progress("verifying snapshots", report.snapshots) as told:
        for done, fault in enumerate(_verified_snapshots(archive, report), 1):
            report.faults += [fault] if fault is not None else []
            told(done)
    if not report.archived and not report.faults:
        raise Failure(f"{archive.url}: no segment is archived here")
    if flags["as_json"]:
        show_json(msgspec.to_builtins(report) | {"ok": report.ok})
    else:
        _show_report(report)
    if not report.ok:
        sys.exit(EXIT_WRONG)


def _verified_snapshots(archive: Archive, report: ArchiveReport) -> Iterator[ArchiveFault | None]:
    """Restore each archived snapshot and compare its block with the segments; yield what is
    wrong."""
    disk = archive.listed_ranges()
    for lsn in archived_lsns(disk)[::-1]:
        with scratch_folder("verify") as folder:
            try:
                wrong = restore_archived(disk, lsn, bytes.fromhex(report.owner), folder)
            except (JournalError, IndexDamaged, IndexUnwritable) as error:
                wrong = str(error)
        url = f"{archive.url}/{snapshot_name(lsn)}"
        what = f"{wrong}. Delete it and its manifest: it is derived, and only saves time"
        yield ArchiveFault(url, 0, lsn, what) if wrong else None


def fetch(ctx: click.Context, path: Path, target: Path, flags: dict[str, Any]) -> None:
    """Copy the segments that the flags name. Raises ArchiveError, click.UsageError."""
    first, last = flags["from_lsn"], flags["to_lsn"]
    archive = _archive_of(ctx, path, flags)
    wanted: dict[str, Any] = {
        "names": flags["segments"] or None, "from_lsn": first, "to_lsn": last,
    }  # fmt: skip
    total = sum(entry.bytes for entry in archive.chosen(**wanted))
    disk = RealDisk(target / JOURNAL)
    disk.create()
    with progress("fetching", total) as told:
        entries = archive.fetch(disk, **wanted, progress=adding_up(told))
    for wrong in archive.fetch_snapshots(disk, entries):
        click.echo(f"a snapshot was not fetched, which costs only time: {wrong}", err=True)
    if flags["as_json"]:
        show_json({"url": archive.url, "target": str(target), "segments": entries})
    else:
        click.echo(
            f"fetched {len(entries)} segments, LSN {entries[0].first_lsn} to "
            f"{entries[-1].last_lsn}, to {disk.path}"
        )


def restore(ctx: click.Context, path: Path, target: Path, flags: dict[str, Any]) -> None:
    """Make a data directory from the archive. Raises ArchiveError, RecoveryError,
    click.UsageError."""
    archive = _archive_of(ctx, path, flags)
    total = sum(entry.bytes for entry in archive.chosen())
    with progress("restoring", total) as told:
        entries = restore_archive(archive, target, adding_up(told))
    if flags["as_json"]:
        show_json({"url": archive.url, "target": str(target), "segments": entries})
    else:
        click.echo(
            f"restored {len(entries)} segments, LSN {entries[0].first_lsn} to "
            f"{entries[-1].last_lsn}: start a broker with 'daybook serve --data {target}'"
        )
        click.echo(
            "it has the data id of the archived broker, but not what that did later: give it an "
            "archive and anchors of its own, and the signing-key only if the other is gone for good"
        )


def _archive_of(ctx: click.Context, path: Path, flags: dict[str, Any]) -> Archive:
    """Open the archive to copy from; refuse that of another directory than the one that --data
    names. Raises ArchiveError, click.UsageError."""
    archive = opened_archive(path, flags["url"], flags["config_file"])
    # The environment is not meant for this one command.
    if ctx.get_parameter_source("data") is click.core.ParameterSource.COMMANDLINE:
        found = archive.joint(RealDisk(path / JOURNAL))
        if found.is_foreign:
            raise ArchiveError(archive.url, found.wrong)
    return archive


def gaps(entries: tuple[ArchiveEntry, ...]) -> list[tuple[int, int]]:
    """First and last LSN of each gap between archived segments."""
    return [
        (one.last_lsn + 1, other.first_lsn - 1)
        for one, other in pairwise(entries)
        if other.first_lsn > one.last_lsn + 1
    ]


def _show_entries(
    archive: Archive, entries: tuple[ArchiveEntry, ...], snapshots: dict[str, int]
) -> None:
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
    if snapshots:
        count = len(snapshots_in(snapshots))
        click.echo(f"{count:,} snapshots, {sum(snapshots.values()):,} bytes with their manifests")


def _show_report(report: ArchiveReport) -> None:
    click.echo(
        f"{report.archived:,} segments, {report.archived_bytes:,} bytes, LSN {report.first_lsn} to "
        f"{report.last_lsn} in {report.url}; {report.snapshots:,} snapshots"
    )
    if report.followed:
        click.echo(f"followed into the live journal up to LSN {report.report.last_lsn}")
    for name in report.unlisted:
        click.echo(f"{name} has no manifest: archiving it was cut short; it will be tried again")
    for fault in report.faults:
        if not fault.lsn:
            click.secho(f"WRONG {fault.url}: {fault.what}", fg="red")
            continue
        click.secho(
            f"DAMAGED {fault.url}, offset {fault.offset} (LSN {fault.lsn}): {fault.what}", fg="red"
        )
    if report.ok:
        click.echo(f"last hash {report.report.last_hash}")
        click.secho("intact", fg="green")
