"""`daybook pipeline`: the jobs of the pipeline as commands.

This module has their options. `tools.jobs` has their code, which is imported when a job runs: the
packages it needs (Arrow, DuckDB, Spark) belong to an extra that not every installation has, and are
slow to import.
"""

from pathlib import Path
from typing import Any

import click

from daybook.client.endpoint import Endpoint
from daybook.history.replays.progress_file import ProgressFileError
from daybook.pipeline.jobs.defaults import POISON_DELIVERIES
from daybook.pipeline.selection import SelectionError
from daybook.tools.administration.messages import url_option
from daybook.tools.jobs.options import job_options, output_options
from daybook.tools.terminal.extras import needs_extra
from daybook.tools.terminal.failures import Commands
from daybook.tools.terminal.numbers import RATE
from daybook.tools.terminal.paths import DIRECTORY


class JobCommand(click.Command):
    """The command of a job: reports missing packages and wrong selections."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the job. Raises Failure or click.UsageError for the above."""
        try:
            return super().invoke(ctx)
        except ImportError as error:
            on_spark = ctx.params["engine"] == "spark"
            raise needs_extra(error, on_spark=on_spark) from error
        except (SelectionError, ProgressFileError) as error:
            raise click.UsageError(str(error)) from error


@click.group("pipeline", cls=Commands)
def pipeline_group() -> None:
    """Jobs over history: live, archived, and in Parquet.

    They run in this process (DuckDB), or on Spark with --engine spark, and give the same rows.
    """


@pipeline_group.command("archive", cls=JobCommand)
@click.option(
    "--to",
    "target",
    required=True,
    metavar="URL",
    help="The Parquet archive: a directory, or a URL like s3://bucket/path.",
)
@click.option(
    "--format",
    "table_format",
    type=click.Choice(("parquet", "delta")),
    default="parquet",
    show_default=True,
    help="Also make it a Delta table: each segment becomes a version.",
)
@click.option(
    "--verify",
    is_flag=True,
    help="Prove the archived files; with --data also that the live journal continues them.",
)
@click.option(
    "--restore",
    "restored",
    type=DIRECTORY,
    metavar="DIR",
    help="Rebuild segments of the archive, bit for bit, in a separate data directory.",
)
@job_options(spans=False, parquet=False)
@click.option("--json", "as_json", is_flag=True, help="Print for programs.")
def archive_command(target: str, verify: bool, restored: Path | None, **flags: Any) -> None:
    """Convert sealed segments to Parquet files, one for each segment and day, which can be
    verified.

    Segments that are archived already are skipped, so the command may run any number of times;
    where a file is missing or has another size, the segment is archived again, if it still exists.
    Only --verify checks the contents of the files. The newest segment of a live journal waits. Exit
    code 1 if something was left out or is wrong.
    """
    from daybook.tools.jobs.archive import run  # noqa: PLC0415 (slow to import)

    run(target, verify, restored, **flags)


@pipeline_group.command("audit", cls=JobCommand)
@job_options()
@output_options
@click.option(
    "--faults", "faults_file", metavar="FILE", type=click.Path(dir_okay=False),
    help="Write all faults to a file: .csv, .json or .parquet.",
)  # fmt: skip
@click.option(
    "--re-execute", is_flag=True, hidden=True, expose_value=False,
    help="Always done; kept for scripts.",
)  # fmt: skip
@click.pass_context
def audit_command(ctx: click.Context, /, faults_file: str | None, **flags: Any) -> None:
    """Account for every message: prove that none was lost, doubled or invented.

    For each queue: the messages at the beginning (opening) and those routed must equal those
    acknowledged, dead-lettered, expired, removed or dropped by a restart, and those there at the
    end. Every decision is checked against the rules of the broker, as `journal audit` does; faults
    are shown with the events that prove them. The exit code is 1 if there are any, or if history
    does not have the requested span. With Spark, every worker must be able to read the history.
    """
    from daybook.tools.jobs.audit import run  # noqa: PLC0415 (slow to import)

    run(ctx, faults_file, **flags)


@pipeline_group.command("latency", cls=JobCommand)
@job_options()
@click.option(
    "--out",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Write all tables and pictures into this directory, created if missing.",
)
@click.option(
    "--format",
    "format_",
    type=click.Choice(("csv", "json", "parquet")),
    default="csv",
    show_default=True,
    help="How to write the tables.",
)
@click.option("--plots/--no-plots", default=True, help="Whether to draw pictures into --out.")
@click.option(
    "--poison", "poison_deliveries", type=click.IntRange(2), default=POISON_DELIVERIES,
    show_default=True, metavar="N", help="A message with so many deliveries is poison.",
)  # fmt: skip
def latency_command(
    out: Path | None, format_: str, *, plots: bool, poison_deliveries: int, **flags: Any
) -> None:
    """Show how long messages take, where redeliveries come from, poison messages, and slow
    consumers.

    Percentiles are exact to three digits. Latencies go from routed to first delivered, from
    delivered to acknowledged, and from routed to acknowledged, by address, queue, consumer and
    hour.
    """
    from daybook.tools.jobs.latency import run  # noqa: PLC0415 (slow to import)

    run(out, format_, plots=plots, poison_deliveries=poison_deliveries, **flags)


@pipeline_group.command("replay", cls=JobCommand)
@job_options()
@url_option
@click.option(
    "--into", default="", metavar="DESTINATION",
    help="Send all messages there: /queue/NAME, /topic/NAME or ADDRESS::QUEUE. Default: where each "
    "was sent to.",
)  # fmt: skip
@click.option(
    "--where", default="", metavar="SQL",
    help="Only messages for which this holds, on columns of their Routed event: "
    "\"priority > 4 AND headers['stock'] = 'apples'\".",
)  # fmt: skip
@click.option("--rate", type=RATE, metavar="N", help="At most so many a second.")
@click.option(
    "--id", "name", metavar="NAME",
    help="Name of this replay. The same name resumes it, or continues with later messages.",
)  # fmt: skip
@click.option(
    "--state", "state_path", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
    help="The file with its progress. Default: ~/.local/state/daybook/replay/NAME.json.",
)  # fmt: skip
@click.option(
    "--transaction-messages", "rows", type=click.IntRange(1, 100_000), metavar="N",
    help="Messages in a transaction at most. Default: 1000, or the messages of one second at "
        "--rate.",
)  # fmt: skip
@click.option(
    "--keep-expiry", is_flag=True, help="Keep the original expiry. Default: never expire."
)
@click.option(
    "--timeout", type=click.FloatRange(0, min_open=True), default=300.0, show_default=True,
    metavar="SECONDS", help="How long to wait for a broker that is away, or has no room.",
)  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Count only, and connect to no broker.")
@click.option("--json", "as_json", is_flag=True, help="Print for programs.")
def replay_command(endpoint: Endpoint, dry_run: bool, as_json: bool, **flags: Any) -> None:
    """Send messages of history to a broker again, in their order, each exactly once.

    History may be live, archived or Parquet, so this also reaches messages that the broker no
    longer has. It sends the messages of the span, whatever became of them; copies that the broker
    made (dead letters, expired messages) only if --address or --queue selects their place. A
    replayed message has the header _DAYBOOK_REPLAYED_FROM with the id of the original.

    \b
    daybook pipeline replay --data /var/lib/daybook --address orders --since 2h --dry-run
    daybook pipeline replay --data /var/lib/daybook --address orders --since 2h --id again \\
        --into /queue/orders.again --rate 500
    """
    from daybook.tools.jobs.replay import run  # noqa: PLC0415 (slow to import)

    run(endpoint, dry_run, as_json, **flags)


@pipeline_group.command("trail", cls=JobCommand)
@click.argument("ids", nargs=-1, metavar="[ID]...")
@click.option(
    "--messages", "sources", multiple=True, metavar="FILE|ID",
    help="A file with ids, in lines or separated by commas (- for standard input), or ids "
    "themselves; may be repeated.",
)  # fmt: skip
@job_options(spans=False)
@output_options
def trail_command(ids: tuple[str, ...], sources: tuple[str, ...], **flags: Any) -> None:
    """Show all events of messages, of those they were made from, and of those made from them.

    The id of a message is the LSN of its Routed event. One row is one event, and the effect of a
    restart on a message is a row, too; families are sorted by their first message. Exit code 1 if
    one of the ids is unknown.
    """
    from daybook.tools.jobs.trail import run  # noqa: PLC0415 (slow to import)

    run(ids, sources, **flags)
