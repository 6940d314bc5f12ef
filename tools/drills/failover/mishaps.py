"""The mishaps of a cluster: what happens to a node, and how it comes back.

`strike` happens while clients work, `heal` once another client was served. Must never know the
clients.
"""

import signal
from typing import Final

from daybook.tools.drills.failover.cluster import LEADING, Cluster, DrillNode


class Mishap:
    """What happens to the leader: by default its machine is lost, and comes back."""

    what = "the leader and its broker were killed"

    def __init__(self, cluster: Cluster) -> None:
        self.cluster: Final = cluster
        self.struck: DrillNode | None = None
        """The node that cannot serve between `strike` and `heal`; None if all can."""

    def strike(self, leader: DrillNode) -> None:
        """Let it happen."""
        leader.process.kill()
        self.struck = leader

    def heal(self) -> None:
        """Let the node come back. Raises Wrong."""
        assert self.struck is not None
        self.struck.process.launch()


class Stopped(Mishap):
    """A leader that stands still for longer than its lease."""

    what = "the leader and its broker were stopped until another one led, and continued"

    def strike(self, leader: DrillNode) -> None:
        leader.process.signal(signal.SIGSTOP)
        self.struck = leader

    def heal(self) -> None:
        assert self.struck is not None
        self.struck.process.signal(signal.SIGCONT)
        self.cluster.await_that(self._follows, f"node {self.struck.name} does not follow")

    def _follows(self) -> bool | None:
        """Whether the node answers, and does not believe that it leads."""
        assert self.struck is not None
        role = self.struck.status().get("role", LEADING)
        return True if role != LEADING else None


class LostData(Mishap):
    """A leader whose disk is gone with its machine; a node with an empty one takes its place."""

    what = "the leader was killed, and its data directory deleted"

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self.size = 0

    def strike(self, leader: DrillNode) -> None:
        super().strike(leader)
        self.size = self.cluster.lose_data(leader)


class LostBroker(Mishap):
    """A broker that ends while its node lives."""

    what = "the broker of the leader was killed, and its node was not"

    def strike(self, leader: DrillNode) -> None:
        leader.kill_broker()
        self.struck = None

    def heal(self) -> None:
        pass


class LostFollower(Mishap):
    """A follower that is lost: the leader must continue without a break."""

    what = "a follower was killed"

    def strike(self, leader: DrillNode) -> None:
        others = [each for each in self.cluster.nodes.values() if each is not leader]
        self.struck = max(others, key=lambda each: each.name)
        self.struck.process.kill()


class HandedOver(Mishap):
    """No loss at all: another node leads in an orderly way."""

    what = "the lead was handed over, as by `daybook lead --transfer`"

    def strike(self, leader: DrillNode) -> None:
        """Let it happen. Raises Wrong."""
        leader.hand_over()
        self.struck = None

    def heal(self) -> None:
        pass


MISHAPS: Final[tuple[type[Mishap], ...]] = (
    Mishap, Stopped, LostData, LostBroker, LostFollower, HandedOver,
)  # fmt: skip
