"""Running `journal audit`: the account of every queue between two moments, and every breach."""

import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import click
import msgspec

from daybook.engine.queues.queue import StoreError
from daybook.history.audit.accounts import Account
from daybook.history.audit.re_execution import Audit, Piece, Task, audit_piece, joined, tasks
from daybook.history.brokers import exchanges
from daybook.history.brokers.journals import Journal
from daybook.history.event_finder import EventFinder
from daybook.history.initial_state import before_the_first
from daybook.history.moments import last_lsn, lsn_at
from daybook.history.verification.verify_work import Source
from daybook.history.workers import carried_out, chosen_processes
from daybook.journal.disk import Disk
from daybook.journal.errors import NoJournal
from daybook.journal.segments.segment import first_lsn_of, segment_names
from daybook.paging.snapshots.base import BaseDamaged
from daybook.paging.tables.tables import IndexDamaged, IndexUnwritable
from daybook.recovery.fold import FoldError
from daybook.texts import counted, printable
from daybook.tools.terminal.exit_codes import EXIT_WRONG
from daybook.tools.terminal.failures import Failure
from daybook.tools.terminal.moments import Moment
from daybook.tools.terminal.opening import archive_url, history, refuse_redacted, wants_archive
from daybook.tools.terminal.printing import progress, show_json, show_table

BREACHES_SHOWN: Final = 50
QUEUES_SHOWN: Final = 50
MICROSECONDS: Final = 1_000_000


def run_audit(ctx: click.Context, paths: Sequence[Path], flags: dict[str, Any]) -> None:
    """Audit, and exit with 1 if anything is wrong. Raises Failure, click.UsageError and
    JournalError."""
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
    """Audit one journal. Raises Failure, click.UsageError and JournalError."""
    disk, _, total = history(ctx, path, flags)
    if not segment_names(disk):
        raise NoJournal(f"there is no journal in {path}")
    refuse_redacted(path, "no decision that depends on them can be audited")
    after, last = span(path, disk, flags["begin"], flags["end"])
    processes = chosen_processes(flags["processes"], total)
    pieces = tasks(
        path, disk, after, last, processes=processes, now=time.time_ns() // 1000,
        tolerance=int(flags["clock_tolerance"] * MICROSECONDS),
    )  # fmt: skip
    archive = ""
    if wants_archive(ctx, flags):
        archive = archive_url(path, flags["url"], flags["config_file"])
    where = Source(path, archive) if processes > 1 else disk
    found = audited(pieces, where, processes)
    for note in found.notes:
        click.echo(note, err=True)
    return found


def audited(pieces: list[Task], where: Source | Disk, processes: int) -> Audit:
    """Audit pieces, by so many processes if `where` is not open. Raises Failure and
    JournalError."""
    results: dict[int, Piece] = {}
    events = pieces[-1].last - pieces[0].after
    try:
        with (
            TemporaryDirectory(prefix="daybook-audit-") as folder,
            progress("auditing", events) as advance,
        ):
            work = [(at, audit_one, (where, task, Path(folder))) for at, task in enumerate(pieces)]
            if processes > 1:
                # The longest ones first, so that all processes end at about the same time.
                work.sort(key=lambda each: pieces[each[0]].after - pieces[each[0]].last)
            for at, piece in carried_out(work, min(processes, len(pieces)), advance):
                results[at] = piece
    except (BaseDamaged, IndexDamaged, IndexUnwritable, FoldError, StoreError) as error:
        raise Failure(str(error)) from error
    return joined([results[at] for at in sorted(results)])


def audit_one(
    where: Source | Disk, task: Task, folder: Path, *, progress: Callable[[int], None]
) -> Piece:
    """Audit one piece, perhaps in a separate process. Raises the errors of `audit_piece`."""
    if isinstance(where, Source):
        with where.opened() as disk:
            return audit_piece(task, disk, progress, folder)
    return audit_piece(task, where, progress, folder)


def span(path: Path, disk: Disk, begin: Moment | None, end: Moment | None) -> tuple[int, int]:
    """Return the event whose state an audit begins with, and its last event. Raises Failure,
    ExportError and JournalError."""
    first, newest = first_lsn_of(disk), last_lsn(disk)
    if newest < first:
        raise Failure("nothing to audit: the journal has no events")
    after = first - 1 if begin is None else _lsn_of(disk, begin)
    last = newest if end is None else _lsn_of(disk, end)
    if after < first - 1:
        raise Failure(
            f"the journal begins with event {first}, after event {after}; "
            f"{before_the_first(path, disk)}"
        )
    if last > newest:
        raise Failure(f"the journal ends with event {newest}, before event {last}")
    if last <= after:
        raise Failure(f"there is no event after {after} up to {last}: give moments in order")
    return after, last


def _lsn_of(disk: Disk, moment: Moment) -> int:
    return lsn_at(disk, moment.time) if moment.time is not None else moment.lsn


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


def summary(found: Audit) -> str:
    """Return the result as a sentence."""
    span_text = f"events {found.after + 1:,} to {found.last:,}"
    if found.is_clean:
        return f"{span_text}: every decision was allowed, and every message is accounted for"
    count = "1 breach" if found.breach_count == 1 else f"{found.breach_count:,} breaches"
    torn = sum(1 for each in found.accounts if each.difference)
    return f"{span_text}: {count}, and {torn} accounts that do not balance"


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
