"""An audit of a data directory as `journal audit` and the console carry it out: its span, its
pieces by one or several processes, and its report.

Must never know how a result is shown.
"""

import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import msgspec

from daybook.engine.queues.queue import StoreError
from daybook.errors import DaybookError
from daybook.history.audit.accounts import Account
from daybook.history.audit.clock_tolerance import CLOCK_TOLERANCE
from daybook.history.audit.re_execution import Audit, Piece, Task, audit_piece, joined
from daybook.history.initial_state import before_the_first
from daybook.history.moments import last_lsn
from daybook.history.reports.report import AUDIT, Asker, Cell, Finding, Report, Table, ended
from daybook.history.verification.verify_work import Source
from daybook.history.workers import adding_up, carried_out
from daybook.journal.disk import Disk
from daybook.journal.segments.segment import first_lsn_of
from daybook.paging.snapshots.base import BaseDamaged
from daybook.paging.tables.tables import IndexDamaged, IndexUnwritable
from daybook.recovery.fold import FoldError
from daybook.scratch_folders import scratch_folder

US_PER_S: Final = 1_000_000


class AuditError(DaybookError):
    """A span cannot be audited, or its state cannot be folded."""


class AuditAsked(msgspec.Struct, frozen=True):
    """What to audit: the options of the command. `archive` is a named one; another may be the
    default. Times may go back so many microseconds (`tolerance`)."""

    path: Path
    begin: int | None = None
    end: int | None = None
    with_archive: bool = False
    archive: str = ""
    tolerance: int = CLOCK_TOLERANCE

    def command(self) -> str:
        """Return the command."""
        words = ["journal", "audit", "--data", str(self.path)]
        for flag, lsn in (("--from", self.begin), ("--to", self.end)):
            words += [flag, str(lsn)] if lsn is not None else []
        if self.archive:
            words += ["--archive", self.archive]
        elif self.with_archive:
            words.append("--with-archive")
        if self.tolerance != CLOCK_TOLERANCE:
            words += [
                "--clock-tolerance",
                f"{self.tolerance / US_PER_S:.6f}".rstrip("0").rstrip("."),
            ]
        return shlex.join(words)


def span(path: Path, disk: Disk, begin: int | None, end: int | None) -> tuple[int, int]:
    """Return the event whose state an audit begins with, and its last event. Raises AuditError,
    ExportError and JournalError."""
    first, newest = first_lsn_of(disk), last_lsn(disk)
    if newest < first:
        raise AuditError("nothing to audit: the journal has no events")
    after = first - 1 if begin is None else begin
    last = newest if end is None else end
    if after < first - 1:
        raise AuditError(
            f"the journal begins with event {first}, after event {after}; "
            f"{before_the_first(path, disk)}"
        )
    if last > newest:
        raise AuditError(f"the journal ends with event {newest}, before event {last}")
    if last <= after:
        raise AuditError(f"there is no event after {after} up to {last}: give moments in order")
    return after, last


def events_of(pieces: list[Task]) -> int:
    """Return how many events pieces have."""
    return pieces[-1].last - pieces[0].after


def audited(
    pieces: list[Task],
    where: Source | Disk,
    processes: int,
    told: Callable[[int], None] = lambda done: None,
) -> Audit:
    """Audit pieces, by so many processes if `where` is not open; `told` gets the events done so
    far. Raises AuditError and JournalError."""
    results: dict[int, Piece] = {}
    try:
        with scratch_folder("audit") as folder:
            work = [(at, audit_one, (where, task, folder)) for at, task in enumerate(pieces)]
            if processes > 1:
                # The longest ones first, so that all processes end at about the same time.
                work.sort(key=lambda each: pieces[each[0]].after - pieces[each[0]].last)
            for at, piece in carried_out(work, min(processes, len(pieces)), adding_up(told)):
                results[at] = piece
    except (BaseDamaged, IndexDamaged, IndexUnwritable, FoldError, StoreError) as error:
        raise AuditError(str(error)) from error
    return joined([results[at] for at in sorted(results)])


def audit_one(
    where: Source | Disk, task: Task, folder: Path, *, progress: Callable[[int], None]
) -> Piece:
    """Audit one piece, perhaps in a separate process. Raises the errors of `audit_piece`."""
    if isinstance(where, Source):
        with where.opened() as disk:
            return audit_piece(task, disk, progress, folder)
    return audit_piece(task, where, progress, folder)


def summary(found: Audit) -> str:
    """Return the result as a sentence."""
    span_text = f"events {found.after + 1:,} to {found.last:,}"
    if found.is_clean:
        return f"{span_text}: every decision was allowed, and every message is accounted for"
    count = "1 breach" if found.breach_count == 1 else f"{found.breach_count:,} breaches"
    torn = sum(1 for each in found.accounts if each.difference)
    return f"{span_text}: {count}, and {torn} accounts that do not balance"


def report_of(found: Audit, asker: Asker) -> Report:
    """Return the report of an audit: its breaches, and the accounts with a difference first."""
    findings = [*_breaches(found), *_torn(found)]
    return ended(
        asker, AUDIT, ok=found.is_clean, result=summary(found),
        facts=[
            ("events", f"{found.after + 1} to {found.last}"),
            ("queues", f"{len(found.accounts):,}"),
            ("messages dropped", f"{sum(found.dropped.values()):,}"),
        ],
        findings=findings, finding_count=found.breach_count + sum(1 for _ in _torn(found)),
        tables=[_accounts(found.accounts)], notes=found.notes,
    )  # fmt: skip


def _breaches(found: Audit) -> Iterator[Finding]:
    for each in found.breaches:
        yield Finding(
            each.text, each.rule, each.source, each.lsn, each.message,
            [lsn for lsn in each.lsns if lsn != each.lsn],
        )  # fmt: skip


def _torn(found: Audit) -> Iterator[Finding]:
    for each in found.accounts:
        if each.difference:
            what = f"the account of queue {each.queue} does not balance: {each.difference:+,}"
            yield Finding(what, "account")


def _accounts(accounts: list[Account]) -> Table:
    moved = [each for each in accounts if each.before or each.entered or each.after]
    moved.sort(key=lambda each: (not each.difference, -each.before - sum(each.entered.values())))
    headings = ["queue", "address", "before", "in", "out", "by restarts", "after", "difference"]
    rows: list[list[Cell]] = [
        [
            each.queue, each.address, each.before, sum(each.entered.values()),
            sum(each.left.values()), each.restarted, each.after, each.difference,
        ]
        for each in moved
    ]  # fmt: skip
    return Table("Accounts of the queues", headings, rows)
