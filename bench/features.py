"""The cost of unused features: `python -m bench.features`.

A plain queue, whose messages are sent, delivered and acknowledged in turns of some at a time, in
two brokers: one has only that, the other has queues of every kind, wildcard addresses, diverts,
ids, schedules and a hundred matches of settings elsewhere. Turns alternate between the brokers, so
that disturbances affect both, and processor time is counted. Then routing among 10,000 addresses
with ten and a hundred matches (`bench.routing`), and filters (`bench.filters`). The engine alone,
without sockets and disk. Exits with 1 if a gate does not hold.
"""

import gc
import statistics
import sys
import time
from typing import Final

import click

from bench import filters, routing
from daybook.engine.broker import Broker
from daybook.engine.commands import (
    Attach,
    ChangeSettings,
    CreateDivert,
    CreateQueue,
    DeliverDue,
    ExpireDue,
    OpenConnection,
    Send,
    Settle,
)
from daybook.engine.facts.definitions import MULTICAST, DivertDefinition, QueueDefinition
from daybook.engine.facts.events import GROUPED
from daybook.engine.filters.compiling import compile_filter
from daybook.engine.messages.headers import build
from daybook.engine.refusals import Refusal
from daybook.engine.settings.setting_keys import Matches
from daybook.engine.state.state import State

GATE: Final = 1.05
"""How much longer a message of a plain queue may take beside everything else."""
TURN: Final = 50
"""Messages in a turn."""
PLAIN: Final = "plain.orders"
MATCHES: Final = 100
KINDS: Final[dict[str, dict[str, bool | int | str]]] = {
    "ring": {"ring_size": 3},
    "last-value": {"last_value": True},
    "readers": {"non_destructive": True},
    "exclusive": {"exclusive": True},
    "filtered": {"filter": "color = 'blue'"},
    "limited": {"max_consumers": 2},
    "leaving": {"auto_delete": True, "auto_delete_delay": 60_000},
    "together": {"consumers_before_dispatch": 2},
    "purged": {"purge_on_no_consumers": True},
    "grouped": {"group_buckets": 8, "group_first_key": "first", "group_rebalance": True},
    "hashed": {"group_hashing": True},
}
"""Attributes of queues that have every rule."""
ELSEWHERE: Final[dict[str, bool | int | str | float]] = {
    "redelivery-delay": 1000, "redelivery-delay-multiplier": 2.0, "expiry-delay": 3_600_000,
    "min-expiry-delay": 1000, "max-expiry-delay": 7_200_000, "default-ring-size": 1000,
    "default-last-value-key": "key", "default-non-destructive": True, "max-size-messages": 100_000,
    "expiry-address": "elsewhere.expired", "dead-letter-address": "elsewhere.dead",
    "default-purge-on-no-consumers": True, "default-group-rebalance": True,
    "default-consumers-before-dispatch": 2, "auto-delete-queues-delay": 1000,
    "send-to-dla-on-no-route": True, "auto-create-dead-letter-resources": True,
    "auto-create-expiry-resources": True, "id-cache-size": 1000,
}  # fmt: skip


class World:
    """A broker with a plain queue and a consumer that acknowledges its messages."""

    def __init__(self, *, with_features: bool) -> None:
        self.broker = Broker(State())
        self.broker.configure(self.broker.options)
        self.now = 1_000_000
        self.ask(OpenConnection("bench", "bench", "bench", room=1 << 60))
        self.connection = self.broker.lsn
        if with_features:
            self._configure()
        self.ask(CreateQueue(PLAIN, QueueDefinition(name=PLAIN)))
        self._attach(PLAIN)
        self.send = Send(self.connection, PLAIN, build({"color": "blue"}.items()), bytes(256))

    def ask(self, command: object) -> None:
        """Have the broker carry out a command, which it must not refuse."""
        answer = self.broker.handle(command, self.now)  # type: ignore[arg-type]
        assert not isinstance(answer, Refusal), answer.text

    def _attach(self, name: str) -> None:
        credit = 1 << 60 if name == PLAIN else 3
        command = Attach(self.connection, name, credit_messages=credit, credit_bytes=0)
        self.ask(command)

    def _configure(self) -> None:
        settings: Matches = {
            f"elsewhere.m{number}.*.#": {**ELSEWHERE, "max-size-messages": 1000 + number}
            for number in range(MATCHES)
        }
        self.ask(ChangeSettings(settings))
        for kind, attributes in KINDS.items():
            name = f"elsewhere.{kind}"
            self.ask(CreateQueue(name, QueueDefinition(name=name, **attributes)))  # type: ignore[arg-type]
            self._attach(name)
        for number, pattern in enumerate(("elsewhere.*", "elsewhere.#", "other.*.all")):
            definition = QueueDefinition(name=f"all-{number}", routing_type=MULTICAST)
            self.ask(CreateQueue(pattern, definition))
        for number in range(10):
            self.ask(
                CreateDivert(
                    DivertDefinition(
                        name=f"d{number}", address=f"elsewhere.d{number}.#",
                        forwarding_addresses=("elsewhere.ring",), filter="color = 'blue'",
                    )
                )
            )  # fmt: skip
        headers = build([("JMSXGroupID", "g"), ("_AMQ_LVQ_NAME", "k"), ("color", "blue")])
        for number in range(200):
            for kind in KINDS:
                self.ask(
                    Send(
                        0, f"elsewhere.{kind}", headers, b"x", format=GROUPED,
                        priority=number % 10, duplicate_id=f"{kind} {number}",
                        due=3_600_000 if number % 4 == 0 else 0,
                        expires=7_200_000 if number % 3 == 0 else 0,
                    )
                )  # fmt: skip
        self.broker.dispatch(self.now)
        self.broker.effects.clear()
        self.broker.take()

    def turn(self) -> float:
        """Send, deliver and acknowledge some messages; return microseconds for each."""
        broker, send, now = self.broker, self.send, self.now
        began = time.process_time_ns()
        for _ in range(TURN):
            broker.handle(send, now)
        broker.dispatch(now)
        for effect in broker.effects:
            assert isinstance(effect, tuple)
            broker.handle(Settle(effect[0].id, effect[1].id), now)
        got = len(broker.effects)
        broker.effects.clear()
        broker.handle(DeliverDue(), now)
        broker.handle(ExpireDue(), now)
        broker.take()
        took = time.process_time_ns() - began
        assert got == TURN
        return took / 1000 / TURN


def measure(turns: int) -> tuple[float, float, float]:
    """Return microseconds for a message without and with the features, and the ratio.

    The ratio is the median of those of neighbouring turns.
    """
    alone, beside = World(with_features=False), World(with_features=True)
    worlds = [alone, beside]
    for world in worlds * 20:
        world.turn()
    gc.collect()
    gc.disable()
    taken: dict[World, list[float]] = {alone: [], beside: []}
    for number in range(turns):
        for world in worlds if number % 2 else reversed(worlds):
            taken[world].append(world.turn())
    gc.enable()
    ratio = statistics.median(b / a for a, b in zip(taken[alone], taken[beside], strict=True))
    return statistics.median(taken[alone]), statistics.median(taken[beside]), ratio


@click.command(context_settings={"show_default": True})
@click.option("--turns", type=click.IntRange(10, 1_000_000), default=4_000)
@click.option("--addresses", type=click.IntRange(10, 10_000_000), default=10_000)
@click.option("--runs", type=click.IntRange(1, 100), default=9, help="Of the other two benches.")
def main(turns: int, addresses: int, runs: int) -> None:
    """Measure the cost of unused features.

    Exit codes: 0 all gates hold, 1 one does not, 2 bad use.
    """
    # Compiling a filter for the first time loads the grammar.
    compile_filter("TRUE", lambda number: None)
    without, with_all, ratio = measure(turns)
    click.echo(f"plain queue, nothing else         {without:6.2f} us a message")
    click.echo(f"plain queue beside everything     {with_all:6.2f} us a message, ratio {ratio:.3f}")
    found = routing.measure(routing.SETTINGS, addresses, MATCHES, runs)
    click.echo(f"{addresses:,} addresses, 10 matches    {found.few_us:6.2f} us a message")
    click.echo(
        f"{addresses:,} addresses, {MATCHES} matches   {found.many_us:6.2f} us a message, ratio "
        f"{found.ratio:.3f}; with all in use {found.spread_us:.2f} us"
    )
    slowest = filters.slowest_us(10_000 * runs)
    click.echo(f"slowest condition of a filter     {slowest:6.2f} us")
    holds = ratio <= GATE and found.ratio <= routing.GATE and slowest <= filters.GATE_US
    sys.exit(0 if holds else 1)


if __name__ == "__main__":
    main()
