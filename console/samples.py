"""The figures of a broker over the last hour, sampled by the console.

The status of the broker is asked once in PERIOD_SECONDS, however many look; rates are differences
of its counters. Fault model: while the broker does not answer, its samples are gaps.
"""

import asyncio
import time
from collections import deque
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from daybook.client.control import ControlError
from daybook.console.brokers import Broker, Identity, NotRunning

PERIOD_SECONDS: Final = 5.0
SAMPLES_MAX: Final = 720
"""An hour."""
RATES: Final = {
    "in": "messages_added", "acknowledged": "messages_acknowledged",
    "dead_lettered": "messages_dead_lettered", "expired": "messages_expired",
}  # fmt: skip
"""What is shown as a rate, and the counter of the status behind it."""
LEVELS: Final = {
    "backlog": "messages_ready", "in_flight": "messages_in_flight", "connections": "connections",
    "memory": "memory_held", "disk_free": "disk_free_bytes",
}  # fmt: skip
"""What is shown as it is."""


class Sample(msgspec.Struct, frozen=True):
    """The figures of a moment: seconds since 1970, and each figure, None where it is unknown."""

    time: float
    figures: dict[str, float | None]


class Samples:
    """The samples of one broker; `status` is its newest status, None while it does not answer."""

    def __init__(self, broker: Broker) -> None:
        self.broker: Final = broker
        self.status: dict[str, Any] | None = None
        self.trouble = ""
        self.samples: Final[deque[Sample]] = deque(maxlen=SAMPLES_MAX)
        self.renewed: Final = asyncio.Condition()
        self._before: tuple[float, dict[str, Any]] | None = None

    async def run(self) -> None:
        """Sample for as long as the console runs."""
        while True:
            await self._sample()
            async with self.renewed:
                self.renewed.notify_all()
            await asyncio.sleep(PERIOD_SECONDS)

    async def _sample(self) -> None:
        now = time.monotonic()
        try:
            status = await self.broker.look(Identity("", ""), {"do": "status"})
        except ControlError as error:
            self.status, self._before = None, None
            self.trouble = "no broker runs" if isinstance(error, NotRunning) else str(error)
            self.samples.append(Sample(time.time(), dict.fromkeys((*RATES, *LEVELS))))
            return
        self.trouble = ""
        self.status = {"running": True} | status
        self.samples.append(Sample(time.time(), self._figures(now, status)))
        self._before = now, status

    def _figures(self, now: float, status: Mapping[str, Any]) -> dict[str, float | None]:
        found: dict[str, float | None] = {name: status.get(key) for name, key in LEVELS.items()}
        for name, key in RATES.items():
            found[name] = None
            if self._before is None or key not in status:
                continue
            then, before = self._before
            change = status[key] - before.get(key, 0)
            # A broker that started again counts from 0.
            found[name] = change / (now - then) if change >= 0 and now > then else None
        return found

    def columns(self) -> dict[str, list[float | None]]:
        """Return the samples as columns, for charts."""
        told: dict[str, list[float | None]] = {"time": [each.time for each in self.samples]}
        for name in (*RATES, *LEVELS):
            told[name] = [each.figures[name] for each in self.samples]
        return told
