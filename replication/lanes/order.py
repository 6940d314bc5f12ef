"""Which lanes a block goes over at once: as many as count (ADR 119).

Those are the ones that answer first. The others are spare: they get blocks a moment later, several
together, so that a follower whose answer decides nothing takes less of the leader's processor and
network, and of its own disk. A spare one that answers before those in front takes a place there.

Invariants: every block goes over every open lane, in order, once, or twice around a change of the
order; none waits for longer than `SPARE_SECONDS`. Must never know what counts as durable.
"""

from collections.abc import Callable
from typing import Final, Generic, Protocol, TypeAlias, TypeVar

from daybook.journal.places import BEFORE_ALL, Place
from daybook.replication.wire import LANE_BYTES_MAX

L = TypeVar("L")


class Timer(Protocol):
    """Something that will happen."""

    def cancel(self) -> object:
        """Let it not happen."""


Later: TypeAlias = Callable[[float, Callable[[], None]], Timer]
"""Lets something happen after so many seconds."""

SPARE_SECONDS: Final = 0.005
"""How long a block waits for others on its way to a spare follower. If one in front stops to
answer, this is what the receipts of the moment wait for."""


class LaneOrder(Generic[L]):
    """The open lanes of a lead, by the names of their followers, the ones in front first."""

    def __init__(
        self, in_front: int, send: Callable[[list[L], Place, bytes], None], later: Later
    ) -> None:
        """Let so many lanes get each block at once; `send` sends blocks that begin at a place."""
        self._in_front: Final = in_front
        self._send: Final = send
        self._later: Final = later
        self._lanes: dict[str, L] = {}
        self._acked: Final[dict[str, Place]] = {}
        # Blocks that follow each other, and where they begin and end.
        self._held: Final = bytearray()
        self._begin = self._end = BEFORE_ALL
        self._timer: Timer | None = None

    def __len__(self) -> int:
        return len(self._lanes)

    @property
    def names(self) -> list[str]:
        """The followers with an open lane, those in front first."""
        return list(self._lanes)

    def add(self, node: str, lane: L) -> None:
        """Take a lane that was opened, behind all others."""
        self._lanes[node] = lane

    def remove(self, node: str) -> bool:
        """Forget a lane that ended; return whether it was open."""
        self._give_spare()
        self._acked.pop(node, None)
        return self._lanes.pop(node, None) is not None

    def send(self, place: Place, data: bytes) -> None:
        """Send a block that begins at a place."""
        lanes = list(self._lanes.values())
        self._send(lanes[: self._in_front], place, data)
        if len(lanes) > self._in_front:
            self._hold(place, data)

    def acked(self, node: str, place: Place) -> None:
        """Note what a follower acknowledged; one that is spare and has it before those in front
        moves there."""
        if node not in self._lanes:
            return
        self._acked[node] = place
        if len(self._lanes) <= self._in_front or node not in self.names[self._in_front :]:
            return
        before_it = sum(each >= place for each in self._acked.values()) - 1
        if before_it < self._in_front:
            self._give_spare()
            # It may have ended with what it was sent.
            if node in self._lanes:
                self._lanes = {node: self._lanes.pop(node)} | self._lanes

    def _hold(self, place: Place, data: bytes) -> None:
        if place != self._end or len(self._held) + len(data) > LANE_BYTES_MAX:
            self._give_spare()
            self._begin = place
        self._held.extend(data)
        self._end = behind(place, data)
        if self._timer is None:
            self._timer = self._later(SPARE_SECONDS, self._give_spare)

    def _give_spare(self) -> None:
        """Send what spare lanes lack."""
        self.close()
        begin, held = self._begin, bytes(self._held)
        if held:
            # Before one of them ends, and comes here again.
            self._held.clear()
            self._begin = self._end
            self._send(list(self._lanes.values())[self._in_front :], begin, held)

    def close(self) -> None:
        """Let nothing happen later."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def behind(place: Place, data: bytes) -> Place:
    """Return where a block ends that begins at a place."""
    return place._replace(offset=place.offset + len(data))
