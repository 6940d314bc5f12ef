"""What the jobs of the pipeline have in common on the command line: history, selection, engine."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import click
import msgspec

from daybook.pipeline.engines import Engine, History
from daybook.pipeline.planning import Source
from daybook.pipeline.selection import Selection, parse_kinds
from daybook.tools.numbers import NUMBER
from daybook.tools.paths import DIRECTORY
from daybook.tools.times import time_option

Command = TypeVar("Command", bound=Callable[..., Any])
ENGINES: Final = ("embedded", "spark")


class Job(msgspec.Struct, frozen=True):
    """What a job is to work on, and what is to run it."""

    history: History
    selection: Selection
    engine: str
    master: str


_SEGMENTS: Final = (
    click.option(
        "--data", envvar="DAYBOOK_DATA", type=DIRECTORY, metavar="DIR",
        help="Data directory of a broker, which may be running. Default: $DAYBOOK_DATA.",
    ),
    click.option(
        "--archive", envvar="DAYBOOK_ARCHIVE", metavar="URL",
        help="Archive of segments that left the journal: a directory, or like s3://bucket/path.",
    ),
)  # fmt: skip
_PARQUET: Final = click.option(
    "--parquet", metavar="DIR", help="Parquet archive that `daybook pipeline archive` made."
)
_SELECTION: Final = (
    click.option("--from", "from_lsn", type=NUMBER, metavar="LSN", help="First LSN."),
    click.option("--to", "to_lsn", type=NUMBER, metavar="LSN", help="Last LSN."),
    click.option(
        "--since", metavar="TIME", callback=time_option,
        help="From this time on (UTC, or 10m for ago).",
    ),
    click.option("--until", metavar="TIME", callback=time_option, help="Up to this time."),
    click.option(
        "--address", "addresses", multiple=True, help="Of this address only; may be repeated."
    ),
    click.option("--queue", "queues", multiple=True, help="Of this queue only; may be repeated."),
)  # fmt: skip
_ENGINE: Final = (
    click.option(
        "--engine", type=click.Choice(ENGINES), default="embedded", show_default=True,
        help="What runs the job: DuckDB in this process, or Spark.",
    ),
    click.option(
        "--master", default="", metavar="URL",
        help="Spark's master, like spark://HOST:7077. Default: what spark-submit says, else "
        "local[*].",
    ),
)  # fmt: skip


def job_options(*, spans: bool = True, parquet: bool = True) -> Callable[[Command], Command]:
    """Options of a job, for `job_of`; without `spans` none that select events.

    Without `parquet` history is segments alone.
    """
    history = (*_SEGMENTS, _PARQUET) if parquet else _SEGMENTS

    def decorate(command: Command) -> Command:
        for option in reversed((*history, *(_SELECTION if spans else ()), *_ENGINE)):
            command = option(command)
        return command

    return decorate


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
