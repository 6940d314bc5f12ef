"""How much of the journal counts as durable: what enough nodes have on their disks.

Must never know how events get to other nodes, nor who waits for them.
"""

import enum
from collections.abc import Collection
from typing import Final


class Acks(enum.Enum):
    """How many followers have what is confirmed, besides the leader."""

    NONE = "none"
    ONE = "one"
    MAJORITY = "majority"
    ALL = "all"


def followers_needed(acks: Acks, nodes: int, in_sync: int) -> int:
    """Return how many followers must have an event before it counts, in a cluster of so many nodes,
    of which so many are in sync; with `all` these are what counts."""
    if acks is Acks.NONE:
        return 0
    if acks is Acks.ONE:
        return min(1, nodes - 1)
    if acks is Acks.MAJORITY:
        return nodes // 2
    return max(in_sync - 1, 0)


def answers_needed(acks: Acks, nodes: int) -> int:
    """Return of how many nodes, itself included, a candidate must know how far they are.

    So many that each set of nodes which may have confirmed something has one among them. With
    `none` nobody can know, so the candidate's own is enough; with `all` each node that is in sync
    has everything.
    """
    if acks in {Acks.NONE, Acks.ALL}:
        return 1
    return nodes - followers_needed(acks, nodes, nodes)


class Quorum:
    """Which event is the last one that counts; `durable` never falls.

    What was written in older epochs counts only together with the first block of this one: until
    then, a node that has blocks of a newer epoch than those may still lead, and have them cut off.
    """

    def __init__(self, acks: Acks, nodes: Collection[str], in_sync: Collection[str]) -> None:
        """`nodes` are all of the cluster, the leader among them."""
        self.acks: Final = acks
        self._nodes: Final = len(nodes)
        self._in_sync = frozenset(in_sync)
        self.local = 0
        self.durable = 0
        self.first = 0
        self._acked: Final[dict[str, int]] = {}

    def set_in_sync(self, nodes: frozenset[str]) -> None:
        """Let these nodes be the ones that count, with acks = "all"."""
        self._in_sync = nodes
        self._look()

    def wrote(self, lsn: int) -> int:
        """Note what is on the leader's own disk; return what counts."""
        self.first = self.first or lsn
        self.local = max(self.local, lsn)
        return self._look()

    def forget(self, node: str) -> None:
        """Forget what a follower acknowledged: it may have lost its disk since."""
        self._acked.pop(node, None)

    def confirmed(self, lsn: int) -> None:
        """Note what the broker counted itself."""
        self.durable = max(self.durable, lsn)

    def has_all(self, node: str) -> bool:
        """Return whether a follower has everything that was confirmed, in older epochs, too."""
        return 0 < max(self.first, self.durable) <= self._acked.get(node, 0)

    def acknowledged(self, node: str, lsn: int) -> int:
        """Note what is on the disk of a follower; return what counts."""
        self._acked[node] = max(self._acked.get(node, 0), lsn)
        return self._look()

    @property
    def followers_needed(self) -> int:
        """How many followers must have an event before it counts."""
        return followers_needed(self.acks, self._nodes, len(self._in_sync))

    def _look(self) -> int:
        needed = self.followers_needed
        acked = sorted(
            (
                lsn
                for node, lsn in self._acked.items()
                if self.acks is not Acks.ALL or node in self._in_sync
            ),
            reverse=True,
        )
        if needed <= len(acked):
            counts = min([self.local, *acked[needed - 1 : needed]])
            if counts >= self.first:
                self.durable = max(self.durable, counts)
        return self.durable
