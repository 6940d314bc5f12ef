"""The world of a simulated cluster: its time, its connections, and the arbiter.

Everything is drawn from one seed. Messages are late, connections end with what is under way, one
way or both; the arbiter may be out of reach. Clocks of nodes run at different rates. Must never
know what a node does.
"""

import heapq
import random
from collections.abc import Callable
from typing import Any, Final

from daybook.replication.in_sync import InSync

MS: Final = 1_000


class World:
    """Time, in microseconds, and what is to happen."""

    def __init__(self, seed: int) -> None:
        self.chance: Final = random.Random(seed)
        self.now = 0
        self.log: Final[list[str]] = []
        self._due: Final[list[tuple[int, int, Callable[[], None]]]] = []
        self._count = 0

    def after(self, microseconds: int, action: Callable[[], None]) -> None:
        """Let something happen later."""
        self._count += 1
        heapq.heappush(self._due, (self.now + max(microseconds, 1), self._count, action))

    def run(self, until: int) -> None:
        """Let everything happen until a time."""
        while self._due and self._due[0][0] <= until:
            self.now, _, action = heapq.heappop(self._due)
            action()
        self.now = until

    def note(self, text: str) -> None:
        """Remember an event for the report of a failure."""
        self.log.append(f"{self.now / 1e6:10.6f} {text}")


class Network:
    """Connections between nodes: each is opened by one, and its messages keep their order; those of
    others do not, also of an older one between the same nodes."""

    def __init__(self, world: World) -> None:
        self._world: Final = world
        self.blocked: set[tuple[str, str]] = set()
        self.slow = 1
        self._last: Final[dict[tuple[str, int], int]] = {}

    def delay(self) -> int:
        """How long a message takes."""
        chance = self._world.chance
        return int(chance.choice((50, 100, 200, 500, 5 * MS)) * chance.uniform(0.5, 2) * self.slow)

    def send(self, source: str, target: str, connection: int, deliver: Callable[[], None]) -> bool:
        """Send a message; return False if the way is blocked, so that the connection ends."""
        if (source, target) in self.blocked:
            return False
        way = source, connection
        # Not before one that was sent before.
        at = max(self._world.now + self.delay(), self._last.get(way, 0) + 1)
        self._last[way] = at
        self._world.after(at - self._world.now, deliver)
        return True


class Arbiter:
    """Grants one lease at a time, by its own clock. Epochs grow, until it loses its memory: then
    they continue behind those that nodes know."""

    def __init__(self, world: World, lease_us: int) -> None:
        self._world: Final = world
        self._lease_us: Final = lease_us
        self._epoch = 0
        self._holder = ""
        self._until = 0
        self._in_sync = InSync()
        self.is_down = False
        # What happens when a node is to come on the list next, or to leave it: the leader does not
        # hear whether it was written.
        self.on_list: Callable[[str, str], bool] | None = None
        self.loses = 0.03

    def lose_memory(self) -> None:
        """Forget everything."""
        self._epoch, self._holder, self._until, self._in_sync = 0, "", 0, InSync()

    def acquire(self, node: str, above: int) -> int:
        """Return the epoch of a new lease, above one that the node knows; 0 if there is one."""
        if self._world.now < self._until:
            return 0
        self._epoch = max(self._epoch, above) + 1
        self._holder, self._until = node, self._world.now + self._lease_us
        return self._epoch

    def renew(self, epoch: int) -> bool:
        """Renew a lease; return whether it is still there."""
        if epoch != self._epoch or self._world.now >= self._until:
            return False
        self._until = self._world.now + self._lease_us
        return True

    def release(self, epoch: int) -> None:
        """End a lease."""
        if epoch == self._epoch:
            self._until = 0

    def holder(self) -> tuple[int, str]:
        """Return the epoch of the lease, and its node; epoch 0 without one."""
        return (self._epoch, self._holder) if self._world.now < self._until else (0, "")

    def in_sync(self) -> InSync:
        """Return the list of nodes."""
        return self._in_sync

    def set_in_sync(self, epoch: int, wanted: InSync) -> InSync | None:
        """Replace the list of a version; None if the lease is gone, or it has another one."""
        if self.holder()[0] != epoch or wanted.version != self._in_sync.version:
            return None
        written = InSync(wanted.nodes, wanted.version + 1)
        changed = set(wanted.nodes).symmetric_difference(self._in_sync.nodes)
        if self.on_list is None or not self._in_sync.nodes or len(changed) != 1:
            self._in_sync = written
            return written
        happens, self.on_list = self.on_list, None
        if happens(self._holder, changed.pop()):
            self._in_sync = written
        return None

    def ask(self, node: str, question: Callable[[], Any], answer: Callable[[Any], None]) -> None:
        """Answer a question of a node after a while, or never."""
        world, chance = self._world, self._world.chance

        def arrive() -> None:
            if self.is_down or chance.random() < self.loses:
                return
            found = question()
            if chance.random() >= self.loses:
                world.after(chance.randint(200, 20 * MS), lambda: answer(found))

        world.after(chance.randint(200, 20 * MS), arrive)
