"""The figures of a broker over the last hour, sampled by the console.

The status of the broker is asked once in PERIOD_SECONDS, however many look, and when the broker
ends or comes back; rates are differences of its counters. Fault model: while the broker does not
answer, its samples are gaps.
"""

import asyncio
import contextlib
import time
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final

import msgspec

from daybook.client.control import ControlError
from daybook.console.brokers import Broker, NotRunning
from daybook.console.console_config import ConsoleError
from daybook.history.reports.report_files import faults
from daybook.server.monitoring.rates import RATES, rates_between

PERIOD_SECONDS: Final = 5.0
RETURN_SECONDS: Final = 1.0
"""How often it is looked whether a broker that is gone runs again."""
LEAST_SECONDS: Final = 0.5
"""The least time between two samples, whatever a broker does."""
REPORTS_SECONDS: Final = 5.0
"""How often it is looked what the last verification and audit found."""
SAMPLES_MAX: Final = 720
"""An hour."""
HOUR_SECONDS: Final = 3600.0
MINUTE_SECONDS: Final = 60.0
TRIES: Final = 3
ASK_SECONDS: Final = 30.0
"""How often, and for how long, the journal is asked about a start."""
LEVELS: Final = {
    "backlog": "messages_ready", "in_flight": "messages_in_flight", "connections": "connections",
    "memory": "memory_held", "disk_free": "disk_free_bytes", "journal": "journal_bytes",
    "index": "index_bytes",
}  # fmt: skip
"""What is shown as it is."""
LOOKED_AT_MAX: Final = 1_000
"""Of how many queues, and of how many consumers, the counters of a look are kept, for rates."""
LOOK_SECONDS: Final = 3.0
"""A rate is that since a look which is at least so long ago; answers are kept for less."""
QUEUE_COUNTERS: Final = ("added", "acknowledged", "dead_lettered", "expired")
CONSUMER_COUNTERS: Final = ("delivered", "settled")


class Rates:
    """Rates of queues or consumers: the changes of their counters since somebody looked before, in
    seconds."""

    def __init__(self, counters: tuple[str, ...]) -> None:
        self._counters: Final = counters
        self._looks: Final[OrderedDict[str, list[tuple[float, dict[str, int]]]]] = OrderedDict()

    def of(self, name: str, row: Mapping[str, Any], now: float) -> dict[str, float]:
        """Return the rates of one of them, none at the first look, and after a restart of the
        broker with other counts; `row` is what the broker says of it now."""
        counts = {key: int(row[key]) for key in self._counters}
        looks = self._looks.setdefault(name, [(now, counts)])
        self._looks.move_to_end(name)
        while len(self._looks) > LOOKED_AT_MAX:
            self._looks.popitem(last=False)
        if now - looks[-1][0] >= LOOK_SECONDS:
            # The newest look that is old enough, and this one for the next time.
            self._looks[name] = looks = [looks[-1], (now, counts)]
        then, before = looks[0]
        seconds = now - then
        changes = {key: counts[key] - before[key] for key in self._counters}
        if seconds < LOOK_SECONDS or min(changes.values()) < 0:
            return {}
        return {key: change / seconds for key, change in changes.items()}


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
        self.earlier: list[Sample] | None = None
        """What the journal said of the time before the first sample, None if it was not asked."""
        self.asking: Final = asyncio.Lock()
        self.faults: list[str] = []
        """What the last verification and audit found wrong."""
        self.crash: dict[str, Any] = {}
        """What the journal says of a crash before the start of the broker that runs, if it was
        one."""
        self.renewed: Final = asyncio.Condition()
        self.taken = 0.0
        self.shown: tuple[Sample, bytes] | None = None
        """The newest sample as all pages that renew themselves get it."""
        self.is_silent = False
        """Whether a broker runs, and did not answer when it was last asked."""
        self._before: tuple[float, dict[str, Any]] | None = None

    async def run(self) -> None:
        """Sample for as long as the console runs."""
        while True:
            await self._sample()
            async with self.renewed:
                self.renewed.notify_all()
            await asyncio.sleep(LEAST_SECONDS)
            await self._rest()

    async def watch_reports(self) -> None:
        """Look at the reports for as long as the console runs: a disk that hangs delays only
        this."""
        assert self.broker.directory is not None
        while True:
            with contextlib.suppress(OSError):
                self.faults = await asyncio.to_thread(faults, self.broker.directory)
            await asyncio.sleep(REPORTS_SECONDS)

    async def watch_starts(self, ask: Callable[[], Awaitable[dict[str, Any]]]) -> None:
        """After each start of the broker, ask the journal once whether a crash was before it, for
        as long as the console runs."""
        known: object = None
        left = 0
        while True:
            status = self.status
            start = (status.get("pid"), status.get("started")) if status is not None else known
            if start != known:
                known, self.crash, left = start, {}, TRIES
            if left and status is not None:
                left -= 1
                with contextlib.suppress(ConsoleError, TimeoutError):
                    async with asyncio.timeout(ASK_SECONDS):
                        self.crash = await ask()
                    left = 0
            async with self.renewed:
                await self.renewed.wait()

    @property
    def recent_crash(self) -> dict[str, Any]:
        """The crash before the start of the broker that runs, while this start is younger than an
        hour."""
        uptime = (self.status or {}).get("uptime_seconds", HOUR_SECONDS)
        return self.crash if uptime < HOUR_SECONDS else {}

    async def _rest(self) -> None:
        """Wait for the time of the next sample: less if the broker ends, or runs again."""
        if self.status is not None:
            with contextlib.suppress(TimeoutError, ControlError):
                async with asyncio.timeout(PERIOD_SECONDS - LEAST_SECONDS):
                    await self.broker.until_it_ends()
            return
        until = time.monotonic() + PERIOD_SECONDS
        while time.monotonic() < until:
            await asyncio.sleep(RETURN_SECONDS)
            if self.broker.is_there():
                return

    @property
    def age(self) -> float:
        """How many seconds ago the newest sample was taken."""
        return time.monotonic() - self.taken if self.samples else 0.0

    async def _sample(self) -> None:
        now = time.monotonic()
        try:
            status = await self.broker.status()
        except ControlError as error:
            self.status, self._before = None, None
            self.is_silent = not isinstance(error, NotRunning)
            self.trouble = str(error) if self.is_silent else "no broker runs"
            self._add(dict.fromkeys((*RATES, *LEVELS)))
            return
        self.trouble, self.is_silent = "", False
        self.status = {"running": True} | status
        self._add(self._figures(now, status))
        self._before = now, status

    def _add(self, figures: dict[str, float | None]) -> None:
        self.samples.append(Sample(time.time(), figures))
        self.taken = time.monotonic()

    def _figures(self, now: float, status: Mapping[str, Any]) -> dict[str, float | None]:
        found: dict[str, float | None] = {name: status.get(key) for name, key in LEVELS.items()}
        if self._before is None:
            return found | dict.fromkeys(RATES)
        then, before = self._before
        return found | rates_between(before, status, now - then)

    @property
    def lacks(self) -> tuple[float, float] | None:
        """The part of the last hour before the first sample, in seconds since 1970."""
        begin = time.time() - HOUR_SECONDS
        first = self.samples[0].time if self.samples else time.time()
        return (begin, first) if first - begin > MINUTE_SECONDS else None

    def remember(self, minutes: Iterable[tuple[float, float, Mapping[str, int]]]) -> None:
        """Take what the journal says of the time before the first sample: when each minute begins
        and ends, and its counts. The last one ends where the samples begin, and counts with the one
        before if it is shorter than the time between two samples."""
        self.earlier = []
        spans: list[tuple[float, float, Mapping[str, int]]] = []
        for begin, end, found in minutes:
            if spans and end - begin < PERIOD_SECONDS:
                before, _, others = spans.pop()
                names = {*found, *others}
                sums = {each: found.get(each, 0) + others.get(each, 0) for each in names}
                spans.append((before, end, sums))
            else:
                spans.append((begin, end, found))
        for begin, end, found in spans:
            length = end - begin
            if length < PERIOD_SECONDS:
                continue
            figures: dict[str, float | None] = dict.fromkeys((*RATES, *LEVELS))
            for name, counter in RATES.items():
                figures[name] = found.get(counter.removeprefix("messages_"), 0) / length
            self.earlier.append(Sample(begin + length / 2, figures))

    def columns(self) -> dict[str, list[float | None]]:
        """Return the samples of the last hour as columns, for charts."""
        begin = time.time() - HOUR_SECONDS
        earlier = [each for each in self.earlier or () if each.time >= begin]
        samples = [*earlier, *self.samples]
        told: dict[str, list[float | None]] = {"time": [each.time for each in samples]}
        for name in (*RATES, *LEVELS):
            told[name] = [each.figures[name] for each in samples]
        return told
