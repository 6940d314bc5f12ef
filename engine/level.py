"""A level: the entries of a queue that are delivered in the order of their positions (ADR 33).

A queue has a level for each priority that it holds, one for held entries and one for scheduled
entries. The position of an entry is the LSN of the event by which it entered the queue. Invariants,
checked by `engine.invariants` and, in isolation, by `tests/unit/engine/test_level.py`:

- Every READY entry that is resident is in exactly one place: the head, the islands of the gap, or
  the tail; it is `linked`. So positions rise from head over gap to tail.
- An entry that is linked and not READY is a tombstone: it keeps its place in case it returns.
  `tombstones` counts them; they are never more than about half of a level.
- Without a gap the head is also the end, where new entries are added.

An entry that returns joins a heap beside the line that it belongs to, so that its cost does not
grow with the level. Must never know queues, the store, or why an entry comes or leaves.
"""

from collections import deque
from collections.abc import Iterator
from heapq import heappop, heappush, merge
from typing import Final, TypeAlias

from daybook.engine.events import BODY_OMITTED
from daybook.engine.gap import Gap
from daybook.engine.message import READY, Entry

COMPACT_TOMBSTONES_MIN: Final = 64
SETTLE_PART: Final = 16
"""Returned entries join the line once the line is at most this many times as long as they are."""

Returned: TypeAlias = tuple[int, int, Entry]
"""Position, the LSN at which it returned, and the entry: a tombstone and the entry that took its
place have the same position, but never returned by the same event."""


class Run:
    """Entries in order of position: a line, and a heap of entries that returned into the middle of
    it."""

    __slots__ = ("back", "line")

    def __init__(self) -> None:
        self.line: deque[Entry] = deque()
        self.back: list[Returned] = []

    def __len__(self) -> int:
        return len(self.line) + len(self.back)

    def insert(self, entry: Entry) -> None:
        """Add an entry at its position."""
        line = self.line
        if not line or line[-1].position < entry.position:
            line.append(entry)
        else:
            heappush(self.back, (entry.position, entry.changed, entry))

    def ready(self) -> Iterator[Entry]:
        """Iterate over the READY entries, in order, as they are now."""
        standing: Iterator[Entry] = iter(list(self.line))
        if self.back:
            returned = (each[2] for each in sorted(self.back))
            standing = merge(standing, returned, key=position_of)
        return (entry for entry in standing if entry.state == READY)

    def settle(self) -> None:
        """Put returned entries into the line."""
        if self.back:
            everything = sorted((*self.line, *(each[2] for each in self.back)), key=position_of)
            self.back.clear()
            self.line.clear()
            self.line.extend(everything)

    def settle_if_short(self) -> None:
        """Put returned entries into the line if that costs little for each of them."""
        if len(self.line) <= SETTLE_PART * len(self.back):
            self.settle()

    def compact(self) -> None:
        """Remove tombstones."""
        self.settle()
        kept = []
        for entry in self.line:
            entry.linked = entry.state == READY
            if entry.linked:
                kept.append(entry)
        self.line.clear()
        self.line.extend(kept)


def position_of(entry: Entry) -> int:
    """Return the number that orders entries."""
    return entry.position


class Level:
    """Head, gap and tail; `end` is where new entries are added: the tail, without a gap the
    head."""

    __slots__ = ("end", "gap", "head", "tombstones")

    def __init__(self) -> None:
        self.head = Run()
        self.end = self.head
        self.gap: Gap | None = None
        self.tombstones = 0

    @property
    def linked_count(self) -> int:
        """How many entries have a place in memory, tombstones among them."""
        if self.gap is None:
            return len(self.head)
        return len(self.head) + len(self.gap.islands) + len(self.end)

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
        gap = self.gap
        if gap is None or entry.position <= gap.after:
            self.head.insert(entry)
        elif entry.position <= gap.until:
            gap.islands.append(entry)
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
        if back and back[0][2] is entry:
            heappop(back)
            entry.linked = False
            return
        self.tombstones += 1
        if self.tombstones > COMPACT_TOMBSTONES_MIN and 2 * self.tombstones > self.linked_count:
            self.compact()

    def remove(self, entry: Entry) -> None:
        """Take out a READY entry at any place. Costs time proportional to the length of the
        level."""
        islands = self.gap.islands if self.gap is not None else []
        for run in (self.head, self.end):
            run.settle()
        for part in (self.head.line, islands, self.end.line):
            if entry in part:
                part.remove(entry)
                break
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
        while back and back[0][2].state != READY:
            self.unlink(heappop(back)[2])
        if not back or (line and line[0].position < back[0][0]):
            return line[0] if line else None
        return back[0][2]

    def is_behind_first(self, position: int) -> bool:
        """Whether an entry that is not loaded yet may come before this position."""
        head = self.head
        if head.line and head.line[0].position < position:
            return True
        if head.back and head.back[0][0] < position:
            return True
        return self.gap is not None and position > self.gap.after

    def ready(self) -> Iterator[Entry]:
        """Iterate over the READY entries of the head, in order, as they are now."""
        return self.head.ready()

    def unlink(self, tombstone: Entry) -> None:
        """Forget the place of an entry that is not READY."""
        tombstone.linked = False
        self.tombstones -= 1

    def compact(self) -> None:
        """Remove all tombstones."""
        self.head.compact()
        gap = self.gap
        if gap is not None:
            self.end.compact()
            for entry in gap.islands:
                entry.linked = entry.state == READY
            gap.islands = [entry for entry in gap.islands if entry.linked]
        self.tombstones = 0

    # ---- the gap

    def open_gap(self, after: int, until: int) -> Gap:
        """Begin a gap behind the head, or return the one there is: new entries go to the tail."""
        if self.gap is None:
            self.gap = Gap(after, until)
            self.end = Run()
        return self.gap

    def close_gap(self) -> None:
        """End an empty gap: the tail joins the head."""
        self.head.settle()
        self.end.settle()
        self.head.line.extend(self.end.line)
        self.end = self.head
        self.gap = None

    def join(self, loaded: list[Entry], reached: int) -> None:
        """Put entries loaded from the gap into the head, with the islands between them.

        The gap then begins behind `reached`.
        """
        gap = self.gap
        assert gap is not None
        gap.after = min(reached, gap.until)
        for entry in loaded:
            entry.linked = True
        if gap.islands:
            loaded = sorted((*loaded, *self._islands_before(gap)), key=position_of)
        self.head.line.extend(loaded)

    def _islands_before(self, gap: Gap) -> list[Entry]:
        """Take out the islands that the gap no longer covers."""
        before, apart = [], []
        for entry in gap.islands:
            if entry.state != READY:
                self.unlink(entry)
            elif entry.position <= gap.after:
                before.append(entry)
            else:
                apart.append(entry)
        gap.islands = apart
        return before

    # ---- leaving memory

    def shorten_tail(self, indexed_lsn: int, most: int) -> list[Entry]:
        """Extend the gap over the indexed entries at the front of the tail; return those that
        left."""
        gap = self.gap
        assert gap is not None
        self.end.settle()
        tail = self.end.line
        left: list[Entry] = []
        while tail and len(left) < most:
            entry = tail[0]
            if entry.state == READY and entry.position > indexed_lsn:
                break
            tail.popleft()
            if entry.state != READY:
                self.unlink(entry)
                continue
            gap.until = max(gap.until, entry.position)
            self._give_to_gap(gap, entry, indexed_lsn, left)
        return left

    def shorten_head(self, indexed_lsn: int, keep: int, most: int) -> list[Entry]:
        """Extend the gap over the end of the head, or begin one there; return the entries that
        left.

        `keep` entries stay, and `most` are looked at.
        """
        self.head.settle()
        line = self.head.line
        unindexed: deque[Entry] = deque()
        if self.gap is None:
            if len(line) <= keep or line[keep].position > indexed_lsn:
                return []
            # New entries behind them would be in the gap, and are not in the store yet.
            while len(line) > keep and line[-1].position > indexed_lsn:
                unindexed.appendleft(line.pop())
        taken = self._taken(max(keep, len(line) - most))
        # Entries before all that can leave, which cannot leave themselves, stay where they are.
        while taken and not is_evictable(taken[0], indexed_lsn):
            line.append(taken.popleft())
        if not taken:
            line.extend(unindexed)
            return []
        gap = self.open_gap(taken[0].position - 1, taken[-1].position)
        self.end.line.extend(unindexed)
        gap.after = taken[0].position - 1
        left: list[Entry] = []
        for entry in taken:
            self._give_to_gap(gap, entry, indexed_lsn, left)
        return left

    def _taken(self, keep: int) -> deque[Entry]:
        """Take the READY entries behind the first `keep` from the head."""
        line = self.head.line
        taken: deque[Entry] = deque()
        while len(line) > keep:
            entry = line.pop()
            if entry.state == READY:
                taken.appendleft(entry)
            else:
                self.unlink(entry)
        return taken

    def _give_to_gap(self, gap: Gap, entry: Entry, indexed_lsn: int, left: list[Entry]) -> None:
        if is_evictable(entry, indexed_lsn):
            entry.linked = False
            gap.add(entry.message)
            left.append(entry)
        else:
            gap.islands.append(entry)


def is_evictable(entry: Entry, indexed_lsn: int) -> bool:
    """Whether the store can return exactly this entry."""
    message = entry.message
    return (
        entry.state == READY
        and entry.position <= indexed_lsn
        and entry.changed <= indexed_lsn
        and not message.flags & BODY_OMITTED
    )
