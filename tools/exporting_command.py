"""Running `journal export`, and `journal verify` of an export."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import msgspec

from daybook.history.moments import last_lsn, lsn_at
from daybook.journal.data_directory import NOTARY
from daybook.journal.disk import Disk
from daybook.journal.segment import first_lsn_of
from daybook.recovery.statements import noted_in
from daybook.tools.export_verification import ExportVerdict, verify_export
from daybook.tools.exporting import export
from daybook.tools.failures import EXIT_WRONG
from daybook.tools.moments import Moment
from daybook.tools.opening import history, opened
from daybook.tools.printing import adding_up, progress, show_json
from daybook.tools.proving import Anchors


def run(ctx: click.Context, path: Path, target: Path, flags: dict[str, Any]) -> None:
    """Write an export. Raises JournalError, Failure, OSError and UsageError."""
    if target.resolve().is_relative_to(path.resolve()):
        raise click.UsageError(f"{target} lies in the data directory; name a directory elsewhere")
    disk, _, total = history(ctx, path, flags)
    first = _lsn(disk, flags["first"], first_lsn_of(disk))
    last = _lsn(disk, flags["last"], last_lsn(disk))
    if flags["first"] is not None and flags["first"].time is not None:
        # The last event before that time; the range begins behind it.
        first += 1
    if not 0 < first <= last:
        raise click.UsageError(f"from event {first} to event {last} is no range")
    noted = noted_in(path / NOTARY)
    extra = [noted.statement] if noted is not None else []
    with progress("exporting", 3 * total) as advance:
        done = export(disk, target, first, last, flags["redacted"], extra, adding_up(advance))
    if flags["as_json"]:
        show_json(done._asdict() | {"target": str(target)})
        return
    click.echo(
        f"{target}: events {done.from_lsn} to {done.to_lsn} in {done.blocks:,} blocks; "
        f"{done.statements} signed statements cover them"
        + ("" if done.signed_to == done.to_lsn else f" up to event {done.signed_to}")
    )
    if done.signed_to < done.to_lsn and flags["redacted"]:
        click.echo(
            "what no statement covers cannot be proven without what was left out; export it again"
            " when it is signed"
        )


def _lsn(disk: Disk, asked: Moment | None, default: int) -> int:
    if asked is None:
        return default
    return lsn_at(disk, asked.time) if asked.time is not None else asked.lsn


def verify(path: Path, keys: Sequence[bytes], anchors: Anchors, *, as_json: bool) -> None:
    """Verify an export, and exit with 1 if anything is wrong. Raises JournalError, OSError."""
    verdict = verify_export(path, opened(path), keys, anchors)
    if as_json:
        show_json(msgspec.to_builtins(verdict) | {"ok": verdict.ok})
    else:
        _show(verdict, has_proof=bool(keys or anchors))
    if not verdict.ok:
        sys.exit(EXIT_WRONG)


def _show(verdict: ExportVerdict, *, has_proof: bool) -> None:
    report = verdict.report
    without = f", without {' and '.join(verdict.redacted)}" if verdict.redacted else ""
    click.echo(
        f"an export of {report.events:,} events (LSN {report.first_lsn} to {report.last_lsn})"
        f"{without}"
    )
    for fault in report.faults:
        click.secho(f"DAMAGED {fault.segment}, offset {fault.offset}: {fault.what}", fg="red")
    for wrong in verdict.wrong:
        click.secho(f"WRONG {wrong}", fg="red")
    for first, last in verdict.proven:
        click.echo(f"events {first} to {last} are proven to be what the broker journaled")
    if verdict.unproven:
        click.secho("NOT PROVEN not all of its events are proven by what was given", fg="red")
    elif verdict.ok and not has_proof:
        click.echo("intact; who wrote it, only --public-key or --anchor can show")
    elif verdict.ok:
        click.secho("proven", fg="green")
