"""The figures for Watching protocols: whether the server is live and ready, and its metrics.

Everything here is about the whole process of the broker. Must never know the protocols.
"""

import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from typing import Any, Final

from daybook.engine.core import unreadable
from daybook.journal.writing.writer import WriterStats
from daybook.protocols.port import Reading
from daybook.server.hub.hub import Hub
from daybook.server.monitoring import figures, health
from daybook.server.monitoring.figures import AcceptorFigures, ConnectorFigures
from daybook.server.monitoring.health import Problem
from daybook.server.monitoring.oldest_message import MS_PER_S, OldestMessage
from daybook.server.monitoring.paused_queues import PausedQueues

LAGS_MAX: Final = 1000
"""How many moments are stored at which events became durable that are not indexed."""


class Phase(StrEnum):
    """The phase of the process, as text; "" while it serves."""

    STARTING = "starting"
    SERVING = ""
    STOPPING = "stopping"


class IndexLag:
    """Measures how long unindexed events have been durable."""

    def __init__(self) -> None:
        # Durable LSNs with their times, oldest first. If it is full, no entry is added, because
        # only the oldest matters.
        self._durable: Final[deque[tuple[int, int]]] = deque()

    def note(self, durable_lsn: int, indexed_lsn: int, now: int) -> None:
        """Note the durable and the indexed LSN; about ten times a second."""
        known = self._durable
        while known and known[0][0] <= indexed_lsn:
            known.popleft()
        last = known[-1][0] if known else indexed_lsn
        if durable_lsn > last and len(known) < LAGS_MAX:
            known.append((durable_lsn, now))

    def microseconds(self, now: int) -> int:
        """Return how long the oldest unindexed event has been durable; 0 if all are indexed."""
        return max(0, now - self._durable[0][1]) if self._durable else 0


class BrokerMonitoring:
    """The MonitoringView of a broker; `vitals` returns the status that health needs, `numbers`
    other figures.
    """

    def __init__(
        self,
        hub: Hub,
        *,
        clock: Callable[[], int],
        stats: Callable[[], WriterStats],
        vitals: Callable[[], Mapping[str, Any]],
        numbers: Callable[[], Mapping[str, Any]],
        acceptors: Callable[[], list[AcceptorFigures]],
        certificates: Callable[[], list[tuple[str, float]]] = list,
        connectors: Callable[[], list[ConnectorFigures]] = list,
        auto_links: Callable[[], list[str]] = list,
    ) -> None:
        self.hub = hub
        self.phase = Phase.STARTING
        self.stats = stats
        self.acceptors = acceptors
        self.certificates = certificates
        self.connectors = connectors
        self.auto_links = auto_links
        self.now = clock
        self._vitals: Final = vitals
        self._numbers: Final = numbers
        self._index_lag: Final = IndexLag()
        self._paused: Final = PausedQueues()
        self._oldest: Final = OldestMessage()

    def tick(self) -> None:
        """Note the progress of the index, and look at some queues; about ten times a second."""
        indexed = int(self.number("indexed_lsn"))
        self._index_lag.note(self.hub.outbox.durable_lsn, indexed, time.monotonic_ns() // 1000)
        self._paused.look(self.hub.broker.state)

    def look_for_oldest(self) -> None:
        """Look for the oldest message in some queues."""
        self._oldest.look(self.hub.broker.state)

    def look_again_seconds(self, usual: float) -> float:
        """Return how long to wait before the next look for the oldest message."""
        return self._oldest.pause(usual)

    def queues(self) -> dict[str, Any]:
        """Return the part of the status that names queues without deliveries."""
        return {
            "queues_unreadable": unreadable.describe(self.hub.broker),
            "queues_paused": self._paused.status(),
        }

    def oldest_ready(self) -> dict[str, Any]:
        """Return the part of the status about the message that has waited for longest."""
        return self._oldest.status(int(time.time() * MS_PER_S))

    def cluster(self) -> Mapping[str, Any]:
        """Return the status of the node that started this broker; empty without one."""
        found: Mapping[str, Any] = self._vitals().get("cluster", {})
        return found

    def index_lag_us(self) -> int:
        """How long ago the oldest event became durable that is not indexed; 0 if all are."""
        return self._index_lag.microseconds(time.monotonic_ns() // 1000)

    def ending(self) -> str:
        """Return why the process is about to end; "" if it is not."""
        return self.phase if self.phase is Phase.STOPPING else ""

    def unready(self) -> str:
        """Return why no messages are accepted, in words for anybody; "" if they are."""
        return self.phase or health.why_unready(self._vitals())

    def problems(self) -> list[Problem]:
        """The problems."""
        return health.problems(self._vitals())

    def number(self, key: str) -> float:
        """Return a number of the status; 0 if it is not known yet."""
        return float(self._numbers()[key] or 0)

    def readings(self, names_max: int) -> Iterator[Reading | None]:
        """Yield all metrics, one slice for each turn."""
        return figures.readings(self, names_max)
