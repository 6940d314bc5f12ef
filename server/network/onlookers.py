"""Onlookers: connections of Watching protocols, which read figures and decide nothing (ADR 30).

They do not use the hub: their answers wait for no disk, and they are answered while the broker
starts, stops, or waits for a disk that hangs. All of their work is done in steps, at most two in
each turn of the event loop, so they cost each turn a few milliseconds at most, whatever their
number and requests. Nothing is read from a peer while it waits for its step, nor while it does not
read its output.

Must never know sockets, nor the figures.
"""

from collections.abc import Callable
from typing import Final

from daybook.protocols.port import MonitoringView, Session
from daybook.server.hub.peer import Transport
from daybook.server.network.peers import Peers

ROOM_BYTES: Final = 64 * 1024
"""A peer gets no more output while more than this many bytes are on their way to it."""


class Onlooker:
    """State of one connection."""

    __slots__ = (
        "closed", "closing", "deadline", "is_paused", "name", "session", "transport",
        "was_answered",
    )  # fmt: skip

    connection = 0
    is_stranger = True

    def __init__(self, session: Session, transport: Transport, name: str) -> None:
        self.session = session
        self.transport = transport
        self.name = name
        self.deadline = 0
        self.is_paused = False
        self.was_answered = False
        self.closing = False
        self.closed = False


class Onlookers(Peers[Onlooker]):
    """All onlookers. `schedule` must call `step` soon; `clock` returns microseconds."""

    room: Final = ROOM_BYTES

    def __init__(
        self, view: MonitoringView, *, clock: Callable[[], int], schedule: Callable[[], None]
    ) -> None:
        super().__init__(clock)
        self.view: Final = view
        self._schedule: Final = schedule
        self._is_scheduled = False
        # Peers with a new request come before those that need many steps, so that a short request
        # is answered soon beside many long ones.
        self._asking: Final[dict[Onlooker, None]] = {}
        self._waiting: Final[dict[Onlooker, None]] = {}

    def received(self, peer: Onlooker, data: bytes) -> None:
        """Bytes came from a peer."""
        if not peer.closed and not peer.closing:
            peer.session.receive(data, self._clock())
            if peer not in self._waiting:
                self._asking[peer] = None
            self._after(peer)

    def lost(self, peer: Onlooker) -> None:
        """The connection of a peer is gone."""
        peer.closed = True
        self.peers.discard(peer)
        self._forget(peer)

    def step(self) -> None:
        """Do one step for a peer with a new request, and one for a peer that needs more steps."""
        self._is_scheduled = False
        peers = [next(iter(line)) for line in (self._waiting, self._asking) if line]
        for peer in peers:
            self._waiting.pop(peer, None)
            self._asking.pop(peer, None)
            peer.session.proceed(self._clock())
            self._after(peer)
        if self._asking or self._waiting:
            self._soon()

    def tick(self) -> None:
        """Do periodic work; called about ten times a second."""
        now = self._clock()
        for peer in self._deadlines.due(now):
            peer.session.tick(now)
            self._after(peer)

    def _after(self, peer: Onlooker) -> None:
        """Handle the output and state of a session after a call."""
        session = peer.session
        out, session.out = session.out, []
        for part in out:
            peer.transport.write(part)
            peer.was_answered = True
        if peer.closing:
            return
        if session.closing:
            peer.closing = True
            self._forget(peer)
            peer.transport.close(session.close_delay_ms)
            return
        is_full = peer.transport.buffered() > ROOM_BYTES
        if is_full or not session.has_more:
            self._asking.pop(peer, None)
        elif peer not in self._asking:
            self._waiting[peer] = None
        if self._asking or self._waiting:
            self._soon()
        self._read(peer, not session.has_more and not is_full)
        if session.next_deadline != peer.deadline:
            self._deadlines.set(peer, session.next_deadline)

    def _forget(self, peer: Onlooker) -> None:
        self._deadlines.forget(peer)
        self._asking.pop(peer, None)
        self._waiting.pop(peer, None)

    def _soon(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            self._schedule()
