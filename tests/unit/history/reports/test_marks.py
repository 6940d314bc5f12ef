"""The marks of a time line: events, crashes, which journal nothing, and kept reports."""

from contextlib import closing
from itertools import pairwise
from pathlib import Path

import pytest

from daybook.engine import commands as c
from daybook.history.changes import changes
from daybook.history.descriptions import CRASHED
from daybook.history.event_finder import EventFinder
from daybook.history.reports.marks import (
    Mark,
    Marks,
    mark_after,
    mark_before,
    marks_before,
)
from daybook.history.reports.report import DRILL, Report
from daybook.history.reports.report_files import keep
from daybook.journal.data_directory import JOURNAL, LOCK
from daybook.journal.disk import RealDisk
from tests.support.histories import write_history
from tests.support.world import SECOND, World


def shown(data: Path, most: int = 100, before: int = 0) -> Marks:
    with closing(EventFinder(RealDisk(data / JOURNAL), data)) as finder:
        return marks_before(finder, data, most, before)


def marks_of(data: Path, most: int = 100) -> list[Mark]:
    return shown(data, most).marks


def pages_of(data: Path, most: int) -> list[Marks]:
    """Return all marks, so many at a time, the newest first."""
    pages = [shown(data, most)]
    while pages[-1].older:
        pages.append(shown(data, most, pages[-1].older))
    return pages


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A broker that crashed, started, stopped, started, crashed, and started again."""
    # It starts one.
    world = World()
    for command in (
        c.Start(version="1"), c.Stop(), c.Start(version="2"),
        c.SetSettings("orders", {"redelivery-delay": 5}), c.Start(version="3", skipped=100),
        c.SetSettings("orders", {"redelivery-delay": 6}),
    ):  # fmt: skip
        world.ok(command)
        world.now += SECOND
    return write_history(tmp_path / "data", world.journal)


def test_a_start_says_whether_a_crash_was_before(data: Path) -> None:
    marks = marks_of(data)
    starts = [each for each in marks if each.kind == "BrokerStarted"]
    assert [each.is_bad for each in starts] == [True, False, True, False]
    assert CRASHED in starts[0].text
    assert CRASHED not in starts[1].text
    assert [each.lsn for each in marks] == sorted([each.lsn for each in marks], reverse=True)
    assert sum(each.is_bad for each in marks) == 2


def test_a_change_of_settings_says_what_changed(data: Path) -> None:
    changes = [each.text for each in marks_of(data) if each.kind == "SettingsChanged"]
    assert "orders at run time: redelivery-delay 5 -> 6" in changes[0]
    assert "orders at run time: redelivery-delay (not set) -> 5" in changes[1]


def test_the_crash_before_the_oldest_mark_is_found(data: Path) -> None:
    for most in range(1, 6):
        [*_, last] = marks = marks_of(data, most)
        assert len(marks) == most
        assert last == marks_of(data)[most - 1]


def test_reports_stand_where_their_time_is(data: Path) -> None:
    (data / LOCK).touch()
    newest = marks_of(data)[0]
    for begun, ok in ((1, True), (newest.time + 1, False)):
        report = Report(DRILL, begun, begun + 5, "ada", "daybook drill", ok, f"drill of {begun}")
        assert keep(data, report).name
    first, *rest = marks_of(data)
    assert (first.kind, first.lsn, first.is_bad) == ("Drill", 0, True)
    assert first.report.endswith("-drill")
    assert rest[-1].text == "drill of 1"
    assert all(each.text != "drill of 1" for each in marks_of(data, 2)), "older than the marks"


def test_all_marks_are_found_some_at_a_time(data: Path) -> None:
    (data / LOCK).touch()
    every = marks_of(data)
    times = [each.time for each in every]
    for begun in (1, times[-1] + 1, times[2], times[0] + 1):
        report = Report(DRILL, begun, begun + 5, "ada", "daybook drill", True, f"drill of {begun}")
        assert keep(data, report).name
    whole = marks_of(data)
    assert len(whole) == len(every) + 4
    for most in range(1, len(every) + 1):
        pages = pages_of(data, most)
        assert [each for page in pages for each in page.marks] == whole
        assert len(pages) == -(-len(every) // most)
        assert pages[0].newer == 0
        for newer, page in pairwise(pages):
            again = shown(data, most, page.newer)
            assert again.marks == newer.marks, "the way back"


def test_marks_before_the_first_event_are_none(data: Path) -> None:
    assert shown(data, before=1) == Marks([], 0, 0)


def test_the_marks_beside_an_event_are_found(data: Path) -> None:
    every = [each.lsn for each in reversed(marks_of(data))]
    with closing(EventFinder(RealDisk(data / JOURNAL), data)) as finder:
        for lsn in range(1, every[-1] + 2):
            before, after = mark_before(finder, lsn), mark_after(finder, lsn)
            assert before == max((each for each in every if each < lsn), default=0)
            assert after == min((each for each in every if each > lsn), default=0)


def test_equal_requests_that_follow_each_other_are_one_mark(tmp_path: Path) -> None:
    world = World()
    begin = world.broker.lsn
    for who, request, times in (
        ("ada", "a", 78),
        ("ada", "b", 1),
        ("sam", "a", 2),
        ("ada", "a", 1),
    ):
        for _ in range(times):
            asked = c.RecordRequest(who, f'{{"do": "{request}"}}', world.broker.lsn + 1)
            world.ok(asked)
    data = write_history(tmp_path / "data", world.journal)
    last, of_sam, other, many, _ = marks_of(data)
    assert last.text.endswith("ada asked: a")
    assert of_sam.text.startswith("sam asked: a; 2 equal requests")
    assert other.text.endswith("ada asked: b")
    assert f"78 equal requests, from event {begin + 1} (" in many.text
    assert f"to event {begin + 78} (" in many.text
    assert many.lsn == begin + 78
    assert many.begun
    assert [each.lsn for each in marks_of(data, 4)] == [each.lsn for each in marks_of(data)[:4]]
    assert [each for page in pages_of(data, 1) for each in page.marks] == marks_of(data)
    with closing(EventFinder(RealDisk(data / JOURNAL), data)) as finder:
        assert mark_before(finder, begin + 79) == begin + 78
        assert mark_before(finder, begin + 78) == marks_of(data)[-1].lsn
        assert mark_after(finder, begin) == begin + 78
        told = changes(data, finder, begin, begin + 82)
    rows = [(each["by"], each["count"], each["lsn"], each["last_lsn"]) for each in told["changes"]]
    assert rows == [
        ("ada", 78, begin + 1, begin + 78), ("ada", 1, begin + 79, begin + 79),
        ("sam", 2, begin + 80, begin + 81), ("ada", 1, begin + 82, begin + 82),
    ]  # fmt: skip
    assert "78 equal requests" in told["changes"][0]["text"]
    assert not told["more_changes"]
