"""Routing among many names: `python -m bench.routing --addresses 100000 --patterns 10000`.

Sends one message after the other to so many addresses in turn. Each is covered by one of so many
wildcards: of matches of address settings, which set its limits, or of wildcard addresses, whose
queues get its messages. With ten wildcards, and with many; the same messages, which ten of them
cover. Then with many wildcards that all cover some: that costs more, because ten thousand queues or
limits are not in the processor's cache as ten are. The engine alone, without sockets and disk.
Exits with 1 if a gate does not hold.
"""

import gc
import statistics
import sys
import time
from typing import Final

import click
import msgspec

from daybook.engine.broker import Broker
from daybook.engine.commands import ChangeSettings, Command, CreateQueue, Send
from daybook.engine.facts.definitions import MULTICAST, QueueDefinition
from daybook.engine.refusals import Refusal
from daybook.engine.settings.setting_keys import Matches
from daybook.engine.state.state import State

FEW: Final = 10
NOW: Final = 1_000_000
GATE: Final = 1.25
"""How much longer a message may take with many patterns than with few."""


SETTINGS: Final = "settings"
BINDINGS: Final = "bindings"
KINDS: Final = (SETTINGS, BINDINGS)


class Routing(msgspec.Struct, frozen=True, kw_only=True):
    """Microseconds for a message with few and with many patterns, and the difference.

    `spread_us` is with many that all cover some addresses. `new_*` are for a message to an address
    that did not get one before.
    """

    kind: str
    addresses: int
    patterns: int
    few_us: float
    many_us: float
    ratio: float
    spread_us: float
    new_few_us: float
    new_many_us: float
    new_spread_us: float


def name_of(number: int, patterns: int) -> str:
    """Return the name of an address: one pattern covers it, whatever their number."""
    return f"tenants.t{number % patterns:06d}.orders.o{number:06d}"


def prepare(kind: str, addresses: int, patterns: int, used: int) -> tuple[Broker, list[Send]]:
    """Make a broker with these patterns; return it with a message for each address.

    So many of the patterns cover the addresses.
    """
    broker = Broker(State())
    routing_type = None
    wildcards = [f"tenants.t{number:06d}.*.#" for number in range(patterns)]
    if kind == SETTINGS:
        # Each with a limit of its own.
        limits = enumerate(wildcards, 1_000_000)
        settings: Matches = {each: {"max-size-messages": number} for number, each in limits}
        handle(broker, ChangeSettings(settings=settings))
    else:
        routing_type = MULTICAST
        for number, each in enumerate(wildcards):
            definition = QueueDefinition(name=f"q{number}", routing_type=MULTICAST)
            handle(broker, CreateQueue(each, definition))
    sends = [
        Send(0, name_of(number, used), b"", b"order", routing_type) for number in range(addresses)
    ]
    return broker, sends


def handle(broker: Broker, command: Command) -> None:
    """Have a broker carry out a command, which it must not refuse."""
    answer = broker.handle(command, NOW)
    assert not isinstance(answer, Refusal), answer


def send_all(broker: Broker, sends: list[Send]) -> float:
    """Send each message; return how long one took, in microseconds."""
    # Queued messages are not garbage, but the collector would visit all of them again and again.
    gc.collect()
    gc.disable()
    began = time.process_time()
    for send in sends:
        handle(broker, send)
    took = time.process_time() - began
    gc.enable()
    broker.dispatch(NOW)
    broker.take()
    return took / len(sends) * 1e6


def measure(kind: str, addresses: int, patterns: int, runs: int) -> Routing:
    """Measure with few and with many patterns in turn."""
    worlds = [
        prepare(kind, addresses, FEW, FEW),
        prepare(kind, addresses, patterns, FEW),
        prepare(kind, addresses, patterns, patterns),
    ]
    new = [round(send_all(*world), 2) for world in worlds]
    found = [[send_all(*world) for world in worlds] for _ in range(runs)]
    few_us, many_us, spread_us = (statistics.median(each) for each in zip(*found, strict=True))
    return Routing(
        kind=kind, addresses=addresses, patterns=patterns, few_us=round(few_us, 2),
        many_us=round(many_us, 2), ratio=round(many_us / few_us, 2),
        spread_us=round(spread_us, 2), new_few_us=new[0], new_many_us=new[1], new_spread_us=new[2],
    )  # fmt: skip


@click.command(context_settings={"show_default": True})
@click.option("--kind", type=click.Choice(KINDS), multiple=True, default=KINDS)
@click.option("--addresses", type=click.IntRange(1, 10_000_000), default=100_000)
@click.option("--patterns", type=click.IntRange(FEW, 1_000_000), default=10_000)
@click.option("--runs", type=click.IntRange(1, 100), default=5)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def main(kind: tuple[str, ...], addresses: int, patterns: int, runs: int, as_json: bool) -> None:
    """Measure whether routing is as fast with many patterns as with ten.

    Exit codes: 0 it is, 1 it is not, 2 bad use.
    """
    found = [measure(each, addresses, patterns, runs) for each in kind]
    for one in found:
        if as_json:
            click.echo(msgspec.json.encode(one).decode())
            continue
        for name, value in msgspec.structs.asdict(one).items():
            click.echo(f"{name.replace('_', ' '):<14} {value}")
        click.echo()
    sys.exit(0 if all(one.ratio <= GATE for one in found) else 1)


if __name__ == "__main__":
    main()
