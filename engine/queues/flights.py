"""The entries in flight from a queue, by position: browsers read each in its place.

One list for all browsers of a queue (`engine.dispatch.browsers`), there only while somebody
browses. Deliveries are added as they are made; those that ended are forgotten where a reader comes
upon them. Derived and volatile. Must never know how a browser reads.

Invariant: once `fill` said so, every entry in flight to a consumer of the queue is in its level.
"""

from bisect import bisect_left, bisect_right
from typing import Final

from daybook.engine.messages.message import PRIORITIES
from daybook.engine.queues.entry import IN_FLIGHT, Entry, Taker

ALL: Final = 1 << 62
"""Up to here entries of a level are known: to its end. No position is as high."""
FILL_ENTRIES: Final = 500
"""How many deliveries that were there before are taken up at a time."""
ENDED_MAX: Final = 500
"""How many deliveries that ended are forgotten at a time."""


class Flights:
    """Positions and message ids of what is in flight, for each level in order."""

    __slots__ = ("_levels", "_unfilled")

    def __init__(self, consumers: list[Taker]) -> None:
        # For each level, the positions, and at the same places the ids.
        self._levels: list[tuple[list[int], list[int]]] = [([], []) for _ in range(PRIORITIES)]
        self._unfilled: list[int] = [
            message_id for consumer in consumers for message_id in consumer.unacked
        ]

    @property
    def unfilled_count(self) -> int:
        """How many deliveries that were there before are not taken up yet."""
        return len(self._unfilled)

    def fill(self, entries: dict[int, Entry]) -> bool:
        """Take up some of what was in flight before, of these entries; return whether that is
        done."""
        for message_id in self._unfilled[-FILL_ENTRIES:]:
            entry = entries.get(message_id)
            if entry is not None and entry.state == IN_FLIGHT:
                self.add(entry)
        del self._unfilled[-FILL_ENTRIES:]
        return not self._unfilled

    def add(self, entry: Entry) -> None:
        """Add a delivery, unless the entry is there from an earlier one."""
        positions, ids = self._levels[entry.level]
        place = bisect_left(positions, entry.position)
        if place == len(positions) or positions[place] != entry.position:
            positions.insert(place, entry.position)
            ids.insert(place, entry.message.id)

    def behind(
        self, entries: dict[int, Entry], level: int, position: int, most: int
    ) -> tuple[list[Entry], int]:
        """Return entries of a level in flight after a position, in order, and how far they reach.

        `most` of them, or fewer if these are all, or if many ended there.
        """
        positions, ids = self._levels[level]
        first = bisect_right(positions, position) if positions else 0
        stop = min(len(positions), first + most + ENDED_MAX)
        found: list[Entry] = []
        place = first
        while place < stop and len(found) < most:
            entry = entries.get(ids[place])
            if (
                entry is not None
                and entry.state == IN_FLIGHT
                and entry.position == positions[place]
            ):
                found.append(entry)
            place += 1
        reached = positions[place - 1] if place < len(positions) else ALL
        if len(found) < place - first:
            positions[first:place] = [entry.position for entry in found]
            ids[first:place] = [entry.message.id for entry in found]
        return found, reached
