"""How often the periodic work of a broker is done: less often when the broker is idle.

Deadlines of connections are checked ten times a second. Without connections, and without decisions
for a while, once a second is enough, and an idle broker wakes up that much less. Must never know
the periodic work.
"""

from collections.abc import Callable, Sequence, Sized
from typing import Final

TICK_SECONDS: Final = 0.1
IDLE_SECONDS: Final = 1.0
CALM_TICKS: Final = 50
"""After so many ticks without activity the broker counts as idle."""


class Pulse:
    """The pause between two ticks."""

    def __init__(self, connections: Sequence[Sized], lsn: Callable[[], int]) -> None:
        """`connections` are the sets of all that are open; `lsn` returns the last event."""
        self._connections: Final = connections
        self._lsn: Final = lsn
        self._last_lsn = -1
        self._calm = 0

    def tick(self) -> None:
        """Note whether anything has happened since the last tick."""
        lsn = self._lsn()
        happens = any(map(len, self._connections)) or lsn != self._last_lsn
        self._calm = 0 if happens else min(self._calm + 1, CALM_TICKS)
        self._last_lsn = lsn

    def seconds(self) -> float:
        """Return how long to wait until the next tick."""
        return IDLE_SECONDS if self._calm >= CALM_TICKS else TICK_SECONDS
