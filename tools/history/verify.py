"""Running `journal verify`: verifies a data directory, and reports its faults."""

import sys
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

import click
import msgspec

from daybook.history.exports.export_verification import is_export
from daybook.history.moments import last_lsn
from daybook.history.reports.report import asked_here
from daybook.history.verification.folding_ranges import Plan
from daybook.history.verification.index_verification import copied_index
from daybook.history.verification.journal_verification import (
    VerifyAsked,
    proof_of,
    report_of,
    verdict_on,
    why_not_begin,
)
from daybook.history.verification.signature_proof import Proof, Proven
from daybook.history.verification.verification import Verdict
from daybook.history.verification.verify_state import VerifyState, default_path
from daybook.history.verification.verify_work import Source
from daybook.history.workers import chosen_processes
from daybook.journal.data_directory import NOTARY
from daybook.journal.disk import Disk
from daybook.journal.errors import JournalError
from daybook.journal.segments.segment import data_id_of
from daybook.texts import moment
from daybook.tools.history import export
from daybook.tools.terminal.exit_codes import EXIT_DERIVED, EXIT_WRONG
from daybook.tools.terminal.kept_reports import keep_report
from daybook.tools.terminal.moments import Moment
from daybook.tools.terminal.opening import (
    archive_url,
    history,
    lsn_of,
    named_archive,
    wants_archive,
)
from daybook.tools.terminal.printing import progress, show_json


def run(
    ctx: click.Context, path: Path, *, one_by_one: bool, with_index: bool, flags: dict[str, Any]
) -> None:
    """Verify, and exit with 1 if anything is wrong, EXIT_DERIVED if only derived files are. Raises
    JournalError."""
    asked = VerifyAsked(
        path, with_index, one_by_one, bool(flags["resume"] or flags["state_file"]),
        wants_archive(ctx, flags), flags["processes"], named_archive(ctx, flags),
        tuple(flags["public_keys"]), tuple(flags["anchors"]), flags["data_id"] or "",
    )  # fmt: skip
    if flags["begin"] is not None and (why := asked.why_not_from()):
        raise click.UsageError(f"{why}: give one of them")
    keys, anchors = proof_of(asked)
    if is_export(path) and flags["begin"] is not None:
        raise click.UsageError(
            "--from is for a data directory, and this is an export; leave it out"
        )
    if is_export(path):
        export.verify(path, keys, anchors, data_id=asked.data_id, as_json=flags["as_json"])
        return
    asker = asked_here(asked.command())
    verdict, asked = _verdict(ctx, asked, Proof(keys, anchors, path / NOTARY), flags)
    if flags["as_json"]:
        show_json(msgspec.to_builtins(verdict) | {"ok": verdict.ok})
    else:
        _show_verdict(verdict)
    keep_report(path, report_of(verdict, msgspec.structs.replace(asker, command=asked.command())))
    if not verdict.ok:
        sys.exit(EXIT_DERIVED if verdict.is_journal_ok else EXIT_WRONG)


def _verdict(
    ctx: click.Context, asked: VerifyAsked, proof: Proof, flags: dict[str, Any]
) -> tuple[Verdict, VerifyAsked]:
    """Verify, and keep what was found sound; return what was asked with the event to begin with,
    too. Raises JournalError."""
    state: VerifyState | None = None
    path = asked.path
    with copied_index(path) if asked.with_index else nullcontext() as index:
        disk, _, total = history(ctx, path, flags, whole=True)
        data_id = data_id_of(disk)
        # A time before all events is one of the first segment.
        asked = msgspec.structs.replace(asked, begin=_begin_of(disk, flags["begin"]))
        if asked.resumes:
            state = _state(path, flags["state_file"], data_id)
        processes = chosen_processes(asked.processes, total)
        plan = Plan(_source(ctx, path, flags), processes, state)
        try:
            with progress("verifying", 2 * total) as advance:
                verdict = verdict_on(
                    asked, disk, advance, index=index, proof=proof if proof.is_wanted else None,
                    plan=plan if processes > 1 or state is not None else None,
                )  # fmt: skip
        except KeyboardInterrupt:
            if state is not None:
                not_kept = state.keep()
                resumes = f"--state {state.path} resumes from here"
                click.echo(f"interrupted; {not_kept or resumes}", err=True)
            raise
        except BaseException:
            _keep(state)
            raise
        _keep(state)
    verdict.wrong += export.why_another(data_id.hex(), asked.data_id)
    return verdict, asked


def _begin_of(disk: Disk, moment: Moment | None) -> int:
    """Return the event to begin with, 0 for all of them. Raises click.UsageError if the journal
    ends before."""
    begin = 0 if moment is None else lsn_of(disk, moment) or 1
    # The verification itself reports segments that cannot be read.
    with suppress(JournalError):
        if begin and (why := why_not_begin(begin, last_lsn(disk))):
            raise click.UsageError(f"--from: {why}")
    return begin


def _keep(state: VerifyState | None) -> None:
    """Write the state if there is one. A failure is reported, and is not a fault of the journal."""
    not_kept = state.keep() if state is not None else ""
    if not_kept:
        click.echo(f"note: {not_kept}", err=True)


def _state(path: Path, file: Path | None, data_id: bytes) -> VerifyState:
    """Open the state of the verification of a journal, and say if an old one is of no use."""
    state = VerifyState(file or default_path(data_id.hex()), path, data_id.hex())
    if state.note:
        click.echo(state.note, err=True)
    return state


def _source(ctx: click.Context, path: Path, flags: dict[str, Any]) -> Source:
    """Return where other processes find the same segments."""
    if not wants_archive(ctx, flags):
        return Source(path)
    return Source(path, archive_url(path, flags["url"], flags["config_file"]))


def _show_verdict(verdict: Verdict) -> None:
    report = verdict.report
    click.echo(
        f"{report.events:,} events (LSN {report.first_lsn} to {report.last_lsn}) in "
        f"{report.blocks:,} blocks and {report.marks:,} marks of {report.segments} segments"
    )
    if verdict.skipped:
        click.echo(
            f"{verdict.skipped:,} other LSNs are not events: starts after a crash skipped them, so"
            " that no id is used twice"
        )
    if verdict.segments_known or verdict.ranges_known:
        click.echo(
            f"verified before, and not changed since: {verdict.segments_known} segments and "
            f"{verdict.ranges_known} ranges of the fold"
        )
    if report.tail is not None:
        click.echo(
            f"the last block is unfinished ({report.tail.segment}, offset {report.tail.offset}): "
            "it is being written, or is a torn tail that the next start cuts"
        )
    for fault in report.faults:
        click.secho(
            f"DAMAGED {fault.segment}, offset {fault.offset} (LSN {fault.lsn}): {fault.what}",
            fg="red",
        )
    for wrong in verdict.wrong:
        click.secho(f"WRONG {wrong}", fg="red")
    for wrong in verdict.derived:
        click.secho(f"DERIVED {wrong}", fg="yellow")
    for note in verdict.notes:
        click.echo(f"note: {note}")
    if verdict.proven is not None:
        _show_proven(verdict.proven, report.last_lsn, verdict.begun_at)
    if verdict.ok and verdict.begun_at:
        click.secho(f"intact from event {verdict.begun_at} on", fg="green")
    elif verdict.ok and not verdict.folded_lsn and report.first_lsn > 1:
        click.echo(
            f"last hash {report.last_hash}; not folded: these segments come from an archive, and "
            f"history before LSN {report.first_lsn} is not among them"
        )
        click.secho("intact", fg="green")
    elif verdict.ok:
        click.echo(f"last hash {report.last_hash}, digest of the state {verdict.digest}")
        stops = verdict.digests_compared
        click.echo(
            f"digests at checkpoints and clean stops: {stops} compared, all equal"
            if stops
            else "no checkpoint or clean stop to compare a digest with"
        )
        if verdict.index_lsn is not None:
            click.echo(f"the index at event {verdict.index_lsn} agrees with the journal")
        if verdict.catalogs_compared:
            click.echo(f"catalogs: {verdict.catalogs_compared} compared, all equal")
        if verdict.snapshots_compared:
            click.echo(f"snapshots: {verdict.snapshots_compared} compared, all equal")
        click.secho("intact", fg="green")
    elif verdict.is_journal_ok:
        click.secho(
            "the journal is intact; files derived from it are not: the next start of the broker "
            "removes the damaged files that it finds, and makes them again (files still damaged "
            "after a start can be deleted while no broker runs)",
            fg="yellow",
        )


def _show_proven(proven: Proven, last_lsn: int, begun_at: int) -> None:
    """Print how far history is proven, and the events without proof."""
    if proven.signatures:
        click.echo(
            f"signed up to event {proven.signed_lsn} ({moment(proven.signed_at)}) by the key "
            f"{proven.signed_by}; {proven.signatures} signatures"
        )
    if proven.signatures_of_source:
        click.echo(
            f"not compared: {proven.signatures_of_source} signatures of the data directory from "
            "which this one was made; they can be verified there"
        )
    if proven.anchors:
        click.echo(
            f"anchored up to event {proven.anchored_lsn}; {proven.anchors} anchors are in the "
            "journal"
        )
    if proven.anchors_unsigned and proven.keys:
        click.echo(export.unsigned(proven.anchors_unsigned))
    if proven.anchors_unchecked:
        click.echo(export.unchecked(proven.anchors_unchecked))
    if proven.anchors_before:
        older = f"{proven.anchors_before} anchors are older than"
        click.echo(
            f"{older} event {begun_at}, and were not compared"
            if begun_at
            else f"{older} the journal; --with-archive compares them, too"
        )
    if proven.anchors_of_others:
        click.echo(export.of_others(proven.anchors_of_others))
    covered = max(proven.signed_lsn, proven.anchored_lsn)
    if 0 < covered < last_lsn:
        click.echo(f"events {covered + 1} to {last_lsn} came later, and are not proven yet")
