"""How fast the console answers: `python -m bench.console --queues 100000 --messages 1000000`.

Three worlds, each in a data directory of its own (`--only` chooses): many queues, a queue with many
messages and many dead letters, and a long history without a broker. Each page is asked for several
times, by a browser without scripts: the first time with a console that has just started, and then
with pauses, so that no answer is one that the console has kept. Processor time is that of all
processes of the console, and of the broker. An honest client of the broker is measured alone and
beside pages that are asked for without a pause.

Fault model: a page that is an error ends the run.
"""

import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Final
from urllib.parse import urlencode

import click
import msgspec
from rich.console import Console

from bench.brokers.running import Running, TargetError
from bench.brokers.targets import DaybookTarget
from bench.console import worlds
from bench.console.visitor import Visitor
from bench.load.child import environment
from bench.load.frames import LoadError
from bench.load.honest import Honest, percentile
from bench.reports.tables import markdown_table
from daybook.history.moments import last_lsn
from daybook.journal.data_directory import DATA_ID, JOURNAL, SNAPSHOTS
from daybook.journal.disk import RealDisk
from daybook.journal.segments.segment import data_id_of
from daybook.paging.snapshots.snapshots import known_snapshots
from daybook.server.administration.views import ADDRESS_ORDERS, QUEUE_ORDERS

GATE_PAGE_S: Final = 0.3
GATE_STORY_S: Final = 1.0
GATE_MOMENT_S: Final = 3.0
KEPT_S: Final = 2.1
"""After so long the console asks the broker again."""
READY_S: Final = 60.0
BESIDE: Final = 2
"""So many browsers ask without a pause beside the honest client."""
NEAR: Final = 3000
NONE: Final = {"header": "order=4711"}
MANY: Final = {"header": "_AMQ_ORIG_QUEUE=queue.4"}
"""A header of dead letters."""
WORLDS: Final = ("queues", "messages", "history")
_TABLE_COLUMNS: Final = 130


class Ask(msgspec.Struct, frozen=True):
    """A page that is asked for: its name, its path, and the seconds that it may take."""

    name: str
    path: str
    gate_s: float = GATE_PAGE_S


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """The cost of a page: seconds to its first byte and to its end, the first time and the median
    later; processor seconds of the console and of the broker."""

    world: str
    page: str
    gate_s: float
    size: int
    cold_s: float
    first_s: float
    whole_s: float
    console_cpu_s: float
    broker_cpu_s: float


class Beside(msgspec.Struct, frozen=True, kw_only=True):
    """Round trips of an honest client, in milliseconds, alone and beside pages."""

    world: str
    pages: str
    alone_p50_ms: float
    alone_p99_ms: float
    p50_ms: float
    p99_ms: float
    longest_ms: float


class Report(msgspec.Struct, frozen=True):
    """All figures."""

    figures: list[Figure]
    beside: list[Beside]


class Sizes(msgspec.Struct, frozen=True):
    """How large the worlds are."""

    queues: int
    messages: int
    deaths: int
    events: int
    trips: int


class Bench:
    """A console that runs, and a browser that is logged in."""

    def __init__(self, data: Path, folder: Path, broker: Running | None) -> None:
        """Start a console for a data directory; raises TargetError."""
        self._broker: Final = broker
        self._name: Final = data.name
        command = [sys.executable, "-m", "daybook", "console", "--data", str(data)]
        command += ["--listen", "http://127.0.0.1:0", "--link"]
        self.running: Final = Running("console", [command], folder, environment())
        printed = folder / "output"
        self._url = _said(printed, "ready ")
        link = _said(printed, "log in as the operator: ")
        self._visitor: Final = Visitor(self._url)
        self._visitor.get(link.removeprefix(self._url))

    def path(self, page: str, query: Mapping[str, str | int] = {}) -> str:
        """Return the path of a page of the broker."""
        return f"/b/{self._name}{page}{'?' if query else ''}{urlencode(query)}"

    def measure(self, world: str, asks: list[Ask], rounds: int) -> list[Figure]:
        """Ask for each page so many times. Raises LoadError."""
        found: dict[str, list[tuple[float, float, float, float, int]]] = {}
        for _ in range(rounds):
            begun = time.monotonic()
            for each in asks:
                found.setdefault(each.name, []).append(self._measure_one(each))
            time.sleep(max(0.0, KEPT_S - (time.monotonic() - begun)))
        return [_figure(world, each, found[each.name]) for each in asks]

    def _measure_one(self, each: Ask) -> tuple[float, float, float, float, int]:
        before = self.running.cpu_s(), self._broker.cpu_s() if self._broker else 0.0
        shown = self._visitor.get(each.path)
        after = self.running.cpu_s(), self._broker.cpu_s() if self._broker else 0.0
        used = [late - early for late, early in zip(after, before, strict=True)]
        return shown.first_s, shown.whole_s, used[0], used[1], shown.size

    def find(self, path: str, mark: str) -> str:
        """Return the number behind a mark in a page. Raises LoadError."""
        text = self._visitor.get(path).text
        _, found, rest = text.partition(mark)
        digits = rest[: len(rest) - len(rest.lstrip("0123456789"))]
        if not found or not digits:
            raise LoadError(f"console: {path} does not say {mark}")
        return digits

    def ask_on(self, path: str, until: threading.Event) -> None:
        """Ask for a page again and again, each time for another one."""
        number = 0
        while not until.is_set():
            number += 1
            self._visitor.get(f"{path}&offset={number % 1000}")

    def close(self) -> None:
        """End the console."""
        self.running.stop()


def _said(printed: Path, beginning: str) -> str:
    """Wait for a line of the console; return what it says."""
    deadline = time.monotonic() + READY_S
    while time.monotonic() < deadline:
        for line in printed.read_text("utf-8").splitlines():
            if line.startswith(beginning):
                return line.removeprefix(beginning)
        time.sleep(0.05)
    raise TargetError(f"the console printed:\n{printed.read_text('utf-8')[-2000:]}")


def _figure(world: str, asked: Ask, taken: list[tuple[float, float, float, float, int]]) -> Figure:
    later = taken[1:] or taken
    first, whole, console, broker, size = (median(column) for column in zip(*later, strict=True))
    return Figure(
        world=world, page=asked.name, gate_s=asked.gate_s, size=int(size),
        cold_s=round(taken[0][0], 3), first_s=round(first, 3), whole_s=round(whole, 3),
        console_cpu_s=round(console, 3), broker_cpu_s=round(broker, 3),
    )  # fmt: skip


def queue_asks(bench: Bench, queues: int) -> list[Ask]:
    """Return the pages of a broker with many queues."""
    name = "orders.00.client-000000"
    asks = [Ask("overview", bench.path(""))]
    lists = {"queues": tuple(QUEUE_ORDERS), "addresses": tuple(ADDRESS_ORDERS)}
    for what, orders in lists.items():
        path = f"/list/{what}"
        asks += [
            Ask(f"{what}", bench.path(path)),
            Ask(f"{what}, in the middle", bench.path(path, {"offset": queues // 2})),
            Ask(f"{what}, the last ones", bench.path(path, {"offset": queues - 100})),
            Ask(f"{what}, searched", bench.path(path, {"search": "client-0000"})),
            Ask(f"{what}, one found", bench.path(path, {"search": f"client-{queues - 1:06d}"})),
        ]
        for order in orders:
            sort = {"sort": order, "descending": "true"}
            asks.append(Ask(f"{what} by {order}", bench.path(path, sort)))
        for where, offset in (("middle", queues // 2), ("end", queues - 100)):
            place: dict[str, str | int] = {
                "sort": orders[0],
                "descending": "true",
                "offset": offset,
            }
            asks.append(Ask(f"{what} sorted, at the {where}", bench.path(path, place)))
    return [
        *asks,
        Ask("one queue", bench.path("/queue", {"queue": name})),
        Ask("one address", bench.path("/address", {"address": name})),
        Ask("form", bench.path("/do/queue/purge", {"queue": name})),
        Ask("connections", bench.path("/list/connections")),
        Ask("consumers", bench.path("/list/consumers")),
    ]


def message_asks(bench: Bench, messages: int) -> list[Ask]:
    """Return the pages of a queue with many messages, and of many dead letters."""
    queue = {"queue": worlds.LARGE}
    last = messages - 50
    first_id = bench.find(bench.path("/messages", queue), "message=")
    asks = [
        Ask("one queue", bench.path("/queue", queue)),
        Ask("messages", bench.path("/messages", queue)),
        Ask("messages, in the middle", bench.path("/messages", queue | {"offset": messages // 2})),
        Ask("messages, the last ones", bench.path("/messages", queue | {"offset": last})),
        Ask("messages, half fit", bench.path("/messages", queue | {"filter": "region = 'eu'"})),
        Ask("messages, few fit", bench.path("/messages", queue | {"filter": "rare = 'yes'"})),
        Ask("one message", bench.path("/message", queue | {"message": first_id})),
    ]
    dead = {"queue": worlds.DEAD}
    for field in ("reason", "error"):
        path = bench.path("/dead-letters", dead | {"by": field})
        asks.append(Ask(f"dead letters by {field}", path))
    return asks


def farthest(data: Path) -> int:
    """Return the event that lies the most events behind the snapshot before it."""
    disk = RealDisk(data / JOURNAL)
    known = sorted(each.lsn for each in known_snapshots(data / SNAPSHOTS, data_id_of(disk)))
    spans = pairwise([0, *known, last_lsn(disk) + 1])
    return max(spans, key=lambda span: span[1] - span[0])[1] - 1


def history_asks(bench: Bench, data: Path) -> list[Ask]:
    """Return the pages of a long history."""
    last = last_lsn(RealDisk(data / JOURNAL))
    asks = [
        Ask("time machine", bench.path("/past"), GATE_MOMENT_S),
        Ask("events, the newest", bench.path("/events"), GATE_STORY_S),
    ]
    for share in (1, 250, 500, 750, 950):
        lsn = last * share // 1000
        # The id of a message is that of its Routed, and each block has some.
        near: dict[str, str | int] = {"from": max(lsn - NEAR, 1), "kind": "Routed"}
        found = bench.find(bench.path("/events", near), "message=")
        asks += [
            Ask(f"story at {share / 10} %", bench.path("/story", {"message": found}), GATE_STORY_S),
            Ask(f"picture at {share / 10} %", bench.path("/story.svg", {"message": found}),
                GATE_STORY_S),
            Ask(f"events at {share / 10} %", bench.path("/events", {"from": lsn}), GATE_STORY_S),
            Ask(f"queues at {share / 10} %", bench.path("/list/queues", {"at": lsn}),
                GATE_MOMENT_S),
        ]  # fmt: skip
    asks += [
        Ask("events of a message", bench.path("/events", {"message": found}), GATE_STORY_S),
        Ask("events of a queue", bench.path("/events", {"queue": "queue.199"}), GATE_STORY_S),
        Ask("marks of long ago", bench.path("/events", {"kind": "BrokerStarted"}), GATE_MOMENT_S),
        Ask("stories by a header of none", bench.path("/story", NONE), GATE_STORY_S),
        Ask("stories by a header of many", bench.path("/story", MANY), GATE_STORY_S),
        Ask("queues at the farthest moment", bench.path("/list/queues", {"at": farthest(data)}),
            GATE_MOMENT_S),
        Ask("queues now, without a broker", bench.path("/list/queues"), GATE_MOMENT_S),
        Ask("two moments", bench.path("/compare", {"before": last // 3, "after": last // 2}),
            2 * GATE_MOMENT_S),
    ]  # fmt: skip
    return asks


def measure_beside(world: str, bench: Bench, port: int, trips: int, name: str, path: str) -> Beside:
    """Measure an honest client alone, and beside browsers. Raises LoadError."""
    over = threading.Event()
    with Honest(port) as honest:
        honest.measure(trips)
        alone = honest.measure(trips)
        threads = [
            threading.Thread(target=bench.ask_on, args=(path, over), daemon=True)
            for _ in range(BESIDE)
        ]
        for each in threads:
            each.start()
        try:
            beside = honest.measure(trips)
        finally:
            over.set()
            for each in threads:
                each.join()
    return Beside(
        world=world, pages=name, alone_p50_ms=round(median(alone), 2),
        alone_p99_ms=round(percentile(alone, 0.99), 2), p50_ms=round(median(beside), 2),
        p99_ms=round(percentile(beside, 0.99), 2), longest_ms=round(max(beside), 2),
    )  # fmt: skip


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


def measure_history(data: Path, folder: Path, rounds: int) -> Report:
    """Measure the pages of a history. Raises LoadError, TargetError."""
    assert (data / DATA_ID).exists()
    bench = Bench(data, folder, None)
    try:
        return Report(bench.measure("history", history_asks(bench, data), rounds), [])
    finally:
        bench.close()


def measure_world(
    world: str, folder: Path, sizes: Sizes, python: str | None, rounds: int, history: Path | None
) -> Report:
    """Make a world and measure its pages. Raises LoadError, TargetError."""
    folder.mkdir()
    if world == "history":
        data = worlds.make_long_history(history or folder / "past", sizes.events, _note)
        (folder / "beside").mkdir()
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
    for each in report.beside:
        click.echo(
            f"an honest client beside {BESIDE} browsers that ask for {each.pages} ({each.world}):"
            f" round trip p50 {each.p50_ms} ms, p99 {each.p99_ms} ms, longest {each.longest_ms} ms;"
            f" alone p50 {each.alone_p50_ms} ms, p99 {each.alone_p99_ms} ms"
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
    """Measure pages of the console. Exits with 1 if one is over its goal, or the broker failed."""
    report = Report([], [])
    chosen = only or WORLDS
    sizes = Sizes(queues, messages, deaths, events, trips)
    try:
        with tempfile.TemporaryDirectory(prefix="bench-console-") as temporary:
            folder = Path(temporary)
            for world in chosen:
                measured = measure_world(world, folder / world, sizes, python, rounds, history)
                report.figures.extend(measured.figures)
                report.beside.extend(measured.beside)
    except (LoadError, TargetError) as error:
        raise click.ClickException(str(error)) from error
    if as_json:
        click.echo(msgspec.json.encode(report).decode())
    else:
        _print(report)
    sys.exit(0 if all(each.first_s <= each.gate_s for each in report.figures) else 1)


if __name__ == "__main__":
    main()
