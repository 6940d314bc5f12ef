"""The deadlines of sessions: a heap that also bounds its obsolete entries.

A peer chooses how far away its deadline is (heart-beats), and may disconnect long before. Obsolete
entries stay in the heap until they are as many as the valid ones; then the heap is rebuilt from the
valid ones. Invariant: the heap has at most about twice as many entries as there are peers; each
change costs O(log n) on average.
"""

from collections.abc import Iterator
from heapq import heapify, heappop, heappush
from typing import Final, Generic, Protocol, TypeVar

STALE_MIN: Final = 64
"""The heap is not rebuilt for fewer obsolete entries."""


class Waiting(Protocol):
    """The owner of a deadline; `deadline` is the valid one, 0 for none."""

    deadline: int
    closed: bool


Peer = TypeVar("Peer", bound=Waiting)


class Deadlines(Generic[Peer]):
    """The next deadline of each peer, in microseconds; the peer's `deadline` is the valid one."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Peer]] = []
        self._serial = 0
        self._stale = 0

    def __len__(self) -> int:
        """Return the number of entries, including obsolete ones."""
        return len(self._heap)

    def set(self, peer: Peer, deadline: int) -> None:
        """Give a peer another deadline, 0 for none."""
        self.forget(peer)
        peer.deadline = deadline
        if deadline:
            self._serial += 1
            heappush(self._heap, (deadline, self._serial, peer))

    def forget(self, peer: Peer) -> None:
        """Drop the deadline of a peer."""
        if peer.deadline:
            peer.deadline = 0
            self._leave_one()

    def due(self, now: int) -> Iterator[Peer]:
        """Yield the peers whose deadlines have passed, and clear these deadlines."""
        while self._heap and self._heap[0][0] <= now:
            deadline, _, peer = heappop(self._heap)
            if peer.deadline == deadline and not peer.closed:
                peer.deadline = 0
                yield peer
            elif self._stale:
                self._stale -= 1

    def _leave_one(self) -> None:
        """Note that one more entry is obsolete."""
        self._stale += 1
        if self._stale > STALE_MIN and 2 * self._stale > len(self._heap):
            self._heap = [entry for entry in self._heap if entry[2].deadline == entry[0]]
            heapify(self._heap)
            self._stale = 0
