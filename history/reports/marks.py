"""The marks of a time line: starts and stops of the broker, crashes, settings, requests of
administrators, and the verifications, audits and drills of which a report is kept.

Must never know how a time line is shown.
"""

from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from daybook.engine.facts.events import KIND, TIME
from daybook.engine.facts.kinds import MARKING
from daybook.history.changes import Former, is_after_a_crash
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
from daybook.history.selection import LAST_GROWTH
from daybook.journal.segments.segment import first_lsn_of

MARKS_MAX: Final = 200
"""How many marks are shown at a time, unless another number is asked for."""
EVENTS_OF_ONE: Final = 100
"""So many times as many events as marks are read, because equal requests are one mark."""
NEAR: Final = 1000
"""How many events are searched first for the mark before one."""
EQUAL_MAX: Final = 20_000
"""So many equal requests are passed over on the way to the next mark."""


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


class Marks(msgspec.Struct, frozen=True):
    """Some marks, the newest first. Those before them end before the event `older`, 0 if there are
    none; those that follow them end before the event `newer`, 0 if these are the newest of all."""

    marks: list[Mark]
    older: int = 0
    newer: int = 0


class _Run(NamedTuple):
    """Equal requests that follow each other, or another event by itself."""

    last: Event
    first: Event
    number: int


def marks_before(
    finder: EventFinder, directory: Path, most: int = MARKS_MAX, before: int = 0
) -> Marks:
    """Return the marks of a data directory before an event, the newest ones without it: of events
    the last `most`, and of reports those of the same time. Raises JournalError and OSError."""
    limit = most * EVENTS_OF_ONE
    search = Search(Clause(MARKING), to_lsn=before - 1 if before else None)
    found = list(islice(finder.find_back(search), limit + 1))
    runs = _runs(found[:limit])
    older = runs[min(most, len(runs)) - 1].first.lsn if len(runs) > most or found[limit:] else 0
    runs = runs[:most]
    former = Former(finder, directory)
    marks = [
        _of_events(each, former.before(each.last), is_crash=is_after_a_crash(finder, each.last))
        for each in reversed(runs)
    ]
    begin = marks[0].begun if older else 0
    end = _time_from(finder, before) if before else None
    marks += [
        each
        for each in _of_reports(directory)
        if each.time >= begin and (end is None or each.time < end)
    ]
    marks.sort(key=lambda each: (each.time, each.lsn), reverse=True)
    return Marks(marks, older, _end_of_newer(finder, before, most) if before else 0)


def _time_from(finder: EventFinder, lsn: int) -> int | None:
    """Return the time of an event, or of the next one that there is; None behind the last one."""
    found = next(finder.find(Search(Clause(), from_lsn=lsn)), None)
    return found.row[TIME] if found is not None else None


def _end_of_newer(finder: EventFinder, begin: int, most: int) -> int:
    """Return the event before which the next `most` marks end, which begin with an event; 0 if
    they are the newest."""
    limit, runs = most * EVENTS_OF_ONE, 0
    last: Event | None = None
    for number, event in enumerate(finder.find(Search(Clause(MARKING), from_lsn=begin))):
        if last is None or not is_equal_request(last, event):
            runs += 1
        if runs > most or number == limit:
            return event.lsn
        last = event
    return 0


def mark_before(finder: EventFinder, lsn: int) -> int:
    """Return the event of the last mark before an event, 0 if there is none. Raises
    JournalError."""
    newer: Event | None = None
    for event in islice(_marking_back(finder, lsn), EQUAL_MAX):
        is_new = newer is None or not is_equal_request(newer, event)
        if is_new and event.lsn < lsn:
            return event.lsn
        newer = event
    return 0


def _marking_back(finder: EventFinder, lsn: int) -> Iterator[Event]:
    """Yield the events that are marks, from one back. The next mark is often near, so spans of
    events are searched that begin small and grow."""
    first = first_lsn_of(finder.disk)
    end, span = lsn, NEAR
    while end >= first:
        begin = max(first, end - span + 1)
        search = Search(Clause(MARKING), from_lsn=begin, to_lsn=end)
        yield from reversed(list(finder.find(search)))
        end, span = begin - 1, span * LAST_GROWTH


def mark_after(finder: EventFinder, lsn: int) -> int:
    """Return the event of the next mark after an event, 0 if there is none: of equal requests the
    last. Raises JournalError."""
    found: Event | None = None
    for event in islice(finder.find(Search(Clause(MARKING), from_lsn=lsn + 1)), EQUAL_MAX):
        if found is not None and not is_equal_request(found, event):
            break
        found = event
    return found.lsn if found is not None else 0


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
    text = sentence(event, Names(), before=before, is_crash=is_crash)
    if run.number > 1:
        text = equal_requests(first, event, run.number)
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
