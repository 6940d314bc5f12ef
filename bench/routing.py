"""Routing among many names: `python -m bench.routing --addresses 100000 --patterns 10000`.

Sends one message after the other to so many addresses in turn, each of which has limits by the
wildcard matches of address settings that cover it: with ten matches, and with many. The engine
alone, without sockets and disk. Exits with 1 if a gate does not hold.
"""

import statistics
import sys
import time
from typing import Final

import click
import msgspec

from daybook.engine.broker import Broker
from daybook.engine.commands import ChangeSettings, Send
from daybook.engine.refusals import Refusal
from daybook.engine.settings import Matches
from daybook.engine.state import State

FEW: Final = 10
NOW: Final = 1_000_000
GATE: Final = 1.25
"""How much longer a message may take with many patterns than with few."""


class Routing(msgspec.Struct, frozen=True, kw_only=True):
    """Microseconds for a message with few and with many patterns, and what is between them."""

    addresses: int
    patterns: int
    few_us: float
    many_us: float
    ratio: float


def name_of(number: int, patterns: int) -> str:
    """Return the name of an address: one pattern covers it, whatever their number."""
    return f"tenants.t{number % patterns:06d}.orders.o{number:06d}"


def settings_for(patterns: int) -> Matches:
    """Return settings with so many wildcard matches, each with a limit of its own."""
    return {
        f"tenants.t{number:06d}.*.#": {"max-size-messages": 1_000_000 + number}
        for number in range(patterns)
    }


def prepare(addresses: int, patterns: int) -> tuple[Broker, list[Send]]:
    """Make a broker with these addresses; return it with a message for each."""
    broker = Broker(State())
    handle(broker, ChangeSettings(settings=settings_for(patterns)))
    sends = [
        Send(connection=0, address=name_of(number, patterns), headers=b"", body=b"order")
        for number in range(addresses)
    ]
    for send in sends:
        handle(broker, send)
    broker.dispatch(NOW)
    broker.take()
    return broker, sends


def handle(broker: Broker, command: Send | ChangeSettings) -> None:
    """Have a broker carry out a command, which it must not refuse."""
    answer = broker.handle(command, NOW)
    assert not isinstance(answer, Refusal), answer


def send_all(broker: Broker, sends: list[Send]) -> float:
    """Send each message; return how long one took, in microseconds."""
    began = time.process_time()
    for send in sends:
        handle(broker, send)
    took = time.process_time() - began
    broker.dispatch(NOW)
    broker.take()
    return took / len(sends) * 1e6


def measure(addresses: int, patterns: int, runs: int) -> Routing:
    """Measure with few and with many patterns in turn."""
    few, many = prepare(addresses, FEW), prepare(addresses, patterns)
    found: list[tuple[float, float]] = [(send_all(*few), send_all(*many)) for _ in range(runs)]
    few_us, many_us = (statistics.median(each) for each in zip(*found, strict=True))
    return Routing(
        addresses=addresses, patterns=patterns, few_us=round(few_us, 2),
        many_us=round(many_us, 2), ratio=round(many_us / few_us, 2),
    )  # fmt: skip


@click.command(context_settings={"show_default": True})
@click.option("--addresses", type=click.IntRange(1, 10_000_000), default=100_000)
@click.option("--patterns", type=click.IntRange(FEW, 1_000_000), default=10_000)
@click.option("--runs", type=click.IntRange(1, 100), default=5)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def main(addresses: int, patterns: int, runs: int, as_json: bool) -> None:
    """Measure whether routing is as fast with many patterns as with ten.

    Exit codes: 0 it is, 1 it is not, 2 bad use.
    """
    found = measure(addresses, patterns, runs)
    if as_json:
        click.echo(msgspec.json.encode(found).decode())
    else:
        for name, value in msgspec.structs.asdict(found).items():
            click.echo(f"{name.replace('_', ' '):<12} {value}")
    sys.exit(0 if found.ratio <= GATE else 1)


if __name__ == "__main__":
    main()
