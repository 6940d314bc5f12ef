"""Counting the events of a journal: by kind, for each queue, in the last minutes, and how one queue
grew."""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, Final, NamedTuple

from daybook.engine.facts import events
from daybook.engine.facts.events import FLAGS, KIND, PERSISTENT, QUEUE, REASON, TIME
from daybook.engine.facts.kinds import COUNTERS, ENTERING, HANDING, LEAVING, OF_ENTRIES, TOPOLOGY
from daybook.engine.facts.reasons import RESUMED
from daybook.history.event_finder import EventFinder
from daybook.history.moments import newest_lsn
from daybook.history.names import Names
from daybook.history.scan import Picker
from daybook.history.search import Clause, Search, queues_of
from daybook.journal.blocks.block import Block
from daybook.journal.blocks.format import FooterEntry
from daybook.journal.disk import Disk
from daybook.journal.segments.reader import read_blocks
from daybook.journal.segments.segment import first_lsn_of
from daybook.paging.tables.layout import LAYOUT
from daybook.texts import moment

QUEUE_KINDS = tuple(sorted(OF_ENTRIES))
"""The kinds that are counted for each queue, in the order of the columns."""
HANDED: Final = "delivered"
COUNTED: Final = COUNTERS | dict.fromkeys(HANDING, HANDED)
"""The count of each kind that raises a counter of a queue, or hands a message to a consumer."""
COUNTING: Final = frozenset(COUNTED)
TOLD: Final = ("added", HANDED, "acknowledged", "dead_lettered", "expired")
"""All of these counts, in the order of the life of a message."""
assert set(TOLD) == set(COUNTED.values())
MINUTE: Final = 60_000_000
HOUR: Final = 60 * MINUTE
PART: Final = 50_000
"""So many events are counted first, then a part before them that is GROWTH times as long if that
was quick, and so on: a part that is not counted to its end is left out."""
GROWTH: Final = 4
QUICK_SECONDS: Final = 0.1


class Minutes(NamedTuple):
    """The counts of the minutes of a span: by the begin of each, in microseconds since 1970,
    how often a counter of a queue was raised, and how often a message was delivered. All of it
    since `since` was counted."""

    since: int
    counts: dict[int, Counter[str]]

    def notes(self, begin: int) -> list[str]:
        """What to know about these numbers, asked for from a moment on, in sentences."""
        return [_not_counted(self.since)] if self.since > begin else []

    def steps(self, until: int, length: int) -> "list[Traffic]":
        """Return the steps of a length in whole minutes, each of them counted whole, the last one
        up to a moment."""
        found: list[Traffic] = []
        begin = self.since + -self.since % length
        while begin < until:
            end = min(begin + length, until)
            counts = Counter(dict.fromkeys(TOLD, 0))
            for minute in range(begin, end, MINUTE):
                counts.update(self.counts.get(minute, {}))
            found.append(Traffic(begin, end, dict(counts)))
            begin += length
        return found


class Traffic(NamedTuple):
    """A part of a span: when it begins and ends, and the counts of all queues together."""

    begin: int
    end: int
    counts: dict[str, int]


def minutes_before(
    finder: EventFinder, until: int, span: int, seconds: float, last: int = 0
) -> Minutes:
    """Count what came to queues and left them in the time before a moment, from its end backwards
    for so many seconds at most; `last` is the last event before, if that is known. Times are in
    microseconds. Raises JournalError and StoreError."""
    give_up = time.monotonic() + seconds
    counts: dict[int, Counter[str]] = {}
    since = until
    first = first_lsn_of(finder.disk)
    for begin, end in _parts_back(first, last or newest_lsn(finder)):
        if since <= until - span:
            break
        part: dict[int, Counter[str]] = {}
        for block in finder.blocks(Search(Clause(COUNTING), from_lsn=begin, to_lsn=end)):
            if time.monotonic() > give_up:
                return Minutes(since, counts)
            if not block.is_mark:
                since = min(since, _count_in(part, block, begin, end))
        for minute, found in part.items():
            counts.setdefault(minute, Counter()).update(found)
    else:
        if first == 1:
            # Nothing was before.
            since = until - span
    kept = {minute: found for minute, found in counts.items() if until - span <= minute < until}
    return Minutes(max(since, until - span), kept)


def _parts_back(first: int, last: int) -> Iterator[tuple[int, int]]:
    """Yield the first and the last event of each part of a span, from its end backwards."""
    size = PART
    while last >= first:
        begin, begun = max(first, last - size + 1), time.monotonic()
        yield begin, last
        last = begin - 1
        if time.monotonic() - begun < QUICK_SECONDS:
            size *= GROWTH


def _count_in(minutes: dict[int, Counter[str]], block: Block, first: int, last: int) -> int:
    """Count the events of a block, from one to another; return its time."""
    begin, end = max(first - block.first_lsn, 0), last + 1 - block.first_lsn
    kinds, queues, reasons = (
        block.columns()[each][begin:end].tolist() for each in (KIND, QUEUE, REASON)
    )
    found: Counter[str] = Counter()
    for kind, count in Counter(kinds).items():
        if kind in COUNTED:
            found[COUNTED[kind]] += count
    if HANDED in found:
        # A delivery that is resumed is not sent again.
        found[HANDED] -= reasons.count(RESUMED)
    if (events.ROUTED, 0) in zip(kinds, queues, strict=True):
        picker = Picker(block)
        for at, (kind, queue) in enumerate(zip(kinds, queues, strict=True), begin):
            if kind == events.ROUTED and not queue:
                found["added"] += len(queues_of(picker.event(at))) - 1
    # The events of a block were decided within a moment.
    decided: int = block.columns()[TIME][0]
    minutes.setdefault(decided // MINUTE * MINUTE, Counter()).update(found)
    return decided


MOVES: Final = ENTERING | LEAVING
"""The kinds by which a queue gets messages and loses them."""
STEPS: Final = tuple(minutes * MINUTE for minutes in (1, 5, 15, 60, 360, 1440))
"""How long a step may be."""
STEPS_MAX: Final = 100
"""A span has no more steps than this, unless it has more days."""


class QueueAt(NamedTuple):
    """A queue at an event: its id, how many messages it has then, and the LSN and the time of the
    event."""

    queue: int
    messages: int
    lsn: int
    time: int


class Step(NamedTuple):
    """A part of a span: when it begins and ends, how many messages came to the queue and left it,
    and how many it had at the end."""

    begin: int
    end: int
    entered: int
    left: int
    messages: int


def _not_counted(since: int) -> str:
    return f"Events before {moment(since)[:19]} UTC were not counted."


class Growth(NamedTuple):
    """How a queue grew, step by step, all of them counted whole, the last one up to its end.

    `created` is when the queue was, if that was in the span. Before `restarted`, the last start of
    the broker in the span, only persistent messages count: a start ends the others without events.
    `since` is how far the journal was read back. Times are in microseconds since 1970.
    """

    steps: list[Step]
    since: int
    is_whole: bool
    created: int | None
    restarted: int | None

    @property
    def notes(self) -> list[str]:
        """What to know about these numbers, in sentences."""
        told = []
        if self.created is not None:
            told.append(f"The queue was created at {moment(self.created)[:19]} UTC.")
        elif not self.is_whole:
            told.append(_not_counted(self.since))
        if self.restarted is not None:
            told.append(
                f"Before the start of the broker at {moment(self.restarted)[:19]} UTC only"
                " persistent messages are counted."
            )
        return told


def growth_before(finder: EventFinder, at: QueueAt, span: int, seconds: float) -> Growth:
    """Return how a queue grew in the time before an event, counted from its end backwards for so
    many seconds at most. Times are in microseconds. Raises JournalError and StoreError."""
    give_up = time.monotonic() + seconds
    flow, since = _Flow(), at.time
    first = first_lsn_of(finder.disk)
    for begin, last in _parts_back(first, at.lsn):
        part = _Flow()
        try:
            for block in finder.blocks(_Timed(give_up, at.queue, begin, last)):
                if not block.is_mark:
                    part.count(block, at.queue, begin, last)
                if time.monotonic() > give_up:
                    raise TimeoutError
        except TimeoutError:
            break
        flow.follow(part)
        event = finder.at(begin)
        since = min(since, event.row[TIME] if event is not None else since)
        if flow.created is not None or since <= at.time - span:
            break
    is_whole = flow.created is not None or since <= at.time - span
    begin = max(since, at.time - span)
    if flow.created is not None:
        begin = max(flow.created, at.time - span)
    step = step_of(at.time - begin)
    created = flow.created if flow.created is None or flow.created >= begin else None
    restarted = flow.restarted if flow.restarted and flow.restarted >= begin else None
    # A step that began before is not counted whole, but there was nothing before a queue was there.
    first_step = (begin if created is not None else begin + step - 1) // step * step
    return Growth(flow.steps(at, first_step, step), since, is_whole, created, restarted)


def step_of(span: int) -> int:
    """Return how long the steps of what was counted are."""
    return next((each for each in STEPS if span <= each * STEPS_MAX), STEPS[-1])


class _Timed(Search):
    """Looks for what comes to a queue and leaves it, and for starts of the broker; ends with
    TimeoutError at a time, also where footers exclude all blocks."""

    def __init__(self, give_up: float, queue: int, first: int, last: int) -> None:
        super().__init__(
            Clause(MOVES | {events.QUEUE_CREATED}, queues={queue}), Clause({events.BROKER_STARTED}),
            from_lsn=first, to_lsn=last,
        )  # fmt: skip
        self._give_up: Final = give_up

    def may_be_in(self, entry: FooterEntry) -> bool:
        if time.monotonic() > self._give_up:
            raise TimeoutError
        return super().may_be_in(entry)


def _places(queues: list[int], queue: int) -> Iterator[int]:
    """Yield where a queue is in a column."""
    place = -1
    with suppress(ValueError):
        while True:
            place = queues.index(queue, place + 1)
            yield place


class _Flow:
    """Counts the messages that came to a queue and left it, for each step."""

    def __init__(self) -> None:
        self.created: int | None = None
        self.restarted: int | None = None
        # By the begin of each shortest step, how many came and left: all messages, and the
        # persistent ones.
        self._all: dict[int, list[int]] = {}
        self._persistent: dict[int, list[int]] = {}

    def count(self, block: Block, queue: int, first: int, last: int) -> None:
        """Count the events of a block, from one to another; blocks come in order."""
        begin, end = max(first - block.first_lsn, 0), last + 1 - block.first_lsn
        columns = block.columns()
        kinds, flags, times = (columns[each][begin:end] for each in (KIND, FLAGS, TIME))
        queues = columns[QUEUE][begin:end].tolist()
        picker = None
        # Most events are about other queues: a search is much quicker than a look at each.
        for at in sorted([*_places(queues, queue), *_places(queues, 0)]):
            kind = kinds[at]
            if kind == events.BROKER_STARTED:
                self._restart(times[at])
            elif kind == events.QUEUE_CREATED:
                # Earlier starts had no message of it to end.
                self.created, self.restarted = times[at], None
            elif kind in MOVES:
                if not queues[at]:
                    picker = picker or Picker(block)
                    if queue not in queues_of(picker.event(begin + at)):
                        continue
                self._add(int(kind in LEAVING), flags[at], times[at])

    def _add(self, place: int, flags: int, when: int) -> None:
        step = when // STEPS[0] * STEPS[0]
        self._all.setdefault(step, [0, 0])[place] += 1
        if flags & PERSISTENT:
            self._persistent.setdefault(step, [0, 0])[place] += 1

    def _restart(self, when: int) -> None:
        """Keep only what the start of the broker did not end."""
        self.restarted = when
        self._all = {step: [*counts] for step, counts in self._persistent.items()}

    def follow(self, earlier: "_Flow") -> None:
        """Add the counts of the part of history before."""
        found = earlier._all if self.restarted is None else earlier._persistent
        for into, some in ((self._all, found), (self._persistent, earlier._persistent)):
            for step, (entered, left) in some.items():
                counts = into.setdefault(step, [0, 0])
                counts[0] += entered
                counts[1] += left
        self.created = earlier.created
        if self.restarted is None:
            self.restarted = earlier.restarted

    def steps(self, at: QueueAt, begin: int, length: int) -> list[Step]:
        """Return the steps from one that begins at a time, up to the end."""
        flows: dict[int, list[int]] = {}
        for step, (entered, left) in self._all.items():
            counts = flows.setdefault(step // length * length, [0, 0])
            counts[0] += entered
            counts[1] += left
        told: list[Step] = []
        messages, end = at.messages, at.time
        place = at.time // length * length
        while place >= begin:
            entered, left = flows.get(place, (0, 0))
            told.append(Step(place, end, entered, left, max(messages, 0)))
            messages += left - entered
            place, end = place - length, place
        return told[::-1]


class Totals:
    """Counts over a whole journal. Queues have their last names."""

    def __init__(self) -> None:
        self.kinds: Counter[int] = Counter()
        self._queues: Counter[tuple[int, int]] = Counter()
        self._names = Names()

    def count(self, disk: Disk, progress: Callable[[int], None]) -> None:
        """Count all events; `progress` gets the LSN reached."""
        for block in read_blocks(disk, LAYOUT):
            if not block.is_mark:
                self._count_block(block)
                progress(block.last_lsn)

    def _count_block(self, block: Block) -> None:
        columns = block.columns()
        kinds, queues = columns[KIND].tolist(), columns[QUEUE].tolist()
        self.kinds.update(kinds)
        self._queues.update(zip(kinds, queues, strict=True))
        # Names, and the queues of messages that went to several queues, are in the details.
        if not TOPOLOGY.isdisjoint(kinds) or (events.ROUTED, 0) in self._queues:
            self._read_details(block, kinds, queues)

    def _read_details(self, block: Block, kinds: list[int], queues: list[int]) -> None:
        picker = Picker(block)
        for at, (kind, queue) in enumerate(zip(kinds, queues, strict=True)):
            if kind in TOPOLOGY:
                event = picker.event(at)
                self._names.learn(event.row, event.detail)
                self._names.forget(event.row)
            elif kind == events.ROUTED and not queue:
                several = queues_of(picker.event(at))
                self._queues.update((events.ROUTED, each) for each in several)
        del self._queues[events.ROUTED, 0]

    def by_kind(self) -> list[tuple[str, int]]:
        """(name of the kind, number of events), the most frequent first."""
        names = events.BY_NUMBER
        return [
            (names[kind].name if kind in names else f"kind {kind}", count)
            for kind, count in self.kinds.most_common()
        ]

    def by_queue(self) -> list[dict[str, Any]]:
        """For each queue that ever existed: its name and how many events of each kind it had."""
        told = []
        for queue_id, name in sorted(self._names.queues.items()):
            counts = {
                events.BY_NUMBER[kind].name: self._queues[kind, queue_id] for kind in QUEUE_KINDS
            }
            told.append({"queue": name, "id": queue_id} | counts)
        return told
