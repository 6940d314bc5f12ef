"""The report of a drill, on a terminal and as a page."""

import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from daybook.tools.drills.campaigns import drills
from daybook.tools.drills.campaigns.campaign import Campaign
from daybook.tools.drills.campaigns.hardships import FULL_SECONDS, DiskFull, Room
from daybook.tools.drills.reports import output
from daybook.tools.drills.reports.page import page_of
from daybook.tools.drills.reports.plots import POINTS_MAX, line
from daybook.tools.drills.reports.report import Finding, Line, Mark, Report, Tried
from daybook.tools.drills.scratch.server import Serving


def made(*tried: Tried, findings: int = 0) -> Report:
    made = output.begun("kill", "about", {}, 1)
    made.tried = list(tried)
    made.findings = [Finding("P1", f"lost {each}", "", "") for each in range(findings)]
    output.finish(made, 1.0)
    return made


def printed(report_: Report, capsys: pytest.CaptureFixture[str]) -> str:
    with nullcontext() if report_.right else pytest.raises(SystemExit, match="1"):
        output.give(report_, html=None, as_json=False)
    return capsys.readouterr().out


@pytest.mark.parametrize(("count", "said"), [(0, "no faults"), (1, "1 finding"),
                                             (2, "2 findings")])  # fmt: skip
def test_numbers_are_said_in_words(
    capsys: pytest.CaptureFixture[str], count: int, said: str
) -> None:
    told = made(Tried("one", 3, 3), Tried("other", 1, 1), Tried("never"), findings=count)
    out = printed(told, capsys)
    assert f"{said} in 4 trials of 2 kinds" in out
    assert "not tried: never" in out
    page = page_of(told)
    assert "in 4 trials of 2 kinds" in page
    assert said.capitalize().replace("faults", "faults found") in page
    assert page.index("<li>never") > page.index("Not tried by this drill")


def test_a_long_text_breaks_no_column(capsys: pytest.CaptureFixture[str]) -> None:
    out = printed(made(Tried("x" * 90, 7, 7), Tried("short", 12, 12)), capsys)
    rows = [row for row in out.splitlines() if "x" * 90 in row or row.endswith("short")]
    assert [row.split()[:2] for row in rows] == [["7", "7"], ["12", "12"]]
    assert rows[0].index("x") == rows[1].index("s")


def test_what_was_zero_while_nothing_ran_is_drawn_so() -> None:
    """A long campaign draws some points, always those at the ends of a band."""
    points = [(float(each), 100.0) for each in range(3 * POINTS_MAX)]
    marks = []
    for at in range(100, 3 * POINTS_MAX, 333):
        points[at], points[at + 1] = (float(at), 0.0), (float(at + 1), 0.0)
        marks.append(Mark(at, at + 1, "killed"))
    drawn = line(Line("name", "s", "n", points, marks))
    path = drawn.partition('points="')[2].partition('"')[0].split()
    bottom = max(float(each.partition(",")[2]) for each in path)
    assert sum(float(each.partition(",")[2]) == bottom for each in path) == 2 * len(marks)


def test_a_disk_that_does_not_become_full_is_no_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Room, "_mount", lambda self, size: False)
    told = output.begun("disk-full", "about", {}, 1)
    hardship = DiskFull(Room(tmp_path))
    campaign = Campaign(
        Serving("", str(tmp_path / "data")), tmp_path / "broker.log", hardship, 1, lambda done: None
    )
    told.tried = [Tried("rounds", 1, 1)]
    drills._sum_up(campaign, hardship, told, drills.Asked("disk-full", None, 1, 1.0, 1))
    output.finish(told, 1.0)
    assert told.findings == []
    out = printed(told, capsys)
    assert "nothing was proved: could not fill the disk in time" in out
    assert "WRONG" not in out
    assert not told.right
    assert "could not fill the disk in time" in page_of(told)


class GrowingJournal:
    """Stands in for a Witness: the journal grows for so many looks, and time flies."""

    waits = 0

    def __init__(self, clock: list[float], looks: int, full_at: int) -> None:
        self.clock = clock
        self.looks = 0
        self.grows_until = looks
        self.full_at = full_at

    def look(self, when: str) -> dict[str, Any]:
        self.clock[0] += FULL_SECONDS * 0.9
        self.looks += 1
        is_full = self.full_at and self.looks >= self.full_at
        why = "no room" if is_full else ""
        return {"blocks_written": min(self.looks, self.grows_until), "disk_full": why}

    def use_space(self) -> None:
        """Nothing is written."""

    def answers(self) -> int:
        return 0


@pytest.mark.parametrize("full_at", [0, 20])
def test_a_disk_is_filled_while_the_journal_grows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, full_at: int
) -> None:
    monkeypatch.setattr(Room, "_mount", lambda self, size: False)
    clock = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    hardship = DiskFull(Room(tmp_path))
    journal: Any = GrowingJournal(clock, 20, full_at)
    hardship._fill(journal)
    assert hardship.times_full == bool(full_at)
    assert journal.looks >= 20
