"""Counting the events of a journal: by kind, for each queue, and in the last minutes."""

import time
from collections import Counter
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from daybook.engine.facts import events
from daybook.engine.facts.events import KIND, QUEUE, TIME
from daybook.engine.facts.kinds import COUNTERS, OF_ENTRIES, TOPOLOGY
from daybook.history.event_finder import EventFinder
from daybook.history.moments import newest_lsn
from daybook.history.names import Names
from daybook.history.scan import Picker
from daybook.history.search import Clause, Search, queues_of
from daybook.journal.blocks.block import Block
from daybook.journal.disk import Disk
from daybook.journal.segments.reader import read_blocks
from daybook.journal.segments.segment import first_lsn_of
from daybook.paging.tables.layout import LAYOUT

QUEUE_KINDS = tuple(sorted(OF_ENTRIES))
"""The kinds that are counted for each queue, in the order of the columns."""
COUNTING: Final = frozenset(COUNTERS)
"""The kinds that raise a counter of a queue."""
MINUTE: Final = 60_000_000
PART: Final = 50_000
"""So many events are counted first, then a part before them that is GROWTH times as long, and so
on: a part that is not counted to its end is left out."""
GROWTH: Final = 4


class Minutes(NamedTuple):
    """The counts of the minutes of a span: by the begin of each, in microseconds since 1970,
    how often a counter of a queue was raised. All of it since `since` was counted."""

    since: int
    counts: dict[int, Counter[str]]


def minutes_before(finder: EventFinder, until: int, span: int, seconds: float) -> Minutes:
    """Count what came to queues and left them in the time before a moment, from its end backwards
    for so many seconds at most. Times are in microseconds. Raises JournalError and StoreError."""
    give_up = time.monotonic() + seconds
    counts: dict[int, Counter[str]] = {}
    since, size = until, PART
    first, last = first_lsn_of(finder.disk), newest_lsn(finder)
    while since > until - span:
        if last < first:
            # Nothing was before.
            since = until - span
            break
        begin = max(first, last - size + 1)
        part: dict[int, Counter[str]] = {}
        for block in finder.blocks(Search(Clause(COUNTING), from_lsn=begin, to_lsn=last)):
            if time.monotonic() > give_up:
                return Minutes(since, counts)
            if not block.is_mark:
                since = min(since, _count_in(part, block, begin, last))
        for minute, found in part.items():
            counts.setdefault(minute, Counter()).update(found)
        last, size = begin - 1, size * GROWTH
    kept = {minute: found for minute, found in counts.items() if until - span <= minute < until}
    return Minutes(max(since, until - span), kept)


def _count_in(minutes: dict[int, Counter[str]], block: Block, first: int, last: int) -> int:
    """Count the events of a block, from one to another; return its time."""
    begin, end = max(first - block.first_lsn, 0), last + 1 - block.first_lsn
    columns = [block.columns()[each][begin:end].tolist() for each in (KIND, QUEUE)]
    found: Counter[str] = Counter()
    for kind, count in Counter(columns[0]).items():
        counter = COUNTERS.get(kind, "")
        if counter:
            found[counter] += count
    if (events.ROUTED, 0) in zip(columns[0], columns[1], strict=True):
        picker = Picker(block)
        for at, (kind, queue) in enumerate(zip(columns[0], columns[1], strict=True), begin):
            if kind == events.ROUTED and not queue:
                found["added"] += len(queues_of(picker.event(at))) - 1
    # The events of a block were decided within a moment.
    decided: int = block.columns()[TIME][0]
    minutes.setdefault(decided // MINUTE * MINUTE, Counter()).update(found)
    return decided


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
