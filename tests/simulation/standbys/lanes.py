"""The lanes of a simulated leader: blocks that overtake those which its node ships, or come later.

Lanes open late, end with what is under way, and are opened again; the messages of the broker to
its node come later, in order. The product's `Counting` counts, and its `LaneOrder` says what goes
over which lane when.
"""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from daybook.journal.places import Place
from daybook.replication.following import NotFollowing
from daybook.replication.lanes.counting import Counting
from daybook.replication.lanes.order import LaneOrder, Timer, behind
from daybook.replication.messages import Ack, Blocks, Refused
from daybook.replication.node import Role
from tests.simulation.standbys.world import MS

if TYPE_CHECKING:
    from tests.simulation.standbys.cluster import Machine

TELL_US: Final = 50 * MS
HALF: Final = 0.5


class SimTimer:
    """Something that will happen in a simulation, unless it is cancelled."""

    def __init__(self, work: Callable[[], None]) -> None:
        self._work = work

    def cancel(self) -> None:
        """Let it not happen."""
        self._work = lambda: None

    def ring(self) -> None:
        """Let it happen."""
        self._work()


class LeaderLanes:
    """The lanes of one lead of a machine."""

    def __init__(self, machine: "Machine") -> None:
        self.counting: Final = Counting(machine.cluster.acks, machine.cluster.names)
        self._machine: Final = machine
        self._cluster: Final = machine.cluster
        self._world: Final = machine.world
        self._life: Final = machine.life
        self._epoch: Final = machine.node.epoch
        # The product's order of lanes, each by its follower and its number.
        self._open: Final = LaneOrder[tuple[str, int]](
            self.counting.needed, self._send_all, self._later
        )
        # Those that are open, by their followers.
        self._lanes: Final[dict[str, int]] = {}
        self._said_at = 0
        self.confirmed = 0
        self._is_telling = False
        if self.counting.needed:
            for other in self._cluster.names:
                if other != machine.name:
                    self._open_later(other)

    @property
    def is_over(self) -> bool:
        machine = self._machine
        return machine.lanes is not self or not machine.is_alive or machine.life != self._life

    # ---- blocks

    def takes(self, place: Place) -> bool:
        return self.counting.may_send(place, len(self._open))

    def send(self, place: Place, data: bytes) -> None:
        self._open.send(place, data)
        self.counting.sent(behind(place, data))

    def _send_all(self, lanes: list[tuple[str, int]], place: Place, data: bytes) -> None:
        for target, lane in lanes:
            self._send(target, lane, Blocks(place, data))

    def _later(self, seconds: float, work: Callable[[], None]) -> Timer:
        timer = SimTimer(work)

        def ring() -> None:
            if not self.is_over:
                self._machine.do(timer.ring)

        self._world.after(round(seconds * 1_000_000), ring)
        return timer

    def wrote(self, place: Place, lsn: int) -> None:
        if self.counting.wrote(place, lsn, len(self._open)):
            self.tell()
        else:
            self._tell_later()

    def durable(self) -> int:
        """Return what counts, if the lease holds."""
        machine = self._machine
        is_led = machine.node.role is Role.LEADING and machine.node.epoch == self._epoch
        return self.counting.durable if is_led and machine.clock < machine.node.valid_until else 0

    def forget(self, target: str) -> None:
        """Let a follower join, once the node has heard everything."""
        self.lost(target)
        self.counting.lost(target)
        self.tell()
        confirmed, node = self.confirmed, self._machine.node
        self.to_node(lambda: node.forgotten(target, confirmed, self._machine.clock))

    # ---- messages to the node

    def tell(self) -> None:
        self._say(everything=True)

    def _tell_later(self) -> None:
        if self._is_telling:
            return
        self._is_telling = True

        def tell() -> None:
            self._is_telling = False
            if not self.is_over:
                self._say(everything=False)
                if self.counting.is_behind:
                    self._tell_later()

        self._world.after(TELL_US, lambda: self._machine.do(tell))

    def _say(self, *, everything: bool) -> None:
        acks, end = self.counting.tell(everything=everything)
        for name, ack in acks.items():
            self.to_node(partial(self._acknowledged, name, ack))
        if end is not None:
            self.to_node(partial(self._machine.node.wrote, *end))

    def _acknowledged(self, name: str, ack: Ack) -> None:
        self._machine.node.acknowledged(name, ack, self._machine.clock)

    def to_node(self, work: Callable[[], None]) -> None:
        """Let the node do something in this lead, after the work that was given before."""
        machine = self._machine
        self._said_at = max(self._world.now + self._world.chance.randint(0, 5 * MS), self._said_at)
        self._said_at += 1

        def hear() -> None:
            node = machine.node
            if node.role is Role.LEADING and node.epoch == self._epoch:
                work()

        def arrive() -> None:
            if machine.is_alive and machine.life == self._life:
                machine.do(hear)

        self._world.after(self._said_at - self._world.now, arrive)

    # ---- connections

    def _open_later(self, target: str) -> None:
        def dial() -> None:
            if not self.is_over and target not in self._lanes:
                self._dial(target)

        self._world.after(self._world.chance.randint(1, 400) * MS, dial)

    def _dial(self, target: str) -> None:
        source, network, lane = self._machine, self._cluster.network, self._cluster.new_connection()
        there = self._cluster.machines[target]

        def arrive() -> None:
            if there.is_alive:
                there.do(take)
            else:
                self._open_later(target)

        def take() -> None:
            try:
                peer = there.following.lane_of(self._epoch, source.name)
            except NotFollowing:
                self._open_later(target)
                return
            there.taken[lane] = (self, peer)
            if not network.send(target, source.name, lane, lambda: source.do(opened)):
                self._open_later(target)

        def opened() -> None:
            if not self.is_over and target not in self._lanes:
                self._lanes[target] = lane
                self._open.add(target, (target, lane))

        if not network.send(source.name, target, lane, arrive):
            self._open_later(target)

    def _send(self, target: str, lane: int, said: Blocks) -> None:
        there = self._cluster.machines[target]
        life = there.life

        def arrive() -> None:
            is_late = not self._is_open(target, lane)
            if is_late and self._world.chance.random() < HALF:
                return
            if there.is_alive and there.life == life:
                there.do(take)
            elif not is_late:
                self.end(target, lane)

        def take() -> None:
            if lane not in there.taken:
                # It was refused.
                return
            answer = there.following.receive_early(there.taken[lane][1], said)
            if isinstance(answer, Refused):
                there.taken.pop(lane, None)
                self.end(target, lane)
            elif answer is not None:
                self._cluster.check_ack(self._machine, there)
                self.answer(there.name, lane, answer)

        if not self._cluster.network.send(self._machine.name, target, lane, arrive):
            self.end(target, lane)

    def answer(self, target: str, lane: int, ack: Ack) -> None:
        """Send an acknowledgement of a follower over its lane."""

        def hear() -> None:
            if not self.is_over and self._is_open(target, lane):
                self.counting.acked(target, ack)
                self._open.acked(target, ack.place)
                self._tell_later()

        def arrive() -> None:
            self._machine.do(hear)

        if not self._cluster.network.send(target, self._machine.name, lane, arrive):
            self.end(target, lane)

    def end(self, target: str, lane: int) -> None:
        """End a lane; it is opened again after a while."""
        if self._is_open(target, lane) and not self.is_over:
            del self._lanes[target]
            self._open.remove(target)
            self.counting.lost(target)
            self._open_later(target)

    def lost(self, target: str) -> None:
        """Note that a follower has died."""
        if target in self._lanes:
            self.end(target, self._lanes[target])

    def _is_open(self, target: str, lane: int) -> bool:
        return self._lanes.get(target) == lane
