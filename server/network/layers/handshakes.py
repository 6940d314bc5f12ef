"""The handshakes of TLS, a few in each turn of the event loop.

A step of a handshake takes up to milliseconds of signing, so a flood of connections would keep all
others waiting. Connections whose peers have sent something wait here for their step, in order, and
are not read meanwhile. Must never know sockets or TLS.
"""

from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

STEPS_PER_TURN: Final = 2


class Shaking(Protocol):
    """A connection within its handshake."""

    def shake(self) -> None:
        """Do a step; nothing happens if the connection has ended."""
        ...


class Handshakes:
    """All waiting handshakes of an acceptor. `schedule` calls a function in the next turn."""

    def __init__(self, schedule: Callable[[Callable[[], None]], object]) -> None:
        self._schedule: Final = schedule
        self._waiting: Final[deque[Shaking]] = deque()

    def add(self, connection: Shaking) -> None:
        """Let a connection do its step when it is its turn."""
        if not self._waiting:
            self._schedule(self._step)
        self._waiting.append(connection)

    def __len__(self) -> int:
        return len(self._waiting)

    def _step(self) -> None:
        for _ in range(min(STEPS_PER_TURN, len(self._waiting))):
            self._waiting.popleft().shake()
        if self._waiting:
            self._schedule(self._step)
