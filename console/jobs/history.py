"""What pages ask of the history of a data directory: each job is a function of `history/` or
`recovery/`, as the command line calls it, with an answer that is JSON.

Everything is read-only, works while a broker runs, and pins what it reads. Must never know pages.
All jobs raise DaybookError for what people can understand.
"""

from collections.abc import Callable, Collection, Generator, Iterator
from contextlib import ExitStack, contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
from msgspec.structs import replace

from daybook.engine.facts.events import BROKER_STARTED, DELIVERED, KIND, TIME
from daybook.engine.refusals import Refusal
from daybook.engine.state.state import State
from daybook.errors import DaybookError
from daybook.history import trail, trail_drawing
from daybook.history.changes import Askers, Former, changes, dropped, is_after_a_crash
from daybook.history.contents import WithHeader
from daybook.history.descriptions import as_object, sentence, skipped_words
from daybook.history.differences import KEYS, difference
from daybook.history.event_finder import EventFinder
from daybook.history.moments import NoSuchMoment, event_of, newest_lsn
from daybook.history.reports.integrity import as_json, integrity_of
from daybook.history.reports.marks import mark_after, mark_before, marks_before
from daybook.history.reports.report_files import read
from daybook.history.scan import Event
from daybook.history.search import Clause, Search
from daybook.history.selection import (
    Question,
    begin_of_last,
    begun,
    event_after,
    event_before,
    parse_kinds,
)
from daybook.history.totals import MINUTE, QueueAt, growth_before, minutes_before
from daybook.journal.pins import Pin
from daybook.journal.segments.segment import first_lsn_of
from daybook.recovery.collector import free_all, keep_what_was_built
from daybook.recovery.moments import Reached, course_at
from daybook.recovery.readonly import journal_disk
from daybook.recovery.signing.export_proof import redacted_in
from daybook.server.administration.admin_requests import REQUESTS
from daybook.server.administration.overview import overview
from daybook.server.administration.request_rows import Reading, ViewSource
from daybook.server.process.slices import at_once

EVENTS_MAX: Final = 500
"""How many events a page shows at most."""
STORIES_MAX: Final = 20
"""How many families of messages a page shows; the command line has an option."""
DIFFERENCES_MAX: Final = 200
"""How many differences of a kind a page about two moments shows; the command line shows all."""
STEPS_MAX: Final = 2_000
"""How many steps of a story a page shows; the command line shows all."""


class WrongQuestion(DaybookError):
    """What was asked for cannot be; the text says what would be right."""


@contextmanager
def _reading(directory: str) -> Iterator[tuple[Path, EventFinder]]:
    """Open the journal of a data directory for one job."""
    path = Path(directory)
    disk = journal_disk(path)
    with Pin(path):
        finder = EventFinder(disk, path)
        try:
            yield path, finder
        finally:
            finder.close()


def story(directory: str, message: int) -> dict[str, Any]:
    """Return what happened to a message, and to those that were made of it."""
    with _reading(directory) as (path, finder):
        told = trail.follow(finder, message, path)
        queued = {lane.message for lane, _ in told.steps[-1].places} if told.steps else set()
        return {
            "messages": told.messages,
            "steps": [_step(each) for each in told.steps[:STEPS_MAX]],
            "more": max(0, len(told.steps) - STEPS_MAX),
            "now": [
                {"message": each, "where": where, "is_queued": each in queued}
                for each, where in told.now
            ],
            "missing": told.missing,
            "ended": told.ended,
            "notes": finder.notes,
        }


def stories(directory: str, header: str, begin: int = 1) -> dict[str, Any]:
    """Return families of messages that have a header, given as NAME=VALUE, the first ones from a
    message on, and the message with which the next ones begin, None if there are no more."""
    name, equals, value = header.partition("=")
    if not name or not equals:
        raise WrongQuestion("a header is a name and its value, like order=4711")
    with _reading(directory) as (path, finder):
        each_one = trail.follow_each(finder, WithHeader(name, value), path, begin)
        found = ((message, told) for message, told in each_one if told is not None)
        families = list(islice(found, STORIES_MAX + 1))
        return {
            "stories": [_family(told) for _, told in families[:STORIES_MAX]],
            "more_from": families[STORIES_MAX][0] if len(families) > STORIES_MAX else None,
            "notes": finder.notes,
        }


def _family(told: trail.Trail) -> dict[str, Any]:
    """Return a family of messages in one line."""
    queues = (lane.queue for step in told.steps for lane, _ in step.places)
    kinds = [step.event.row[KIND] for step in told.steps]
    return {
        "message": told.messages[0],
        "others": told.messages[1:],
        "time": told.steps[0].event.row[TIME] if told.steps else None,
        "queues": list(dict.fromkeys(queues)),
        "deliveries": kinds.count(DELIVERED),
        "now": [f"message {each} {where}" for each, where in told.now],
    }


def drawing(directory: str, message: int) -> str:
    """Return the story of a message as a picture, an SVG."""
    with _reading(directory) as (path, finder):
        told = trail.follow(finder, message, path)
        return trail_drawing.svg(told._replace(steps=told.steps[:STEPS_MAX]))


def _step(step: trail.Step) -> dict[str, Any]:
    """Return a step with its place in each queue, for a time line."""
    return trail.step_object(step) | {
        "places": [[lane.message, lane.queue, where] for lane, where in step.places]
    }


def span(directory: str, before: int = 0) -> dict[str, Any]:
    """Return the first and the last event of a journal with their times, and the marks before an
    event, the newest ones without it."""
    with _reading(directory) as (path, finder):
        first, last = first_lsn_of(finder.disk), newest_lsn(finder)
        return {
            "first": _moment(path, finder, first) if last else None,
            "last": _moment(path, finder, last) if last else None,
            **msgspec.to_builtins(marks_before(finder, path, before=before)),
        }


def _moment(path: Path, finder: EventFinder, lsn: int) -> dict[str, int]:
    found, time = event_of(path, finder.disk, lsn, None, finder)
    return {"lsn": found, "time": time}


def moment_of(directory: str, lsn: int = 0, time: int | None = None) -> dict[str, Any]:
    """Return the event of a moment, an LSN or a time in microseconds since 1970; the last event if
    it is in the future."""
    with _reading(directory) as (path, finder):
        try:
            found, at = event_of(path, finder.disk, lsn, time, finder)
        except NoSuchMoment:
            last = newest_lsn(finder)
            if lsn <= last:
                raise
            found, at = event_of(path, finder.disk, last, None, finder)
        return {"lsn": found, "time": at}


def beside(directory: str, lsn: int) -> dict[str, int | None]:
    """Return the events before and after one, without those that are `Skipped`, and the marks
    before and after it."""
    with _reading(directory) as (_, finder):
        return {
            "before": event_before(finder, lsn),
            "after": event_after(finder, lsn),
            "mark_before": mark_before(finder, lsn),
            "mark_after": mark_after(finder, lsn),
        }


def crash(directory: str) -> dict[str, dict[str, int]]:
    """Return the last event before the newest start of the broker, and that start, if the broker
    before it crashed; {} if it did not, or if nothing says how it ended."""
    with _reading(directory) as (path, finder):
        start = next(finder.find_back(Search(Clause({BROKER_STARTED}))), None)
        if start is None or not is_after_a_crash(finder, start):
            return {}
        last = event_before(finder, start.lsn)
        if last is None:
            return {}
        return {"last": _moment(path, finder, last), "start": _moment(path, finder, start.lsn)}


def events(
    directory: str, question: dict[str, Any], limit: int, last: bool = False
) -> dict[str, Any]:
    """Return the first events that fit a question, and where the next ones begin; or the last ones,
    the newest first, and where those before them end. `Skipped` events that follow each other are
    one, `until` the last of them."""
    with _reading(directory) as (path, finder):
        try:
            kinds = parse_kinds(tuple(question.pop("kinds", ())))
        except ValueError as error:
            raise WrongQuestion(str(error)) from error
        notes: list[str] = []
        asked = Question(kinds=kinds, **question)
        if last:
            begin = begin_of_last(finder, path, asked, limit + 1, joins=True)
            asked = replace(asked, from_lsn=begin)
        inspection = begun(path, finder, asked, reads_names=False, note=notes.append)
        redacted = redacted_in(path)
        askers, former = Askers(finder), Former(finder, path)

        def text(event: Event) -> str:
            before, is_crash = former.before(event), is_after_a_crash(finder, event)
            return sentence(event, inspection.names, redacted, before, is_crash=is_crash)

        rows = [
            as_object(event, inspection.names, redacted)
            | {
                "text": text(event) if event.lsn == until else skipped_words(event.lsn, until),
                "asked": askers.words(event),
                "until": until,
            }
            for event, until in islice(inspection.runs(), min(limit, EVENTS_MAX) + 1)
        ]
        if last:
            rows.reverse()
        more = rows.pop() if len(rows) > limit else None
        if not rows and inspection.unknown:
            named = question[inspection.unknown]
            raise WrongQuestion(f"there never was the {inspection.unknown} '{named}'")
        return {
            "events": rows,
            "more_lsn": more["until" if last else "lsn"] if more is not None else None,
            "notes": notes + finder.notes,
        }


class _Moment(NamedTuple):
    """The state after an event, the index that it reads, and how to close both."""

    state: State
    reached: Reached
    opened: ExitStack


class _Held:
    """The states that this process has in memory: that of the last moment, and at most one more."""

    def __init__(self) -> None:
        self._open: Final[dict[tuple[str, int], _Moment]] = {}

    def state(self, directory: str, lsn: int) -> State:
        """Return the state after an event; it stays in memory until two others were asked for.

        A later moment begins with the index of an earlier one that is still held, so that two of
        them cost little more than the later one, and a step costs what happened in it.
        """
        key = directory, lsn
        if key in self._open:
            self._open[key] = self._open.pop(key)
            return self._open[key].state
        self._drop_all_but_last()
        held = (each.reached for (of, _), each in self._open.items() if of == directory)
        path = Path(directory)
        with ExitStack() as opened:
            opened.enter_context(Pin(path))
            disk = journal_disk(path)
            found = course_at(path, disk, lsn, note=lambda _: None, earlier=next(held, None))
            course = opened.enter_context(found)
            state = opened.enter_context(course.state_at(lsn))
            self._open[key] = _Moment(state, course.reached, opened.pop_all())
        keep_what_was_built()
        return state

    def make_room(self, directory: str, lsns: Collection[int]) -> None:
        """Drop all states but those after some events, which are asked for next."""
        self._drop([key for key in self._open if key not in {(directory, lsn) for lsn in lsns}])

    def _drop_all_but_last(self) -> None:
        self._drop(list(self._open)[:-1])

    def _drop(self, keys: list[tuple[str, int]]) -> None:
        for key in keys:
            self._open.pop(key).opened.close()
        if keys:
            # Their objects refer to each other, and the next state may need their memory.
            free_all()


_held: Final = _Held()


def look(directory: str, lsn: int, request: dict[str, Any]) -> dict[str, Any]:
    """Return the answer that a request that reads would have got after an event."""
    reading = msgspec.convert(request, REQUESTS[request["do"]])
    assert isinstance(reading, Reading)
    if reading.needs_broker:
        raise WrongQuestion(
            "only a running broker knows this: the journal holds no users, roles, rules, acceptors,"
            " sessions, connectors and retries; ask about now, with the broker running"
        )
    found = reading.look(ViewSource(_held.state(directory, lsn)))
    result = at_once(found) if isinstance(found, Generator) else found
    if isinstance(result, Refusal):
        raise WrongQuestion(result.text)
    return result


def compare(directory: str, before: int, after: int) -> dict[str, Any]:
    """Return what changed between two events, the first differences of each kind; the last event
    counts for those behind it."""
    ends = [moment_of(directory, wanted) for wanted in (before, after)]
    _held.make_room(directory, [at["lsn"] for at in ends])
    states = [_held.state(directory, at["lsn"]) for at in ends]
    sides = [overview(state, at["lsn"], at["time"]) for state, at in zip(states, ends, strict=True)]
    with _reading(directory) as (path, finder):
        span = ends[0]["lsn"], ends[1]["lsn"]
        told = difference(*sides) | changes(path, finder, *span) | dropped(path, finder, *span)
    return _bounded(told)


def _bounded(told: dict[str, Any]) -> dict[str, Any]:
    """Return what changed with the first rows of each list, and how many others there are."""
    more: dict[str, int] = {}
    for kind in (*KEYS, "settings", "standing", "traffic", "dropped"):
        lists = list(told[kind].values()) if kind in KEYS else [told[kind]]
        more[kind] = sum(max(0, len(rows) - DIFFERENCES_MAX) for rows in lists)
        for rows in lists:
            del rows[DIFFERENCES_MAX:]
    return told | {"more": more}


def minutes(directory: str, until: int, span: int, seconds: float) -> dict[str, Any]:
    """Return what came and went in the minutes before a moment, as far as that is counted in so
    many seconds; all times in microseconds."""
    with _reading(directory) as (_, finder):
        told = minutes_before(finder, until, span, seconds)
        return {"steps": [each._asdict() for each in told.steps(until, MINUTE)]}


def growth(
    directory: str, queue: int, messages: int, lsn: int, time: int, span: int, seconds: float
) -> dict[str, Any]:
    """Return how a queue, given by its id, grew in the time before an event, the newest one if the
    LSN is 0, as far as that is counted in so many seconds; all times in microseconds."""
    with _reading(directory) as (_, finder):
        at = QueueAt(queue, messages, lsn or newest_lsn(finder), time)
        told = growth_before(finder, at, span, seconds)
        return {"steps": [each._asdict() for each in told.steps], "notes": told.notes}


def integrity(directory: str) -> dict[str, Any]:
    """Return what is known about the integrity of a data directory."""
    return as_json(integrity_of(Path(directory)))


def report(directory: str, name: str) -> dict[str, Any]:
    """Return a report that is kept."""
    found = read(Path(directory), name)
    told: dict[str, Any] = msgspec.to_builtins(found) | {"duration": found.duration}
    return told


JOBS: Final[dict[str, Callable[..., Any]]] = {
    "story": story, "stories": stories, "drawing": drawing, "span": span, "moment": moment_of,
    "events": events, "look": look, "compare": compare, "integrity": integrity, "report": report,
    "minutes": minutes, "beside": beside, "growth": growth, "crash": crash,
}  # fmt: skip
"""The jobs on history, by their names."""
