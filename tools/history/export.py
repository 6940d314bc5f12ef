"""Running `journal export`, and `journal verify` of an export."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import msgspec

from daybook.history.exports.addresses import ids_of_addresses
from daybook.history.exports.export import Exported, export
from daybook.history.exports.export_verification import ExportVerdict, verify_export
from daybook.history.moments import last_lsn, lsn_at
from daybook.history.verification.signature_proof import Anchors
from daybook.history.workers import adding_up
from daybook.journal.blocks.format import manifest_name
from daybook.journal.data_directory import NOTARY
from daybook.journal.disk import Disk
from daybook.journal.segments.segment import data_id_of, first_lsn_of, segment_names
from daybook.recovery.readonly import opened
from daybook.recovery.signing.redaction import Redaction
from daybook.recovery.signing.statements import noted_in
from daybook.texts import printable
from daybook.tools.terminal.exit_codes import EXIT_WRONG
from daybook.tools.terminal.failures import Failure
from daybook.tools.terminal.moments import Moment
from daybook.tools.terminal.opening import history, refuse_redacted
from daybook.tools.terminal.printing import progress, show_json


def run(ctx: click.Context, path: Path, target: Path, flags: dict[str, Any]) -> None:
    """Write an export. Raises JournalError, Failure, OSError and UsageError."""
    if flags["shown"] and not flags["redacted"]:
        raise click.UsageError(
            "--redact-except needs --redact: without it the export has all bodies and headers"
        )
    if target.resolve().is_relative_to(path.resolve()):
        raise click.UsageError(f"{target} lies in the data directory; name a directory elsewhere")
    refuse_redacted(path, "a part of it could not be proven")
    disk, _, total = history(ctx, path, flags)
    first = _lsn(disk, flags["first"], first_lsn_of(disk))
    last, left_out = _end(disk, flags["last"])
    if flags["first"] is not None and flags["first"].time is not None:
        # The last event before that time; the range begins behind it.
        first += 1
    if not 0 < first <= last:
        raise click.UsageError(f"from event {first} to event {last} is not a range{_why(left_out)}")
    shown = ids_of_addresses(path, disk, flags["shown"], last) if flags["shown"] else ()
    redacted = Redaction(flags["redacted"], shown)
    noted = noted_in(path / NOTARY)
    extra = [noted.statement] if noted is not None else []
    with progress("exporting", 3 * total) as advance:
        done = export(
            disk, target, first, last, redacted, extra,
            note=lambda text: click.echo(f"note: {text}", err=True), progress=adding_up(advance),
        )  # fmt: skip
    if flags["as_json"]:
        show_json(done._asdict() | {"target": str(target), "left_out": left_out})
        return
    click.echo(f"{target}: events {done.from_lsn} to {done.to_lsn} in {done.blocks:,} blocks")
    click.echo(_signed(done))
    if left_out is not None:
        click.echo(_why(left_out).removeprefix(": "))
    if done.statements and done.signed_to < done.to_lsn:
        click.echo(
            f"events {done.signed_to + 1} to {done.to_lsn} are not signed yet, and cannot be "
            f"proven; --to {done.signed_to} leaves them out"
        )


def _signed(done: Exported) -> str:
    """Print which events of an export are signed."""
    if not done.statements:
        return "none of it is signed: no key can prove it"
    up_to = "" if done.signed_to == done.to_lsn else f" up to event {done.signed_to}"
    return f"{done.statements} signed statements cover them{up_to}"


def _end(disk: Disk, asked: Moment | None) -> tuple[int, tuple[int, int] | None]:
    """Return the last event to export, and the events after it that are left out because they are
    not yet proven to be durable. Raises JournalError, Failure.
    """
    newest, last = last_lsn(disk), _last_proven(disk)
    left_out = (last + 1, newest) if last < newest else None
    wanted = _lsn(disk, asked, newest)
    if not last:
        raise Failure(f"the journal has no event that can be exported{_why(left_out)}")
    if asked is not None and asked.time is None and wanted > last:
        raise Failure(
            f"the last event that can be exported is {last}, so --to {wanted} is too far"
            f"{_why(left_out)}"
        )
    return min(wanted, last), left_out if wanted > last else None


def _last_proven(disk: Disk) -> int:
    # A segment with a manifest is whole, and proves itself.
    is_archived = manifest_name(segment_names(disk)[-1]) in disk.names()
    return last_lsn(disk, proven=not is_archived)


def _why(left_out: tuple[int, int] | None) -> str:
    if left_out is None:
        return ""
    first, last = left_out
    which = f"events {first} to {last} are" if first < last else f"event {first} is"
    return (
        f": {which} left out, because no later block proves that this is durable: a broker is "
        f"writing it, or was killed, and its next start settles it"
    )


def _lsn(disk: Disk, asked: Moment | None, default: int) -> int:
    if asked is None:
        return default
    return lsn_at(disk, asked.time) if asked.time is not None else asked.lsn


def verify(
    path: Path, keys: Sequence[bytes], anchors: Anchors, *, data_id: str, as_json: bool
) -> None:
    """Verify an export, and exit with 1 if anything is wrong. Raises JournalError, OSError."""
    disk = opened(path)
    verdict = verify_export(path, disk, keys, anchors)
    verdict.wrong += why_another(data_id_of(disk).hex(), data_id)
    if as_json:
        show_json(msgspec.to_builtins(verdict) | {"ok": verdict.ok})
    else:
        _show(verdict, has_proof=bool(keys or anchors))
    if not verdict.ok:
        sys.exit(EXIT_WRONG)


def unsigned(anchors: int) -> str:
    """Print which events unsigned, matching anchors prove."""
    return (
        f"unsigned, matches: {anchors} of the anchors; that proves the blocks, but not their author"
    )


def unchecked(anchors: int) -> str:
    """Print which events signed anchors prove without a key."""
    return (
        f"signed, matches: {anchors} of the anchors; their signer was not checked, because no "
        f"--public-key was given"
    )


def why_another(data_id: str, wanted: str) -> list[str]:
    """Return the fault of a data directory that must have this id ("" for any)."""
    if wanted in ("", data_id):
        return []
    return [f"this is the data directory {data_id}, and not {wanted}"]


def of_others(anchors: int) -> str:
    """Say that anchors of other data directories were left out."""
    return f"not compared: {anchors} of the anchors, which are of other data directories"


def _show(verdict: ExportVerdict, *, has_proof: bool) -> None:
    report = verdict.report
    without = f", without {' and '.join(verdict.redacted)}" if verdict.redacted else ""
    names = ", ".join(f"{printable(name)} (id {known})" for known, name in verdict.shown.items())
    but = f", but with those of {names}" if names else ""
    click.echo(
        f"an export of {report.events:,} events (LSN {report.first_lsn} to {report.last_lsn})"
        f"{without}{but}"
    )
    for fault in report.faults:
        click.secho(f"DAMAGED {fault.segment}, offset {fault.offset}: {fault.what}", fg="red")
    for wrong in verdict.wrong:
        click.secho(f"WRONG {wrong}", fg="red")
    for first, last in verdict.proven:
        click.echo(f"events {first} to {last} are proven to be as the broker journaled them")
    if verdict.anchors_unsigned:
        click.echo(unsigned(verdict.anchors_unsigned))
    if verdict.anchors_unchecked:
        click.echo(unchecked(verdict.anchors_unchecked))
    if verdict.anchors_redacted:
        click.echo(
            f"matches without proof: {verdict.anchors_redacted} of the anchors, because parts "
            f"of their blocks were left out; a signature proves them: --public-key"
        )
    if verdict.anchors_outside:
        click.echo(
            f"not compared: {verdict.anchors_outside} of the anchors, which are about events that "
            "are not in the export"
        )
    if verdict.anchors_of_others:
        click.echo(of_others(verdict.anchors_of_others))
    if verdict.unproven:
        click.secho(
            "NOT PROVEN the given keys and anchors do not prove all of its events", fg="red"
        )
    elif verdict.ok and not has_proof:
        click.echo("intact; only --public-key or --anchor can show its author")
    elif verdict.ok:
        click.secho("proven", fg="green")
