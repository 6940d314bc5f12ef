"""The common part of all connections beside the hub's: those of administrators and of onlookers.

Must never know the purpose of their sessions.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Final, Generic, Protocol, TypeVar

from daybook.server.hub.deadlines import Deadlines
from daybook.server.hub.peer import Transport


class _Session(Protocol):
    def tick(self, now: int) -> None: ...
    def clock_stepped(self, step: int, now: int) -> None: ...


class _Peer(Protocol):
    transport: Transport
    deadline: int
    is_paused: bool
    closing: bool
    closed: bool

    @property
    def session(self) -> _Session: ...


_P = TypeVar("_P", bound=_Peer)


class Peers(ABC, Generic[_P]):
    """All connections of a kind; `clock` returns microseconds."""

    def __init__(self, clock: Callable[[], int]) -> None:
        self.peers: Final[set[_P]] = set()
        self._clock: Final = clock
        self._deadlines: Final[Deadlines[_P]] = Deadlines()

    def opened(self, peer: _P) -> None:
        """A peer connected."""
        self.peers.add(peer)
        peer.session.tick(self._clock())
        self._after(peer)

    def drained(self, peer: _P) -> None:
        """The transport of a peer, which was full, has room again."""
        if not peer.closed and not peer.closing:
            self._after(peer)

    def clock_stepped(self, step: int) -> None:
        """The clock was set by so many microseconds: deadlines move along."""
        now = self._clock()
        for peer in list(self.peers):
            peer.session.clock_stepped(step, now)
            self._after(peer)

    @abstractmethod
    def _after(self, peer: _P) -> None:
        """Handle the output and state of a session after a call."""

    def _read(self, peer: _P, wanted: bool) -> None:
        """Read from a peer, or read no more for now."""
        if wanted == peer.is_paused:
            peer.is_paused = not wanted
            if wanted:
                peer.transport.resume_reading()
            else:
                peer.transport.pause_reading()
                peer.transport.notice_end()
