"""Running `journal verify`: verifies a data directory, and reports its faults."""

import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import click
import msgspec

from daybook.history.exports.export_verification import is_export
from daybook.history.verification.catalog_verification import wrong_catalogs
from daybook.history.verification.folding_ranges import Plan
from daybook.history.verification.index_verification import copied_index
from daybook.history.verification.signature_proof import Anchors, Proof, Proven, anchors_in
from daybook.history.verification.verification import Verdict, verify_data
from daybook.history.verification.verify_state import VerifyState, default_path
from daybook.history.verification.verify_work import Source
from daybook.history.workers import chosen_processes
from daybook.journal.data_directory import BASE, NOTARY, SNAPSHOTS
from daybook.journal.segments.segment import data_id_of
from daybook.recovery.directory import why_foreign
from daybook.texts import moment
from daybook.tools.history import export
from daybook.tools.terminal.exit_codes import EXIT_DERIVED, EXIT_WRONG
from daybook.tools.terminal.opening import archive_url, history, wants_archive
from daybook.tools.terminal.printing import progress, show_json


def run(
    ctx: click.Context, path: Path, *, one_by_one: bool, with_index: bool, flags: dict[str, Any]
) -> None:
    """Verify, and exit with 1 if anything is wrong, EXIT_DERIVED if only derived files are. Raises
    JournalError."""
    keys, anchors = _proofs(flags)
    if is_export(path):
        export.verify(path, keys, anchors, data_id=flags["data_id"] or "", as_json=flags["as_json"])
        return
    state: VerifyState | None = None
    with copied_index(path) if with_index else nullcontext() as index:
        disk, _, total = history(ctx, path, flags)
        data_id = data_id_of(disk)
        if flags["resume"] or flags["state_file"] is not None:
            state = _state(path, flags["state_file"], data_id)
        proof = Proof(keys, anchors, path / NOTARY) if keys or anchors else None
        processes = chosen_processes(flags["processes"], total)
        plan = Plan(_source(ctx, path, flags), processes, state)
        try:
            with progress("verifying", 2 * total) as advance:
                verdict = verify_data(
                    disk, advance, one_by_one=one_by_one, base=path / BASE, index=index,
                    snapshots=path / SNAPSHOTS if with_index else None,
                    plan=plan if processes > 1 or state is not None else None, proof=proof,
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
    if with_index and verdict.report.ok:
        for wrong in wrong_catalogs(path, disk):
            verdict.catalogs_compared += 1
            verdict.derived += [wrong] if wrong else []
    if verdict.report.ok and (foreign := why_foreign(path, data_id.hex())):
        verdict.wrong.append(foreign)
    verdict.wrong += export.why_another(data_id.hex(), flags["data_id"] or "")
    if flags["as_json"]:
        show_json(msgspec.to_builtins(verdict) | {"ok": verdict.ok})
    else:
        _show_verdict(verdict)
    if not verdict.ok:
        sys.exit(EXIT_DERIVED if verdict.is_journal_ok else EXIT_WRONG)


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


def _proofs(flags: dict[str, Any]) -> tuple[list[bytes], Anchors]:
    """Read the keys and anchors that must prove history. Raises DaybookError, OSError."""
    keys = []
    if flags["public_keys"]:
        # Slow to load, and only needed with a key.
        from daybook.recovery.signing.signing_keys import load_public  # noqa: PLC0415

        keys = [load_public(file) for file in flags["public_keys"]]
    anchors = anchors_in(flags["anchors"])
    if flags["data_id"]:
        anchors.leave_out_others(flags["data_id"])
    return keys, anchors


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
        _show_proven(verdict.proven, report.last_lsn)
    if verdict.ok and not verdict.folded_lsn and report.first_lsn > 1:
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


def _show_proven(proven: Proven, last_lsn: int) -> None:
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
        click.echo(
            f"{proven.anchors_before} anchors are older than the journal; --with-archive compares "
            "them, too"
        )
    if proven.anchors_of_others:
        click.echo(export.of_others(proven.anchors_of_others))
    covered = max(proven.signed_lsn, proven.anchored_lsn)
    if 0 < covered < last_lsn:
        click.echo(f"events {covered + 1} to {last_lsn} came later, and are not proven yet")
