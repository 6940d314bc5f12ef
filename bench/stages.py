"""The time of a message by stage: `python -m bench.stages`.

A library below the broker's processes (`bench/stages.c`) notes the calls at which a stage begins or
ends: reads and writes of sockets, writes and syncs of files, waits, and clocks and digests that are
asked for at known places. From these each round trip is put together again, by the way that its
block went (ADR 41). The product has no probes, so it has no cost for them; with them a round trip
takes a few microseconds more.

Fault model: a stage that cannot be seen, because a library has another name for a call, is left out
of its table; a round trip whose calls are incomplete is not counted.
"""

import contextlib
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from struct import Struct
from typing import Final, NamedTuple

import click
import msgspec
from rich.console import Console

from bench.brokers.memory import process_name
from bench.brokers.running import Running, TargetError
from bench.brokers.targets import DaybookTarget
from bench.load.frames import LoadError
from bench.load.measurement import Plan, measure
from bench.machine.neighbours import Neighbours
from bench.machine.preload import NoCompiler, compile_library
from bench.reports.options import data_option, python_option
from bench.reports.tables import markdown_table

SOURCE: Final = Path(__file__).with_name("stages.c")
READ, WRITE, SEND, RECEIVE, PWRITE, SYNC, DAYTIME, METER, DIGEST, WAIT = range(1, 11)
RECORDS_MAX: Final = 4_000_000
"""A record takes 32 bytes; files without records take no space."""
NEAR: Final = "by the broker"
PROCESS: Final = "by the writer's process"
STAGES: Final = (
    "socket read",
    "parse, decide",
    "until the turn",
    "dispatch, close the block",
    "hop to the writer",
    "encode the block",
    "hop to the thread",
    "write",
    "fdatasync",
    "hop back",
    "outbox",
    "socket write",
)
_HEAD: Final = Struct("=Q")
_RECORD: Final = Struct("=QQIIq")
_US: Final = 1000.0
_TABLE_COLUMNS: Final = 130


class Note(NamedTuple):
    """A call: begin and end in nanoseconds of the monotonic clock, and its result."""

    begin: int
    end: int
    process: int
    kind: int
    result: int


class Stage(msgspec.Struct, frozen=True):
    """A stage of round trips: its median and 90th percentile in microseconds."""

    name: str
    median_us: float
    p90_us: float


class Way(msgspec.Struct, frozen=True):
    """The round trips whose blocks went one way, stage by stage."""

    name: str
    trips: int
    stages: list[Stage]
    whole: Stage


class Share(msgspec.Struct, frozen=True):
    """The use of a process of the broker for each message; times are microseconds."""

    process: str
    running_us: float
    waiting_us: float
    switches: float


class Call(msgspec.Struct, frozen=True):
    """A kind of call: how often for 1,000 messages, and the time in it for one, microseconds."""

    name: str
    often: float
    time_us: float


class Found(msgspec.Struct, frozen=True):
    """The results of one measurement, which `--json` prints."""

    mode: str
    messages: int
    rate: float
    p50_us: float
    ways: list[Way]
    shares: list[Share]
    calls: list[Call]


def read_notes(log: Path, begin: int = 0) -> list[Note]:
    """Return the calls that the processes recorded since a moment, in the order of their
    beginnings.
    """
    found = []
    for path in log.parent.glob(f"{log.name}.*"):
        content = path.read_bytes()
        process = int(path.suffix[1:])
        count = min(_HEAD.unpack_from(content)[0], RECORDS_MAX)
        end = _HEAD.size + count * _RECORD.size
        for since, until, _, kind, result in _RECORD.iter_unpack(content[_HEAD.size : end]):
            if since >= begin:
                found.append(Note(since, until, process, kind, result))
    return sorted(found)


def trips_of(notes: Sequence[Note], frame_bytes: int) -> Iterator[tuple[str, dict[str, int]]]:
    """Put round trips together: for each the way of its block, and nanoseconds by stage.

    A trip begins with a read of at least `frame_bytes` by the broker.
    """
    begins = [
        place
        for place, note in enumerate(notes)
        if note.kind == READ and note.result >= frame_bytes
    ]
    for first, last in zip(begins, [*begins[1:], len(notes)], strict=True):
        trip = list(notes[first:last])
        written = [place for place, note in enumerate(trip) if note.kind == WRITE]
        found = _trip(trip[: written[0] + 1]) if written else None
        if found is not None:
            yield found


def _trip(trip: list[Note]) -> tuple[str, dict[str, int]] | None:
    """Cut a trip, from its read to its write, into stages; None if something is missing."""
    broker = trip[0].process
    puts = [note for note in trip if note.kind == PWRITE]
    syncs = [note for note in trip if note.kind == SYNC]
    ours = [note for note in trip if note.process == broker]
    meters = [note for note in ours if note.kind == METER]
    if not puts or not syncs or len(meters) < 3:
        return None
    put, sync, write = puts[0], syncs[-1], trip[-1]
    closed = [note for note in ours if note.kind == DAYTIME and note.begin < put.begin]
    stages = {
        "socket read": trip[0].end - trip[0].begin,
        "parse, decide": meters[1].begin - trip[0].end,
        "until the turn": meters[2].begin - meters[1].begin,
        "write": put.end - put.begin,
        "fdatasync": sync.end - sync.begin,
        "socket write": write.end - write.begin,
    }
    if put.process == broker:
        digests = [note for note in ours if note.kind == DIGEST]
        if not closed or not digests:
            return None
        handed = closed[-1].begin
        stages["encode the block"] = digests[-1].end - handed
        stages["hop to the thread"] = put.begin - digests[-1].end
        stages["hop back"] = write.begin - sync.end
        way = NEAR
    else:
        heard = [note for note in trip if note.kind == RECEIVE and note.process == put.process]
        reports = [note for note in ours if note.kind == RECEIVE and note.end > sync.end]
        if not closed or not heard or not reports:
            return None
        handed = closed[-1].begin
        stages["hop to the writer"] = heard[0].end - handed
        stages["encode the block"] = put.begin - heard[0].end
        stages["hop back"] = reports[0].end - sync.end
        stages["outbox"] = write.begin - reports[0].end
        way = PROCESS
    stages["dispatch, close the block"] = handed - meters[2].begin
    return way, stages


def ways_of(notes: Sequence[Note], frame_bytes: int) -> list[Way]:
    """Return the stages of all round trips, for each way of their blocks."""
    trips: dict[str, list[dict[str, int]]] = {}
    for way, stages in trips_of(notes, frame_bytes):
        trips.setdefault(way, []).append(stages)
    return [
        Way(
            way,
            len(found),
            [
                _stage(name, [stages[name] for stages in found])
                for name in STAGES
                if name in found[0]
            ],
            _stage("in the broker", [sum(stages.values()) for stages in found]),
        )
        for way, found in sorted(trips.items())
    ]


def _stage(name: str, times: list[int]) -> Stage:
    ordered = sorted(times)
    p90 = ordered[len(ordered) * 9 // 10]
    return Stage(name, round(statistics.median(ordered) / _US, 1), round(p90 / _US, 1))


def calls_of(notes: Sequence[Note], messages: int) -> list[Call]:
    """Return how often each kind of call is made, and how long it takes."""
    names = {
        READ: "reads of sockets", WRITE: "writes to sockets", WAIT: "waits of the event loop",
        SEND: "sends between processes", RECEIVE: "receives between processes",
        PWRITE: "writes of blocks", SYNC: "syncs",
    }  # fmt: skip
    found = []
    for kind, name in names.items():
        times = [note.end - note.begin for note in notes if note.kind == kind]
        often, spent = len(times) / messages * 1000, sum(times) / messages / _US
        found.append(Call(name, round(often, 2), round(spent, 3)))
    return found


class Usage(NamedTuple):
    """The use of a process: nanoseconds on a core, waiting for one, and context switches."""

    running: int
    waiting: int
    switches: int


def _usage(folder: Path) -> Usage:
    running = waiting = switches = 0
    for task in (folder / "task").iterdir():
        with contextlib.suppress(OSError):  # A thread may end meanwhile.
            on_core, for_core, _ = map(int, (task / "schedstat").read_text().split())
            lines = (task / "status").read_text().splitlines()
            running, waiting = running + on_core, waiting + for_core
            switches += sum(int(line.split()[1]) for line in lines if "ctxt_switches" in line)
    return Usage(running, waiting, switches)


def usages(running: Running) -> dict[str, Usage]:
    """Return the use of each process of a broker so far."""
    found: dict[str, Usage] = {}
    for folder in running.processes():
        found[process_name(folder, found)] = _usage(folder)
    return found


def shares(before: dict[str, Usage], after: dict[str, Usage], messages: int) -> list[Share]:
    """Return the use of each process between two moments, for each message."""
    return [
        Share(
            name,
            round((usage.running - before[name].running) / messages / _US, 2),
            round((usage.waiting - before[name].waiting) / messages / _US, 2),
            round((usage.switches - before[name].switches) / messages, 3),
        )
        for name, usage in after.items()
        if name in before
    ]


def measure_stages(
    mode: str, plan: Plan, python: str | None, library: Path, directory: Path
) -> Found:
    """Start a broker above the library and measure one mode. Raises LoadError, TargetError."""
    log = directory / "stages"
    probes = {
        "LD_PRELOAD": str(library),
        "STAGES_LOG": str(log),
        "STAGES_MAX": str(RECORDS_MAX),
    }
    running = DaybookTarget("daybook", (), python, probes).start(directory)
    try:
        measure("pipe", running, "warm-up", msgspec.structs.replace(plan, messages=5000))
        before, begun = usages(running), time.monotonic_ns()
        found = measure(mode, running, "bench", plan)
        after = usages(running)
    finally:
        running.stop()
    notes = read_notes(log, begun)
    return Found(
        mode,
        found.messages,
        round(found.rate, 1),
        round(found.p50_us, 1),
        ways_of(notes, plan.body_bytes) if mode == "roundtrip" else [],
        shares(before, after, found.messages),
        calls_of(notes, found.messages),
    )


def _print(console: Console, found: Found) -> None:
    speed = f"p50 {found.p50_us:,.0f} us" if found.ways else f"{found.rate:,.0f} messages/s"
    console.print(f"\n**{found.mode}**, {found.messages:,} messages, {speed}\n", markup=False)
    for way in found.ways:
        table = markdown_table((f"{way.trips:,} blocks {way.name}", "p50 us", "p90 us"))
        for stage in (*way.stages, way.whole):
            table.add_row(stage.name, f"{stage.median_us:.1f}", f"{stage.p90_us:.1f}")
        console.print(table)
    names = ("process, for each message", "running us", "waiting for a core us", "switches")
    table = markdown_table(names)
    for share in found.shares:
        figures = (f"{share.running_us:.1f}", f"{share.waiting_us:.1f}", f"{share.switches:.2f}")
        table.add_row(share.process, *figures)
    console.print(table)
    table = markdown_table(("call", "for 1,000 messages", "us for each message"))
    for call in found.calls:
        table.add_row(call.name, f"{call.often:,.1f}", f"{call.time_us:.2f}")
    console.print(table)


@click.command(context_settings={"show_default": True})
@click.option("--messages", type=click.IntRange(1000), default=100_000, help="Of pipe.")
@click.option("--round-trips", type=click.IntRange(10), default=2000, help="Of roundtrip.")
@click.option("--body-bytes", type=click.IntRange(200), default=256, help="Size of a body.")
@click.option("--busy", type=click.IntRange(0), default=0, help="Busy neighbours beside it.")
@click.option("--busy-nice", type=click.IntRange(0, 19), default=0, help="Their niceness.")
@python_option
@data_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def main(
    messages: int,
    round_trips: int,
    body_bytes: int,
    busy: int,
    busy_nice: int,
    python: str | None,
    data: Path,
    as_json: bool,
) -> None:
    """Measure the stages of round trips, and the use of the processes for them and for a pipe.

    Exit codes: 0 measured, 1 the broker failed or there is no C compiler, 2 bad use.
    """
    plan = Plan(messages=messages, round_trips=round_trips, body_bytes=body_bytes)
    neighbours = Neighbours(busy, busy_nice)
    found = []
    try:
        with tempfile.TemporaryDirectory(prefix="bench-stages-", dir=data) as temporary:
            folder = Path(temporary)
            library = compile_library(SOURCE, folder)
            neighbours.start()
            for mode in ("roundtrip", "pipe"):
                (folder / mode).mkdir()
                found.append(measure_stages(mode, plan, python, library, folder / mode))
    except (LoadError, TargetError, NoCompiler) as error:
        raise click.ClickException(str(error)) from error
    finally:
        neighbours.stop()
    if as_json:
        sys.stdout.buffer.write(msgspec.json.encode(found) + b"\n")
        return
    console = Console(width=_TABLE_COLUMNS, highlight=False)
    for one in found:
        _print(console, one)


if __name__ == "__main__":
    main()
