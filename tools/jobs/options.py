"""Options shared by the jobs of the pipeline: history, selection, engine, output.

Must import nothing slow: `--help` shows them.
"""

from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

from daybook.tools.terminal.memory_option import memory_option
from daybook.tools.terminal.numbers import NUMBER
from daybook.tools.terminal.paths import DIRECTORY
from daybook.tools.terminal.times import time_option

Command = TypeVar("Command", bound=Callable[..., Any])
ENGINES: Final = ("embedded", "spark")
FORMATS: Final = ("table", "csv", "json", "parquet")


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
    memory_option,
)  # fmt: skip


def job_options(*, spans: bool = True, parquet: bool = True) -> Callable[[Command], Command]:
    """Options of a job, for `job.job_of`; without `spans`, none that select events.

    Without `parquet`, history is read from segments only.
    """
    history = (*_SEGMENTS, _PARQUET) if parquet else _SEGMENTS

    def decorate(command: Command) -> Command:
        for option in reversed((*history, *(_SELECTION if spans else ()), *_ENGINE)):
            command = option(command)
        return command

    return decorate


def output_options(command: Command) -> Command:
    """Options `--format` and `--output`, for `output.output_of`."""
    for option in (
        click.option(
            "--output", metavar="FILE", type=click.Path(dir_okay=False),
            help="Write the rows to a file, whose ending selects the format.",
        ),
        click.option(
            "--format", "format_", type=click.Choice(FORMATS),
            help="How to write the rows; json is one object a line. Default: table.",
        ),
    ):  # fmt: skip
        command = option(command)
    return command
