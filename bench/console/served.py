"""A console that is measured: it shows one data directory, and a browser is logged in there.

Must never know which pages there are.
"""

import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from typing import Final, NamedTuple

import msgspec

from bench.brokers.running import Running, TargetError
from bench.console.pages import Ask, path_of
from bench.console.visitor import Visitor, refusal
from bench.load.child import environment
from bench.load.frames import LoadError
from daybook.history.moments import last_lsn
from daybook.journal.data_directory import JOURNAL
from daybook.journal.disk import RealDisk

KEPT_S: Final = 2.1
"""After so long the console asks the broker again."""
READY_S: Final = 60.0


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """The cost of a page: seconds to its first byte and to its end, the first time and the median
    later; processor seconds of the console and of the broker. `refusal` are the words of the
    console if it gave the page up at last."""

    world: str
    page: str
    gate_s: float
    size: int
    cold_s: float
    first_s: float
    whole_s: float
    console_cpu_s: float
    broker_cpu_s: float
    refusal: str = ""

    @property
    def holds(self) -> bool:
        """Whether the page was there in time."""
        return not self.refusal and self.first_s <= self.gate_s


class Taken(NamedTuple):
    """The cost of a page that was asked for once, as `Figure` has it."""

    first_s: float
    whole_s: float
    console_cpu_s: float
    broker_cpu_s: float
    size: int
    refusal: str


class Bench:
    """A console that runs, and a browser that is logged in."""

    def __init__(self, data: Path, folder: Path, broker: Running | None) -> None:
        """Start a console for a data directory; raises TargetError."""
        self._broker: Final = broker
        self._data: Final = data
        command = [sys.executable, "-m", "daybook", "console", "--data", str(data)]
        command += ["--listen", "http://127.0.0.1:0", "--link"]
        self.running: Final = Running("console", [command], folder, environment())
        printed = folder / "output"
        self._url = _said(printed, "ready ")
        link = _said(printed, "log in as the operator: ")
        self.visitor: Final = Visitor(self._url)
        self.visitor.get(link.removeprefix(self._url))

    def path(self, page: str, query: Mapping[str, str | int] = {}) -> str:
        """Return the path of a page of the broker."""
        return path_of(f"/b/{self._data.name}{page}", query)

    def measure(self, world: str, asks: list[Ask], rounds: int) -> list[Figure]:
        """Ask for each page so many times. Raises LoadError."""
        found: dict[str, list[Taken]] = {}
        for _ in range(rounds):
            begun = time.monotonic()
            for each in asks:
                if each.is_rested:
                    time.sleep(KEPT_S)
                found.setdefault(each.name, []).append(self._measure_one(each))
            time.sleep(max(0.0, KEPT_S - (time.monotonic() - begun)))
        return [_figure(world, each, found[each.name]) for each in asks]

    def _measure_one(self, each: Ask) -> Taken:
        before = self.running.cpu_s(), self._broker.cpu_s() if self._broker else 0.0
        shown = self.visitor.ask(each.path)
        after = self.running.cpu_s(), self._broker.cpu_s() if self._broker else 0.0
        # A process that was killed takes its count with it.
        used, of_broker = (
            max(0.0, late - early) for late, early in zip(after, before, strict=True)
        )
        return Taken(
            shown.first_s, shown.whole_s, used, of_broker, shown.size, refusal(each.path, shown)
        )

    def find(self, path: str, mark: str) -> str:
        """Return the number behind a mark in a page. Raises LoadError."""
        text = self.visitor.get(path).text
        _, found, rest = text.partition(mark)
        digits = rest[: len(rest) - len(rest.lstrip("0123456789"))]
        if not found or not digits:
            raise LoadError(f"console: {path} does not say {mark}")
        return digits

    def last(self) -> int:
        """Return the last event of the journal."""
        return last_lsn(RealDisk(self._data / JOURNAL))

    def ask_on(self, path: str, until: threading.Event) -> None:
        """Ask for a page again and again, each time for another one."""
        number = 0
        while not until.is_set():
            number += 1
            self.visitor.get(f"{path}&offset={number % 1000}")

    def close(self) -> None:
        """End the console."""
        self.running.stop()


def _said(printed: Path, beginning: str) -> str:
    """Wait for a line of the console; return what it says."""
    deadline = time.monotonic() + READY_S
    while time.monotonic() < deadline:
        for line in printed.read_text("utf-8").splitlines():
            if line.startswith(beginning):
                return line.removeprefix(beginning)
        time.sleep(0.05)
    raise TargetError(f"the console printed:\n{printed.read_text('utf-8')[-2000:]}")


def _figure(world: str, asked: Ask, taken: list[Taken]) -> Figure:
    later = taken[1:] or taken
    *figures, refusals = zip(*later, strict=True)
    first, whole, console, broker, size = (median(column) for column in figures)
    return Figure(
        world=world, page=asked.name, gate_s=asked.gate_s, size=int(size),
        cold_s=round(taken[0].first_s, 3), first_s=round(first, 3), whole_s=round(whole, 3),
        console_cpu_s=round(console, 3), broker_cpu_s=round(broker, 3), refusal=max(refusals),
    )  # fmt: skip
