"""The files of reports in a data directory: a bounded number, each with its hash.

A file is named by when its check began, and by what it is of: `0001795842383442694-audit.json`. Its
first line is the SHA-256 of the rest. The newest KEPT_MAX of each kind stay, and the newest one
that is about all of history.

Fault model: the folder may be missing, a link, unreadable, unwritable or full of other files, and a
file may be cut, changed, or written by somebody else; it is then listed as damaged, and nothing
else is harmed. A reader that may not write keeps no report, and says so. Must never know what a
report is about.
"""

import hashlib
import os
import re
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Final

import msgspec

from daybook.errors import DaybookError
from daybook.history.reports.report import AUDIT, KINDS, VERIFY, Report
from daybook.journal.data_directory import LOCK, REPORTS
from daybook.journal.reader_folder import ReaderFolder
from daybook.texts import moment

KEPT_MAX: Final = 20
"""How many reports of each kind stay."""
FILE_BYTES_MAX: Final = 128 * 1024
FINDINGS_MAX: Final = 200
"""How many findings of a report are kept; all are counted."""
ROWS_MAX: Final = 100
TEXT_MAX: Final = 2_000
"""How many characters of a text are kept."""
PART_SUFFIX: Final = ".part"
_NAME: Final = re.compile(rf"\d{{19}}-({'|'.join(KINDS)})")
_FILE: Final = re.compile(rf"({_NAME.pattern})\.json")
_PART: Final = re.compile(rf"({_NAME.pattern})\.\d+{re.escape(PART_SUFFIX)}")


class NoSuchReport(DaybookError):
    """A data directory has no report of a name, or a damaged one."""


class Listed(msgspec.Struct, frozen=True):
    """A report that is kept, or why it cannot be read."""

    name: str
    kind: str
    report: Report | None = None
    damage: str = ""


class Kept(msgspec.Struct, frozen=True):
    """The name of a report that was kept, or why it was not; neither in a directory that no broker
    has used."""

    name: str = ""
    trouble: str = ""


def keep(directory: Path, report: Report) -> Kept:
    """Keep a report in a data directory, and remove the oldest ones of its kind."""
    if not (directory / LOCK).exists():
        return Kept()
    name = f"{report.begun:019d}-{report.kind}"
    content = _encoded(report)
    try:
        with closing(ReaderFolder(directory, REPORTS, make=True)) as folder:
            _write(folder, name, content)
            _remove_oldest(folder, report.kind)
    except OSError as error:
        why = error.strerror or str(error)
        return Kept(trouble=f"the report could not be kept in {directory / REPORTS}: {why}")
    return Kept(name)


def listed(directory: Path) -> list[Listed]:
    """Return the reports of a data directory, the newest first. Raises OSError."""
    try:
        folder = ReaderFolder(directory, REPORTS, make=False)
    except FileNotFoundError:
        return []
    with closing(folder):
        names = sorted(_of_kind(folder.names(), KINDS), reverse=True)
        return [_read(folder, name) for name in names[: (KEPT_MAX + 1) * len(KINDS)]]


def read(directory: Path, name: str) -> Report:
    """Return a report. Raises NoSuchReport, OSError."""
    if not _NAME.fullmatch(name):
        raise NoSuchReport(f"'{name[:100]}' is not the name of a report")
    try:
        with closing(ReaderFolder(directory, REPORTS, make=False)) as folder:
            found = _read(folder, name)
    except FileNotFoundError:
        found = Listed(name, "", damage="it does not exist")
    if found.report is None:
        raise NoSuchReport(f"report {name} of {directory} cannot be shown: {found.damage}")
    return found.report


def faults(directory: Path) -> list[str]:
    """Return a sentence for the last verification of all history, or a newer one of a part, that
    found anything wrong; likewise for audits. Raises OSError."""
    try:
        folder = ReaderFolder(directory, REPORTS, make=False)
    except FileNotFoundError:
        return []
    found = []
    with closing(folder):
        names = folder.names()
        for kind, check in ((VERIFY, "verification"), (AUDIT, "audit")):
            for name in sorted(_of_kind(names, (kind,)), reverse=True):
                report = _read(folder, name).report
                if report is not None and not report.ok:
                    when = moment(report.begun)[:19].replace("T", " ")
                    found.append(f"the {check} of {when} UTC: {report.result}")
                if report is not None and not (report.ok and report.is_partial):
                    break
    return found


def _of_kind(names: Iterable[str], kinds: Iterable[str]) -> list[str]:
    """Return the names of reports of some kinds, from names of files."""
    found = (_FILE.fullmatch(name) for name in names)
    return [each[1] for each in found if each is not None and each[2] in kinds]


def _write(folder: ReaderFolder, name: str, content: bytes) -> None:
    part = f"{name}.{os.getpid()}{PART_SUFFIX}"
    # One that an earlier process of this number left.
    folder.remove(part)
    descriptor = folder.create(part)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        folder.rename(part, f"{name}.json")
    except OSError:
        folder.remove(part)
        raise


def _remove_oldest(folder: ReaderFolder, kind: str) -> None:
    names = folder.names()
    old = sorted(_of_kind(names, (kind,)))
    newest = old[-KEPT_MAX:]
    del old[-KEPT_MAX:]
    if not any(_is_whole(folder, name) for name in reversed(newest)):
        # Checks of a part do not displace the last one of all history.
        whole = next((name for name in reversed(old) if _is_whole(folder, name)), None)
        old = [name for name in old if name != whole]
    for name in old:
        folder.remove(f"{name}.json")
    parts = sorted(name for name in names if _PART.fullmatch(name))
    # What killed processes left; another one may be writing the newest.
    for name in parts[:-KEPT_MAX]:
        folder.remove(name)


def _is_whole(folder: ReaderFolder, name: str) -> bool:
    report = _read(folder, name).report
    return report is not None and not report.is_partial


def _read(folder: ReaderFolder, name: str) -> Listed:
    kind = name.rpartition("-")[2]
    try:
        with os.fdopen(folder.open(f"{name}.json"), "rb") as file:
            content = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        return Listed(name, kind, damage=error.strerror or str(error))
    digest, _, told = content.partition(b"\n")
    if hashlib.sha256(told).hexdigest().encode() != digest:
        return Listed(name, kind, damage="its content is damaged; delete it")
    try:
        return Listed(name, kind, msgspec.json.decode(told, type=Report))
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return Listed(name, kind, damage="it is not a report of this version; delete it")


def _encoded(report: Report) -> bytes:
    """Return the content of the file: as many findings and rows as there is room for."""
    findings, rows = FINDINGS_MAX, ROWS_MAX
    while True:
        told = msgspec.json.encode(_cut(report, findings, rows))
        content = hashlib.sha256(told).hexdigest().encode() + b"\n" + told
        if len(content) <= FILE_BYTES_MAX or not findings + rows:
            return content
        findings, rows = findings // 2, rows // 2


def _cut(report: Report, findings: int, rows: int) -> Report:
    """Return a report with so many findings and rows of each table, and with short texts."""
    tables = [
        msgspec.structs.replace(
            each, rows=[[_short(cell) for cell in row] for row in each.rows[:rows]],
            more=each.more + max(len(each.rows) - rows, 0),
        )
        for each in report.tables
    ]  # fmt: skip
    kept = [
        msgspec.structs.replace(
            each, what=_short(each.what), proof=each.proof[:ROWS_MAX], again=_short(each.again)
        )
        for each in report.findings[:findings]
    ]
    return msgspec.structs.replace(
        report, findings=kept, tables=tables, notes=[_short(each) for each in report.notes[:rows]],
        finding_count=max(report.finding_count, len(report.findings)),
        facts=[(key, _short(text)) for key, text in report.facts[:ROWS_MAX]],
    )  # fmt: skip


def _short(cell: object) -> object:
    return cell[:TEXT_MAX] if isinstance(cell, str) else cell
