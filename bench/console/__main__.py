"""How fast the console answers: `python -m bench.console --queues 100000 --messages 1000000`.

Four worlds, each in a data directory of its own (`--only` chooses): many queues, of which all pages
are shown; a queue with many messages and many dead letters; a long history without a broker; and a
broker that has the long history behind it, which is asked by queries in SQL. Each page is asked for
several times, by a browser without scripts: the first time with a console that has just started,
and then with pauses, so that no answer is one that the console has kept. Processor time is that of
all processes of the console, and of the broker. An honest client of the broker is measured alone
and beside pages and queries that are asked for without a pause.

Fault model: a page that is an error ends the run. The console may give up a page or a query that
takes too long, and its words are in the report.
"""

import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final

import click
import msgspec
from rich.console import Console

from bench.brokers.running import Running, TargetError
from bench.brokers.targets import DaybookTarget
from bench.console import worlds
from bench.console.beside import BESIDE, Beside, Queried, Trips, measure_beside, measure_queries
from bench.console.pages import Ask, history_asks, message_asks, queue_asks
from bench.console.served import Bench, Figure
from bench.load.frames import LoadError
from bench.reports.tables import markdown_table
from daybook.journal.data_directory import DATA_ID

WORLDS: Final = ("queues", "messages", "history", "queries")
OF_A_QUEUE: Final = "/events?queue=queue.199"
"""What takes the console longest among the pages of a long history without a moment."""
_TABLE_COLUMNS: Final = 130


class Long(msgspec.Struct, frozen=True, kw_only=True):
    """A broker with a long history behind it: what its start took, and its queries."""

    start_s: float
    start_cpu_s: float
    peak_bytes: int
    queries: list[Queried]


class Report(msgspec.Struct, frozen=True):
    """All figures."""

    figures: list[Figure] = []
    beside: list[Beside] = []
    long: list[Long] = []


class Sizes(msgspec.Struct, frozen=True):
    """How large the worlds are."""

    queues: int
    messages: int
    deaths: int
    events: int
    trips: int


@contextmanager
def serving(folder: Path, python: str | None) -> Iterator[tuple[Running, Path]]:
    """Run a broker with as many queues as somebody likes."""
    folder.mkdir(parents=True, exist_ok=True)
    target = DaybookTarget("daybook", ("broker.max-queues-per-user=0",), python)
    running = target.start(folder)
    try:
        yield running, folder / "data"
    finally:
        running.stop()


def measure_live(
    world: str,
    folder: Path,
    python: str | None,
    rounds: int,
    trips: int,
    make: Callable[[Running, Path], None],
    asks_of: Callable[[Bench], list[Ask]],
    beside: Mapping[str, str],
) -> Report:
    """Measure the pages of a broker that has what `make` makes. Raises LoadError, TargetError."""
    with serving(folder, python) as (running, data):
        make(running, data)
        worlds.wait_until_indexed(data)
        (folder / "console").mkdir(exist_ok=True)
        bench = Bench(data, folder / "console", running)
        try:
            figures = bench.measure(world, asks_of(bench), rounds)
            besides = [
                measure_beside(world, bench, running.endpoint.port, trips, name, bench.path(path))
                for name, path in beside.items()
            ]
        finally:
            bench.close()
    return Report(figures, besides)


def measure_long(history: Path, folder: Path, python: str | None, trips: int) -> Report:
    """Measure queries over the history of a broker that runs. Raises LoadError, TargetError."""
    # A broker writes into its data directory, and the history is used again.
    _note(f"copying {history}")
    shutil.copytree(history, folder / "data")
    begun = time.monotonic()
    with serving(folder, python) as (running, data):
        start_s, start_cpu_s = time.monotonic() - begun, running.cpu_s()
        _note(f"the broker started after {start_s:.1f} s")
        worlds.wait_until_indexed(data)
        (folder / "console").mkdir()
        bench = Bench(data, folder / "console", running)
        try:
            beside = measure_beside(
                "queries", bench, running.endpoint.port, trips, "events of a queue",
                bench.path(OF_A_QUEUE),
            )  # fmt: skip
            queries = list(measure_queries(bench, running, trips))
        finally:
            bench.close()
        peak = max(running.peak_rss_bytes())
    long = Long(
        start_s=round(start_s, 2), start_cpu_s=round(start_cpu_s, 2), peak_bytes=peak,
        queries=queries,
    )  # fmt: skip
    return Report(beside=[beside], long=[long])


def measure_history(data: Path, folder: Path, rounds: int) -> Report:
    """Measure the pages of a history. Raises LoadError, TargetError."""
    assert (data / DATA_ID).exists()
    bench = Bench(data, folder, None)
    try:
        return Report(bench.measure("history", history_asks(bench, data), rounds))
    finally:
        bench.close()


def measure_world(
    world: str, folder: Path, sizes: Sizes, python: str | None, rounds: int, history: Path | None
) -> Report:
    """Make a world and measure its pages. Raises LoadError, TargetError."""
    folder.mkdir()
    if world in ("history", "queries"):
        data = worlds.make_long_history(history or folder / "past", sizes.events, _note)
        (folder / "beside").mkdir()
        if world == "queries":
            return measure_long(data, folder / "beside", python, sizes.trips)
        return measure_history(data, folder / "beside", rounds)
    if world == "queues":
        return measure_live(
            world, folder, python, rounds, sizes.trips, partial(_make_queues, sizes),
            lambda bench: queue_asks(bench, sizes.queues),
            {"queues by messages": "/list/queues?sort=messages&descending=true"},
        )  # fmt: skip
    return measure_live(
        world, folder, python, rounds, sizes.trips, partial(_make_messages, sizes),
        lambda bench: message_asks(bench, sizes.messages),
        {"messages, few fit": f"/messages?queue={worlds.LARGE}&filter=rare+%3D+%27yes%27"},
    )  # fmt: skip


def _make_queues(sizes: Sizes, running: Running, data: Path) -> None:
    _note(f"making {sizes.queues:,} queues")
    worlds.send(running.endpoint, worlds.queue_frames(sizes.queues))
    worlds.wait_until_indexed(data)
    worlds.verify(data)


def _make_messages(sizes: Sizes, running: Running, data: Path) -> None:
    _note(f"sending {sizes.messages:,} messages, and killing {sizes.deaths:,} others")
    worlds.send(running.endpoint, worlds.large_frames(sizes.messages))
    worlds.kill_messages(running.endpoint, data, sizes.deaths)


def _note(text: str) -> None:
    click.echo(f"{time.strftime('%H:%M:%S')} {text}", err=True)


def _print(report: Report) -> None:
    names = ("world", "page", "KB", "first time s", "later s", "to its end s",
             "console CPU s", "broker CPU s", "goal s")  # fmt: skip
    table = markdown_table(names, left=2)
    for one in report.figures:
        table.add_row(
            one.world, one.page, f"{one.size / 1000:,.0f}", f"{one.cold_s:.2f}",
            f"{one.first_s:.2f}", f"{one.whole_s:.2f}", f"{one.console_cpu_s:.2f}",
            f"{one.broker_cpu_s:.2f}", f"{one.gate_s:g}",
        )  # fmt: skip
    Console(width=_TABLE_COLUMNS, highlight=False).print(table)
    for refused in (each for each in report.figures if each.refusal):
        click.echo(f"{refused.page} ({refused.world}) was given up: {refused.refusal}")
    for each in report.beside:
        click.echo(
            f"an honest client beside {BESIDE} browsers that ask for {each.pages} ({each.world}):"
            f" {_in_words(each.beside)}; alone {_in_words(each.alone)}"
        )
    for long in report.long:
        click.echo(
            f"a broker with the long history started in {long.start_s} s, {long.start_cpu_s} s of"
            f" a processor, and took {long.peak_bytes >> 20:,} MiB at most"
        )
        for query in long.queries:
            click.echo(_query_in_words(query))


def _query_in_words(each: Queried) -> str:
    return (
        f"an honest client beside the query '{each.query}' over {each.events:,} events:"
        f" {_in_words(each.beside)}; alone {_in_words(each.alone)}; after {each.seconds} s:"
        f" {each.ended}; the console took {each.console_cpu_s} s of a processor, and"
        f" {each.most_bytes >> 20:,} MiB at most, {each.largest_bytes >> 20:,} of them in one"
        f" process; the broker took {each.broker_cpu_s} s of a processor"
    )


def _in_words(trips: Trips) -> str:
    return (
        f"p50 {trips.p50_ms} ms, p99 {trips.p99_ms} ms, longest of {trips.count:,}"
        f" {trips.longest_ms} ms"
    )


@click.command(context_settings={"show_default": True})
@click.option("--queues", type=click.IntRange(200, 1_000_000), default=100_000)
@click.option("--messages", type=click.IntRange(1000, 10_000_000), default=1_000_000)
@click.option("--deaths", type=click.IntRange(1000, 10_000_000), default=1_000_000)
@click.option("--events", type=click.IntRange(10_000), default=20_000_000)
@click.option("--rounds", type=click.IntRange(1), default=4, help="How often each page is shown.")
@click.option("--trips", type=click.IntRange(1), default=300, help="Of the honest client.")
@click.option("--only", type=click.Choice(WORLDS), multiple=True, help="Which worlds.")
@click.option("--python", help="Interpreter whose installed Daybook is the broker.")
@click.option(
    "--history",
    type=click.Path(path_type=Path),
    help="Where the long history is kept, and used again.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def main(
    queues: int,
    messages: int,
    deaths: int,
    events: int,
    rounds: int,
    trips: int,
    only: tuple[str, ...],
    python: str | None,
    history: Path | None,
    as_json: bool,
) -> None:
    """Measure pages of the console. Exits with 1 if one is over its goal or given up, or if the
    broker failed."""
    report = Report()
    chosen = only or WORLDS
    sizes = Sizes(queues, messages, deaths, events, trips)
    try:
        with tempfile.TemporaryDirectory(prefix="bench-console-") as temporary:
            folder = Path(temporary)
            for world in chosen:
                measured = measure_world(world, folder / world, sizes, python, rounds, history)
                report.figures.extend(measured.figures)
                report.beside.extend(measured.beside)
                report.long.extend(measured.long)
    except (LoadError, TargetError) as error:
        raise click.ClickException(str(error)) from error
    if as_json:
        click.echo(msgspec.json.encode(report).decode())
    else:
        _print(report)
    sys.exit(0 if all(each.holds for each in report.figures) else 1)


if __name__ == "__main__":
    main()
