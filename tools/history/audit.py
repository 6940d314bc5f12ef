"""Running `journal audit`: the account of every queue between two moments, and every breach."""

import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from daybook.history.audit.accounts import Account
from daybook.history.audit.journal_audit import (
    AuditAsked,
    audited,
    events_of,
    report_of,
    span,
    summary,
)
from daybook.history.audit.re_execution import Audit, tasks
from daybook.history.brokers import exchanges
from daybook.history.brokers.journals import Journal
from daybook.history.event_finder import EventFinder
from daybook.history.reports.report import asked_here
from daybook.history.verification.verify_work import Source
from daybook.history.workers import chosen_processes
from daybook.journal.errors import NoJournal
from daybook.journal.segments.segment import segment_names
from daybook.texts import counted, printable
from daybook.tools.terminal.exit_codes import EXIT_WRONG
from daybook.tools.terminal.kept_reports import keep_report
from daybook.tools.terminal.opening import (
    archive_url,
    history,
    lsn_of,
    named_archive,
    refuse_redacted,
    wants_archive,
)
from daybook.tools.terminal.printing import progress, show_json, show_table

BREACHES_SHOWN: Final = 50
QUEUES_SHOWN: Final = 50
MICROSECONDS: Final = 1_000_000


def run_audit(ctx: click.Context, paths: Sequence[Path], flags: dict[str, Any]) -> None:
    """Audit, and exit with 1 if anything is wrong. Raises DaybookError and click.UsageError."""
    if len(paths) == 1:
        found = _audit_of(ctx, paths[0], flags)
        show_json(as_json(found)) if flags["as_json"] else _show(found)
        is_clean = found.is_clean
    else:
        # The environment names an archive of one broker.
        is_clean = _audit_all(ctx, paths, flags | {"url": None})
    if not is_clean:
        sys.exit(EXIT_WRONG)


def _audit_all(ctx: click.Context, paths: Sequence[Path], flags: dict[str, Any]) -> bool:
    """Audit the journals of several brokers, and compare them; return whether all is right."""
    found = {}
    for path in paths:
        found[path] = _audit_of(ctx, path, flags)
        if not flags["as_json"]:
            click.echo(click.style(f"{path}:", bold=True))
            _show(found[path])
            click.echo()
    journals = []
    for path in paths:
        finder = EventFinder(history(ctx, path, flags)[0], path)
        ctx.call_on_close(finder.close)
        journals.append(Journal(path, finder))
    with progress("comparing", sum(each.last for each in found.values())) as advance:
        told = exchanges.compare(journals, advance)
    if flags["as_json"]:
        show_json(
            {
                "ok": not told.findings and all(each.is_clean for each in found.values()),
                "journals": [{"data": str(path), **as_json(found[path])} for path in paths],
                "arrived": told.arrived,
                "findings": [
                    {"rule": each.rule, "data": str(each.journal.path), "event": each.lsn,
                     "text": each.text}
                    for each in told.findings
                ],
                "notes": told.notes,
            }
        )  # fmt: skip
    else:
        _show_exchanges(told)
    return not told.findings and all(each.is_clean for each in found.values())


def _show_exchanges(told: exchanges.Exchanges) -> None:
    click.echo(click.style("between them:", bold=True))
    shown = told.findings[:BREACHES_SHOWN]
    if shown:
        show_table(("rule", "what"), [(each.rule, printable(each.text)) for each in shown])
        if len(told.findings) > len(shown):
            click.echo(f"and {len(told.findings) - len(shown):,} more: --json", err=True)
    for note in told.notes:
        click.echo(f"note: {note}", err=True)
    arrived = counted(told.arrived, "message")
    if told.findings:
        click.echo(f"{arrived} came from one to another; {counted(len(told.findings), 'fault')}")
    else:
        click.echo(f"{arrived} came from one to another, each of them once")


def _audit_of(ctx: click.Context, path: Path, flags: dict[str, Any]) -> Audit:
    """Audit one journal. Raises DaybookError and click.UsageError."""
    disk, _, total = history(ctx, path, flags)
    if not segment_names(disk):
        raise NoJournal(f"there is no journal in {path}")
    refuse_redacted(path, "no decision that depends on them can be audited")
    begin, end = (lsn_of(disk, flags[name]) for name in ("begin", "end"))
    asked = AuditAsked(
        path, begin, end, wants_archive(ctx, flags), named_archive(ctx, flags),
        int(flags["clock_tolerance"] * MICROSECONDS),
    )  # fmt: skip
    asker = asked_here(asked.command())
    after, last = span(path, disk, begin, end)
    processes = chosen_processes(flags["processes"], total)
    pieces = tasks(
        path, disk, after, last, processes=processes, now=time.time_ns() // 1000,
        tolerance=asked.tolerance,
    )  # fmt: skip
    archive = ""
    if wants_archive(ctx, flags):
        archive = archive_url(path, flags["url"], flags["config_file"])
    where = Source(path, archive) if processes > 1 else disk
    with progress("auditing", events_of(pieces)) as told:
        found = audited(pieces, where, processes, told)
    keep_report(path, report_of(found, asker))
    for note in found.notes:
        click.echo(note, err=True)
    return found


def as_json(found: Audit) -> dict[str, Any]:
    """Return the result for programs."""
    return {
        "ok": found.is_clean,
        "after": found.after,
        "last": found.last,
        "events": found.events,
        "queues": [msgspec.to_builtins(each) for each in found.accounts],
        "dropped": [
            {"address": address, "reason": reason, "messages": count}
            for (address, reason), count in sorted(found.dropped.items())
        ],
        "breaches": [msgspec.to_builtins(each) for each in found.breaches],
        "breach_count": found.breach_count,
        "notes": found.notes,
    }


def _show(found: Audit) -> None:
    _show_accounts(found.accounts)
    if found.dropped:
        rows = [(*where, count) for where, count in sorted(found.dropped.items())]
        click.echo()
        show_table(("address", "dropped because of", "messages"), rows)
    if found.breaches:
        click.echo()
        shown = found.breaches[:BREACHES_SHOWN]
        told = [(each.rule, each.source, printable(each.text)) for each in shown]
        show_table(("rule", "see", "what"), told)
        for each in shown:
            if len(each.lsns) > 1:
                proof = ", ".join(str(lsn) for lsn in each.lsns)
                click.echo(f"event {each.lsn} is proven by events {proof}")
        if found.breach_count > BREACHES_SHOWN:
            click.echo(f"and {found.breach_count - BREACHES_SHOWN:,} more: --json", err=True)
    click.echo(summary(found))


def _show_accounts(accounts: list[Account]) -> None:
    """Print a line for each queue: messages at the start, arrivals and departures by kind, messages
    at the end.

    All that do not balance, and of the others those with the most messages.
    """
    moved = [each for each in accounts if each.before or each.entered or each.after]
    kinds = sorted({_kind(name) for each in moved for name in (*each.entered, *each.left)})
    headings = ["queue", "before", *(kind.replace("-", " ") for kind in kinds)]
    headings += ["by restarts", "after", "difference"]
    busiest = sorted(moved, key=lambda each: -each.before - sum(each.entered.values()))
    named = {each.queue_id for each in busiest[:QUEUES_SHOWN]}
    rows: list[tuple[str | int, ...]] = []
    others = []
    for each in moved:
        counts = _counts(each, kinds)
        if each.difference or each.queue_id in named:
            rows.append((printable(each.queue), *counts))
        else:
            others.append(counts)
    if others:
        sums = map(sum, zip(*others, strict=True))
        rows.append((f"({len(others):,} more: --json)", *sums))
    if rows:
        show_table(headings, rows, "")


def _counts(account: Account, kinds: list[str]) -> tuple[int, ...]:
    ways: Counter[str] = Counter()
    for name, count in (*account.entered.items(), *account.left.items()):
        ways[_kind(name)] += count
    told = (ways[kind] for kind in kinds)
    return account.before, *told, account.restarted, account.after, account.difference


def _kind(way: str) -> str:
    return way.partition(":")[0]
