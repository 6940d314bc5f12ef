"""The outbox: output waits here until the events that it reports are durable (promise P1).

Bytes wait by *generation*, the block that must be durable first, not by message. Every peer
collects its bytes for the open generation; closing the block takes them along; when it is durable
each peer's bytes are joined and written once. Invariants: bytes of one peer leave in the order in
which they were put; bytes that wait for nothing leave at once unless older bytes of the same peer
are waiting.

It knows neither events nor disks, only LSNs; the simulator runs it as it is.
"""

from collections import deque
from collections.abc import Callable
from typing import Final, Protocol


class Outlet(Protocol):
    """The receiver of a peer's bytes, with the state that the outbox keeps for the peer."""

    generation: "Generation | None"
    waiting_bytes: int

    def release(self, data: bytes) -> None:
        """Take bytes that may leave now."""
        ...


class Generation:
    """Bytes by peer, and callbacks, that wait for one block."""

    __slots__ = ("calls", "closed_at", "last_lsn", "members")

    def __init__(self) -> None:
        self.last_lsn = 0
        self.closed_at = 0
        self.members: dict[Outlet, list[bytes]] = {}
        self.calls: list[Callable[[], None]] = []


class Outbox:
    """Bytes of all peers on their way out."""

    def __init__(self, durable_lsn: int) -> None:
        self.durable_lsn = durable_lsn
        self.closed_lsn = durable_lsn
        self._open = Generation()
        self._in_flight: Final[deque[Generation]] = deque()

    def put(self, outlet: Outlet, parts: list[bytes], gate: int) -> None:
        """Let bytes leave when the event `gate` is durable (0: at once). Takes the list over."""
        target = outlet.generation
        if gate > self.closed_lsn:
            target = self._open
        elif gate > self.durable_lsn and target is not self._open:
            holding = self._holding(gate)
            # Never overtake older bytes of the same peer.
            if target is None or target.last_lsn < holding.last_lsn:
                target = holding
        if target is None:
            outlet.release(parts[0] if len(parts) == 1 else b"".join(parts))
            return
        waiting = target.members.get(outlet)
        if waiting is None:
            target.members[outlet] = parts
        else:
            waiting.extend(parts)
        outlet.generation = target
        outlet.waiting_bytes += sum(map(len, parts))

    def call(self, action: Callable[[], None], gate: int) -> None:
        """Call something when the event `gate` is durable."""
        if gate > self.closed_lsn:
            self._open.calls.append(action)
        elif gate > self.durable_lsn:
            self._holding(gate).calls.append(action)
        else:
            action()

    def _holding(self, gate: int) -> Generation:
        for generation in self._in_flight:
            if generation.last_lsn >= gate:
                return generation
        raise AssertionError(f"no block in flight holds event {gate}")

    def close(self, last_lsn: int, now: int = 0) -> None:
        """The open block was closed; its last event is `last_lsn`."""
        assert last_lsn > self.closed_lsn
        self._open.last_lsn = last_lsn
        self._open.closed_at = now
        self._in_flight.append(self._open)
        self._open = Generation()
        self.closed_lsn = last_lsn

    def durable(self, lsn: int) -> list[Outlet]:
        """Release what waited for the events up to `lsn`; return the peers written to."""
        assert lsn <= self.closed_lsn
        self.durable_lsn = lsn
        written: list[Outlet] = []
        in_flight = self._in_flight
        while in_flight and in_flight[0].last_lsn <= lsn:
            generation = in_flight.popleft()
            for outlet, parts in generation.members.items():
                data = parts[0] if len(parts) == 1 else b"".join(parts)
                outlet.waiting_bytes -= len(data)
                if outlet.generation is generation:
                    outlet.generation = None
                outlet.release(data)
                written.append(outlet)
            for action in generation.calls:
                action()
        return written

    @property
    def waiting_since(self) -> int:
        """When the oldest block was closed that is not durable; 0 if there is none."""
        return self._in_flight[0].closed_at if self._in_flight else 0

    @property
    def is_awaited(self) -> bool:
        """Whether something waits for the block that is still open."""
        return bool(self._open.members or self._open.calls)

    @property
    def blocks_in_flight(self) -> int:
        """How many closed blocks are not durable yet."""
        return len(self._in_flight)
