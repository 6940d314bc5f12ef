"""Messages that came to all queues and left them, counted backwards, against the events."""

import math
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from daybook.engine.facts.events import KIND, QUEUE, ROUTED, TIME, routed_detail
from daybook.engine.facts.kinds import HANDING
from daybook.history import totals
from daybook.history.event_finder import EventFinder
from daybook.history.totals import COUNTED, MINUTE, TOLD, Minutes, minutes_before
from daybook.journal.data_directory import JOURNAL
from daybook.journal.disk import RealDisk
from tests.support.histories import some_history, write_history
from tests.support.world import Event

HOUR = 60 * MINUTE


@pytest.fixture(scope="module")
def events() -> list[Event]:
    return some_history(3, 900)


@pytest.fixture
def data(events: list[Event], tmp_path: Path) -> Path:
    return write_history(
        tmp_path / "data", events, cuts=range(0, len(events), 13), segment_bytes=1 << 14
    )


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Count by many parts."""
    monkeypatch.setattr(totals, "PART", 20)


def counted(data: Path, until: int, seconds: float = math.inf, last: int = 0) -> Minutes:
    with closing(EventFinder(RealDisk(data / JOURNAL), data)) as finder:
        return minutes_before(finder, until, HOUR, seconds, last)


def by_hand(events: list[Event]) -> Counter[str]:
    found: Counter[str] = Counter(dict.fromkeys(TOLD, 0))
    for event in events:
        kind = event.row[KIND]
        many = kind == ROUTED and not event.row[QUEUE]
        if kind in COUNTED:
            found[COUNTED[kind]] += len(routed_detail(event.detail).queues) if many else 1
    return found


def test_the_steps_have_all_messages(data: Path, events: list[Event]) -> None:
    handed = sum(event.row[KIND] in HANDING for event in events)
    for last in (len(events), len(events) // 2):
        until = events[last - 1].row[TIME] + 1
        steps = counted(data, until, last=last).steps(until, MINUTE)
        assert (len(steps), steps[-1].end) in ((60, until), (61, until))
        found: Counter[str] = Counter()
        for step in steps:
            found.update(step.counts)
        assert found == by_hand(events[:last])
    assert by_hand(events)["delivered"] == handed > 0


def test_longer_steps_have_the_same_messages(data: Path, events: list[Event]) -> None:
    until = events[-1].row[TIME] + 1
    [*_, last] = counted(data, until).steps(until, HOUR)
    minutes = [
        each for each in counted(data, until).steps(until, MINUTE) if each.begin >= last.begin
    ]
    assert last.counts["added"] == sum(each.counts["added"] for each in minutes) > 0


def test_minutes_that_were_not_counted_are_missing(data: Path, events: list[Event]) -> None:
    until = events[-1].row[TIME] + 1
    told = counted(data, until, seconds=-1)
    assert told.steps(until, MINUTE) == []
    assert "were not counted" in told.notes(until - HOUR)[0]
    assert not counted(data, until).notes(until - HOUR)


def test_segments_that_retention_removed_are_not_taken_for_quiet_times(
    data: Path, events: list[Event]
) -> None:
    sorted((data / JOURNAL).glob("*.seg"))[0].unlink()
    until = events[-1].row[TIME] + 1
    told = counted(data, until)
    assert told.since > until - HOUR
    assert "were not counted" in told.notes(until - HOUR)[0]
