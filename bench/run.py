"""The command line of the benchmark: `python -m bench.run`.

Runs are interleaved (for each run and mode, every target in turn), so that a disturbance of the
machine affects all targets alike, and every measurement starts a new broker on an empty data
directory.
"""

import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Final

import click
import msgspec
from rich.console import Console

from bench.frames import LoadError
from bench.load import MODES, Plan, measure
from bench.report import Machine, Sample, describe_machine, print_report, summarise
from bench.targets import TARGETS, DaybookTarget, Target, TargetError, target

_PEERS: Final = ("rabbitmq", "activemq")
_TABLE_COLUMNS: Final = 130


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """What `--json` writes."""

    machine: Machine
    plan: Plan
    peer_messages: int
    samples: list[Sample]
    notes: list[str]
    failures: list[str]


class Interrupted(Exception):
    """Somebody wants the benchmark to end; what it has measured so far is still reported."""


class Interrupts:
    """Turns SIGTERM and SIGINT into an exception, but never while a broker starts or stops.

    An exception in the middle of either would leave a broker behind.
    """

    def __init__(self) -> None:
        """Take over both signals, until `release`."""
        self._shielded = False
        self._pending = ""
        self._before = {
            number: signal.signal(number, self._handle)
            for number in (signal.SIGTERM, signal.SIGINT)
        }

    def release(self) -> None:
        """Restore the previous handlers of both signals."""
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        self._pending = f"interrupted by {signal.Signals(number).name}"
        if not self._shielded:
            raise Interrupted(self._pending)

    @contextmanager
    def shielded(self) -> Iterator[None]:
        """Let the block end first; raise afterwards what came meanwhile."""
        self._shielded = True
        already = self._pending
        try:
            yield
        finally:
            self._shielded = False
        if self._pending != already:
            raise Interrupted(self._pending)


class Names(click.ParamType["tuple[str, ...]"]):
    """A comma-separated list of names out of a fixed set."""

    name = "names"

    def __init__(self, allowed: tuple[str, ...]) -> None:
        """Allow only the names in `allowed`."""
        self._allowed = allowed

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, ...]:
        """Split and check the list; part of click's interface."""
        names = tuple(name.strip() for name in str(value).split(",") if name.strip())
        for name in names:
            if name not in self._allowed:
                self.fail(f"{name!r} is not one of {', '.join(self._allowed)}", param, ctx)
        if not names:
            self.fail(f"give at least one of {', '.join(self._allowed)}", param, ctx)
        return tuple(dict.fromkeys(names))


class Session:
    """One invocation: measures, and collects samples and failures."""

    def __init__(
        self,
        plan: Plan,
        *,
        peer_messages: int,
        warm_up: int,
        directory: Path,
        interrupts: Interrupts,
    ) -> None:
        """Keep every data directory below `directory`."""
        self._interrupts = interrupts
        self._plan = plan
        self._peer_messages = peer_messages
        self._warm_up = warm_up
        self._directory = directory
        self.samples: list[Sample] = []
        self.failures: list[str] = []

    def measure(self, one: Target, mode: str, run: int) -> None:
        """Start `one` afresh, warm it up, measure it in `mode` and stop it."""
        plan = self._plan
        # A backlog is a size that is the same for everybody; elsewhere slow peers send fewer.
        if one.name in _PEERS and mode != "drain":
            plan = msgspec.structs.replace(plan, messages=self._peer_messages)
        try:
            with self._folder(one.name) as data:
                sample = self._measure_in(data, one, mode, run, plan)
        except (LoadError, TargetError) as error:
            self.failures.append(f"{mode}, {one.name}, run {run}: {error}")
            click.echo(f"FAILED: {self.failures[-1]}", err=True)
            return
        self.samples.append(sample)
        shown = f"p50 {sample.p50_us:.0f} us" if mode == "roundtrip" else f"{sample.rate:,.0f}/s"
        others = f"others used {sample.others:.0%} of the machine"
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

    def _measure_in(self, data: Path, one: Target, mode: str, run: int, plan: Plan) -> Sample:
        running = None
        try:
            with self._interrupts.shielded():
                running = one.start(data)
            if self._warm_up:
                warm = msgspec.structs.replace(plan, messages=self._warm_up)
                measure("pipe", running, "warm-up", warm)
            found = measure(mode, running, "bench", plan)
        finally:
            if running is not None:
                with self._interrupts.shielded():
                    running.stop()
        return Sample(
            target=one.name,
            run=run,
            mode=mode,
            messages=found.messages,
            rate=found.rate,
            elapsed_s=found.elapsed_s,
            broker_cpu_us=found.broker_cpu_us,
            producer_cpu_us=found.producer_cpu_us,
            consumer_cpu_us=found.consumer_cpu_us,
            others=found.others,
            p50_us=found.p50_us,
            p99_us=found.p99_us,
        )


def _others(
    context: click.Context, parameter: click.Parameter, values: tuple[str, ...]
) -> tuple[tuple[str, str], ...]:
    """Read NAME=PYTHON of other versions of Daybook."""
    found = []
    for value in values:
        name, equals, python = value.partition("=")
        if not name or not equals or not python or name in TARGETS:
            raise click.BadParameter(f"{value!r} is no NAME=PYTHON with a name of its own")
        found.append((name, python))
    return tuple(found)


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
@click.option("--modes", type=Names(MODES), default=",".join(MODES), help="What to measure.")
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
    help="The same for RabbitMQ and ActiveMQ, except for drain.",
)
@click.option("--round-trips", type=click.IntRange(10), default=2000, help="Of roundtrip.")
@click.option("--warm-up", type=click.IntRange(0), default=5000, help="Messages before the clock.")
@click.option("--body-bytes", type=click.IntRange(200), default=256, help="Size of a body.")
@click.option("--window", type=click.IntRange(1), default=1000, help="SENDs without a receipt.")
@click.option("--prefetch", type=click.IntRange(1), default=1000, help="MESSAGEs without an ACK.")
@click.option("--queues", type=click.Choice(("1", "2", "4")), default="1", help="Of pipe-4.")
@click.option("--stall", type=float, default=30.0, help="Seconds of silence that are a failure.")
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="For daybook.")
@click.option("--python", help="Interpreter whose installed Daybook is measured.")
@click.option(
    "--also",
    multiple=True,
    callback=_others,
    metavar="NAME=PYTHON",
    help="Another version of Daybook, installed with this interpreter; may be repeated.",
)
@click.option(
    "--data",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=Path(tempfile.gettempdir()),
    help="Where data directories are made: the disk that is measured.",
)
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
    asked = [target(name, settings, python) for name in targets]
    asked += [DaybookTarget(name, settings, other) for name, other in also]
    present, notes = _present(asked)
    if not present:
        raise click.UsageError("; ".join(notes))
    machine = describe_machine(data)
    interrupts = Interrupts()
    session = Session(
        plan, peer_messages=peer_messages, warm_up=warm_up, directory=data, interrupts=interrupts
    )
    started = time.monotonic()
    try:
        for run in range(1, runs + 1):
            for mode in modes:
                for one in present:
                    session.measure(one, mode, run)
    except Interrupted as interrupted:
        session.failures.append(f"{interrupted} before all was measured")
    finally:
        interrupts.release()
    click.echo(f"measured for {time.monotonic() - started:.0f} s", err=True)
    notes += [f"FAILED: {failure}" for failure in session.failures]
    console = Console(width=_TABLE_COLUMNS, highlight=False)
    print_report(console, machine, summarise(session.samples), notes)
    if json_file is not None:
        record = Record(
            machine=machine,
            plan=plan,
            peer_messages=peer_messages,
            samples=session.samples,
            notes=notes,
            failures=session.failures,
        )
        json_file.write_bytes(msgspec.json.format(msgspec.json.encode(record)) + b"\n")
    sys.exit(1 if session.failures else 0)


if __name__ == "__main__":
    main()
