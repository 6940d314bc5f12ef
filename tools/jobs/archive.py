"""`daybook pipeline archive`: history as Parquet, its verification, and segments restored from
it."""

import sys
import time
from pathlib import Path
from typing import Any

import click
import msgspec

from daybook.history.workers import adding_up
from daybook.pipeline.jobs.archive import ArchiveReport, Outcome, archive
from daybook.pipeline.parquet.archive import ParquetArchive
from daybook.pipeline.planning import Source
from daybook.pipeline.proving import ProofReport, prove, restore
from daybook.tools.jobs.job import engine_of, job_of
from daybook.tools.terminal.exit_codes import EXIT_WRONG
from daybook.tools.terminal.failures import Failure
from daybook.tools.terminal.printing import progress, show_json


def run(target: str, verify: bool, restored: Path | None, **flags: Any) -> None:
    """Run the job."""
    if verify and restored is not None:
        raise click.UsageError("--verify and --restore exclude each other")
    if verify:
        report = _verified(target, _source_of(flags))
        _show(report, _told_of_proof(report), flags["as_json"])
    elif restored is not None:
        _restore(target, restored, flags["as_json"])
    else:
        done = _archived(target, flags)
        _show(done, _told_of_archive(done), flags["as_json"])


def _source_of(flags: dict[str, Any]) -> Source | None:
    """The history named by options; the one in the environment may be another."""
    source = click.get_current_context().get_parameter_source
    typed = click.core.ParameterSource.COMMANDLINE
    directory = str(flags["data"]) if source("data") is typed else ""
    url = flags["archive"] if source("archive") is typed else ""
    return Source(directory, url) if directory or url else None


def _archived(target: str, flags: dict[str, Any]) -> ArchiveReport:
    job = job_of(flags)
    if job.engine == "spark":
        engine: Any = engine_of(job)
        with engine:
            report = archive(job.history.source, target, spark=engine.spark)
    else:
        report = archive(job.history.source, target, told=_tell)
    if flags["table_format"] == "delta":
        # Imported late: the package belongs to an extra.
        from daybook.pipeline.delta import commit  # noqa: PLC0415

        commit(ParquetArchive(target))
    return report


def _tell(outcome: Outcome) -> None:
    """Print what became of a segment, on a terminal: many segments take hours."""
    if sys.stderr.isatty():
        done = "archived" if outcome.archived is not None else "left out"
        click.echo(f"{outcome.segment}: {done}", err=True)


def _verified(target: str, live: Source | None) -> ProofReport:
    parquet = ParquetArchive(target)
    segments, _ = parquet.judged_segments()
    with progress("proving", sum(segment.bytes for segment in segments)) as told:
        report = prove(parquet, live, progress=adding_up(told))
    if not (report.segments or report.faults):
        # Otherwise a mistyped path would count as verified.
        raise Failure(f"{parquet.url}: no segment is archived here")
    return report


def _restore(target: str, directory: Path, as_json: bool) -> None:
    parquet = ParquetArchive(target)
    segments = parquet.segments()
    with progress("restoring", sum(segment.bytes for segment in segments)) as told:
        made = restore(
            parquet, directory, now=time.time_ns() // 1000, progress=adding_up(told)
        )  # fmt: skip
    if as_json:
        show_json({"url": parquet.url, "target": str(directory), "segments": made})
    else:
        click.echo(f"restored {len(made)} segments, bit for bit, to {directory}")


def _show(report: ArchiveReport | ProofReport, lines: list[str], as_json: bool) -> None:
    if as_json:
        show_json(msgspec.to_builtins(report) | {"ok": report.ok})
    else:
        for line in lines:
            click.echo(line)
    if not report.ok:
        sys.exit(EXIT_WRONG)


def _told_of_archive(report: ArchiveReport) -> list[str]:
    events = sum(each.last_lsn - each.first_lsn + 1 for each in report.added)
    size = sum(each.bytes for each in report.added)
    lines = [
        f"archived {len(report.added)} segments, {events} events, {size} bytes; "
        f"{report.already} were there"
    ]
    if report.last_lsn:
        lines.append(f"{report.url} has LSN {report.first_lsn} to {report.last_lsn}")
    for gap in report.gaps:
        lines.append(f"missing: LSN {gap.first_lsn} to {gap.last_lsn}")
    return [*lines, *report.problems]


def _told_of_proof(report: ProofReport) -> list[str]:
    lines = [
        f"{report.segments} segments, {report.files} files, LSN {report.first_lsn} to "
        f"{report.last_lsn}",
        f"{report.blocks} blocks: {report.exact} proven by their hash, {report.alike} by the "
        "digest of their content",
        f"the chain ends with {report.last_hash or 'nothing'}",
    ]
    lines += [f"not listed, and not counted: {path}" for path in report.unlisted]
    for fault in report.faults:
        place = f" (LSN {fault.lsn})" if fault.lsn else ""
        lines.append(f"{fault.url}{place}: {fault.what}")
    return [*lines, "everything is proven" if report.ok else f"{len(report.faults)} faults"]
