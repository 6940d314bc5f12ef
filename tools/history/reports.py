"""Running `journal reports`: the reports of verifications, audits and drills that are kept."""

from pathlib import Path

import click
import msgspec

from daybook.history.reports.integrity import Integrity, as_json, integrity_of
from daybook.history.reports.report import Report
from daybook.history.reports.report_files import read
from daybook.texts import moment, printable
from daybook.tools.terminal.printing import show_json, show_table


def run(path: Path, name: str | None, *, as_json: bool) -> None:
    """Print the reports of a data directory, or the one of a name. Raises NoSuchReport, OSError."""
    if name:
        _show_one(path, name, as_json)
    else:
        _show_all(path, as_json)


def _show_one(path: Path, name: str, is_json: bool) -> None:
    report = read(path, name)
    if is_json:
        show_json(msgspec.to_builtins(report) | {"name": name})
    else:
        _show_report(report)


def _show_all(path: Path, is_json: bool) -> None:
    found = integrity_of(path)
    if is_json:
        show_json(as_json(found))
    else:
        _show(found)


def _show(found: Integrity) -> None:
    rows: list[tuple[object, ...]] = []
    for each in found.reports:
        told = each.report
        if told is None:
            rows.append((each.name, None, None, each.damage, None))
        else:
            rows.append((each.name, moment(told.begun)[:19], told.ok, told.result, told.by))
    if rows:
        show_table(("report", "begun (UTC)", "fine", "result", "by"), rows, optional=("by",))
    else:
        click.echo("no report is kept: `journal verify` and `journal audit` write them")
    if found.sound is not None:
        click.echo(
            f"found sound before: {found.sound.segments:,} of {found.sound.of_segments:,} segments,"
            f" and {found.sound.ranges:,} ranges of the fold (journal verify --resume)"
        )
    if found.signed_lsn:
        click.echo(
            f"signed up to event {found.signed_lsn} ({moment(found.signed_at)}) by the key"
            f" {found.signed_by}"
        )
    for text in found.troubles:
        click.secho(printable(text), fg="red")


def _show_report(report: Report) -> None:
    click.echo(printable(report.command))
    click.echo(
        f"begun {moment(report.begun)} by {printable(report.by)}, took {report.duration}, Daybook "
        f"{report.version}"
    )
    for key, text in report.facts:
        click.echo(f"{key}: {printable(text)}")
    for table in report.tables:
        click.echo()
        show_table(table.headings, table.rows, table.title)
        if table.more:
            click.echo(f"and {table.more:,} more")
    if report.findings:
        click.echo()
        show_table(
            ("finding", "event", "what"),
            [(each.kind, each.lsn or None, each.what) for each in report.findings],
        )
    if report.finding_count > len(report.findings):
        click.echo(f"and {report.finding_count - len(report.findings):,} more findings")
    for note in report.notes:
        click.echo(f"note: {printable(note)}")
    click.secho(printable(report.result), fg="green" if report.ok else "red")
