"""An honest client of a broker, alone and beside browsers that keep the console busy.

A process of the console that ends is seen about ten times a second before that, so that what it
took is counted, too.
"""

import contextlib
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Final

import msgspec

from bench.brokers.running import Running
from bench.console.pages import COUNTS_BY_KIND
from bench.console.served import Bench
from bench.console.visitor import refusal
from bench.load.honest import Honest, percentile

BESIDE: Final = 2
"""So many browsers ask without a pause beside the honest client."""
LOOK_S: Final = 0.1
QUERIES: Final = {
    "counts by kind": COUNTS_BY_KIND,
    "events that differ": "SELECT count(DISTINCT (lsn, time)) FROM events",
    "each event beside each other": (
        "SELECT sum(a.lsn * b.lsn % 7 + c.lsn) FROM events a, events b, events c"
    ),
}
"""Queries over everything: one that is honest, one that needs much memory, and one without end."""


class Trips(msgspec.Struct, frozen=True, kw_only=True):
    """Round trips of an honest client, in milliseconds."""

    p50_ms: float
    p99_ms: float
    longest_ms: float
    count: int


class Beside(msgspec.Struct, frozen=True, kw_only=True):
    """An honest client alone, and beside browsers that ask for pages."""

    world: str
    pages: str
    alone: Trips
    beside: Trips


class Queried(msgspec.Struct, frozen=True, kw_only=True):
    """A query over a long history of a broker that runs: how it ended, after how long, and what it
    took. `most_bytes` is the most memory that all processes of the console had at a time, and
    `largest_bytes` the most of any of them."""

    query: str
    events: int
    ended: str
    seconds: float
    alone: Trips
    beside: Trips
    most_bytes: int
    largest_bytes: int
    console_cpu_s: float
    broker_cpu_s: float


class Watch:
    """What all processes of a console take while this is open."""

    def __init__(self, running: Running) -> None:
        self._running: Final = running
        self._over: Final = threading.Event()
        self._thread: Final = threading.Thread(target=self._look_on, daemon=True)
        self._begun_s: Final[dict[Path, float]] = {}
        self._cpu_s: Final[dict[Path, float]] = {}
        self.most_bytes = 0
        self.largest_bytes = 0

    def __enter__(self) -> "Watch":
        self._look()
        self._begun_s.update(self._cpu_s)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        self._look()

    @property
    def cpu_s(self) -> float:
        """The processor seconds that they used."""
        return sum(used - self._begun_s.get(each, 0.0) for each, used in self._cpu_s.items())

    def _look_on(self) -> None:
        while not self._over.wait(LOOK_S):
            self._look()

    def _look(self) -> None:
        sizes = [0]
        for folder, used in self._running.cpu_s_by_process().items():
            # Those that have ended count, too.
            self._cpu_s[folder] = used
            with contextlib.suppress(OSError, IndexError):
                sizes.append(_resident_bytes(folder))
        self.most_bytes = max(self.most_bytes, sum(sizes))
        self.largest_bytes = max(self.largest_bytes, *sizes)


def _resident_bytes(folder: Path) -> int:
    pages = int((folder / "statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def trips_of(times: list[float]) -> Trips:
    """Return what is said of round trips."""
    return Trips(
        p50_ms=round(median(times), 2), p99_ms=round(percentile(times, 0.99), 2),
        longest_ms=round(max(times), 2), count=len(times),
    )  # fmt: skip


def measure_beside(world: str, bench: Bench, port: int, trips: int, name: str, path: str) -> Beside:
    """Measure an honest client alone, and beside browsers. Raises LoadError."""
    over = threading.Event()
    with Honest(port) as honest:
        honest.measure(trips)
        alone = honest.measure(trips)
        threads = [
            threading.Thread(target=bench.ask_on, args=(path, over), daemon=True)
            for _ in range(BESIDE)
        ]
        for each in threads:
            each.start()
        try:
            beside = honest.measure(trips)
        finally:
            over.set()
            for each in threads:
                each.join()
    return Beside(world=world, pages=name, alone=trips_of(alone), beside=trips_of(beside))


def measure_queries(bench: Bench, broker: Running, trips: int) -> Iterator[Queried]:
    """Measure an honest client alone, and beside each of the queries. Raises LoadError.

    One browser asks, because the console answers one query at a time.
    """
    events = bench.last()
    with Honest(broker.endpoint.port) as honest:
        honest.measure(trips)
        for name, sql in QUERIES.items():
            alone = honest.measure(trips)
            broker_s, begun = broker.cpu_s(), time.monotonic()
            with Watch(bench.running) as watch:
                honest.begin()
                path = bench.path("/sql", {"q": sql})
                refused = refusal(path, bench.visitor.ask(path))
                seconds = time.monotonic() - begun
                beside = honest.end()
            yield Queried(
                query=name, events=events, ended=refused or "answered",
                seconds=round(seconds, 2), alone=trips_of(alone), beside=trips_of(beside),
                most_bytes=watch.most_bytes, largest_bytes=watch.largest_bytes,
                console_cpu_s=round(watch.cpu_s, 2),
                broker_cpu_s=round(broker.cpu_s() - broker_s, 2),
            )  # fmt: skip
