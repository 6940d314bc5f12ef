"""A peer: one connection, its session, its transport, and the bytes between them.

The outbox writes to it. Bodies of large messages are not among these bytes: their places between
the bytes are noted, and they are read from the journal when it is their turn (ADR 9). It does no
I/O itself: the transport is one of asyncio in the server and a simulated one in the simulator.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Final, Protocol

from daybook.protocols.port import Body, Caller, MessagingSession, Pull
from daybook.server.hub.outbox import Generation
from daybook.server.hub.turn_lengths import Usage
from daybook.server.users.sasl import SaslLogin

WRITE_HIGH_BYTES: Final = 256 * 1024
"""No more is written of a body, or asked for, while the transport has more bytes in its buffer."""

CHUNKS_AT_ONCE: Final = 4
"""How many chunks of a body are written to a peer in one turn."""

LARGE_AHEAD_CHUNKS: Final = 8
"""How many chunks of a peer may wait for the disk before reading from it pauses, because the events
of others wait behind them.
"""


def write_high(room: int) -> int:
    """Return from how many bytes in its buffer on the transport of a connection with so much room
    is full: less than the room, so that the hub is notified when a buffer drains that was full
    enough to stop deliveries."""
    return min(WRITE_HIGH_BYTES, room // 2)


class Chunks(Protocol):
    """Reads chunks from the journal."""

    def chunks(self, lsns: Sequence[int], before: int) -> list[bytes]:
        """Read consecutive durable chunks after the chunk `before` (0: none). Raises StoreError."""
        ...


class Transport(Protocol):
    """The connection of a peer, as the hub uses it."""

    def write(self, data: bytes) -> None:
        """Take bytes for the peer; never blocks."""
        ...

    def buffered(self) -> int:
        """How many bytes were taken and have not reached the kernel.

        After it was more than `write_high` of the room, `Hub.drained` is called when it is few
        again.
        """
        ...

    def pause_reading(self) -> None:
        """Stop calling `Hub.received`."""
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

    `body_bytes` is the size of bodies that are still to be written and not in memory.
    `deferred_bytes` counts output that may be sent, but waits for a body before it. `moved` is the
    time at which a part of a body was last written. `pulls` are pieces of bodies that the session
    asked for. `awaits_login` is set while nothing is read because the login is being checked.
    `sasl` is a login by SASL that has no outcome yet: between two of its steps the peer is a
    stranger. `user` is the user that logged in, "" before the login; the connection may be opened
    later.
    """

    __slots__ = (
        "_bodies",
        "_deferred",
        "acceptor",
        "address",
        "awaits_login",
        "body_bytes",
        "caller",
        "charged_input",
        "charged_output",
        "closed",
        "closing",
        "connection",
        "deadline",
        "deferred_bytes",
        "fixed_bytes",
        "generation",
        "is_cut",
        "is_tuned",
        "layer_bytes",
        "login_begun",
        "moved",
        "name",
        "output_limit",
        "pulls",
        "released",
        "room",
        "sasl",
        "session",
        "transport",
        "usage",
        "user",
        "waiting_bytes",
    )

    def __init__(
        self,
        session: MessagingSession,
        transport: Transport,
        caller: Caller,
        acceptor: str,
        room: int,
    ) -> None:
        self.session = session
        self.transport = transport
        self.caller = caller
        self.name = caller.name
        self.acceptor = acceptor
        self.address = caller.name.rpartition(":")[0]
        # Whether its room depends on how many connections there are.
        self.is_tuned = False
        self.connection = 0
        self.generation: Generation | None = None
        self.waiting_bytes = 0
        self.room = room
        self.output_limit = room + room // 4
        self.released = False
        self.closing = False
        self.closed = False
        self.login_begun = False
        self.sasl: SaslLogin | None = None
        self.deadline = 0
        self.body_bytes = 0
        self.deferred_bytes = 0
        self.moved = 0
        self.pulls: Final[deque[Pull]] = deque()
        # The bytes that the memory account counts for this peer.
        self.charged_input = 0
        self.charged_output = 0
        self.is_cut = False
        self.awaits_login = False
        self.user = ""
        # Memory of the layers below the session: for input, and for the connection itself.
        self.layer_bytes = 0
        self.fixed_bytes = 0
        self.usage: Final = Usage()
        self._bodies: deque[_BodyUnderWay] = deque()
        self._deferred: deque[bytes] = deque()

    def release(self, data: bytes) -> None:
        """Send bytes to this peer, which are allowed to leave."""
        self.released = True
        if self.closed or self.is_cut:
            return
        if self._bodies:
            self._deferred.append(data)
            self.deferred_bytes += len(data)
        else:
            self.transport.write(data)

    def tick(self, now: int) -> None:
        """Let the session do what is due. Heart-beats overtake output that waits for the disk: a
        client must not take a slow disk for a broker that is gone."""
        session = self.session
        session.awaits_disk = self.generation is not None
        session.tick(now)
        if session.urgent:
            if self._is_between_frames and not (self.closed or self.is_cut):
                self.transport.write(session.urgent)
            session.urgent = b""

    def say_goodbye(self, text: str) -> None:
        """Send the last bytes of the session, as the broker stops."""
        if not (self.closed or self.closing or self.session.closing or self.has_bodies):
            self.transport.write(self.session.farewell(text))

    @property
    def _is_between_frames(self) -> bool:
        """Whether the written output ends with a whole frame: only a body interrupts one."""
        return not self._bodies or (not self._bodies[0].done and self._bodies[0].ahead > 0)

    def output_bytes(self) -> int:
        """Bytes between the session and the kernel that are in memory."""
        return self.waiting_bytes + self.deferred_bytes + self.transport.buffered()

    def expect(self, bodies: Iterable[Body]) -> None:
        """Note the places of bodies in the output that enters the outbox next."""
        for body in bodies:
            before = self.waiting_bytes + self.deferred_bytes + body.at
            ahead = before - sum(other.ahead for other in self._bodies)
            self._bodies.append(_BodyUnderWay(ahead, body))
            self.body_bytes += body.size

    @property
    def is_stranger(self) -> bool:
        """Whether nobody logged in here, and no login is being checked."""
        return not self.connection and (not self.login_begun or self.session.closing)

    @property
    def was_answered(self) -> bool:
        """Whether anything was sent to it; nothing is before its login."""
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
        """LSN of the oldest chunk that is to be read for this peer, or belongs to an incomplete
        body from it; 0 if there is none.
        """
        firsts = [body.chunks[body.done] for body in self._bodies]
        if self.session.first_chunk:
            firsts.append(self.session.first_chunk)
        return min(firsts, default=0)

    def pump(self, chunks: Chunks) -> bool:
        """Write at most a slice of bodies and the bytes between them.

        Returns whether more could be written at once. Raises StoreError.
        """
        while self._bodies:
            body = self._bodies[0]
            self._write_deferred(body)
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
        while self._deferred:
            self.transport.write(self._deferred.popleft())
        self.deferred_bytes = 0
        return False

    def may_pull(self, durable_lsn: int) -> bool:
        """Whether there is a pull whose piece may be sent now."""
        if not self.pulls or self.output_bytes() > WRITE_HIGH_BYTES:
            return False
        return self.pulls[0].needs <= durable_lsn

    def _write_deferred(self, body: _BodyUnderWay) -> None:
        """Write the bytes before a body, as far as they may be sent."""
        while body.ahead and self._deferred:
            data = self._deferred.popleft()
            if len(data) > body.ahead:
                self._deferred.appendleft(data[body.ahead :])
                data = data[: body.ahead]
            self.transport.write(data)
            self.deferred_bytes -= len(data)
            body.ahead -= len(data)

    def drop_bodies(self) -> None:
        """Discard the bodies and all output after them, because the connection ends."""
        self.is_cut = self.has_bodies
        self._bodies.clear()
        self._deferred.clear()
        self.pulls.clear()
        self.body_bytes = self.deferred_bytes = 0
