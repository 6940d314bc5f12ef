"""A connection between two simulated brokers: the end of each is a link whose client is the other.

Fault model: bytes arrive cut anywhere and late, in each direction by itself. When a cable is cut,
the newest bytes of each direction are lost, and each broker learns of it at a time of its own, so
one of them may continue with half of a connection while the next cable is in use already.
"""

import random
from typing import Final

from tests.simulation.machine.clock import Clock
from tests.simulation.machine.network import Link

LATE_US: Final = (0, 0, 200_000, 3_000_000, 20_000_000)
"""How long after the end of a connection a broker learns of it."""


class Cable:
    """The connection that `near`, the end at one broker, opened to `far`, the end at another."""

    def __init__(self, near: Link, far: Link, clock: Clock) -> None:
        self.near: Final = near
        self.far: Final = far
        self._clock: Final = clock
        near.is_amqp = far.is_amqp = True

    @property
    def ends(self) -> tuple[Link, Link]:
        """Both ends."""
        return self.near, self.far

    @property
    def is_up(self) -> bool:
        """Whether no side has learned of an end, and none is to."""
        return not any(end.broker_gone or end.client_gone or end.close_at for end in self.ends)

    @property
    def is_over(self) -> bool:
        """Whether both brokers know of its end."""
        return self.near.broker_gone and self.far.broker_gone

    def carry(self, source: Link, count: int) -> bool:
        """Carry some bytes that a broker wrote to the other side, or the news that there will be no
        more; return whether there was anything."""
        target = self.far if source is self.near else self.near
        if source.client_gone:
            return False
        if source.to_client:
            data = source.carry_to_client(count)
            if not (target.broker_gone or target.client_gone):
                target.to_broker += data
            return True
        if source.broker_gone and not (target.client_gone or target.broker_gone):
            target.client_gone, target.lost_at = True, self._clock.now
            return True
        return False

    def cut(self, chance: random.Random) -> None:
        """Break it."""
        for end in self.ends:
            if not end.client_gone:
                end.client_gone = True
                end.lost_at = self._clock.now + chance.choice(LATE_US)
            end.to_client.clear()
            del end.to_broker[chance.randint(0, len(end.to_broker)) :]
