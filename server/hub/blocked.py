"""Blocked senders: their command waits for space at a full address. They resume in order.

The engine keeps the line (`engine.limits.waiting_senders`), and a session keeps the command, or its
unread input; this module connects the two. Blocked senders are checked whenever a turn may have
freed space, not only by a timer, so that none waits longer than needed. Must never know sockets.
"""

from collections.abc import Callable
from typing import Any, Final

from daybook.engine.broker import Broker
from daybook.engine.core import capacity
from daybook.engine.limits.waiting_senders import Sender
from daybook.server.hub.peer import Peer

WAKES_AT_A_TIME: Final = 64
"""How many blocked senders resume in one turn."""

SHOWN_MAX: Final = 100
"""How many blocked senders a status lists."""


class BlockedSenders:
    """The blocked senders, and the peers that are not read for that (`stopped`), because their
    protocol has no other way. `find` returns a connection's peer."""

    def __init__(
        self, broker: Broker, clock: Callable[[], int], find: Callable[[int], Peer | None]
    ) -> None:
        self.stopped: Final[dict[Peer, None]] = {}
        self._broker: Final = broker
        self._clock: Final = clock
        self._find: Final = find

    @property
    def count(self) -> int:
        """How many senders are blocked."""
        return self._broker.room.waiting.count

    def stop(self, peer: Peer) -> None:
        """Stop reading from a peer whose session is blocked."""
        self.stopped[peer] = None
        peer.session.is_unheard = True
        peer.transport.pause_reading()
        peer.transport.notice_end()

    def remove(self, peer: Peer) -> None:
        """Forget a peer whose connection has ended."""
        self.stopped.pop(peer, None)

    def wake(self, went_on: Callable[[Peer], None]) -> bool:
        """Resume senders for which there is space, in order; `went_on` is called for each.

        Returns whether there may be more to resume.
        """
        line = self._broker.room.waiting
        left = WAKES_AT_A_TIME
        for name in line.addresses():
            while (sender := capacity.next_in_line(self._broker, name)) is not None:
                peer = self._find(sender[0])
                if peer is None or not peer.session.is_sender_waiting(sender[1]):
                    # Its connection ended, or another of its commands was refused meanwhile.
                    line.leave(sender)
                    continue
                if left == 0:
                    return True
                left -= 1
                self._resume(peer, sender)
                went_on(peer)
                if line.first(name) == sender:
                    break
        return False

    def _resume(self, peer: Peer, sender: Sender) -> None:
        session = peer.session
        line = self._broker.room.waiting
        line.serving = sender
        session.resume_sender(sender[1], self._clock())
        line.serving = None
        if not session.is_blocked:
            self.stopped.pop(peer, None)
        if not session.is_sender_waiting(sender[1]):
            # A command that resumes may not need space any more, so the session leaves the line
            # here.
            line.leave(sender)

    def status(self) -> dict[str, Any]:
        """Return how many senders are blocked, and describe some, for `daybook status`."""
        return {"producers_blocked": self.count, "blocked": self.describe()}

    def describe(self) -> list[dict[str, Any]]:
        """Describe the blocked senders, the longest blocked first."""
        now = self._clock()
        rows: list[dict[str, Any]] = []
        waiting = sorted(self._broker.room.waiting.waiting(), key=lambda each: each[2])
        for (connection, _), address, since in waiting[:SHOWN_MAX]:
            peer = self._find(connection)
            rows.append(
                {
                    "connection": connection,
                    "peer": peer.name if peer is not None else "",
                    "address": address,
                    "seconds": round(max(0, now - since) / 1_000_000, 1),
                    "why": capacity.explain(self._broker, address),
                }
            )
        return rows
