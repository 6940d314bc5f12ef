"""A peer: one connection, its session, its transport, and what is on the way between them.

It is what the outbox writes to. It does no I/O itself: the transport is an asyncio one in the
server and a simulated one in the simulator.
"""

from typing import Protocol

from protocols.stomp import Session
from server.outbox import Generation


class Transport(Protocol):
    """What the hub needs of a connection."""

    def write(self, data: bytes) -> None:
        """Take bytes for the peer; never blocks."""
        ...

    def buffered(self) -> int:
        """How many bytes were taken and have not reached the kernel."""
        ...

    def pause_reading(self) -> None:
        """Stop to call `Hub.received`."""
        ...

    def resume_reading(self) -> None:
        """Call `Hub.received` again."""
        ...

    def close(self, delay_ms: int) -> None:
        """Close, once what was written has left, after a delay; then call `Hub.lost`."""
        ...


class Peer:
    """State of one connection in the hub."""

    __slots__ = (
        "acceptor",
        "closed",
        "closing",
        "connection",
        "deadline",
        "generation",
        "is_loopback",
        "login_begun",
        "name",
        "output_limit",
        "released",
        "room",
        "session",
        "transport",
        "waiting_bytes",
    )

    def __init__(
        self, session: Session, transport: Transport, name: str, acceptor: str, room: int
    ) -> None:
        self.session = session
        self.transport = transport
        self.name = name
        self.acceptor = acceptor
        self.is_loopback = False
        self.connection = 0
        self.generation: Generation | None = None
        self.waiting_bytes = 0
        self.room = room
        self.output_limit = 4 * room
        self.released = False
        self.closing = False
        self.closed = False
        self.login_begun = False
        self.deadline = 0

    def release(self, data: bytes) -> None:
        """Bytes of this peer may leave."""
        self.released = True
        if not self.closed:
            self.transport.write(data)

    def output_bytes(self) -> int:
        """Bytes between the session and the kernel."""
        return self.waiting_bytes + self.transport.buffered()
