"""Round trips of several brokers in turn: `python -m bench.turns`.

All brokers are up at once, and each gets some round trips before the next has its turn, so that a
disturbance of a few seconds falls on all alike. On a machine that others use too this compares
brokers that `bench.run`, which measures one after the other, cannot. An idle broker takes almost no
time from the others.

Fault model: that of `bench.load.wire`.
"""

import tempfile
import time
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Final

import click
import msgspec
from rich.console import Console

from bench.brokers.running import Running, Target, TargetError
from bench.brokers.targets import DAYBOOK_AMQP, TARGETS, DaybookTarget, target
from bench.load.frames import LoadError, SendFrames
from bench.load.workers import connect
from bench.machine.neighbours import Neighbours
from bench.reports.options import Names, also_option, data_option, python_option
from bench.reports.tables import markdown_table
from bench.stages import Share, shares, usages

_STALL_S: Final = 30.0
_BODY_BYTES: Final = 256
_DESTINATION: Final = "/queue/turns"
_TABLE_COLUMNS: Final = 130


class Trips(msgspec.Struct, frozen=True):
    """The round trips of one broker: microseconds, and its processes' use for each message."""

    name: str
    p10_us: float
    p50_us: float
    p99_us: float
    shares: list[Share]


class _Client:
    """Clients of one broker that send at the same time and wait for all receipts."""

    def __init__(self, running: Running, clients: int, count: int) -> None:
        self.running: Final = running
        self.times: list[float] = []
        self._wires: Final = [
            connect(running.endpoint, running.name, _STALL_S) for _ in range(clients)
        ]
        for wire in self._wires:
            wire.send_to(_DESTINATION)
        message = partial(self._wires[0].message, _DESTINATION)
        self._frames: Final = SendFrames(
            message, producer=0, count=count, body_bytes=_BODY_BYTES, seed=1
        )
        self._at = 0

    def go(self, rounds: int) -> None:
        """Make so many round trips with every client."""
        size = self._frames.frame_bytes
        for _ in range(rounds):
            begun = time.perf_counter()
            for wire in self._wires:
                wire.put(bytes(self._frames.view[self._at : self._at + size]))
            self._at += size
            for wire in self._wires:
                while not wire.receipts(wire.receive(lambda: "the receipt of one message")):
                    pass
            self.times.append((time.perf_counter() - begun) * 1e6)

    def close(self) -> None:
        """Close the connections."""
        for wire in self._wires:
            wire.close()


def measure_in_turn(
    targets: list[Target],
    neighbours: Neighbours,
    rounds: int,
    each: int,
    clients: int,
    warm_up: int,
    data: Path,
) -> list[Trips]:
    """Measure `rounds` turns of `each` round trips. Raises LoadError, TargetError."""
    with ExitStack() as stack:
        count = (warm_up + rounds) * each
        started: list[Running] = []
        for one in targets:
            (data / one.name).mkdir()
            started.append(one.start(data / one.name))
            stack.callback(started[-1].stop)
        # Nobody is silent for as long as the others take to start.
        measured = [_Client(running, clients, count) for running in started]
        for client in measured:
            stack.callback(client.close)
        for _ in range(warm_up):
            for client in measured:
                client.go(each)
        for client in measured:
            client.times.clear()
        stack.callback(neighbours.stop)
        neighbours.start()
        before = [usages(client.running) for client in measured]
        for _ in range(rounds):
            for client in measured:
                client.go(each)
        messages = rounds * each * clients
        return [
            _trips(client, shares(used, usages(client.running), messages))
            for client, used in zip(measured, before, strict=True)
        ]


def _trips(client: _Client, used: list[Share]) -> Trips:
    times = sorted(client.times)
    p10, p50, p99 = (round(times[len(times) * part // 100], 1) for part in (10, 50, 99))
    return Trips(client.running.name, p10, p50, p99, used)


def _print(found: list[Trips]) -> None:
    first = found[0]
    ratio = f"x {first.name}"
    names = ("target", "p50 us", ratio, "p10 us", ratio, "p99 us", "running us, by process")
    table = markdown_table(names)
    for one in found:
        used = ", ".join(f"{share.process} {share.running_us:.0f}" for share in one.shares)
        table.add_row(
            one.name,
            f"{one.p50_us:,.0f}",
            f"{one.p50_us / first.p50_us:.2f}",
            f"{one.p10_us:,.0f}",
            f"{one.p10_us / first.p10_us:.2f}",
            f"{one.p99_us:,.0f}",
            used,
        )
    Console(width=_TABLE_COLUMNS, highlight=False).print(table)


@click.command(context_settings={"show_default": True})
@click.option(
    "--targets",
    type=Names(TARGETS),
    default=f"floor,daybook,{DAYBOOK_AMQP}",
    help="Of which brokers; the others are compared with the first one.",
)
@click.option("--warm-up", type=click.IntRange(0), default=1, help="Rounds before the clock.")
@click.option("--rounds", type=click.IntRange(1), default=30, help="Turns of each broker.")
@click.option("--each", type=click.IntRange(10), default=50, help="Round trips in a turn.")
@click.option("--clients", type=click.IntRange(1, 1000), default=1, help="That send at once.")
@click.option("--busy", type=click.IntRange(0), default=0, help="Busy neighbours beside them.")
@click.option("--busy-nice", type=click.IntRange(0, 19), default=0, help="Their niceness.")
@python_option
@also_option
@data_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def main(
    targets: tuple[str, ...],
    warm_up: int,
    rounds: int,
    each: int,
    clients: int,
    busy: int,
    busy_nice: int,
    python: str | None,
    also: tuple[tuple[str, str], ...],
    data: Path,
    as_json: bool,
) -> None:
    """Measure round trips of brokers, and of other versions of Daybook, in turn.

    Exit codes: 0 measured, 1 a broker failed, 2 bad use.
    """
    measured = [target(name, (), python) for name in targets]
    measured += [DaybookTarget(name, (), other) for name, other in also]
    try:
        with tempfile.TemporaryDirectory(prefix="bench-turns-", dir=data) as temporary:
            neighbours = Neighbours(busy, busy_nice)
            found = measure_in_turn(
                measured, neighbours, rounds, each, clients, warm_up, Path(temporary)
            )
    except (LoadError, TargetError) as error:
        raise click.ClickException(str(error)) from error
    if as_json:
        click.echo(msgspec.json.encode(found))
        return
    _print(found)


if __name__ == "__main__":
    main()
