"""The processor time of a hop to another broker: `python -m bench.engine.hops`.

Two brokers in one process, the connection between them in memory, without hub, sockets and disk. In
each turn some messages are sent to the one here, and all of them come to a receiver that accepts
them. Ways take turns, so that a disturbance falls on all alike, and the quickest tenth of the turns
counts. Prints microseconds a message of both brokers, and of each.
"""

import gc
import statistics
import time
from typing import Final

import click

from bench.engine.sites import Site
from bench.load.amqp_peer import WIDE, flow, message, receiver, sender
from daybook.engine.facts.definitions import AutoLink, DistributionEntry, LinkRoute, Waypoint
from daybook.protocols.amqp.connection import AmqpConnection
from daybook.protocols.amqp.wire.frames import frame
from daybook.protocols.amqp.wire.kinds import RECEIVER
from daybook.protocols.amqp.wire.performatives import Disposition, Transfer
from daybook.protocols.amqp.wire.termini import Accepted

BODY: Final = message(b"x" * 256)
NAME: Final = "orders"
TABLE: Final = (DistributionEntry(pattern=NAME, waypoint=True),)
OUT: Final = AutoLink("out", NAME, f"{NAME}::{NAME}", is_out=True, shard="there")
IN: Final = AutoLink("in", NAME, f"{NAME}::{NAME}", is_out=False, phase=1)
BRIDGE: Final = AutoLink("bridge", NAME, NAME, is_out=True)


class Way:
    """A sender to the broker here, and a receiver of its messages; `times` are, by turns, those of
    the broker here and of the one there, if there is one."""

    def __init__(
        self, here: Site, links: tuple[AutoLink, ...] | None = None, *, receives_there: bool = False
    ) -> None:
        """With `links`, perhaps none, there is a connection to another broker."""
        self.times: Final[list[tuple[float, float]]] = []
        self._here: Final = here
        self._there: Final = Site("b" * 32)
        self._spent = {here: 0.0, self._there: 0.0}
        self._line: list[tuple[Site, AmqpConnection, Site, AmqpConnection]] = []
        if links is not None:
            dialled, accepted = here.dial(links), self._there.accept("here")
            self._line = [
                (here, dialled, self._there, accepted), (self._there, accepted, here, dialled),
            ]  # fmt: skip
            self._carry()
        self._receiving: Final = self._there if receives_there else here
        self._receiver: Final = self._receiving.connect("receiver")
        self._sender: Final = here.connect("sender")
        self._feed(self._receiving, self._receiver, receiver(0, NAME) + flow(0, WIDE))
        self._feed(here, self._sender, sender(0, NAME))
        for site in (here, self._there):
            site.make_room()
        self._sent = 0

    def _feed(self, site: Site, peer: AmqpConnection, data: bytes) -> None:
        self._timed(site, peer, data)
        self._carry()

    def _timed(self, site: Site, peer: AmqpConnection, data: bytes) -> None:
        began = time.thread_time()
        site.feed(peer, data)
        self._spent[site] += time.thread_time() - began

    def _carry(self) -> None:
        """Carry bytes between the brokers until none has something to say."""
        is_moving = bool(self._line)
        while is_moving:
            is_moving = False
            for site, peer, other, taker in self._line:
                said, peer.out = b"".join(peer.out), []
                if said:
                    self._timed(other, taker, said)
                is_moving = site.answer(peer) or bool(said) or is_moving

    def turn(self, count: int) -> None:
        """Let so many messages go all the way."""
        first, self._sent = self._sent, self._sent + count
        sent = [Transfer(0, each, b"%d" % each, 0) for each in range(first, self._sent)]
        self._spent = dict.fromkeys(self._spent, 0.0)
        self._feed(self._here, self._sender, b"".join(frame(0, each, BODY) for each in sent))
        arrived = b"".join(self._receiver.out).count(b"x" * 256)
        assert arrived == count, f"{arrived} of {count} messages arrived"
        accepted = Disposition(RECEIVER, first, self._sent - 1, True, Accepted())
        self._feed(self._receiving, self._receiver, frame(0, accepted))
        here, there = (self._spent[each] / count * 1e6 for each in (self._here, self._there))
        self.times.append((here, there))
        for site in (self._here, self._there):
            site.broker.take()
            for peer in site.peers:
                peer.out = []

    def found(self) -> tuple[float, float]:
        """Return the time of a message here and there, by the quickest tenth of the turns."""
        quick = sorted(self.times, key=sum)[: max(1, len(self.times) // 10)]
        return tuple(map(statistics.mean, zip(*quick, strict=True)))


def ways() -> dict[str, Way]:
    """Return all ways by their names."""
    here = "a" * 32
    local = Waypoint(NAME, has_queue=True)
    far = Waypoint(NAME, shards=("there",))
    routes = tuple(LinkRoute(NAME, is_in=each, connector="there") for each in (True, False))
    return {
        "queue": Way(Site(here)),
        "direct address": Way(Site(here, (DistributionEntry(pattern=NAME),))),
        "sharded, the shard here": Way(Site(here, TABLE, waypoints=(local,))),
        "sharded, the shard there": Way(Site(here, TABLE, waypoints=(far,)), (OUT, IN)),
        "bridge, received there": Way(Site(here), (BRIDGE,), receives_there=True),
        "link route": Way(Site(here, link_routes=routes), ()),
    }


@click.command(context_settings={"show_default": True})
@click.option("--turns", type=click.IntRange(10, 100_000), default=500)
@click.option("--messages", type=click.IntRange(1, 200), default=50, help="In each turn.")
def main(turns: int, messages: int) -> None:
    """Measure a message that stays here, and one that passes to another broker."""
    found = ways()
    gc.collect()
    gc.freeze()
    for _ in range(turns):
        for way in found.values():
            way.turn(messages)
    of_queue = sum(found["queue"].found())
    for name, way in found.items():
        here, there = way.found()
        click.echo(
            f"{name}: {here + there:.1f} us, {(here + there) / of_queue:.2f} of a queue;"
            f" here {here:.1f}, there {there:.1f}"
        )


if __name__ == "__main__":
    main()
