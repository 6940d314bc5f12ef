"""The command line of the benchmark: `python -m bench.run`.

Runs are interleaved (for each run, mode and number of busy neighbours, every target in turn), so
that a disturbance of the machine affects all targets alike, and every measurement starts a new
broker on an empty data directory.
"""

import itertools
import shutil
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import click
import msgspec
from rich.console import Console

from bench.brokers.running import Running, Target, TargetError
from bench.brokers.targets import (
    JAVA_PEERS,
    MODES_OF,
    PEERS,
    QUEUE,
    TARGETS,
    WARM_UP,
    DaybookTarget,
    target,
)
from bench.load.frames import LoadError
from bench.load.measurement import MODES, Measurement, Plan, measure
from bench.machine.interrupts import Interrupted, Interrupts
from bench.machine.neighbours import Neighbours
from bench.reports.options import Counts, Names, also_option, data_option, python_option
from bench.reports.report import Machine, Sample, describe_machine, summarise
from bench.reports.tables import print_report

_TABLE_COLUMNS: Final = 150
_NEIGHBOURS_MAX: Final = 64
_WARM_UP_PART: Final = 10_000
_WARM_UP_S: Final = 15.0
"""A broker that is not warm by then never will be: the part that has begun is the last."""
_LOOK_S: Final = 0.25
_QUIET_SHARE: Final = 0.1
"""A broker is quiet when it uses at most so much of a core."""
_QUIET_LIMIT_S: Final = 5.0


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """The options, the same for every measurement of a session."""

    plan: Plan
    peer_messages: int
    warm_up: int
    java_warm_up: int
    busy_nice: int


class Record(Setting, frozen=True, kw_only=True):
    """The output of `--json`."""

    machine: Machine
    samples: list[Sample]
    notes: list[str]
    failures: list[str]


class Session:
    """One invocation: measures, and collects samples and failures."""

    def __init__(self, setting: Setting, directory: Path, interrupts: Interrupts) -> None:
        """Keep every data directory below `directory`."""
        self._interrupts = interrupts
        self._setting = setting
        self._directory = directory
        self.samples: list[Sample] = []
        self.failures: list[str] = []

    def measure(self, one: Target, mode: str, busy: int, run: int) -> None:
        """Start `one` afresh, warm it up, measure it in `mode` beside neighbours and stop it."""
        plan = self._setting.plan
        # A backlog is a size that is the same for everybody; elsewhere slow peers send fewer.
        if one.name in PEERS and mode != "drain":
            plan = msgspec.structs.replace(plan, messages=self._setting.peer_messages)
        beside = f", {busy} busy" if busy else ""
        try:
            with self._folder(one.name) as data, self._started(one, data) as running:
                found = self._measure_beside(running, mode, busy, plan)
        except (LoadError, TargetError) as error:
            self.failures.append(f"{mode}, {one.name}{beside}, run {run}: {error}")
            click.echo(f"FAILED: {self.failures[-1]}", err=True)
            return
        self.samples.append(_sample(one.name, run, busy, found))
        shown = f"p50 {found.p50_us:.0f} us" if mode == "roundtrip" else f"{found.rate:,.0f}/s"
        others = f"others used {found.others:.0%} of the machine{beside}"
        click.echo(f"run {run}: {mode:9} {one.name:17} {shown:>14}  {others}", err=True)

    @contextmanager
    def _folder(self, name: str) -> Iterator[Path]:
        """A folder that is gone afterwards, whenever somebody interrupts."""
        data: Path | None = None
        try:
            with self._interrupts.shielded():
                data = Path(tempfile.mkdtemp(prefix=f"bench-{name}-", dir=self._directory))
            yield data
        finally:
            if data is not None:
                with self._interrupts.shielded():
                    shutil.rmtree(data, ignore_errors=True)

    @contextmanager
    def _started(self, one: Target, data: Path) -> Iterator[Running]:
        """A broker that is stopped afterwards, whenever somebody interrupts."""
        running = None
        try:
            with self._interrupts.shielded():
                running = one.start(data)
            yield running
        finally:
            if running is not None:
                with self._interrupts.shielded():
                    running.stop()

    def _measure_beside(self, running: Running, mode: str, busy: int, plan: Plan) -> Measurement:
        """Measure beside neighbours that also see the warm-up and are gone afterwards."""
        neighbours = Neighbours(busy, self._setting.busy_nice)
        try:
            with self._interrupts.shielded():
                neighbours.start()
            self._warm_up(running)
            _wait_until_quiet(running)
            return measure(mode, running, QUEUE, plan, neighbours.cpu_s)
        finally:
            with self._interrupts.shielded():
                neighbours.stop()

    def _warm_up(self, running: Running) -> None:
        """Move messages until a broker is warm."""
        setting = self._setting
        left = setting.java_warm_up if running.name in JAVA_PEERS else setting.warm_up
        until = time.monotonic() + _WARM_UP_S
        while left > 0 and time.monotonic() < until:
            part = min(left, _WARM_UP_PART)
            plan = msgspec.structs.replace(setting.plan, messages=part)
            measure("pipe", running, WARM_UP, plan)
            left -= part


def _wait_until_quiet(running: Running) -> None:
    """Wait until a broker has done what its start and its warm-up left: a process that is still
    starting would count for the first messages alone."""
    until = time.monotonic() + _QUIET_LIMIT_S
    used = running.cpu_s()
    while time.monotonic() < until:
        time.sleep(_LOOK_S)
        before, used = used, running.cpu_s()
        if used - before <= _QUIET_SHARE * _LOOK_S:
            return


def _sample(target_name: str, run: int, busy: int, found: Measurement) -> Sample:
    return Sample(target=target_name, run=run, busy=busy, **msgspec.structs.asdict(found))


def _present(asked: Sequence[Target]) -> tuple[list[Target], list[str]]:
    """Return the targets that can be started, and a note for each that cannot."""
    present, notes = [], []
    for one in asked:
        missing = one.missing()
        if missing:
            notes.append(f"{one.name} was not measured: {missing}")
        else:
            present.append(one)
    return present, notes


@click.command(context_settings={"show_default": True})
@click.option("--modes", type=Names(MODES), default=",".join(MODES), help="The targets to measure.")
@click.option("--targets", type=Names(TARGETS), default=",".join(TARGETS), help="Of which brokers.")
@click.option("--runs", type=click.IntRange(1, 100), default=3, help="Interleaved runs.")
@click.option(
    "--messages",
    type=click.IntRange(1000, 5_000_000),
    default=100_000,
    help="Messages in a measurement; the backlog of drain.",
)
@click.option(
    "--peer-messages",
    type=click.IntRange(1000, 5_000_000),
    default=30_000,
    help="The same for peers, except for drain.",
)
@click.option("--round-trips", type=click.IntRange(10), default=2000, help="Of roundtrip.")
@click.option("--warm-up", type=click.IntRange(0), default=5000, help="Messages before the clock.")
@click.option(
    "--java-warm-up",
    type=click.IntRange(0),
    default=100_000,
    help=f"The same for {' and '.join(JAVA_PEERS)}, which compile while they run; "
    f"{_WARM_UP_S:g} s at most.",
)
@click.option(
    "--busy",
    type=Counts(_NEIGHBOURS_MAX),
    default="0",
    help="Busy neighbours beside each broker; several numbers, such as 0,1, are interleaved.",
)
@click.option(
    "--busy-nice",
    type=click.IntRange(0, 19),
    default=0,
    help="Niceness of the neighbours; 19 leaves the most to the broker.",
)
@click.option("--body-bytes", type=click.IntRange(200), default=256, help="Size of a body.")
@click.option("--window", type=click.IntRange(1), default=1000, help="SENDs without a receipt.")
@click.option("--prefetch", type=click.IntRange(1), default=1000, help="MESSAGEs without an ACK.")
@click.option("--queues", type=click.Choice(("1", "2", "4")), default="1", help="Of pipe-4.")
@click.option("--stall", type=float, default=30.0, help="Seconds of silence that are a failure.")
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="For daybook.")
@python_option
@also_option
@data_option
@click.option(
    "--json",
    "json_file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write every sample to this file.",
)
def main(
    modes: tuple[str, ...],
    targets: tuple[str, ...],
    runs: int,
    messages: int,
    peer_messages: int,
    round_trips: int,
    warm_up: int,
    java_warm_up: int,
    busy: tuple[int, ...],
    busy_nice: int,
    body_bytes: int,
    window: int,
    prefetch: int,
    queues: str,
    stall: float,
    settings: tuple[str, ...],
    python: str | None,
    also: tuple[tuple[str, str], ...],
    data: Path,
    json_file: Path | None,
) -> None:
    """Measure brokers against each other and against the floor.

    Exit codes: 0 all was measured and verified, 1 a broker failed or was found wrong, 2 bad use
    or nothing to measure. A broker that is not installed is left out and named in the notes.
    """
    plan = Plan(
        messages=messages,
        round_trips=round_trips,
        body_bytes=body_bytes,
        window=window,
        prefetch=prefetch,
        queues=int(queues),
        stall_s=stall,
    )
    setting = Setting(
        plan=plan,
        peer_messages=peer_messages,
        warm_up=warm_up,
        java_warm_up=java_warm_up,
        busy_nice=busy_nice,
    )
    asked = [target(name, settings, python) for name in targets]
    asked += [DaybookTarget(name, settings, other) for name, other in also]
    present, notes = _present(asked)
    if not present:
        raise click.UsageError("; ".join(notes))
    machine = describe_machine(data)
    session = _measured(setting, data, itertools.product(range(1, runs + 1), modes, busy, present))
    notes += [one.note for one in present if one.note]
    notes += [f"FAILED: {failure}" for failure in session.failures]
    console = Console(width=_TABLE_COLUMNS, highlight=False)
    summaries = summarise(session.samples, ("floor", "daybook", *PEERS))
    print_report(console, machine, summaries, notes, busy_nice)
    if json_file is not None:
        record = Record(
            **msgspec.structs.asdict(setting),
            machine=machine,
            samples=session.samples,
            notes=notes,
            failures=session.failures,
        )
        json_file.write_bytes(msgspec.json.format(msgspec.json.encode(record)) + b"\n")
    sys.exit(1 if session.failures else 0)


def _measured(
    setting: Setting, data: Path, order: Iterable[tuple[int, str, int, Target]]
) -> Session:
    """Measure in this order, until the end or an interrupt."""
    interrupts = Interrupts()
    session = Session(setting, data, interrupts)
    started = time.monotonic()
    try:
        for run, mode, busy, one in order:
            if mode in MODES_OF.get(one.name, MODES):
                session.measure(one, mode, busy, run)
    except Interrupted as interrupted:
        session.failures.append(f"{interrupted} before all was measured")
    finally:
        interrupts.release()
    click.echo(f"measured for {time.monotonic() - started:.0f} s", err=True)
    return session


if __name__ == "__main__":
    main()
