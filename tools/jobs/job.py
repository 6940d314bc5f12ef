"""What a job of the pipeline works on, and what runs it, as its options say."""

from pathlib import Path
from typing import Any

import click
import msgspec

from daybook.pipeline.engines import Engine, History
from daybook.pipeline.planning import Source
from daybook.pipeline.selection import Selection, parse_kinds


class Job(msgspec.Struct, frozen=True):
    """What a job is to work on, and what is to run it."""

    history: History
    selection: Selection
    engine: str
    master: str


def job_of(flags: dict[str, Any], kinds: tuple[str, ...] = ()) -> Job:
    """What the options say; click.UsageError or SelectionError if that makes no sense."""
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
    return Job(history, selection, flags["engine"], flags["master"])


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
    """The engine that a job is to run on, to be closed. Raises Failure if it cannot be had."""
    if job.engine == "spark":
        # Imported late: it takes Java, and pyspark, which is an extra of its own.
        from daybook.pipeline.spark.engine import SparkEngine  # noqa: PLC0415

        return SparkEngine(job.master)
    from daybook.pipeline.duck import DuckEngine  # noqa: PLC0415

    return DuckEngine()
