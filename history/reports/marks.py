"""The marks of a time line: starts and stops of the broker, crashes, settings, requests of
administrators, and the verifications, audits and drills of which a report is kept.

Must never know how a time line is shown.
"""

from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Final

import msgspec

from daybook.engine.facts.events import BROKER_STARTED, KIND, TIME
from daybook.engine.facts.kinds import MARKING, TURNS
from daybook.history.changes import Former
from daybook.history.descriptions import kind_name, sentence
from daybook.history.event_finder import EventFinder
from daybook.history.names import Names
from daybook.history.reports.report_files import listed
from daybook.history.scan import Event
from daybook.history.search import Clause, Search

CRASHED: Final = "the broker before did not stop: it was killed, or the machine failed"


class Mark(msgspec.Struct, frozen=True):
    """A moment; `time` in microseconds since 1970. It is an event (`lsn`), or a report of that
    name."""

    time: int
    kind: str
    text: str
    lsn: int = 0
    report: str = ""
    is_bad: bool = False


def newest_marks(finder: EventFinder, directory: Path, most: int) -> list[Mark]:
    """Return the marks of a data directory, the newest first: of events the newest `most`, and of
    reports those of the same time. Raises JournalError and OSError."""
    events = list(islice(finder.find_back(Search(Clause(MARKING))), most))
    crashed = _after_a_crash(finder, events)
    former = Former(finder, directory)
    marks = [
        _of_event(each, former.before(each), is_crash=each.lsn in crashed)
        for each in reversed(events)
    ]
    marks.reverse()
    first = marks[-1].time if len(marks) == most else 0
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


def _of_event(event: Event, before: dict[str, Any] | None, *, is_crash: bool) -> Mark:
    text = sentence(event, Names(), before=before)
    text = f"{text}; {CRASHED}" if is_crash else text
    return Mark(event.row[TIME], kind_name(event.row[KIND]), text, lsn=event.lsn, is_bad=is_crash)


def _of_reports(directory: Path) -> list[Mark]:
    return [
        Mark(
            each.report.begun, each.kind.capitalize(), each.report.result, report=each.name,
            is_bad=not each.report.ok,
        )
        for each in listed(directory)
        if each.report is not None
    ]  # fmt: skip
