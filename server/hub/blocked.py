"""Blocked peers: their command waits for space at a full address. They resume in order.

The engine keeps the line (`engine.limits.waiting_senders`), and a session keeps its unread input;
this module connects the two. Blocked peers are checked whenever a turn may have freed space, not
only by a timer, so that none waits longer than needed. Must never know sockets.
"""

from collections.abc import Callable
from typing import Any, Final

from daybook.engine.broker import Broker
from daybook.engine.core import capacity
from daybook.server.hub.peer import Peer

WAKES_AT_A_TIME: Final = 64
"""How many blocked peers resume in one turn."""

SHOWN_MAX: Final = 100
"""How many blocked peers a status lists."""


class BlockedPeers:
    """The blocked peers, with the begin in microseconds. `find` returns a connection's peer."""

    def __init__(
        self, broker: Broker, clock: Callable[[], int], find: Callable[[int], Peer | None]
    ) -> None:
        self.since: Final[dict[Peer, int]] = {}
        self._broker: Final = broker
        self._clock: Final = clock
        self._find: Final = find

    def add(self, peer: Peer) -> None:
        """Stop reading from a peer whose session is blocked."""
        self.since[peer] = self._clock()
        peer.session.is_unheard = True
        peer.transport.pause_reading()
        peer.transport.notice_end()

    def remove(self, peer: Peer) -> None:
        """Forget a peer whose connection has ended."""
        self.since.pop(peer, None)

    def wake(self, went_on: Callable[[Peer], None]) -> bool:
        """Resume sessions for which there is space, in order; `went_on` is called for each.

        Returns whether there may be more to resume.
        """
        line = self._broker.room.line
        left = WAKES_AT_A_TIME
        for name in line.addresses():
            while connection := capacity.next_in_line(self._broker, name):
                peer = self._find(connection)
                if peer is None or peer not in self.since:
                    # Its connection ended, or another of its commands was refused meanwhile.
                    line.leave(connection)
                    continue
                if left == 0:
                    return True
                left -= 1
                self._proceed(peer, connection)
                went_on(peer)
                if line.first(name) == connection:
                    break
        return False

    def _proceed(self, peer: Peer, connection: int) -> None:
        now = self._clock()
        line = self._broker.room.line
        line.serving = connection
        peer.session.proceed(now)
        line.serving = 0
        if peer.session.is_blocked:
            self.since[peer] = now
        else:
            del self.since[peer]
            # A command that resumes may not need space any more, so the session leaves the line
            # here.
            line.leave(connection)

    def status(self) -> dict[str, Any]:
        """Return how many peers are blocked, and describe some, for `daybook status`."""
        return {"producers_blocked": len(self.since), "blocked": self.describe()}

    def describe(self) -> list[dict[str, Any]]:
        """Describe the blocked peers, the longest blocked first."""
        now = self._clock()
        rows: list[dict[str, Any]] = []
        for peer, since in sorted(self.since.items(), key=lambda item: item[1])[:SHOWN_MAX]:
            name = self._broker.room.line.address_of(peer.connection) or ""
            rows.append(
                {
                    "connection": peer.connection,
                    "peer": peer.name,
                    "address": name,
                    "seconds": round(max(0, now - since) / 1_000_000, 1),
                    "why": capacity.explain(self._broker, name),
                }
            )
        return rows
