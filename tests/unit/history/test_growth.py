"""How one queue grew, counted backwards, against what each event before did to it."""

import math
from bisect import bisect_left
from contextlib import closing
from pathlib import Path

import pytest

from daybook.engine.core.queue_names import find_queue
from daybook.engine.facts.events import (
    BROKER_STARTED,
    FLAGS,
    KIND,
    MESSAGE,
    PERSISTENT,
    QUEUE,
    ROUTED,
    TIME,
    routed_detail,
)
from daybook.engine.facts.kinds import ENTERING, LEAVING
from daybook.engine.queues.queue import Queue
from daybook.history import totals
from daybook.history.event_finder import EventFinder
from daybook.history.totals import Growth, QueueAt, growth_before, step_of
from daybook.journal.data_directory import JOURNAL
from daybook.journal.disk import RealDisk
from daybook.recovery.moments import state_at
from tests.support.histories import some_history, write_history
from tests.support.world import SECOND, Event

HOUR = 3_600_000_000
QUEUES = ("orders", "mails", "archive", "dead")


@pytest.fixture(scope="module")
def events() -> list[Event]:
    """A history in which the broker starts again, with messages of both kinds."""
    found = some_history(3, 900)
    assert [each.row[KIND] for each in found].count(BROKER_STARTED) >= 2
    return found


@pytest.fixture(scope="module")
def data(events: list[Event], tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_history(
        tmp_path_factory.mktemp("history") / "data", events,
        cuts=range(0, len(events), 13), segment_bytes=1 << 14,
    )  # fmt: skip


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Count in short steps, and by many parts."""
    monkeypatch.setattr(totals, "STEPS", (SECOND // 5, HOUR))
    monkeypatch.setattr(totals, "PART", 20)


def queue_at(data: Path, events: list[Event], name: str, lsn: int) -> QueueAt:
    """Return a queue after an event, as the journal folds to it."""
    with state_at(data, RealDisk(data / JOURNAL), lsn, note=lambda _: None) as state:
        queue = find_queue(state, name)
        assert isinstance(queue, Queue)
        return QueueAt(queue.id, queue.message_count, lsn, events[lsn - 1].row[TIME])


def grown(data: Path, at: QueueAt, span: int = 20 * SECOND, seconds: float = math.inf) -> Growth:
    with closing(EventFinder(RealDisk(data / JOURNAL), data)) as finder:
        return growth_before(finder, at, span, seconds)


def contents(events: list[Event], queue: int, *, persistent: bool) -> list[int]:
    """Return how many messages the queue has before each event, maybe of the persistent ones."""
    there: dict[int, int] = {}
    told = []
    for event in events:
        told.append(sum(1 for flags in there.values() if flags & PERSISTENT or not persistent))
        row = event.row
        kind = row[KIND]
        several = routed_detail(event.detail).queues if kind == ROUTED and not row[QUEUE] else ()
        if kind == BROKER_STARTED:
            there = {each: flags for each, flags in there.items() if flags & PERSISTENT}
        elif queue != row[QUEUE] and queue not in several:
            continue
        elif kind in ENTERING:
            there[row[MESSAGE]] = row[FLAGS]
        elif kind in LEAVING:
            del there[row[MESSAGE]]
    return told


@pytest.mark.parametrize("name", QUEUES)
def test_each_step_has_what_the_queue_had(data: Path, events: list[Event], name: str) -> None:
    at = queue_at(data, events, name, len(events))
    told = grown(data, at)
    assert told.created is not None
    assert told.is_whole
    assert len(told.steps) > 10
    last = told.steps[-1]
    assert (last.messages, last.end) == (at.messages, at.time)
    every, kept = (contents(events, at.queue, persistent=each) for each in (False, True))
    times = [event.row[TIME] for event in events]
    [*_, started] = [event.row[TIME] for event in events if event.row[KIND] == BROKER_STARTED]
    assert told.restarted == (started if told.created < started else None)
    for step in told.steps[:-1]:
        place = bisect_left(times, step.end)
        assert step.messages == (every if step.end > (told.restarted or 0) else kept)[place]


def test_the_broker_at_a_past_moment_is_the_end(data: Path, events: list[Event]) -> None:
    for lsn in (len(events) // 4, len(events) // 2):
        at = queue_at(data, events, "orders", lsn)
        told = grown(data, at)
        assert told.steps[-1].messages == at.messages
        assert told.steps[-1].end == at.time
        assert sum(each.entered for each in told.steps) > 0


def test_what_cannot_be_counted_in_time_is_left_out(data: Path, events: list[Event]) -> None:
    at = queue_at(data, events, "orders", len(events))
    told = grown(data, at, seconds=-1)
    assert not told.is_whole
    assert told.since == at.time
    assert not told.steps
    assert "were not counted" in told.notes[0]


def test_a_queue_without_events_is_found_in_time_too(
    data: Path, events: list[Event], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Footers exclude every block of such a queue, so no block would say that the time is over."""
    at = queue_at(data, events, "orders", len(events))._replace(queue=4711, messages=0)
    whole = grown(data, at)
    assert whole.created is None
    assert {each.messages for each in whole.steps} == {0}
    times = iter([0.0] * 40)
    monkeypatch.setattr(totals.time, "monotonic", lambda: next(times, 100.0))
    assert not grown(data, at, span=HOUR, seconds=5).is_whole


def test_a_queue_that_is_older_than_the_span_has_whole_steps(
    data: Path, events: list[Event]
) -> None:
    at = queue_at(data, events, "orders", len(events))
    told = grown(data, at, span=2 * SECOND)
    assert told.is_whole
    assert told.created is None
    assert at.time - 2 * SECOND <= told.steps[0].begin < at.time - 1.6 * SECOND
    lengths = {each.end - each.begin for each in told.steps[:-1]}
    assert lengths == {SECOND // 5}


def test_the_length_of_steps_follows_from_the_span(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    minute = HOUR // 60
    assert step_of(HOUR) == minute
    assert step_of(24 * HOUR) == 15 * minute
    assert step_of(10_000 * HOUR) == 24 * HOUR
