"""Checks that may run for long: verifications and audits, as the command line carries them out, in
one process.

Each keeps its report in the data directory, as the command does. Must never know pages. All raise
DaybookError, click.ClickException and OSError for what people can understand.
"""

import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Final, TypeAlias

from daybook.console.jobs.history import WrongQuestion
from daybook.history.audit import journal_audit
from daybook.history.audit.re_execution import tasks
from daybook.history.exports.export_verification import is_export
from daybook.history.reports.report import AUDIT, VERIFY, Asker, Report
from daybook.history.reports.report_files import keep
from daybook.history.verification import journal_verification
from daybook.history.verification.folding_ranges import Plan
from daybook.history.verification.index_verification import copied_index
from daybook.history.verification.signature_proof import Proof
from daybook.history.verification.verify_state import VerifyState, default_path
from daybook.history.verification.verify_work import Source
from daybook.journal.data_directory import NOTARY
from daybook.journal.disk import Disk
from daybook.journal.errors import NoJournal
from daybook.journal.pins import Pin
from daybook.journal.segments.segment import data_id_of, segment_names
from daybook.recovery.signing.export_proof import redacted_in

Told: TypeAlias = Callable[[int, int], None]
"""Takes how much is done, and how much there is."""


def verify_asked(path: Path, arguments: dict[str, Any]) -> journal_verification.VerifyAsked:
    """Return what a form asks to verify."""
    return journal_verification.VerifyAsked(path, processes=1, **arguments)


def audit_asked(path: Path, arguments: dict[str, Any]) -> journal_audit.AuditAsked:
    """Return what a form asks to audit."""
    return journal_audit.AuditAsked(path, **arguments)


def verify(path: Path, arguments: dict[str, Any], by: str, told: Told) -> dict[str, Any]:
    """Verify a data directory. An interrupted one that resumes keeps what it found sound."""
    asked = verify_asked(path, arguments)
    asker = Asker(asked.command(), by, _now())
    if is_export(path):
        raise WrongQuestion(f"{path} is an export; `journal verify {path}` verifies it")
    proof = Proof(*journal_verification.proof_of(asked), path / NOTARY)
    with (
        Pin(path),
        copied_index(path) if asked.with_index else nullcontext() as index,
        Source(path, asked.archive).measured(whole=True) as (disk, in_all),
    ):
        total = 2 * in_all
        plan = _plan(asked, disk)
        told(0, total)
        try:
            verdict = journal_verification.verdict_on(
                asked, disk, lambda done: told(done, total), index=index, plan=plan,
                proof=proof if proof.is_wanted else None,
            )  # fmt: skip
        finally:
            if plan is not None and plan.state is not None:
                plan.state.keep()
    return _kept(path, journal_verification.report_of(verdict, asker))


def _plan(asked: journal_verification.VerifyAsked, disk: Disk) -> Plan | None:
    """Return the plan of a verification that knows earlier results, None for one that begins
    anew."""
    if not asked.resumes:
        return None
    data_id = data_id_of(disk).hex()
    state = VerifyState(default_path(data_id), asked.path, data_id)
    return Plan(Source(asked.path, asked.archive), 1, state)


def audit(path: Path, arguments: dict[str, Any], by: str, told: Told) -> dict[str, Any]:
    """Audit a data directory."""
    asked = audit_asked(path, arguments)
    asker = Asker(asked.command(), by, _now())
    with Pin(path), Source(path, asked.archive).measured(whole=True) as (disk, _):
        if not segment_names(disk):
            raise NoJournal(f"there is no journal in {path}")
        if parts := redacted_in(path).parts:
            raise WrongQuestion(
                f"{' and '.join(parts)} were left out of the export {path}, so it cannot be audited"
            )
        after, last = journal_audit.span(path, disk, asked.begin, asked.end)
        pieces = tasks(path, disk, after, last, processes=1, now=_now())
        total = journal_audit.events_of(pieces)
        told(0, total)
        found = journal_audit.audited(pieces, disk, 1, lambda done: told(done, total))
    return _kept(path, journal_audit.report_of(found, asker))


def _kept(path: Path, report: Report) -> dict[str, Any]:
    """Keep a report; return its name, and the result."""
    kept = keep(path, report)
    return {
        "report": kept.name, "trouble": kept.trouble, "ok": report.ok, "result": report.result,
        "findings": report.finding_count,
    }  # fmt: skip


def _now() -> int:
    return time.time_ns() // 1000


CHECKS: Final[dict[str, Callable[[Path, dict[str, Any], str, Told], dict[str, Any]]]] = {
    VERIFY: verify, AUDIT: audit,
}  # fmt: skip
"""All checks, by their names."""
