"""The structs of a drill's report, which are also its JSON. Fields are only ever added."""

from typing import Any

import msgspec


class Finding(msgspec.Struct, frozen=True):
    """Something wrong: the promise that is broken (P1 to P8, or `bug`), how, where, and the command
    that shows it again."""

    promise: str
    what: str
    where: str
    again: str


class Tried(msgspec.Struct):
    """Something that was tried: how often, and how often it came out right."""

    what: str
    count: int = 0
    right: int = 0


class Bars(msgspec.Struct, frozen=True):
    """Counts in bins of equal width between two values."""

    low: float
    high: float
    counts: list[int]


class Spread(msgspec.Struct, frozen=True):
    """A distribution."""

    name: str
    unit: str
    count: int
    least: float = 0.0
    mean: float = 0.0
    p50: float = 0.0
    p90: float = 0.0
    p99: float = 0.0
    most: float = 0.0
    bars: Bars | None = None


class Mark(msgspec.Struct, frozen=True):
    """A moment on a line, like a kill, and its end."""

    at: float
    until: float
    what: str


class Line(msgspec.Struct, frozen=True):
    """A value over another one, and the events meanwhile."""

    name: str
    across: str
    up: str
    points: list[tuple[float, float]]
    marks: list[Mark] = []
    dots: bool = False


class Report(msgspec.Struct):
    """All of a report; see `output.py`.

    `unproved` says why a drill without findings proved nothing either.
    """

    drill: str
    about: str
    asked: dict[str, Any]
    begun: str
    machine: dict[str, str]
    versions: dict[str, str]
    seed: int
    right: bool = False
    seconds: float = 0.0
    configuration: dict[str, Any] = {}
    tried: list[Tried] = []
    findings: list[Finding] = []
    figures: dict[str, str] = {}
    spreads: list[Spread] = []
    lines: list[Line] = []
    notes: list[str] = []
    could_not: list[str] = []
    unproved: str = ""

    @property
    def extent(self) -> str:
        """How much was tried, in words."""
        trials = sum(each.count for each in self.tried)
        kinds = sum(each.count > 0 for each in self.tried)
        return f"{number_of(trials, 'trial')} of {number_of(kinds, 'kind')}"

    @property
    def result(self) -> str:
        """The result in words."""
        if self.findings:
            return number_of(len(self.findings), "finding")
        return "nothing was proved" if self.unproved else "no faults"


def number_of(count: int, what: str) -> str:
    """Return a number of things, in words."""
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"
