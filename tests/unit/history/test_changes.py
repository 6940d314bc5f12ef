"""The administrator of an event: found for every event, in any order, and looked for once."""

from random import Random
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from daybook.engine.facts import details, events, reasons
from daybook.engine.facts.events import COLUMNS, KIND, REASON, RELATED
from daybook.history import changes
from daybook.history.changes import Askers

MOST = 50
"""A part of a request has so many events at most, here."""


class Finder:
    """A journal with requests of administrators: from which event to which."""

    def __init__(self, requests: list[tuple[int, int]]) -> None:
        self.requests = requests
        self.count = 0

    def find(self, search: Any) -> Any:
        self.count += 1
        for first, last in self.requests:
            if search.from_lsn <= last <= search.to_lsn:
                detail = msgspec.msgpack.encode(details.AdministeredDetail(f"ada{last}", "{}"))
                yield event_of(last, events.ADMINISTERED, related=first, detail=detail)


def event_of(lsn: int, kind: int, *, related: int = 0, detail: bytes = b"") -> Any:
    row = [0] * len(COLUMNS)
    row[KIND], row[RELATED] = kind, related
    row[REASON] = reasons.ADMINISTRATION if kind != events.ADMINISTERED else 0
    return SimpleNamespace(lsn=lsn, row=tuple(row), detail=detail)


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "PART_MOST", MOST)


def expected(requests: list[tuple[int, int]], lsn: int) -> str:
    for first, last in requests:
        if first <= lsn <= last <= lsn + MOST:
            return f"ada{last} asked for it, by event {last}"
    return ""


@pytest.mark.parametrize("seed", range(20))
def test_each_event_has_its_administrator(seed: int) -> None:
    draw = Random(seed)
    requests, at = [], 1
    while at < 1000:
        first = at + draw.choice([0, 1, 7, 3 * MOST])
        requests.append((first, first + draw.randrange(MOST)))
        at = requests[-1][1] + 1
    for lsns in (range(1, 1100), draw.sample(range(1, 1100), 1000)):
        askers: Any = Askers(Finder(requests))  # type: ignore[arg-type]
        for lsn in lsns:
            assert askers.words(event_of(lsn, events.MOVED)) == expected(requests, lsn)


def test_what_nobody_asked_for_is_looked_for_in_parts() -> None:
    finder = Finder([(2000, 2010)])
    askers = Askers(finder)  # type: ignore[arg-type]
    for lsn in range(1, 2000):
        assert askers.words(event_of(lsn, events.MOVED)) == ""
    assert finder.count <= 2 * (2000 // MOST + 1)


def test_a_journal_that_grows_is_asked_again() -> None:
    finder = Finder([])
    askers = Askers(finder, grows=True)  # type: ignore[arg-type]
    assert askers.words(event_of(1, events.MOVED)) == ""
    finder.requests.append((1, 3))
    assert askers.words(event_of(2, events.MOVED)) == "ada3 asked for it, by event 3"


def test_other_events_are_not_looked_up() -> None:
    finder = Finder([(1, 3)])
    acked = event_of(1, events.ADMINISTERED)
    assert Askers(finder).words(acked) == ""  # type: ignore[arg-type]
    assert not finder.count
