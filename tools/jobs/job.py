"""The input of a job of the pipeline, and the engine that runs it, from its options."""

from pathlib import Path
from typing import Any

import click
import msgspec

from daybook.pipeline.engines import Engine, History
from daybook.pipeline.planning import Source
from daybook.pipeline.selection import Selection, parse_kinds
from daybook.tools.terminal.memory_option import MEMORY_OF_JOBS


class Job(msgspec.Struct, frozen=True):
    """The input of a job, and the engine that runs it."""

    history: History
    selection: Selection
    engine: str
    master: str
    memory: int = 0


def job_of(flags: dict[str, Any], kinds: tuple[str, ...] = ()) -> Job:
    """Read the options; click.UsageError or SelectionError if they contradict each other."""
    data: Path | None = flags["data"]
    directory = str(data) if data is not None else ""
    history = History(Source(directory, flags["archive"] or ""), flags.get("parquet") or "")
    if not (directory or history.source.archive or history.parquet):
        ways = "--data DIR, --archive URL or --parquet DIR"
        if "parquet" not in flags:
            ways = "--data DIR or --archive URL"
        raise click.UsageError(f"name a history: {ways}")
    _check_span(flags)
    selection = Selection(
        kinds=parse_kinds(kinds),
        queues=flags.get("queues", ()),
        addresses=flags.get("addresses", ()),
        from_lsn=flags.get("from_lsn") or 1,
        to_lsn=flags.get("to_lsn"),
        since=flags.get("since"),
        until=flags.get("until"),
    )
    return Job(history, selection, flags["engine"], flags["master"], flags["memory"])


def _check_span(flags: dict[str, Any]) -> None:
    """Raise click.UsageError if a span ends before it begins."""
    for begin, end, first, last in (
        ("--from", "--to", flags.get("from_lsn"), flags.get("to_lsn")),
        ("--since", "--until", flags.get("since"), flags.get("until")),
    ):
        if first is not None and last is not None and first > last:
            raise click.UsageError(
                f"the span ends before it begins: {begin} must not be after {end}"
            )


def engine_of(job: Job) -> Engine:
    """Return the engine for a job; the caller closes it. Raises Failure if it is not available."""
    if job.engine == "spark":
        # Imported late: it needs Java, and pyspark, which belongs to an extra.
        from daybook.pipeline.spark.engine import SparkEngine  # noqa: PLC0415

        return SparkEngine(job.master)
    from daybook.pipeline.duck import DuckEngine, memory_bytes  # noqa: PLC0415

    return DuckEngine(job.memory or min(MEMORY_OF_JOBS, memory_bytes()))
