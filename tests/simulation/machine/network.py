"""The simulated network: one link a connection, its two ends, and everything that can go wrong.

Fault model: bytes arrive cut anywhere, late, or never; a client may stop reading, or vanish so that
the broker learns of it late or not at all; when the broker dies, what it wrote last may get lost.
The order of bytes in one direction never changes.
"""

import random
from collections.abc import Callable

from daybook.server.hub.hub import Hub
from daybook.server.hub.peer import Peer

KERNEL_BYTES = 4096
"""So much the kernels on both sides take before `buffered` grows."""

ABORT_AFTER_US = 5_000_000


class Link:
    """A connection: the transport of a peer on one side, a client on the other."""

    def __init__(
        self, serial: int, high_bytes: int, watch: Callable[["Link", bytes], None]
    ) -> None:
        self.serial = serial
        self.to_broker = bytearray()
        self.to_client = bytearray()
        self.hub: Hub | None = None
        self.peer: Peer | None = None
        self.clock: Callable[[], int] = int
        self.reading = True
        self.stalled = False
        self.client_gone = False
        self.broker_gone = False
        self.close_at = 0
        self.lost_at = 0
        self.connection = 0
        self.is_amqp = False
        # Its client keeps an account of its own, in `judges.direct_oracle`.
        self.is_direct = False
        self._watch = watch
        self._high_bytes = high_bytes
        self._is_above = False

    # The methods that the hub calls.

    def write(self, data: bytes) -> None:
        """Bytes leave the broker: from here on a client may know them."""
        self._watch(self, data)
        if not self.close_at and not self.client_gone:
            self.to_client += data
            self._is_above = self._is_above or self.buffered() > self._high_bytes

    def buffered(self) -> int:
        """Bytes that were written and did not fit the kernels."""
        return max(0, len(self.to_client) - KERNEL_BYTES)

    def pause_reading(self) -> None:
        """Read no more."""
        self.reading = False

    def notice_end(self) -> None:
        """An end is always noticed here, read or not."""

    def resume_reading(self) -> None:
        """Read again."""
        self.reading = True

    def close(self, delay_ms: int) -> None:
        """Close later, when what was written has left."""
        self.close_at = self.clock() + delay_ms * 1000 + 1

    # The methods that the simulator calls.

    def can_reach_broker(self) -> bool:
        """Whether there is something that the broker would read."""
        return bool(self.to_broker) and self.reading and not (self.broker_gone or self.close_at)

    def can_reach_client(self) -> bool:
        """Whether there is something that the client would read."""
        return not (self.stalled or self.client_gone) and (bool(self.to_client) or self.broker_gone)

    def carry_to_broker(self, count: int) -> None:
        """Deliver some bytes of the client."""
        assert self.hub is not None
        assert self.peer is not None
        data = bytes(self.to_broker[:count])
        del self.to_broker[:count]
        self.hub.received(self.peer, data)

    def carry_to_client(self, count: int) -> bytes:
        """Deliver some bytes of the broker."""
        data = bytes(self.to_client[:count])
        del self.to_client[:count]
        if self._is_above and self.buffered() <= self._high_bytes // 4 and not self.broker_gone:
            self._is_above = False
            assert self.hub is not None
            assert self.peer is not None
            self.hub.drained(self.peer)
        return data

    def is_to_end(self) -> bool:
        """Whether the broker's side is to notice now that the connection is over."""
        if self.broker_gone:
            return False
        now = self.clock()
        if not self.close_at:
            return self.client_gone and now >= self.lost_at
        if now < self.close_at:
            return False
        return not self.to_client or self.client_gone or now >= self.close_at + ABORT_AFTER_US

    def end(self) -> None:
        """The broker's side notices."""
        self.broker_gone = True
        assert self.hub is not None
        assert self.peer is not None
        self.hub.lost(self.peer)

    def broker_died(self, chance: random.Random) -> None:
        """The process is gone; some of what it wrote may still arrive."""
        if not self.broker_gone:
            self.broker_gone = True
            del self.to_client[chance.randint(0, len(self.to_client)) :]
