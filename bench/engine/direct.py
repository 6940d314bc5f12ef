"""The processor time of a direct message beside that of a queue: `python -m bench.engine.direct`.

A sender and a receiver of AMQP, their sessions and the engine in one process, without hub, sockets
and disk. In each turn some messages are sent, delivered, accepted by one disposition, and their
sender hears of it. The kinds of addresses take turns, so that a disturbance falls on all alike, and
of each step the quickest tenth counts. Prints microseconds a message, and all steps as a multiple
of those of a queue. Blocks of events are made, but not encoded.
"""

import gc
import statistics
import time
from collections.abc import Callable
from typing import Final

import click

from bench.engine.sites import LOTS, NOW, Site
from bench.load.amqp_peer import WIDE, flow, message, receiver, sender
from daybook.engine.direct.serving import DECISIONS, OFF
from daybook.engine.facts.definitions import DistributionEntry
from daybook.protocols.amqp.wire.frames import frame
from daybook.protocols.amqp.wire.kinds import RECEIVER
from daybook.protocols.amqp.wire.performatives import Disposition, Transfer
from daybook.protocols.amqp.wire.termini import Accepted

BODY: Final = message(b"x" * 256)
STEPS: Final = ("to take what is sent", "to deliver", "to settle", "the outcome")
KINDS: Final = {
    "queue": ("orders", DECISIONS),
    "direct": ("work", DECISIONS),
    "direct, journal-direct = off": ("work", OFF),
}
"""Kinds of addresses: the name, and what is journaled of direct messages."""


class Pair:
    """A broker with a sender and a receiver of one address. `times` are those of each step."""

    def __init__(self, address: str, journal_direct: str) -> None:
        self._site: Final = Site("a" * 32, (DistributionEntry(prefix="work"),), journal_direct)
        self._receiver: Final = self._site.connect("receiver")
        self._sender: Final = self._site.connect("sender")
        self._site.feed(self._receiver, receiver(0, address) + flow(0, WIDE))
        self._site.feed(self._sender, sender(0, address))
        self._sent = 0
        self.times: Final[list[list[float]]] = [[] for _ in STEPS]

    def turn(self, count: int) -> None:
        """Let so many messages go all the way."""
        first, self._sent = self._sent, self._sent + count
        sent = b"".join(
            frame(0, Transfer(0, each, b"%d" % each, 0), BODY) for each in range(first, self._sent)
        )
        accepted = frame(0, Disposition(RECEIVER, first, self._sent - 1, True, Accepted()))
        steps: tuple[Callable[[], None], ...] = (
            lambda: self._sender.receive(sent, NOW),
            self._site.deliver,
            lambda: self._receiver.receive(accepted, NOW),
            self._site.deliver,
        )
        self._site.broker.budget.allow(LOTS)
        for times, step in zip(self.times, steps, strict=True):
            began = time.perf_counter()
            step()
            times.append((time.perf_counter() - began) / count * 1e6)
        self._site.broker.take()
        for peer in self._site.peers:
            peer.out = []

    def found(self) -> list[float]:
        """Return the time of each step for a message, by the quickest tenth of the turns."""
        return [statistics.mean(sorted(each)[: max(1, len(each) // 10)]) for each in self.times]


@click.command(context_settings={"show_default": True})
@click.option("--turns", type=click.IntRange(10, 100_000), default=500)
@click.option("--messages", type=click.IntRange(1, 200), default=50, help="In each turn.")
def main(turns: int, messages: int) -> None:
    """Measure a message to a queue, and to a direct address."""
    pairs = {name: Pair(*values) for name, values in KINDS.items()}
    gc.collect()
    gc.freeze()
    for _ in range(turns):
        for pair in pairs.values():
            pair.turn(messages)
    of_queue = sum(pairs["queue"].found())
    for name, pair in pairs.items():
        found = pair.found()
        shown = ", ".join(f"{step} {took:.1f}" for step, took in zip(STEPS, found, strict=True))
        click.echo(f"{name}: {sum(found):.1f} us, {sum(found) / of_queue:.2f} of a queue; {shown}")


if __name__ == "__main__":
    main()
