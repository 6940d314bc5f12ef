"""A level: the entries of a queue that are delivered in the order of their positions (ADR 33).

A queue has a level for each priority that it holds, one for held entries and one for scheduled
entries. The position of an entry is the LSN of the event by which it entered the queue. Invariants,
checked by `engine.state.invariants` and, in isolation, by `tests/unit/engine/queues/test_level.py`:

- Every READY entry that is resident is in exactly one place: the head, the islands of the paged
  range, or the tail; it is `linked`. So positions rise from the head over the paged range to the
  tail.
- An entry that is linked and not READY is a tombstone: it keeps its place in case it returns.
  `tombstones` counts them; they are never more than about half of a level.
- Without a paged range the head is also the end, where new entries are added.

An entry that returns joins a second line beside the one that it belongs to, so that no cost grows
with the level: nothing is sorted again, and tombstones of a long level are removed in parts. Must
never know queues, the store, or why an entry comes or leaves.
"""

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterator
from heapq import merge
from itertools import islice
from typing import Final

from daybook.engine.facts.events import BODY_OMITTED
from daybook.engine.queues.entry import READY, Entry
from daybook.engine.queues.paged_range import PagedRange

COMPACT_TOMBSTONES_MIN: Final = 64
COMPACT_PART: Final = 8192
"""How many entries of a longer level are looked at for tombstones at a time, once for a quarter of
that number of new tombstones."""


NONE_BACK: Final[deque[Entry]] = deque()
"""The second line of all runs that have none, most of them; must not be changed."""


class Run:
    """Entries in order of position: a line, and beside it the entries that returned into the middle
    of it, in order too."""

    __slots__ = ("back", "line")

    def __init__(self) -> None:
        self.line: deque[Entry] = deque()
        # A deque takes more than half a kilobyte, and a level has two runs.
        self.back: deque[Entry] = NONE_BACK

    def __len__(self) -> int:
        return len(self.line) + len(self.back)

    def insert(self, entry: Entry) -> None:
        """Add an entry at its position, behind a tombstone that has the same."""
        position = entry.position
        line, back = self.line, self.back
        if not line or line[-1].position < position:
            line.append(entry)
        elif not back or back[-1].position <= position:
            if back is NONE_BACK:
                back = self.back = deque()
            back.append(entry)
        elif position < back[0].position:
            back.appendleft(entry)
        else:
            back.insert(bisect_right(back, position, key=position_of), entry)

    def remove(self, entry: Entry) -> bool:
        """Take out an entry at any place; return whether it was there."""
        for part in (self.line, self.back):
            place = bisect_left(part, entry.position, key=position_of)
            while place < len(part) and part[place].position == entry.position:
                if part[place] is entry:
                    del part[place]
                    return True
                place += 1
        return False

    def all(self) -> Iterator[Entry]:
        """Iterate over all entries, in order, as they are now; tombstones among them."""
        standing = list(self.line)
        return merge(standing, list(self.back), key=position_of) if self.back else iter(standing)

    def ready(self) -> Iterator[Entry]:
        """Iterate over the READY entries, in order, as they are now."""
        return (entry for entry in self.all() if entry.state == READY)

    def at(self, place: int) -> Entry:
        """Return the entry at a place, counted from 0; it must exist."""
        return next(islice(self.all(), place, None)) if self.back else self.line[place]

    def front(self) -> deque[Entry]:
        """Return the part whose first entry is the first of all; empty if there is none."""
        line, back = self.line, self.back
        return back if back and (not line or back[0].position <= line[0].position) else line

    def rear(self) -> deque[Entry]:
        """Return the part whose last entry is the last of all; empty if there is none."""
        line, back = self.line, self.back
        return back if back and (not line or back[-1].position >= line[-1].position) else line

    def join(self, other: "Run") -> None:
        """Add the entries of another run, all of them behind those of this one."""
        self.line.extend(other.line)
        if self.back:
            self.back.extend(other.back)
        else:
            self.back = other.back


def position_of(entry: Entry) -> int:
    """Return the number that orders entries."""
    return entry.position


def _clear(part: deque[Entry], begin: int, most: int) -> int:
    """Remove the tombstones among so many entries of a part from a place on; return how many
    entries are left there."""
    part.rotate(-begin)
    taken = [part.popleft() for _ in range(min(most, len(part) - begin))]
    kept = []
    for entry in taken:
        entry.linked = entry.state == READY
        if entry.linked:
            kept.append(entry)
    part.extendleft(reversed(kept))
    part.rotate(begin)
    return len(kept)


class Level:
    """Head, paged range and tail. `end` is where new entries are added: the tail, or the head if
    there is no paged range."""

    __slots__ = ("_cleared", "end", "head", "paged", "tombstones")

    def __init__(self) -> None:
        self.head = Run()
        self.end = self.head
        self.paged: PagedRange | None = None
        self.tombstones = 0
        # The place up to which tombstones of a long level were removed lately.
        self._cleared = 0

    @property
    def linked_count(self) -> int:
        """How many entries have a place in memory, tombstones among them."""
        if self.paged is None:
            return len(self.head)
        return len(self.head) + len(self.paged.islands) + len(self.end)

    @property
    def standing_count(self) -> int:
        """How many READY entries it has, in memory and in the store."""
        only_stored = self.paged.count if self.paged is not None else 0
        return self.linked_count - self.tombstones + only_stored

    # ---- coming and leaving

    def put(self, entry: Entry) -> None:
        """Add a new entry, behind all others."""
        self.end.line.append(entry)
        entry.linked = True

    def put_back(self, entry: Entry) -> None:
        """Put an entry that is READY again back in its place."""
        if entry.linked:
            self.tombstones -= 1
            return
        entry.linked = True
        paged = self.paged
        if paged is None or entry.position <= paged.after:
            self.head.insert(entry)
        elif entry.position <= paged.until:
            paged.islands.append(entry)
        else:
            self.end.insert(entry)

    def withdraw(self, entry: Entry) -> None:
        """Take out an entry that is no longer READY, leaving a tombstone if it is not the first."""
        line = self.head.line
        if line and line[0] is entry:
            line.popleft()
            entry.linked = False
            return
        back = self.head.back
        if back and back[0] is entry:
            back.popleft()
            entry.linked = False
            return
        self.tombstones += 1
        if self.tombstones > COMPACT_TOMBSTONES_MIN and 2 * self.tombstones > self.linked_count:
            self._compact_some()

    def remove(self, entry: Entry) -> None:
        """Take out a READY entry at any place."""
        is_found = self.head.remove(entry) or self.end.remove(entry)
        if not is_found and self.paged is not None:
            self.paged.islands.remove(entry)
        entry.linked = False

    def first(self) -> Entry | None:
        """Return the first entry of the head, None if the head is empty."""
        head = self.head
        if head.back:
            return self._first_of_both()
        line = head.line
        while line:
            entry = line[0]
            if entry.state == READY:
                return entry
            line.popleft()
            self.unlink(entry)
        return None

    def _first_of_both(self) -> Entry | None:
        line, back = self.head.line, self.head.back
        while line and line[0].state != READY:
            self.unlink(line.popleft())
        while back and back[0].state != READY:
            self.unlink(back.popleft())
        part = self.head.front()
        return part[0] if part else None

    def is_behind_first(self, position: int) -> bool:
        """Whether an entry that is not loaded yet may come before this position."""
        head = self.head
        if head.line and head.line[0].position < position:
            return True
        if head.back and head.back[0].position < position:
            return True
        return self.paged is not None and position > self.paged.after

    def ready(self) -> Iterator[Entry]:
        """Iterate over the READY entries of the head, in order, as they are now."""
        return self.head.ready()

    def unlink(self, tombstone: Entry) -> None:
        """Forget the place of an entry that is not READY."""
        tombstone.linked = False
        self.tombstones -= 1

    def compact(self) -> None:
        """Remove all tombstones."""
        for part in self._parts():
            _clear(part, 0, len(part))
        self._clear_islands()
        self.tombstones = 0

    def _compact_some(self) -> None:
        """Remove all tombstones of a short level, at times some of a long one."""
        if self.linked_count <= COMPACT_PART:
            self.compact()
        elif not self.tombstones % (COMPACT_PART // 4):
            self._compact_part()

    def _compact_part(self) -> None:
        """Remove the tombstones of the next part of the level, from its beginning after its end."""
        before = self._cleared
        for part in self._parts():
            if before < len(part):
                length = len(part)
                kept = _clear(part, before, COMPACT_PART)
                self._cleared += kept
                self.tombstones -= length - len(part)
                return
            before -= len(part)
        self._cleared = 0
        self._clear_islands()

    def _parts(self) -> list[deque[Entry]]:
        parts = [self.head.line, self.head.back]
        return parts if self.paged is None else [*parts, self.end.line, self.end.back]

    def _clear_islands(self) -> None:
        paged = self.paged
        if paged is None:
            return
        for entry in paged.islands:
            if entry.state != READY:
                self.unlink(entry)
        paged.islands = [entry for entry in paged.islands if entry.linked]

    # ---- the paged range

    def open_paged(self, after: int, until: int) -> PagedRange:
        """Begin a paged range behind the head, or return the one there is: new entries go to the
        tail."""
        if self.paged is None:
            self.paged = PagedRange(after, until)
            self.end = Run()
        return self.paged

    def close_paged(self) -> None:
        """End an empty paged range: the tail joins the head."""
        self.head.join(self.end)
        self.end = self.head
        self.paged = None

    def join(self, loaded: list[Entry], reached: int) -> None:
        """Put entries loaded from the paged range into the head, with the islands between them.

        The paged range then begins behind `reached`.
        """
        paged = self.paged
        assert paged is not None
        paged.after = min(reached, paged.until)
        for entry in loaded:
            entry.linked = True
        if paged.islands:
            loaded = sorted((*loaded, *self._islands_before(paged)), key=position_of)
        self.head.line.extend(loaded)

    def _islands_before(self, paged: PagedRange) -> list[Entry]:
        """Take out the islands that the paged range no longer covers."""
        before, apart = [], []
        for entry in paged.islands:
            if entry.state != READY:
                self.unlink(entry)
            elif entry.position <= paged.after:
                before.append(entry)
            else:
                apart.append(entry)
        paged.islands = apart
        return before

    # ---- leaving memory

    def shorten_tail(self, indexed_lsn: int, most: int) -> list[Entry]:
        """Extend the paged range over the indexed entries at the front of the tail; return those
        that left."""
        paged = self.paged
        assert paged is not None
        left: list[Entry] = []
        while len(left) < most and (part := self.end.front()):
            entry = part[0]
            if entry.state == READY and entry.position > indexed_lsn:
                break
            part.popleft()
            if entry.state != READY:
                self.unlink(entry)
                continue
            paged.until = max(paged.until, entry.position)
            self._page_out(paged, entry, indexed_lsn, left)
        return left

    def shorten_head(self, indexed_lsn: int, keep: int, most: int) -> list[Entry]:
        """Extend the paged range over the end of the head, or begin one there; return the entries
        that left.

        `keep` entries stay, and `most` are looked at.
        """
        head = self.head
        unindexed: deque[Entry] = deque()
        if self.paged is None:
            if len(head) <= keep or head.at(keep).position > indexed_lsn:
                return []
            # New entries behind them would be in the paged range, and are not in the store yet.
            while len(head) > keep and (part := head.rear())[-1].position > indexed_lsn:
                unindexed.appendleft(part.pop())
        taken = self._taken(max(keep, len(head) - most))
        # Entries before all that can leave, which cannot leave themselves, stay where they are.
        while taken and not is_evictable(taken[0], indexed_lsn):
            head.line.append(taken.popleft())
        if not taken:
            head.line.extend(unindexed)
            return []
        paged = self.open_paged(taken[0].position - 1, taken[-1].position)
        self.end.line.extend(unindexed)
        paged.after = taken[0].position - 1
        left: list[Entry] = []
        for entry in taken:
            self._page_out(paged, entry, indexed_lsn, left)
        return left

    def _taken(self, keep: int) -> deque[Entry]:
        """Take the READY entries behind the first `keep` from the head."""
        head = self.head
        taken: deque[Entry] = deque()
        while len(head) > keep:
            entry = head.rear().pop()
            if entry.state == READY:
                taken.appendleft(entry)
            else:
                self.unlink(entry)
        return taken

    def _page_out(
        self, paged: PagedRange, entry: Entry, indexed_lsn: int, left: list[Entry]
    ) -> None:
        if is_evictable(entry, indexed_lsn):
            entry.linked = False
            paged.add(entry.message)
            left.append(entry)
        else:
            paged.islands.append(entry)


def is_evictable(entry: Entry, indexed_lsn: int) -> bool:
    """Whether the store can return exactly this entry."""
    message = entry.message
    return (
        entry.state == READY
        and entry.position <= indexed_lsn
        and entry.changed <= indexed_lsn
        and not message.flags & BODY_OMITTED
    )
