"""The report of a drill: command, machine, cases tried, findings, and cases that could not be
tried.

JSON for programs, one HTML file for people (`page.py`), a few lines for a terminal. Files are whole
or not there. Must never know the work of a drill.
"""

import calendar
import os
import platform
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from statistics import fmean
from typing import Any, Final

import click
import msgspec

from daybook.history.reports.report import DRILL, Cell
from daybook.history.reports.report import Finding as KeptFinding
from daybook.history.reports.report import Report as KeptReport
from daybook.history.reports.report import Table as KeptTable
from daybook.texts import user_name
from daybook.tools.drills.reports.page import page_of
from daybook.tools.drills.reports.report import Bars, Report, Spread
from daybook.tools.terminal.exit_codes import EXIT_WRONG
from daybook.tools.terminal.kept_reports import keep_report
from daybook.tools.terminal.printing import show_json_pretty, show_table
from daybook.version import VERSION

FINDINGS_SHOWN: Final = 5
BINS: Final = 40
BEGUN_FORMAT: Final = "%Y-%m-%dT%H:%M:%SZ"


def begun(drill: str, about: str, asked: dict[str, Any], seed: int) -> Report:
    """Return the report of a drill that begins now."""
    return Report(
        drill=drill,
        about=about,
        asked={key: value for key, value in asked.items() if value not in (None, "", False, ())},
        begun=time.strftime(BEGUN_FORMAT, time.gmtime()),
        machine=machine(),
        versions=versions(),
        seed=seed,
    )


def machine() -> dict[str, str]:
    """Describe the machine."""
    pages, size = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    return {
        "system": f"{platform.system()} {platform.release()}",
        "processor": _processor(),
        "cores": str(os.cpu_count() or 0),
        "memory": f"{pages * size / (1 << 30):.1f} GiB",
    }


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text("utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.machine()


def versions() -> dict[str, str]:
    """Return the versions of the programs that the result depends on."""
    libraries = {name: version(name) for name in ("lmdb", "msgspec", "zstandard")}
    return {"daybook": VERSION, "python": sys.version.split()[0], **libraries}


def spread(name: str, unit: str, values: Sequence[float]) -> Spread:
    """Return the distribution of some values; its bins are equally wide."""
    ordered = sorted(values)
    if not ordered:
        return Spread(name, unit, 0)
    low, high = ordered[0], ordered[-1]
    width = (high - low) / BINS or 1.0
    bins = [0] * BINS
    for value in ordered:
        bins[min(int((value - low) / width), BINS - 1)] += 1
    return Spread(
        name, unit, len(ordered), low, fmean(ordered), _at(ordered, 0.5), _at(ordered, 0.9),
        _at(ordered, 0.99), high, Bars(low, low + width * BINS, bins),
    )  # fmt: skip


def _at(ordered: Sequence[float], share: float) -> float:
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)]


def finish(report: Report, seconds: float) -> None:
    """Record the duration and the cases not tried; a drill that proved nothing has failed."""
    report.seconds = round(seconds, 3)
    report.could_not += [
        f"{each.what}: not tried for lack of time" for each in report.tried if not each.count
    ]
    report.tried = [each for each in report.tried if each.count]
    if not report.tried and not report.unproved:
        report.unproved = "nothing was tried"
    report.right = not report.findings and not report.unproved


def give(report: Report, *, html: Path | None, as_json: bool, data: Path | None = None) -> None:
    """Print the report, keep it in the data directory that was rehearsed, and write it to an HTML
    file and a JSON file beside it if one is named.

    It is printed first, so that a full disk does not cost the result. Exits with 1 if something was
    found. Raises OSError.
    """
    if as_json:
        show_json_pretty(report)
    else:
        _show(report)
    if data is not None:
        keep_report(data, kept_form(report))
    if html is not None:
        beside = html.with_suffix(".json")
        _write(html, page_of(report).encode())
        _write(beside, msgspec.json.format(msgspec.json.encode(report), indent=2) + b"\n")
        if not as_json:
            click.echo(f"report: {html} and {beside}")
    if not report.right:
        sys.exit(EXIT_WRONG)


def kept_form(report: Report) -> KeptReport:
    """Return a report in the form of those that are kept."""
    begun = calendar.timegm(time.strptime(report.begun, BEGUN_FORMAT)) * 1_000_000
    words = {
        key: ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
        for key, value in report.asked.items()
    }
    tried: list[list[Cell]] = [[each.what, each.count, each.right] for each in report.tried]
    findings = [
        KeptFinding(f"{each.where}: {each.what}" if each.where else each.what, each.promise,
                    again=each.again)
        for each in report.findings
    ]  # fmt: skip
    return KeptReport(
        DRILL, begun, begun + int(report.seconds * 1_000_000), user_name(os.geteuid()),
        f"daybook drill {report.drill}", report.right,
        f"{report.drill}: {report.result} in {report.extent}", report.versions["daybook"],
        [("drill", report.about), *words.items(), ("seed", str(report.seed)),
         *report.machine.items(), *report.figures.items()],
        findings, len(findings), [KeptTable("Tried", ["what", "times", "right"], tried)],
        [*report.notes, *(f"not tried: {text}" for text in report.could_not),
         *([f"nothing was proved: {report.unproved}"] if report.unproved else [])],
    )  # fmt: skip


def _write(path: Path, content: bytes) -> None:
    """Write a file under another name first, so that an interrupted drill leaves no part of it.

    Raises OSError, with the path.
    """
    part = path.with_name(path.name + ".part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part.write_bytes(content)
        part.replace(path)
    except OSError as error:
        error.filename = str(path)
        raise
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)


def _show(report: Report) -> None:
    show_table(
        ("times", "right", "tried"),
        [(each.count, each.right, each.what) for each in report.tried],
        f"{report.drill}: {report.about}",
    )
    for each in report.spreads:
        if each.count:
            click.echo(
                f"{each.name}: median {each.p50:,.1f} {each.unit}, 99 % {each.p99:,.1f}, longest "
                f"{each.most:,.1f} (of {each.count:,})"
            )
    for name, value in report.figures.items():
        click.echo(f"{name}: {value}")
    for text in report.notes:
        click.echo(text)
    for text in report.could_not:
        click.echo(f"not tried: {text}")
    for finding in report.findings[:FINDINGS_SHOWN]:
        where = f" ({finding.where})" if finding.where else ""
        click.secho(f"WRONG {finding.promise}{where}: {finding.what}", fg="red")
        if finding.again:
            click.echo(f"  again: {finding.again}")
    if len(report.findings) > FINDINGS_SHOWN:
        click.echo(f"and {len(report.findings) - FINDINGS_SHOWN:,} more: see --json or --report")
    click.echo(f"{report.seconds:.1f} s, seed {report.seed}")
    if report.unproved:
        click.secho(f"nothing was proved: {report.unproved}", fg="red")
    if report.right or report.findings:
        click.secho(f"{report.result} in {report.extent}", fg="green" if report.right else "red")
