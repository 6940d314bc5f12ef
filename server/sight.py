"""What the server shows those who look on: whether it lives, whether it is ready, and figures.

Everything here is about the broker's process as a whole. Must never know who looks on.
"""

import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from typing import Any, Final

from daybook.journal.writer import WriterStats
from daybook.protocols.port import Reading
from daybook.server import figures, health
from daybook.server.figures import AcceptorFigures
from daybook.server.health import Problem
from daybook.server.hub import Hub

LAGS_MAX: Final = 1000
"""How many moments are remembered at which something became durable that is not indexed."""


class Phase(StrEnum):
    """What the process is doing, for people; empty while it serves."""

    STARTING = "starting"
    SERVING = ""
    STOPPING = "stopping"


class IndexLag:
    """Since when what is not indexed has been durable."""

    def __init__(self) -> None:
        # What was durable when, oldest first. While it is full nothing is added: the oldest, which
        # is what counts, stays true.
        self._durable: Final[deque[tuple[int, int]]] = deque()

    def note(self, durable_lsn: int, indexed_lsn: int, now: int) -> None:
        """So much is durable and indexed now; about ten times a second."""
        known = self._durable
        while known and known[0][0] <= indexed_lsn:
            known.popleft()
        last = known[-1][0] if known else indexed_lsn
        if durable_lsn > last and len(known) < LAGS_MAX:
            known.append((durable_lsn, now))

    def microseconds(self, now: int) -> int:
        """How long the oldest of it has been durable; 0 if all is indexed."""
        return max(0, now - self._durable[0][1]) if self._durable else 0


class BrokerSight:
    """`vitals` gives what health is judged by, and `numbers` other figures, by their keys."""

    def __init__(
        self,
        hub: Hub,
        *,
        clock: Callable[[], int],
        stats: Callable[[], WriterStats],
        vitals: Callable[[], Mapping[str, Any]],
        numbers: Callable[[], Mapping[str, Any]],
        acceptors: Callable[[], list[AcceptorFigures]],
    ) -> None:
        self.hub = hub
        self.phase = Phase.STARTING
        self.stats = stats
        self.acceptors = acceptors
        self.now = clock
        self._vitals: Final = vitals
        self._numbers: Final = numbers
        self._index_lag: Final = IndexLag()

    def tick(self) -> None:
        """See how far the index is; about ten times a second."""
        indexed = int(self.number("indexed_lsn"))
        self._index_lag.note(self.hub.outbox.durable_lsn, indexed, time.monotonic_ns() // 1000)

    def index_lag_us(self) -> int:
        """How long ago the oldest event became durable that is not indexed; 0 if all are."""
        return self._index_lag.microseconds(time.monotonic_ns() // 1000)

    def ending(self) -> str:
        """Why the process is about to end; empty if it is not."""
        return self.phase if self.phase is Phase.STOPPING else ""

    def unready(self) -> str:
        """Why no messages are taken, in a few words that strangers may read; empty: they are."""
        return self.phase or health.why_unready(self._vitals())

    def problems(self) -> list[Problem]:
        """What is wrong."""
        return health.problems(self._vitals())

    def number(self, key: str) -> float:
        """A number of the status; 0 for one that is not known yet."""
        return float(self._numbers()[key] or 0)

    def readings(self, names_max: int) -> Iterator[Reading | None]:
        """All figures, in slices between which others may have their turn."""
        return figures.readings(self, names_max)
