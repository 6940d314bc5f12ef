"""A peer: one connection, its session, its transport, and what is on the way between them.

It is what the outbox writes to. Bodies of large messages are not among those bytes: they have
places between them, and are read back from the journal when their turn has come (ADR 9). It does no
I/O itself: the transport is an asyncio one in the server and a simulated one in the simulator.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Final, Protocol

from daybook.protocols.port import Body, MessagingSession
from daybook.server.outbox import Generation

WRITE_HIGH_BYTES: Final = 256 * 1024
"""A transport with more than this in its buffer is full, and says so when it has drained."""

CHUNKS_AT_ONCE: Final = 4
"""How many chunks of a body a peer is written before others have their turn."""

LARGE_AHEAD_CHUNKS: Final = 8
"""How many chunks that a peer sends may wait for the disk before it is read no more: what is
written for others waits behind them."""


class Chunks(Protocol):
    """Who reads chunks back from the journal."""

    def chunks(self, lsns: Sequence[int], before: int) -> list[bytes]:
        """Durable chunks that follow each other and the one `before`, 0: none. StoreError."""
        ...


class Transport(Protocol):
    """What the hub needs of a connection."""

    def write(self, data: bytes) -> None:
        """Take bytes for the peer; never blocks."""
        ...

    def buffered(self) -> int:
        """How many bytes were taken and have not reached the kernel.

        After it was more than WRITE_HIGH_BYTES, `Hub.drained` is called when it is few again.
        """
        ...

    def pause_reading(self) -> None:
        """Stop to call `Hub.received`."""
        ...

    def notice_end(self) -> None:
        """Call `Hub.lost` as soon as the peer is gone, although nothing is read, until it is."""
        ...

    def resume_reading(self) -> None:
        """Call `Hub.received` again."""
        ...

    def close(self, delay_ms: int) -> None:
        """Close, once what was written has left, after a delay; then call `Hub.lost`."""
        ...


class _BodyUnderWay:
    """A body that is to follow `ahead` more bytes; `done` of its chunks were written."""

    __slots__ = ("ahead", "body", "chunks", "done")

    def __init__(self, ahead: int, body: Body) -> None:
        self.ahead = ahead
        self.body = body
        self.chunks = body.chunks
        self.done = 0


class Peer:
    """State of one connection in the hub.

    `body_bytes` is how much of bodies is still to be written, and in no memory. `held_bytes` may
    leave, and wait for a body before them. `moved` is when something of a body was written last.
    `is_held` is set while nothing is read because the login is being checked.
    """

    __slots__ = (
        "_bodies",
        "_held",
        "acceptor",
        "address",
        "body_bytes",
        "charged_input",
        "charged_output",
        "closed",
        "closing",
        "connection",
        "deadline",
        "generation",
        "held_bytes",
        "is_cut",
        "is_held",
        "is_loopback",
        "login_begun",
        "moved",
        "name",
        "output_limit",
        "released",
        "room",
        "session",
        "transport",
        "waiting_bytes",
    )

    def __init__(
        self, session: MessagingSession, transport: Transport, name: str, acceptor: str, room: int
    ) -> None:
        self.session = session
        self.transport = transport
        self.name = name
        self.acceptor = acceptor
        self.address = name.rpartition(":")[0]
        self.is_loopback = False
        self.connection = 0
        self.generation: Generation | None = None
        self.waiting_bytes = 0
        self.room = room
        self.output_limit = room + room // 4
        self.released = False
        self.closing = False
        self.closed = False
        self.login_begun = False
        self.deadline = 0
        self.body_bytes = 0
        self.held_bytes = 0
        self.moved = 0
        # What the account of memory counts for this peer.
        self.charged_input = 0
        self.charged_output = 0
        self.is_cut = False
        self.is_held = False
        self._bodies: deque[_BodyUnderWay] = deque()
        self._held: deque[bytes] = deque()

    def release(self, data: bytes) -> None:
        """Bytes of this peer may leave."""
        self.released = True
        if self.closed or self.is_cut:
            return
        if self._bodies:
            self._held.append(data)
            self.held_bytes += len(data)
        else:
            self.transport.write(data)

    def output_bytes(self) -> int:
        """Bytes between the session and the kernel that are in memory."""
        return self.waiting_bytes + self.held_bytes + self.transport.buffered()

    def expect(self, bodies: Iterable[Body]) -> None:
        """Note the places of bodies in what is put into the outbox next."""
        for body in bodies:
            before = self.waiting_bytes + self.held_bytes + body.at
            ahead = before - sum(other.ahead for other in self._bodies)
            self._bodies.append(_BodyUnderWay(ahead, body))
            self.body_bytes += body.size

    @property
    def is_stranger(self) -> bool:
        """Whether nobody logged in here, and no login is being checked."""
        return not self.connection and (not self.login_begun or self.session.closing)

    @property
    def was_answered(self) -> bool:
        """Whether it was sent anything: it is not before its login."""
        return not self.is_stranger

    @property
    def has_bodies(self) -> bool:
        """Whether bodies are on the way."""
        return bool(self._bodies)

    @property
    def body(self) -> Body | None:
        """The body that is written now, or next; None if there is none."""
        return self._bodies[0].body if self._bodies else None

    def first_chunk(self) -> int:
        """LSN of the oldest chunk that is to be read for this peer, or was sent by it for a body
        that is not whole yet; 0 if there is none."""
        firsts = [body.chunks[body.done] for body in self._bodies]
        if self.session.first_chunk:
            firsts.append(self.session.first_chunk)
        return min(firsts, default=0)

    def pump(self, chunks: Chunks) -> bool:
        """Write what is next of bodies and of the bytes around them, a slice at most.

        Answers whether there is more that could be written at once. Raises StoreError.
        """
        while self._bodies:
            body = self._bodies[0]
            self._write_held(body)
            if body.ahead or self.transport.buffered() > WRITE_HIGH_BYTES:
                return False
            lsns = body.chunks[body.done : body.done + CHUNKS_AT_ONCE]
            before = body.chunks[body.done - 1] if body.done else 0
            for chunk in chunks.chunks(lsns, before):
                self.transport.write(chunk)
                self.body_bytes -= len(chunk)
            body.done += len(lsns)
            if body.done < len(body.chunks):
                return True
            self._bodies.popleft()
        while self._held:
            self.transport.write(self._held.popleft())
        self.held_bytes = 0
        return False

    def _write_held(self, body: _BodyUnderWay) -> None:
        """Write what comes before a body, as far as it may leave."""
        while body.ahead and self._held:
            data = self._held.popleft()
            if len(data) > body.ahead:
                self._held.appendleft(data[body.ahead :])
                data = data[: body.ahead]
            self.transport.write(data)
            self.held_bytes -= len(data)
            body.ahead -= len(data)

    def drop_bodies(self) -> None:
        """Forget the bodies, and all that comes behind them: nobody will read it."""
        self.is_cut = self.has_bodies
        self._bodies.clear()
        self._held.clear()
        self.body_bytes = self.held_bytes = 0
