"""`daybook pipeline audit`: the account of every queue, and every fault with its events.

Exit code 1 if there is a fault, or history does not have what was asked for.
"""

import time
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import click
import msgspec
import pyarrow as pa

from daybook.pipeline.engines import Engine
from daybook.pipeline.jobs.audit import NUMBERS, Account, Audit, Extent, audit, extent
from daybook.pipeline.jobs.audit_lives import Fault
from daybook.pipeline.selection import EPOCH, Selection
from daybook.texts import moment
from daybook.tools.jobs.job import Job, engine_of, job_of
from daybook.tools.jobs.output import (
    Output,
    format_of,
    output_of,
    working,
    write,
    write_file,
)
from daybook.tools.terminal.exit_codes import EXIT_WRONG
from daybook.tools.terminal.printing import show_json, show_table

FAULTS_SHOWN: Final = 20
ELSEWHERE: Final = "name what has them: --archive URL of the segments that left, or --parquet DIR"
ACCOUNTS: Final = pa.schema(
    [
        ("queue_id", pa.int64()), ("queue", pa.string()), ("address", pa.string()),
        *((name, pa.int64()) for name in NUMBERS),
    ]
)  # fmt: skip
FAULTS: Final = pa.schema(
    [
        ("kind", pa.string()), ("lsns", pa.list_(pa.int64())), ("text", pa.string()),
        ("message", pa.int64()), ("queue", pa.string()), ("address", pa.string()),
        ("events", pa.int64()),
    ]
)  # fmt: skip


def run(ctx: click.Context, /, faults_file: str | None, *, re_execute: bool, **flags: Any) -> None:
    """Run the job."""
    output = output_of(flags)
    faults_format = format_of(faults_file, "--faults") if faults_file else ""
    job = job_of(flags)
    with working("audit") as told, engine_of(job) as engine:
        now = time.time_ns() // 1000 if re_execute else 0
        found = audit(engine, job.history, job.selection, told, re_execute_at=now)
        missing = _missing(engine, job, found, flags["from_lsn"])
    if faults_file:
        write_file(Path(faults_file), FAULTS, [_rows(found.faults, FAULTS)], faults_format)
    _write(found, output)
    if found.events or not missing:
        click.echo(_summary(found), err=True)
    for line in missing:
        click.echo(line, err=True)
    if found.first_lsn > 1 and not missing and flags["from_lsn"] is flags["since"] is None:
        click.echo(
            f"the account begins with event {found.first_lsn:,}, where this history begins",
            err=True,
        )
    if missing or not found.is_clean:
        ctx.exit(EXIT_WRONG)


def _rows(rows: list[Fault] | list[Account], schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([msgspec.to_builtins(row) for row in rows], schema)


def _write(found: Audit, output: Output) -> None:
    if output.format == "json" and not output.path:
        show_json(found)
        return
    if output.format != "table":
        write(output, ACCOUNTS, [_rows(found.queues, ACCOUNTS)])
        return
    headings = ["queue", "address", *(name.replace("_", " ") for name in NUMBERS)]
    accounts = [*found.queues, found.total] if len(found.queues) > 1 else found.queues
    rows = [
        [
            account.queue if account.queue_id else "(total)", account.address,
            *(getattr(account, name) for name in NUMBERS),
        ]
        for account in accounts
    ]  # fmt: skip
    optional = ("address", "expired", "removed", "dropped")
    show_table(headings, rows, "", optional)
    if found.faults:
        click.echo()
        shown = [[fault.kind, fault.queue or None, fault.text] for fault in found.faults]
        show_table(["fault", "queue", "what"], shown[:FAULTS_SHOWN])
        more = sum(found.fault_counts.values()) - FAULTS_SHOWN
        if more > 0:
            click.echo(f"{more:,} more faults are not shown; --faults FILE has them", err=True)
    if found.breaches:
        click.echo()
        told = [[each.rule, each.source, each.text] for each in found.breaches[:FAULTS_SHOWN]]
        show_table(["rule", "see", "what"], told)


def _missing(engine: Engine, job: Job, found: Audit, from_lsn: int | None) -> list[str]:
    """Return what was asked for and is not in this history, as sentences."""
    asked = job.selection
    if not found.events:
        return _missing_whole(asked, extent(engine, job.history))
    if from_lsn is not None and found.first_lsn > from_lsn:
        gone = f"events {from_lsn:,} to {found.first_lsn - 1:,}"
        return [f"{gone} were asked for and are not in this history; {ELSEWHERE}"]
    if asked.since is not None and found.first_lsn > asked.from_lsn:
        before = Selection(from_lsn=found.first_lsn - 1, to_lsn=found.first_lsn - 1)
        if not extent(engine, job.history, before).first_lsn:
            return [
                f"this history begins with event {found.first_lsn:,}, so what happened from "
                f"{_when(asked.since)} to then is not all accounted for; {ELSEWHERE}"
            ]
    return []


def _missing_whole(asked: Selection, there: Extent) -> list[str]:
    """The same for a span without any event."""
    if there.begins is None or there.ends is None:
        return [f"this history has no event; {ELSEWHERE}"]
    microsecond = timedelta(microseconds=1)
    begins, ends = (there.begins - EPOCH) // microsecond, (there.ends - EPOCH) // microsecond
    last = there.last_lsn if asked.to_lsn is None else asked.to_lsn
    if last < there.first_lsn or (asked.until is not None and asked.until < begins):
        return [
            f"nothing of this span is in this history, which begins with event "
            f"{there.first_lsn:,} at {_when(begins)}; {ELSEWHERE}"
        ]
    if asked.from_lsn > there.last_lsn or (asked.since is not None and asked.since > ends):
        return [
            f"there is no event in this span: this history ends with event {there.last_lsn:,} at "
            f"{_when(ends)}; name a span that begins before"
        ]
    return []


def _when(microseconds: int) -> str:
    return f"{moment(microseconds)} UTC"


def _summary(found: Audit) -> str:
    if not found.events:
        return "there is no event in this span, so there is nothing to account for"
    span = f"events {found.first_lsn:,} to {found.last_lsn:,}"
    if found.is_clean:
        return f"{span}: every message is accounted for"
    kinds = ", ".join(f"{kind} {count:,}" for kind, count in found.fault_counts.items())
    count = sum(found.fault_counts.values())
    what = "1 fault" if count == 1 else f"{count:,} faults"
    if found.breaches:
        broken = ", ".join(sorted({each.rule for each in found.breaches}))
        what += f" and {len(found.breaches):,} events that rules do not allow ({broken})"
    return f"{span}: {what} ({kinds or 'accounts do not balance'})"
