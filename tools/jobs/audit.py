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

from daybook.engine.queues.queue import StoreError
from daybook.paging.snapshots.base import BaseDamaged
from daybook.paging.tables.tables import IndexDamaged, IndexUnwritable
from daybook.pipeline.engines import Engine
from daybook.pipeline.jobs.audit import NUMBERS, Account, Audit, Extent, Fault, audit, extent
from daybook.pipeline.selection import Selection
from daybook.recovery.fold import FoldError
from daybook.texts import moment
from daybook.times import EPOCH
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
from daybook.tools.terminal.failures import Failure
from daybook.tools.terminal.opening import refuse_redacted
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
        ("source", pa.string()),
    ]
)  # fmt: skip


def run(ctx: click.Context, /, faults_file: str | None, **flags: Any) -> None:
    """Run the job."""
    output = output_of(flags)
    faults_format = format_of(faults_file, "--faults") if faults_file else ""
    job = job_of(flags)
    if flags["data"] is not None:
        refuse_redacted(flags["data"], "no decision that depends on them can be audited")
    with working("audit") as told, engine_of(job) as engine:
        try:
            now = time.time_ns() // 1000
            found = audit(engine, job.history, job.selection, told, now=now)
        except (BaseDamaged, IndexDamaged, IndexUnwritable, FoldError, StoreError) as error:
            raise Failure(str(error)) from error
        missing = _missing(engine, job, found, flags["from_lsn"])
    for note in found.notes:
        click.echo(note, err=True)
    if faults_file:
        write_file(Path(faults_file), FAULTS, [_rows(found.faults, FAULTS)], faults_format)
    _write(found, output)
    if found.events or not missing:
        click.echo(_summary(found), err=True)
    for line in missing:
        click.echo(line, err=True)
    if (
        found.first_lsn > 1
        and not (missing or found.notes)
        and flags["from_lsn"] is flags["since"] is None
    ):
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
        shown = [
            [fault.kind, fault.source, fault.queue or None, fault.text]
            for fault in found.faults[:FAULTS_SHOWN]
        ]
        show_table(["fault", "see", "queue", "what"], shown, optional=("see",))
        more = len(found.faults) - FAULTS_SHOWN
        if more > 0:
            click.echo(f"{more:,} more faults are not shown; --faults FILE has them", err=True)


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
    what = "1 fault" if found.fault_count == 1 else f"{found.fault_count:,} faults"
    return f"{span}: {what} ({kinds or 'accounts do not balance'})"
