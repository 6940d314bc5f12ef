"""What attacks of one client do to the round trips of another: `python -m bench.attack`.

For each attack a broker is started on fresh data. An honest client is measured alone, then beside
the attack. The longest turn of the broker's event loop is read from its status, in processor time:
so it says what the broker did, whatever else the machine was busy with. `--python` measures a
Daybook that is installed elsewhere, one from before a change for instance.
"""

import sys
import tempfile
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from bench.attacks import SCENARIOS, Attack
from bench.frames import LoadError
from bench.honest import Honest, percentile
from bench.targets import DaybookTarget, TargetError
from client.control import ControlError, ask

SETTINGS: Final = ("message-expiry-scan-period=1s",)
"""So that what expires is found out soon, and at once."""


class Row(msgspec.Struct, frozen=True):
    """What was measured of one attack, in milliseconds."""

    name: str
    alone: list[float]
    beside: list[float]
    turn: float | None

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


def measure(name: str, scale: int, rounds: int, python: str | None) -> Row:
    """Start a broker and measure one attack on it. Raises LoadError, TargetError, ControlError."""
    with tempfile.TemporaryDirectory(prefix="daybook-attack-") as folder:
        data = Path(folder) / "data"
        running = DaybookTarget("daybook", SETTINGS, python).start(Path(folder))
        port = running.endpoint.port
        try:
            with Honest(port) as honest, Attack(name, port, data, scale) as attack:
                alone = honest.measure(rounds)
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
def main(names: tuple[str, ...], scale: int, rounds: int, python: str | None) -> None:
    """Round trips of an honest client alone and beside attacks, in milliseconds."""
    click.echo("| attack | alone p50 | p99 | beside p50 | p99 | max | longest turn | rounds |")
    click.echo("|---|---|---|---|---|---|---|---|")
    failed = False
    for name in names or SCENARIOS:
        try:
            row = measure(name, scale, rounds, python)
        except (LoadError, TargetError, ControlError) as error:
            click.echo(f"{name}: {error}", err=True)
            failed = True
            continue
        click.echo(f"| {' | '.join(row.cells())} |")
    if failed:
        sys.exit(1)


if __name__ == "__main__":
    main()
