"""Keeping the report of a command in the data directory that it is about."""

from pathlib import Path

import click

from daybook.history.reports.report import Report
from daybook.history.reports.report_files import keep


def keep_report(path: Path, report: Report) -> None:
    """Keep a report; a failure is reported, and changes no result."""
    if trouble := keep(path, report).trouble:
        click.echo(f"note: {trouble}", err=True)
