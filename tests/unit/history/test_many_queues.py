"""Pages of the history decode few events where the broker has just made very many queues."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bench.history import Traffic, write_history
from daybook.console.jobs import history
from daybook.engine import commands as c
from daybook.engine.facts import events
from daybook.engine.state.digest import digest
from daybook.history.event_finder import EventFinder
from daybook.history.missing_catalogs import make_missing
from daybook.history.moments import last_lsn
from daybook.history.scan import Event, Picker
from daybook.history.search import Clause, Search
from daybook.journal.data_directory import CATALOGS, JOURNAL
from daybook.journal.disk import RealDisk
from daybook.journal.journal import Journal
from daybook.recovery import moments
from daybook.recovery.moments import course_at

EVENTS = 20_000
OF_A_TURN = 200
SEGMENT_BYTES = 1 << 17


class Making(Traffic):
    """Traffic, most of it to queues that are new."""

    def __init__(self, journal: Journal) -> None:
        super().__init__(journal)
        self._made = 0

    def turn(self) -> None:
        for _ in range(OF_A_TURN):
            self._made += 1
            self._do(c.Send(self._peers[0], f"made.{self._made}", b"", b"x"))
        super().turn()


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("many") / "data"
    write_history(path, EVENTS, Making, SEGMENT_BYTES)
    disk = RealDisk(path / JOURNAL)
    make_missing(path, disk, "", "*", processes=1, again=False, progress=lambda *_: None)
    # A broker has no catalogs yet of its newest blocks.
    for each in sorted((path / CATALOGS).glob("*.catalog"))[1:]:
        each.unlink()
    return str(path)


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The events that were decoded, each time that one is."""
    found: list[int] = []

    def event(self: Picker, at: int, *, bodies: bool = False) -> Event:
        found.append(at)
        return plain(self, at, bodies=bodies)

    plain = Picker.event
    monkeypatch.setattr(Picker, "event", event)
    return found


def test_a_page_about_two_moments_has_the_first_differences_and_counts_the_others(
    many: str,
) -> None:
    last = last_lsn(RealDisk(Path(many) / JOURNAL))
    told = history.compare(many, last // 4, last)
    made = len(told["queues"]["new"]) + told["more"]["queues"]
    assert made > 1000
    for rows in (told["queues"]["new"], told["addresses"]["new"], told["traffic"]):
        assert len(rows) == history.DIFFERENCES_MAX
    assert made <= len(told["traffic"]) + told["more"]["traffic"]
    assert told["more"]["settings"] == told["more"]["dropped"] == 0


@pytest.mark.parametrize("ask", [
    lambda many, last: history.story(many, last),
    lambda many, last: history.events(many, {"from_lsn": last - 50}, 20),
    lambda many, last: history.events(many, {"queue": "made.2000"}, 20, last=True),
    lambda many, last: history.events(many, {"address": "made.2000"}, 20, last=True),
], ids=["story", "events", "events of a queue", "events of an address"])  # fmt: skip
def test_few_events_are_decoded(
    many: str, decoded: list[int], ask: Callable[[str, int], Any]
) -> None:
    disk = RealDisk(Path(many) / JOURNAL)
    finder = EventFinder(disk, Path(many))
    newest = next(finder.spans_back(1 << 61))
    made = list(finder.find(Search(Clause({events.QUEUE_CREATED}), from_lsn=newest.first_lsn)))
    sent = list(finder.find(Search(Clause({events.ROUTED}), from_lsn=last_lsn(disk) - 2000)))
    assert newest.catalog is None
    assert len(made) > 1000
    finder.close()
    decoded.clear()
    ask(many, sent[-1].lsn)
    assert 0 < len(decoded) < 1000


def test_a_moment_after_very_many_names_needs_no_index(
    many: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its events are applied to the state itself, and it is the same."""
    directory = Path(many)
    disk = RealDisk(directory / JOURNAL)
    last = last_lsn(disk)
    found = []
    for few in (moments.FEW_EVENTS, 1):
        monkeypatch.setattr(moments, "FEW_EVENTS", few)
        if few == 1:
            monkeypatch.setattr(moments, "NAME_EVENTS", 0)
        with (
            course_at(directory, disk, last, note=pytest.fail) as course,
            course.state_at(last) as state,
        ):
            found.append((course.index.lsn > 0, digest(state)))
    assert [is_folded for is_folded, _ in found] == [False, True]
    assert found[0][1] == found[1][1]


def test_many_events_of_few_names_are_folded_by_an_index(
    many: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = Path(many)
    disk = RealDisk(directory / JOURNAL)
    monkeypatch.setattr(moments, "FEW_EVENTS", 500)
    monkeypatch.setattr(moments, "_NAMES", ())
    with course_at(directory, disk, 5000, note=pytest.fail) as course, course.state_at(5000):
        assert course.index.lsn > 3000
