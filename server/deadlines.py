"""When sessions want to be called next: a heap of deadlines, without those of peers that have gone.

A peer says how far away its deadline is (heart-beats), and may be gone long before. An entry of the
heap that no longer counts stays in it, until there are as many of these as of others: then the heap
is made anew from what counts. Invariant: it holds at most twice as many entries as there are peers,
and a few; each change costs O(log n) on average.
"""

from collections.abc import Iterator
from heapq import heapify, heappop, heappush
from typing import Final, Generic, Protocol, TypeVar

STALE_MIN: Final = 64
"""So few entries that no longer count are not worth a new heap."""


class Waiting(Protocol):
    """Whose deadlines are kept; `deadline` is the one that counts, 0 for none."""

    deadline: int
    closed: bool


Peer = TypeVar("Peer", bound=Waiting)


class Deadlines(Generic[Peer]):
    """The next deadline of each peer, in microseconds; its `deadline` is the one that counts."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Peer]] = []
        self._serial = 0
        self._stale = 0

    def __len__(self) -> int:
        """How many entries there are, those included that no longer count."""
        return len(self._heap)

    def set(self, peer: Peer, deadline: int) -> None:
        """Give a peer another deadline, 0 for none."""
        self.forget(peer)
        peer.deadline = deadline
        if deadline:
            self._serial += 1
            heappush(self._heap, (deadline, self._serial, peer))

    def forget(self, peer: Peer) -> None:
        """Call no more for a peer, which may have gone."""
        if peer.deadline:
            peer.deadline = 0
            self._leave_one()

    def due(self, now: int) -> Iterator[Peer]:
        """Take the peers whose deadlines have come; each has none then."""
        while self._heap and self._heap[0][0] <= now:
            deadline, _, peer = heappop(self._heap)
            if peer.deadline == deadline and not peer.closed:
                peer.deadline = 0
                yield peer
            elif self._stale:
                self._stale -= 1

    def _leave_one(self) -> None:
        """One more entry no longer counts."""
        self._stale += 1
        if self._stale > STALE_MIN and 2 * self._stale > len(self._heap):
            self._heap = [entry for entry in self._heap if entry[2].deadline == entry[0]]
            heapify(self._heap)
            self._stale = 0
