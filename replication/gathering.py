"""Whether a candidate has everything that was confirmed.

A candidate asks all nodes for their promise. Once enough have given it, no older leader can get
enough acknowledgements any more, and what was confirmed is at one of them at least: at that with
the newest blocks. A node that is new, or has lost its directory, does not know what it may have
acknowledged: its answer is not one of those that are enough, until it has caught up with a leader.
But the answers of all nodes are always enough: nobody else can have more. So a cluster begins when
all of its nodes answer. Must never know how nodes are asked.
"""

from collections.abc import Collection
from typing import Final

from daybook.journal.places import Place
from daybook.replication.epochs import epoch_at_end
from daybook.replication.messages import Standing


def freshness(said: Standing) -> tuple[int, Place]:
    """Return what orders nodes by what they have: who has more is greater."""
    return epoch_at_end(said.epochs, said.place), said.place


class Gathering:
    """The answers to one candidate, in one epoch."""

    def __init__(self, own: Standing, needed: int, nodes: Collection[str]) -> None:
        """`needed` answers of nodes that are `counted` are enough, or those of all `nodes`."""
        self.own: Final = own
        self.counted: frozenset[str] | None = None
        self._needed: Final = needed
        self._nodes: Final = frozenset(nodes)
        self._answers: Final = {own.node: own}

    def answer(self, said: Standing) -> None:
        """Take the answer of a node."""
        if said.epoch == self.own.epoch:
            self._answers[said.node] = said

    @property
    def missing(self) -> list[str]:
        """The nodes that have not answered."""
        return sorted(self._nodes - self._answers.keys())

    @property
    def is_complete(self) -> bool:
        """Whether enough nodes have answered, and it is known which ones are `counted`."""
        if self.counted is None:
            return False
        return len(self._knowing() & self.counted) >= self._needed or not self.missing

    def _knowing(self) -> set[str]:
        """Return the nodes whose answers count."""
        return {each.node for each in self._family() if each.is_whole}

    def _family(self) -> list[Standing]:
        """Return the answers of nodes that have the journal of the cluster, or none."""
        family = self._data_ids()
        return [each for each in self._answers.values() if each.data_id in {b"", *family}]

    def _data_ids(self) -> set[bytes]:
        """Return the id of the journal of the cluster: more than one if nobody can tell."""
        if self.own.is_whole:
            return {self.own.data_id}
        answers = [each for each in self._answers.values() if each.data_id]
        return {each.data_id for each in answers if each.is_whole} or {
            each.data_id for each in answers
        }

    @property
    def is_foreign(self) -> bool:
        """Whether the candidate has the journal of another cluster."""
        ids = self._data_ids()
        return len(ids) == 1 and self.own.data_id not in {b"", *ids}

    @property
    def obstacle(self) -> str:
        """Why the candidate must not lead, though enough have answered; "" if it may."""
        ids = self._data_ids()
        if len(ids) > 1:
            others = ", ".join(sorted(each.node for each in self._answers.values() if each.data_id))
            return f"{others} have different journals: leave one of them its data directory"
        if self.is_foreign:
            return "the journal of this node is of another cluster: take its data directory away"
        most = max(self._family(), key=freshness)
        if freshness(most) > freshness(self.own):
            return f"{most.node} has more of the journal"
        return ""
