"""What a broker counts as durable itself, and what its node is to hear of it (ADR 119).

Data flow: `may_send` and `sent` for a block that goes over lanes, `wrote` for each block that is on
the broker's own disk, `acked` for each answer; `durable` is what counts. The node ships everything
that it hears of, so what followers are about to acknowledge is held back from it for a moment:
`tell` says what it is to hear now, the acknowledgements first.

Invariants: what counts here counts for the node too, once it has heard the same; a block is sent
only behind another one of the same segment; what no follower acknowledged within the time between
two calls of `tell` is shipped by the node. Must never know a socket.
"""

from collections.abc import Collection
from typing import Final, NamedTuple

from daybook.journal.places import BEFORE_ALL, Place
from daybook.replication.messages import Ack
from daybook.replication.quorum import Acks, Quorum


class End(NamedTuple):
    """The end of what is written: a place, and the event before it."""

    place: Place
    lsn: int


NOTHING: Final = End(BEFORE_ALL, 0)


class Told(NamedTuple):
    """What the node is to hear: what followers acknowledged, and the end of what is written; None
    if that is nothing new."""

    acks: dict[str, Ack]
    end: End | None


class Counting:
    """The acknowledgements of one lead."""

    def __init__(self, acks: Acks, nodes: Collection[str]) -> None:
        """`nodes` are all of the cluster, the leader among them."""
        self._quorum: Final = Quorum(acks, nodes, nodes)
        self._others: Final = len(nodes) - 1
        self._end = NOTHING
        self._sent = BEFORE_ALL
        self._acks: Final[dict[str, Ack]] = {}
        # What the node has heard of; what it will hear of at the next call of `tell` at the latest.
        self._told = self._next = NOTHING
        # The node knows alone when a list of nodes in sync, of other acks, is gone.
        self.is_trusted = False

    @property
    def needed(self) -> int:
        """How many lanes it takes; 0 if they are of no use: with `all`, the node knows alone which
        followers count."""
        return 0 if self._quorum.acks is Acks.ALL else self._quorum.followers_needed

    def may_send(self, place: Place, lanes: int) -> bool:
        """Return whether a block that begins at a place may go over so many lanes."""
        return 0 < self.needed <= lanes and BEFORE_ALL != place == self._end.place

    def sent(self, end: Place) -> None:
        """Note that a block which ends at a place went over lanes."""
        self._sent = end

    def wrote(self, place: Place, lsn: int, lanes: int) -> bool:
        """Note what is on the disk of the broker; return whether the node has to hear it at once,
        because not all followers have got it over so many lanes."""
        self._end = End(place, lsn)
        self._quorum.wrote(lsn)
        return place != self._sent or lanes < self._others

    def acked(self, node: str, ack: Ack) -> None:
        """Note what a follower acknowledged over its lane."""
        self._acks[node] = ack
        self._quorum.acknowledged(node, ack.lsn)

    def lost(self, node: str) -> None:
        """Forget what a follower acknowledged: it may have lost its disk."""
        self._acks.pop(node, None)
        self._quorum.forget(node)

    @property
    def durable(self) -> int:
        """The last event that counts, as far as is known here; 0 if none does."""
        return self._quorum.durable if self.is_trusted else 0

    @property
    def is_behind(self) -> bool:
        """Whether there is something that the node has not heard."""
        return bool(self._acks) or self._told != self._end

    def tell(self, *, everything: bool) -> Told:
        """Return what the node is to hear now: everything, or what is acknowledged, or was written
        before the call before this one."""
        has_all = len(self._acks) == self._others and all(
            each.lsn >= self._end.lsn for each in self._acks.values()
        )
        acks = dict(self._acks)
        self._acks.clear()
        end = self._end if everything or has_all else self._next
        self._next = self._end
        if end <= self._told:
            return Told(acks, None)
        self._told = end
        return Told(acks, end)
