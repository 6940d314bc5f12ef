"""`daybook pipeline latency`: latencies, sources of redelivery, and slow consumers.

Prints a summary; writes all tables, and pictures of them, to a directory.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import click
import pyarrow as pa

from daybook.errors import describe
from daybook.journal.extras import install_command
from daybook.pipeline.jobs.latency import latency
from daybook.pipeline.jobs.latency_tables import SCHEMAS
from daybook.tools.jobs.job import engine_of, job_of
from daybook.tools.jobs.output import working, write_file
from daybook.tools.terminal.failures import Failure
from daybook.tools.terminal.printing import show_table

Draw = Callable[[dict[str, pa.Table], Path], list[Path]]
ROWS_SHOWN: Final = 8
_SPREAD: Final = ("count", "p50_ms", "p90_ms", "p99_ms", "max_ms")
SUMMARY: Final = (
    ("latency", "Latency, in milliseconds", ("measure", *_SPREAD)),
    ("latency_by_queue", "By queue", ("measure", "queue", *_SPREAD)),
    (
        "hot_spots", "Hot spots of redelivery and dead letters",
        ("queue", "delivered", "redelivered", "redelivered_percent", "nacked", "disconnected",
         "restart", "dead_lettered"),
    ),
    (
        "slow_consumers", "Consumers that are slow for their queue",
        ("queue", "consumer", "peer", "p50_ms", "queue_p50_ms", "times_slower", "in_flight"),
    ),
    (
        "poison_messages", "Poison messages",
        ("message", "queue", "deliveries", "dead_lettered", "last_consumer", "body_md5"),
    ),
)  # fmt: skip
"""Tables of the summary: title and columns."""
OPTIONAL: Final = (
    "count",
    "p90_ms",
    "peer",
    "nacked",
    "disconnected",
    "restart",
    "body_md5",
    "last_consumer",
)


def run(
    out: Path | None, format_: str, *, plots: bool, poison_deliveries: int, **flags: Any
) -> None:
    """Run the job."""
    job = job_of(flags)
    draw = _drawing() if out is not None and plots else None
    with working("latency") as told, engine_of(job) as engine:
        tables = latency(
            engine, job.history, job.selection, poison_deliveries=poison_deliveries, told=told
        )
    if out is not None:
        _write(tables, out, format_, draw)
    if not tables["hot_spots"].num_rows:
        click.echo("there is no message in this span, so there is nothing to measure", err=True)
        return
    for name, title, columns in SUMMARY:
        _show(tables[name], title, columns)


def _drawing() -> Draw:
    """Return the function that draws pictures; before the job, which may take long, not after
    it."""
    try:
        # Imported late: it takes a second, and is not always needed.
        from daybook.pipeline.jobs.latency_plots import draw  # noqa: PLC0415
    except ImportError as error:
        if (error.name or "").partition(".")[0] != "matplotlib":
            raise
        raise Failure(
            f"pictures need matplotlib; install it with: {install_command('plots')}, or omit "
            "them out with --no-plots"
        ) from error
    return draw


def _write(tables: dict[str, pa.Table], out: Path, format_: str, draw: Draw | None) -> None:
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Failure(describe(error)) from error
    for name, table in tables.items():
        write_file(out / f"{name}.{format_}", SCHEMAS[name], table.to_batches(), format_)
    drawn = len(draw(tables, out)) if draw is not None else 0
    click.echo(f"{out}: {len(tables)} tables, {drawn} pictures", err=True)


def _show(table: pa.Table, title: str, columns: tuple[str, ...]) -> None:
    """Print the first rows of a table; of the latencies of queues those with the longest waits."""
    if "p99_ms" in table.column_names and "queue" in columns and "times_slower" not in columns:
        table = table.sort_by([("p99_ms", "descending")])
    rows = [[row[name] for name in columns] for row in table.slice(0, ROWS_SHOWN).to_pylist()]
    if not rows:
        return
    more = table.num_rows - len(rows)
    rest = f" ({more:,} more rows with --out)" if more > 0 else ""
    headings = [name.removesuffix("_ms").replace("_", " ") for name in columns]
    click.echo()
    optional = [name.removesuffix("_ms").replace("_", " ") for name in OPTIONAL]
    show_table(headings, rows, f"{title}{rest}", optional)
