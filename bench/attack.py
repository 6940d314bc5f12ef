"""The effect of one client's attacks on the round trips of another: `python -m bench.attack`.

For each attack a broker is started on fresh data. An honest client is measured alone, then beside
the attack; that is done again until enough rounds were beside it. The gate limits the time of 99 of
100 of them. The longest turn of the broker's event loop is read from its status, in processor time:
so it measures the broker's work, independent of other load. `--python` measures a
Daybook that is installed elsewhere, one from before a change for instance.
"""

import sys
import tempfile
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from bench.attacks.attacks import SCENARIOS, Attack
from bench.brokers.ports import free_port
from bench.brokers.running import TargetError
from bench.brokers.targets import DaybookTarget
from bench.load.frames import LoadError
from bench.load.honest import Honest, percentile
from daybook.client.control import ControlError, ask

SETTINGS: Final = ("message-expiry-scan-period=1s",)
"""So that expired messages are found soon, and at once."""


GATE_MS: Final = 50.0
"""The limit for 99 of 100 round trips beside an attack."""
GATE_TIMES: Final = 10.0
"""Their limit as a multiple of the time alone."""
BESIDE_LEAST: Final = 200
"""The least number of round trips beside an attack for a percentile of 99."""
REPEATS_MAX: Final = 10


class Row(msgspec.Struct, frozen=True):
    """The measurements of one attack, in milliseconds."""

    name: str
    alone: list[float]
    beside: list[float]
    turn: float | None

    @property
    def is_met(self) -> bool:
        """Whether both gates are met."""
        beside = percentile(self.beside, 0.99)
        return beside < GATE_MS and beside < GATE_TIMES * percentile(self.alone, 0.99)

    def joined(self, other: "Row") -> "Row":
        """This row with the rounds of another run of its attack."""
        turns = [turn for turn in (self.turn, other.turn) if turn is not None]
        alone, beside = self.alone + other.alone, self.beside + other.beside
        return Row(self.name, alone, beside, max(turns, default=None))

    def cells(self) -> list[str]:
        """The cells of its row."""
        numbers = [
            percentile(self.alone, 0.5),
            percentile(self.alone, 0.99),
            percentile(self.beside, 0.5),
            percentile(self.beside, 0.99),
            max(self.beside),
        ]
        told = [f"{number:.1f}" for number in numbers]
        turn = f"{self.turn:.1f}" if self.turn is not None else "?"
        return [self.name, *told, turn, str(len(self.beside))]


def measure(name: str, scale: int, rounds: int, python: str | None, protocol: str) -> Row:
    """Measure an attack until enough rounds were beside it. Raises as `measure_once`."""
    row = measure_once(name, scale, rounds, python, protocol)
    for _ in range(REPEATS_MAX - 1):
        if len(row.beside) >= BESIDE_LEAST:
            break
        row = row.joined(measure_once(name, scale, rounds, python, protocol))
    return row


def measure_once(name: str, scale: int, rounds: int, python: str | None, protocol: str) -> Row:
    """Start a broker and measure one attack on it, beside an honest client of `protocol`. Raises
    LoadError, TargetError, ControlError."""
    with tempfile.TemporaryDirectory(prefix="daybook-attack-") as folder:
        data = Path(folder) / "data"
        amqp = free_port()
        listens = (f"amqp://127.0.0.1:{amqp}",)
        target = DaybookTarget("daybook", SETTINGS, python, listens=listens)
        running = target.start(Path(folder))
        ports = {"stomp": running.endpoint.port, "amqp": amqp}
        port = ports[SCENARIOS[name].protocol]
        try:
            with (
                Honest(ports[protocol], protocol=protocol) as honest,
                Attack(name, port, data, scale) as attack,
            ):
                alone = honest.measure(rounds)
                attack.approach()
                honest.begin()
                attack.run()
                beside = honest.end()
            status: dict[str, Any] = ask(data, {"do": "status"}) or {}
            return Row(name, alone, beside, status.get("turn_ms_longest"))
        finally:
            running.kill()


@click.command()
@click.option(
    "--attack", "names", multiple=True, type=click.Choice(list(SCENARIOS)), help="Default: all."
)
@click.option("--scale", type=click.IntRange(1), default=1, show_default=True)
@click.option("--rounds", type=click.IntRange(10), default=500, show_default=True)
@click.option("--python", help="Interpreter of an environment with an installed Daybook.")
@click.option(
    "--honest",
    type=click.Choice(["stomp", "amqp"]),
    default="stomp",
    show_default=True,
    help="What the honest client speaks.",
)
def main(names: tuple[str, ...], scale: int, rounds: int, python: str | None, honest: str) -> None:
    """Round trips of an honest client alone and beside attacks, in milliseconds.

    Exit codes: 0 the gate holds, 1 it does not, or an attack could not be carried out.
    """
    click.echo("| attack | alone p50 | p99 | beside p50 | p99 | max | longest turn | rounds |")
    click.echo("|---|---|---|---|---|---|---|---|")
    failed = False
    for name in names or SCENARIOS:
        try:
            row = measure(name, scale, rounds, python, honest)
        except (LoadError, TargetError, ControlError) as error:
            click.echo(f"{name}: {error}", err=True)
            failed = True
            continue
        click.echo(f"| {' | '.join(row.cells())} |")
        if not row.is_met:
            click.echo(
                f"{name}: 99 of 100 took more than {GATE_MS:.0f} ms, or than {GATE_TIMES:.0f} times"
                " as long as alone",
                err=True,
            )
            failed = True
    if failed:
        sys.exit(1)


if __name__ == "__main__":
    main()
