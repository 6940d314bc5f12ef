"""The marks of a time line: starts and stops of the broker, crashes, settings, requests of
administrators, and the verifications, audits and drills of which a report is kept.

Must never know how a time line is shown.
"""

from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from daybook.engine.facts.events import BROKER_STARTED, KIND, TIME
from daybook.engine.facts.kinds import MARKING, TURNS
from daybook.history.changes import Former
from daybook.history.descriptions import (
    equal_requests,
    is_equal_request,
    kind_name,
    sentence,
)
from daybook.history.event_finder import EventFinder
from daybook.history.names import Names
from daybook.history.reports.report_files import listed
from daybook.history.scan import Event
from daybook.history.search import Clause, Search

EVENTS_OF_ONE: Final = 100
"""So many times as many events as marks are read, because equal requests are one mark."""
CRASHED: Final = "the broker before did not stop: it was killed, or the machine failed"


class Mark(msgspec.Struct, frozen=True):
    """A moment; `time` in microseconds since 1970. It is an event (`lsn`), or a report of that
    name. Of equal requests that follow each other it is the last, and `begun` the time of the
    first."""

    time: int
    kind: str
    text: str
    lsn: int = 0
    report: str = ""
    is_bad: bool = False
    begun: int = 0


class _Run(NamedTuple):
    """Equal requests that follow each other, or another event by itself."""

    last: Event
    first: Event
    number: int


def newest_marks(finder: EventFinder, directory: Path, most: int) -> list[Mark]:
    """Return the marks of a data directory, the newest first: of events the newest `most`, and of
    reports those of the same time. Raises JournalError and OSError."""
    found = list(islice(finder.find_back(Search(Clause(MARKING))), most * EVENTS_OF_ONE))
    runs = _runs(found)
    is_cut = len(runs) > most or len(found) == most * EVENTS_OF_ONE
    runs = runs[:most]
    crashed = _after_a_crash(finder, [each.last for each in runs])
    former = Former(finder, directory)
    marks = [
        _of_events(each, former.before(each.last), is_crash=each.last.lsn in crashed)
        for each in reversed(runs)
    ]
    marks.reverse()
    first = marks[-1].time if is_cut else 0
    marks += [each for each in _of_reports(directory) if each.time >= first]
    return sorted(marks, key=lambda each: each.time, reverse=True)


def _after_a_crash(finder: EventFinder, marks: Sequence[Event]) -> set[int]:
    """Return the starts, of marks from the newest on, before which no stop was journaled."""
    turns = [each for each in marks if each.row[KIND] in TURNS]
    if not turns:
        return set()
    earlier = Search(Clause(TURNS), to_lsn=turns[-1].lsn - 1)
    before = [*turns[1:], *islice(finder.find_back(earlier), 1)]
    return {
        start.lsn
        for start, turn in zip(turns, before, strict=False)
        if start.row[KIND] == turn.row[KIND] == BROKER_STARTED
    }


def _runs(found: Iterable[Event]) -> list[_Run]:
    """Return the marks of events, from the newest on."""
    runs: list[_Run] = []
    for event in found:
        if runs and is_equal_request(runs[-1].first, event):
            runs[-1] = _Run(runs[-1].last, event, runs[-1].number + 1)
        else:
            runs.append(_Run(event, event, 1))
    return runs


def _of_events(run: _Run, before: dict[str, Any] | None, *, is_crash: bool) -> Mark:
    event, first = run.last, run.first
    text = sentence(event, Names(), before=before)
    if run.number > 1:
        text = equal_requests(first, event, run.number)
    text = f"{text}; {CRASHED}" if is_crash else text
    return Mark(
        event.row[TIME], kind_name(event.row[KIND]), text, lsn=event.lsn, is_bad=is_crash,
        begun=first.row[TIME],
    )  # fmt: skip


def _of_reports(directory: Path) -> list[Mark]:
    return [
        Mark(
            each.report.begun, each.kind.capitalize(), each.report.result, report=each.name,
            is_bad=not each.report.ok,
        )
        for each in listed(directory)
        if each.report is not None
    ]  # fmt: skip
