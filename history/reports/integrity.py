"""The integrity of a data directory as far as it is known without a check: its reports, its newest
signature, and the parts that an earlier verification found sound.

Fault model: any part may be missing or damaged; then it says so, and tells the others.
"""

from itertools import takewhile
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from daybook.errors import DaybookError, describe
from daybook.history.reports.report import AUDIT, VERIFY
from daybook.history.reports.report_files import Listed, listed
from daybook.history.verification.verify_state import VerifyState, default_path
from daybook.journal.data_directory import NOTARY, REPORTS
from daybook.journal.segments.segment import data_id_of, segment_names
from daybook.recovery.readonly import journal_disk
from daybook.recovery.signing.statements import noted_in

STATE_BYTES_MAX: Final = 64 * 1024 * 1024
"""A larger state of verifications is not read for this."""


class Sound(msgspec.Struct, frozen=True):
    """The parts that the next verification with `--resume` knows to be sound: so many of the
    segments that exist now, and ranges of the fold."""

    segments: int
    of_segments: int
    ranges: int


class Integrity(msgspec.Struct):
    """Everything that is known; `troubles` are sentences about missing and unreadable parts.

    `newest` has the newest report of a verification and of an audit of all history, each before a
    newer one of a part.
    """

    reports: list[Listed] = []
    newest: list[Listed] = []
    sound: Sound | None = None
    signed_lsn: int = 0
    signed_at: int = 0
    signed_by: str = ""
    troubles: list[str] = []


def integrity_of(path: Path) -> Integrity:
    """Return what is known about a data directory."""
    found = Integrity()
    for learn in (_reports, _journal, _signature):
        try:
            learn(path, found)
        except DaybookError as error:
            found.troubles.append(str(error))
        except click.ClickException as error:
            found.troubles.append(error.format_message())
        except OSError as error:
            found.troubles.append(describe(error))
    return found


def _reports(path: Path, found: Integrity) -> None:
    try:
        found.reports = listed(path)
    except OSError as error:
        error.filename = str(path / REPORTS)
        raise
    for kind in (VERIFY, AUDIT):
        found.newest += _newest([each for each in found.reports if each.kind == kind])


def _newest(reports: list[Listed]) -> list[Listed]:
    """Return the newest report about all of history, and a newer one about a part; of one kind,
    the newest first."""
    readable = [(each, each.report) for each in reports if each.report is not None]
    newer = list(takewhile(lambda pair: pair[1].is_partial, readable))
    whole = readable[len(newer) :]
    return [each for each, _ in (*whole[:1], *newer[:1])]


def _journal(path: Path, found: Integrity) -> None:
    disk = journal_disk(path)
    names = segment_names(disk)
    if not names:
        found.troubles.append(f"there is no journal in {path}")
        return
    data_id = data_id_of(disk).hex()
    file = default_path(data_id)
    if not file.is_file() or file.stat().st_size > STATE_BYTES_MAX:
        return
    state = VerifyState(file, path, data_id)
    sound = sum(state.segment(name) is not None for name in names)
    found.sound = Sound(sound, len(names), state.range_count)


def _signature(path: Path, found: Integrity) -> None:
    noted = noted_in(path / NOTARY)
    if noted is not None:
        statement = noted.statement
        found.signed_lsn, found.signed_at = statement.lsn, statement.time
        found.signed_by = statement.key


def as_json(found: Integrity) -> dict[str, Any]:
    """Return it for programs: the newest reports whole, of all others their results."""
    return {
        "newest": [_row(each) | _details(each) for each in found.newest],
        "reports": [_row(each) for each in found.reports],
        "sound": msgspec.to_builtins(found.sound),
        "signed_lsn": found.signed_lsn, "signed_at": found.signed_at, "signed_by": found.signed_by,
        "troubles": found.troubles,
    }  # fmt: skip


def _row(each: Listed) -> dict[str, Any]:
    if each.report is None:
        return {"name": each.name, "kind": each.kind, "damage": each.damage}
    told = each.report
    return {
        "name": each.name, "kind": each.kind, "begun": told.begun, "ended": told.ended,
        "by": told.by, "ok": told.ok, "result": told.result, "findings": told.finding_count,
        "command": told.command, "is_partial": told.is_partial,
    }  # fmt: skip


def _details(each: Listed) -> dict[str, Any]:
    assert each.report is not None
    told = each.report
    return {
        "facts": [list(pair) for pair in told.facts],
        "first_findings": [msgspec.to_builtins(finding) for finding in told.findings],
    }
