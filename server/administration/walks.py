"""Reading the messages of a queue in order, from any place on, in slices.

The place is found by counts: levels, and what only the store has, are passed over without making
entries of them. The next slice begins behind the position of the last entry, so a queue may change
between two of them; nothing is read twice. Must never know what is shown of a message.
"""

from itertools import chain, islice
from typing import Final

from daybook.engine.administration.message_moves import LEVELS
from daybook.engine.messages.message import PRIORITIES
from daybook.engine.queues.entry import NOTHING_PASSED, READY, Entry
from daybook.engine.queues.level import Level, Run
from daybook.engine.queues.level_scan import behind
from daybook.engine.queues.paged_range import PagedRange
from daybook.engine.queues.queue import Queue
from daybook.server.process.slices import SLICE, Slices

PASSED_AT_ONCE: Final = 20 * SLICE
"""So many that only the store has are passed over in a slice: they are counted, page by page."""
WITHHELD: Final = -1
"""In the place of a level: entries that are not delivered for now, behind those that are ready."""
ORDER: Final = (*LEVELS[:PRIORITIES], WITHHELD, *LEVELS[PRIORITIES:])
FLYING: Final = -1
"""The place before all levels."""


class Walk:
    """A place in a queue: in flight first, then ready in order of delivery, held, and scheduled."""

    def __init__(self, queue: Queue) -> None:
        self._queue: Final = queue
        self._at = FLYING
        self._position = NOTHING_PASSED
        self._listed: list[Entry] = []
        """Entries to be read before those behind the place."""

    def pass_over(self, count: int, wanted: int) -> Slices[None]:
        """Pass over so many entries from the beginning, to read about so many. Raises StoreError,
        as `some` does."""
        flights = [consumer.unacked for consumer in self._queue.consumers]
        flying = sum(map(len, flights))
        entries = chain.from_iterable(each.values() for each in flights)
        self._listed = list(islice(entries, min(count, flying), min(count + wanted, flying)))
        if count + wanted > flying:
            self._next_level()
        count = max(0, count - flying)
        while count and self._at < len(ORDER):
            count = yield from self._pass_level(count)
        yield 1

    def _next_level(self) -> None:
        self._at += 1
        self._position = NOTHING_PASSED
        if self._at < len(ORDER) and ORDER[self._at] == WITHHELD:
            self._listed += self._queue.withheld.values()
            self._next_level()

    def _pass_level(self, count: int) -> Slices[int]:
        """Pass over entries of a level; return how many are left, and go to the next level if it
        has no more."""
        level = self._queue.levels[ORDER[self._at]]
        standing = level.standing_count if level is not None else 0
        if level is not None and count < standing:
            yield from self._pass_within(level, count)
            return 0
        count -= standing
        self._next_level()
        passed = min(count, len(self._listed))
        del self._listed[:passed]
        return count - passed

    def _pass_within(self, level: Level, count: int) -> Slices[None]:
        """Pass over entries of a level that has more of them."""
        count = yield from self._pass_run(level, level.head, count)
        if count and level.paged is not None:
            count = yield from self._pass_paged(level.paged, count)
            yield from self._pass_run(level, level.end, count)

    def _pass_run(self, level: Level, run: Run, count: int) -> Slices[int]:
        if not level.tombstones and not run.back and run.line:
            passed = min(count, len(run.line))
            if passed:
                self._position = run.line[passed - 1].position
            return count - passed
        entries = run.all()
        while count:
            some = list(islice(entries, SLICE))
            if not some:
                break
            ready = list(islice((each for each in some if each.state == READY), count))
            if ready:
                self._position = ready[-1].position
            count -= len(ready)
            yield len(some)
        return count

    def _pass_paged(self, paged: PagedRange, count: int) -> Slices[int]:
        store = self._queue.store
        assert store is not None
        islands = sorted(each.position for each in paged.islands if each.state == READY)
        after = paged.after
        while count and after < paged.until:
            most = min(count, PASSED_AT_ONCE)
            passed, reached = store.pass_over(self._queue, ORDER[self._at], after, most)
            reached = min(reached, paged.until)
            between = sum(after < each <= reached for each in islands)
            if between and passed + between > count:
                # Few: those of the store are read, so that all are in order.
                return (yield from self._pass_one_by_one(count))
            self._position = after = reached
            count -= passed + between
            yield SLICE
        return count

    def _pass_one_by_one(self, count: int) -> Slices[int]:
        while count:
            found = behind(self._queue, ORDER[self._at], self._position)[:count]
            if not found:
                break
            self._position = found[-1].position
            count -= len(found)
            yield len(found)
        return count

    def some(self, most: int) -> list[Entry]:
        """Return the next entries, about so many; none at the end. Raises StoreError."""
        while not self._listed and self._at < len(ORDER):
            if self._at == FLYING:
                return []
            found = behind(self._queue, ORDER[self._at], self._position, most)[:most]
            if found:
                self._position = found[-1].position
                return found
            self._next_level()
        some, self._listed = self._listed[:most], self._listed[most:]
        return some
