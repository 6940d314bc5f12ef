"""How fast history is read and folded: `python -m bench.fold [DIRECTORY]`.

Without a directory a broker is started and given a load first, so that the history is the usual
mixture of routing, delivery and acknowledgement. Every figure is from one process.
"""

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import click
import msgspec

from bench.brokers.running import TargetError
from bench.brokers.targets import DaybookTarget
from bench.load.frames import LoadError
from bench.load.measurement import Plan, measure
from daybook.engine.state.state import State
from daybook.journal.errors import JournalError
from daybook.journal.segments.reader import read_blocks
from daybook.paging.tables.layout import LAYOUT
from daybook.recovery.fold import FoldError, fold
from daybook.recovery.readonly import journal_disk


class Speed(msgspec.Struct, frozen=True, kw_only=True):
    """Events per second: the median, lowest and highest run, and for each processor second.

    The last is the result of an idle machine.
    """

    median: float
    lowest: float
    highest: float
    per_cpu_second: float


class FoldSpeed(msgspec.Struct, frozen=True, kw_only=True):
    """The speed of each way to read a history of so many events."""

    events: int
    columns: Speed
    read: Speed
    fold: Speed


def _read_columns(directory: Path) -> int:
    """Decode the columns alone, no detail and no body."""
    count = 0
    for block in read_blocks(journal_disk(directory), LAYOUT):
        for _ in block.rows():
            count += 1
    return count


def _read_events(directory: Path) -> int:
    """Decode every event with its detail, headers and body."""
    count = 0
    for block in read_blocks(journal_disk(directory), LAYOUT):
        for _ in block.events():
            count += 1
    return count


def _fold_events(directory: Path) -> int:
    """Decode and apply every event to a fresh state."""
    return fold(read_blocks(journal_disk(directory), LAYOUT), State())


def _speed(work: Callable[[Path], int], directory: Path, runs: int) -> Speed:
    wall, cpu = [], []
    for _ in range(runs):
        started, cpu_started = time.perf_counter(), time.process_time()
        count = work(directory)
        wall.append(count / (time.perf_counter() - started))
        cpu.append(count / (time.process_time() - cpu_started))
    return Speed(
        median=statistics.median(wall),
        lowest=min(wall),
        highest=max(wall),
        per_cpu_second=statistics.median(cpu),
    )


def measure_fold(directory: Path, runs: int) -> FoldSpeed:
    """Read and fold the journal of a data directory `runs` times in each way.

    Raises LoadError if there are no events to fold, and JournalError and FoldError of reading.
    """
    events = _read_events(directory)
    if not events:
        raise LoadError(f"the journal of {directory} holds no events; there is nothing to measure")
    return FoldSpeed(
        events=events,
        columns=_speed(_read_columns, directory, runs),
        read=_speed(_read_events, directory, runs),
        fold=_speed(_fold_events, directory, runs),
    )


def make_history(directory: Path, messages: int) -> Path:
    """Let a broker live through the load of mode pipe; return its data directory.

    Raises LoadError and TargetError.
    """
    running = DaybookTarget("daybook", (), None).start(directory)
    try:
        measure("pipe", running, "bench", Plan(messages=messages))
    finally:
        running.stop()
    return directory / "data"


@click.command(context_settings={"show_default": True})
@click.argument(
    "directory", required=False, type=click.Path(exists=True, file_okay=False, path_type=Path)
)
@click.option("--messages", type=click.IntRange(1000), default=100_000, help="Of a made history.")
@click.option("--runs", type=click.IntRange(1, 100), default=3, help="Of each way of reading.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def main(directory: Path | None, messages: int, runs: int, as_json: bool) -> None:
    """Measure reading and folding the journal of the data directory DIRECTORY.

    Exit codes: 0 measured, 1 the history could not be made, read or folded, 2 bad use.
    """
    try:
        with tempfile.TemporaryDirectory(prefix="bench-fold-") as temporary:
            found = measure_fold(directory or make_history(Path(temporary), messages), runs)
    except (LoadError, TargetError, JournalError, FoldError) as error:
        raise click.ClickException(str(error)) from error
    if as_json:
        sys.stdout.buffer.write(msgspec.json.encode(found) + b"\n")
        return
    click.echo(f"{found.events:,} events")
    for name, speed in (
        ("columns", found.columns),
        ("columns, details and bodies", found.read),
        ("fold into a fresh state", found.fold),
    ):
        click.echo(
            f"{name:28}{speed.median:>11,.0f} events/s ({speed.lowest:,.0f} - "
            f"{speed.highest:,.0f}); for each processor second {speed.per_cpu_second:,.0f}"
        )


if __name__ == "__main__":
    main()
