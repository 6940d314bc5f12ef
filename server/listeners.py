"""Listening sockets and connections: the asyncio shell around the hub.

Everything that is decided about a connection is decided in the hub and in its session; here bytes
are moved between them and the sockets. Fault model: a peer may vanish, stall, or never read at any
moment.
"""

import asyncio
import contextlib
import socket
from itertools import islice
from typing import Final, cast

from daybook.journal.spares import OUT_OF_DESCRIPTORS
from daybook.protocols.registry import OFFERS
from daybook.server.admission import Admission
from daybook.server.config import AcceptorConfig
from daybook.server.entrances import Entrance, Entrances, Guest, House
from daybook.server.error_frames import ErrorFrames
from daybook.server.figures import AcceptorFigures
from daybook.server.hangups import Hangups
from daybook.server.logs import logger
from daybook.server.peer import WRITE_HIGH_BYTES

READ_BYTES: Final = 64 * 1024
"""Most bytes taken from a socket at once: after each such piece others get their turn, and the
writer gets its next block while the rest is still being read."""

EARLY_READ_BYTES: Final = 4 * 1024
"""The same before the login: so little of a stranger is ever in memory."""

ABORT_AFTER_SECONDS: Final = 5.0
"""How long a closed connection may take to get rid of what was written to it."""

BACKLOG: Final = 1024
"""How many connections the kernel holds until they are accepted."""

ACCEPTS_AT_ONCE: Final = 64
"""How many connections are accepted before others have their turn; only one where the oldest makes
room for the newest, so that it is asked what it wants before it goes."""

ANSWERED_AMONG: Final = 64
"""Among how many of the oldest connections one is looked for that got an answer."""

KEEPALIVE_PROBES: Final = 6
"""How often the kernel asks a silent peer before it gives it up."""

_LOOPBACK: Final = ("127.", "::1", "::ffff:127.")

log = logger("listeners")


class Acceptor:
    """One address that is listened on, by a socket for each way to reach it.

    Sockets are accepted here and not by the event loop, which would go on accepting when there are
    no descriptors left, and could not ask before it has made a transport.
    """

    def __init__(self, entrances: Entrances, config: AcceptorConfig, admission: Admission) -> None:
        self.config = config
        self.admission: Final = admission
        self.error_frames: Final = ErrorFrames(config.name)
        # Oldest first.
        self.connections: Final[dict[Connection, None]] = {}
        self.entrance: Entrance = entrances.make(config)
        self._entrances: Final = entrances
        # One buffer for all: it is emptied before the next read, whoever that is for.
        self.buffer: Final = memoryview(bytearray(READ_BYTES))
        self.early_buffer: Final = self.buffer[:EARLY_READ_BYTES]
        self.hangups: Hangups
        self._loop: asyncio.AbstractEventLoop
        self._sockets: list[socket.socket] = []
        self._is_accepting = False
        self._opening: Final[set[asyncio.Task[None]]] = set()

    async def bind(self) -> None:
        """Take the port, and no connections yet; raises OSError."""
        self._loop = asyncio.get_running_loop()
        self.hangups = Hangups(self._loop)
        self._sockets = await _bound(self.config.host, self.config.port)

    async def start(self) -> None:
        """Accept connections. Raises OSError if another process listens on the port by now."""
        for listener in self._sockets:
            listener.listen(BACKLOG)
        self._accept_again()

    def _accept_again(self) -> None:
        self._is_accepting = True
        for listener in self._sockets:
            self._loop.add_reader(listener.fileno(), self._accept, listener)

    def _hold_off(self) -> None:
        """Leave connections to the kernel's queue, until `tick` finds descriptors."""
        self._is_accepting = False
        for listener in self._sockets:
            self._loop.remove_reader(listener.fileno())

    def tick(self) -> None:
        """Accept again if that was held off and there are descriptors; ten times a second."""
        if self._sockets and not self._is_accepting and not self.admission.descriptors.is_short:
            log.info("connections are accepted again", acceptor=self.config.name)
            self._accept_again()

    def _accept(self, listener: socket.socket) -> None:
        """Accept what waits at a socket, up to a limit."""
        for _ in range(ACCEPTS_AT_ONCE if self.entrance.logs_in else 1):
            if self.admission.descriptors.is_short:
                self._run_out("files needed the descriptors in reserve")
                return
            try:
                accepted, address = listener.accept()
            except BlockingIOError:
                return
            except OSError as error:
                # Anything else concerns the one connection, which is gone.
                if error.errno in OUT_OF_DESCRIPTORS:
                    self._run_out(str(error))
                    return
                continue
            self._take(accepted, str(address[0]), int(address[1]))

    def _run_out(self, why: str) -> None:
        log.warning(
            "no descriptors are left: no connections are accepted until there are",
            acceptor=self.config.name,
            why=why,
        )
        self._hold_off()

    def _take(self, accepted: socket.socket, host: str, port: int) -> None:
        """Make a connection of a socket, or say why not."""
        refusal = self.refusal(host)
        if refusal:
            self.admission.note_refusal(host, refusal)
            _dismiss(accepted, self.explain(refusal))
            return
        accepted.setblocking(False)
        with contextlib.suppress(OSError):
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            _keep_alive(accepted, self.config.tcp_keepalive)
        connection = Connection(self, host, port)
        self.connections[connection] = None
        if self.entrance.logs_in:
            self.admission.add(connection, host)
        task = self._loop.create_task(self._open(connection, accepted))
        self._opening.add(task)
        task.add_done_callback(self._opening.discard)

    async def _open(self, connection: "Connection", accepted: socket.socket) -> None:
        try:
            await self._loop.connect_accepted_socket(lambda: connection, accepted)
        except OSError as error:
            # The peer is gone already.
            accepted.close()
            connection.connection_lost(error)

    def forget(self, connection: "Connection") -> None:
        """Count a connection no more; its socket is closed."""
        if connection in self.connections:
            del self.connections[connection]
            if self.entrance.logs_in:
                self.admission.remove(connection, connection.host)

    @property
    def port(self) -> int:
        """The port that is really listened on, which the system chose if 0 was asked for."""
        if not self._sockets:
            return self.config.port
        return int(self._sockets[0].getsockname()[1])

    @property
    def figures(self) -> AcceptorFigures:
        """What it says of itself."""
        return AcceptorFigures(self.config.name, self.config.protocol, len(self.connections))

    @property
    def url(self) -> str:
        """Where clients connect to."""
        host = f"[{self.config.host}]" if ":" in self.config.host else self.config.host
        return f"{self.config.protocol}://{host}:{self.port}"

    def configure(self, config: AcceptorConfig) -> None:
        """Put a changed configuration in force for connections to come."""
        self.config = config
        self.entrance = self._entrances.make(config)

    def refusal(self, host: str) -> str:
        """Say why no more connections are taken now; empty if they are.

        Where nobody logs in, the newest has as much right to be here as the oldest, which is
        closed for it: so nobody is kept out by connections that ask for nothing. Those that got an
        answer go first, so that whoever connects to ask one thing hears it.
        """
        if not self.entrance.logs_in:
            while len(self.connections) >= self.config.max_connections:
                oldest = list(islice(self.connections, ANSWERED_AMONG))
                answered = (connection for connection in oldest if connection.was_answered)
                self._displace(next(answered, oldest[0]))
            return ""
        refusal = self.admission.refusal(host)
        if refusal:
            return refusal
        if len(self.connections) >= self.config.max_connections:
            return f"acceptor {self.config.name} has reached max-connections"
        return ""

    def _displace(self, connection: "Connection") -> None:
        self.forget(connection)
        connection.abort()

    def explain(self, why: str) -> bytes:
        """Say in bytes of the protocol why a connection is not taken, or is closed."""
        return OFFERS[self.config.protocol].refusal(why)

    def stop(self) -> None:
        """Listen no more; connections stay."""
        self._hold_off()
        for listener in self._sockets:
            listener.close()
        self._sockets = []

    def close_all(self) -> None:
        """Close what is still connected."""
        for connection in list(self.connections):
            if connection.is_made:
                connection.close(0)
        self.hangups.close()
        self.error_frames.report()


class Connection(asyncio.BufferedProtocol):
    """One socket: the transport of a peer."""

    def __init__(self, acceptor: Acceptor, host: str, port: int) -> None:
        self._acceptor: Final = acceptor
        self._entrance: Final = acceptor.entrance
        self._house: Final[House] = acceptor.entrance.house
        self.host: Final = host
        self._port: Final = port
        self._transport: asyncio.Transport | None = None
        self._peer: Guest | None = None
        self._dismissed = ""
        self._is_unwanted = False
        self._watched = -1
        self._early_buffer: Final = acceptor.early_buffer
        self._buffer: Final = acceptor.buffer

    @property
    def is_made(self) -> bool:
        """Whether there is a transport; the event loop makes one soon after accepting."""
        return self._transport is not None

    @property
    def has_logged_in(self) -> bool:
        """Whether it belongs to a user, and will until it is closed."""
        return self._peer is not None and self._peer.connection != 0

    @property
    def is_stranger(self) -> bool:
        """Whether nobody logged in on it, and no login is being checked."""
        return self._peer is None or self._peer.is_stranger

    @property
    def was_answered(self) -> bool:
        """Whether it was sent anything."""
        return self._peer is not None and self._peer.was_answered

    def dismiss(self, why: str) -> None:
        """Tell the peer why, and close; as soon as there is a transport."""
        if self._transport is None:
            self._dismissed = why
            return
        if self._peer is not None and not self._peer.session.closing:
            self.write(self._acceptor.explain(why))
        self.close(0)

    def abort(self) -> None:
        """Close at once, without a word; as soon as there is a transport."""
        self._is_unwanted = True
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A peer connected."""
        self._transport = cast(asyncio.Transport, transport)
        name = f"{self.host}:{self._port}"
        # Less than the room of the connection: its house must hear when a buffer has drained that
        # was full enough to stop what is sent.
        high = min(WRITE_HIGH_BYTES, self._entrance.room // 2)
        self._transport.set_write_buffer_limits(high, high // 4)
        is_loopback = self.host.startswith(_LOOPBACK)
        peer = self._peer = self._entrance.guest(self, name, is_loopback=is_loopback)
        log.debug("connected", peer=name, acceptor=self._acceptor.config.name)
        self._house.opened(peer)
        if self._is_unwanted:
            self.abort()
        if self._dismissed:
            self.dismiss(self._dismissed)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Where to put what comes."""
        peer = self._peer
        return self._buffer if peer is not None and peer.connection else self._early_buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Bytes came."""
        if self._peer is not None:
            self._house.received(self._peer, bytes(self._buffer[:nbytes]))

    def resume_writing(self) -> None:
        """The write buffer has room again."""
        if self._peer is not None:
            self._house.drained(self._peer)

    def connection_lost(self, exc: Exception | None) -> None:
        """The socket is closed."""
        self._acceptor.forget(self)
        self._unwatch()
        peer, self._peer = self._peer, None
        if peer is not None:
            log.debug("disconnected", peer=peer.name, error=str(exc) if exc else None)
            self._house.lost(peer)

    def write(self, data: bytes) -> None:
        """Send bytes."""
        assert self._transport is not None
        if not self._transport.is_closing():
            self._transport.write(data)

    def buffered(self) -> int:
        """How many bytes wait for the kernel."""
        assert self._transport is not None
        return self._transport.get_write_buffer_size()

    def pause_reading(self) -> None:
        """Stop reading from the socket."""
        assert self._transport is not None
        if not self._transport.is_closing():
            self._transport.pause_reading()

    def notice_end(self) -> None:
        """Give the connection up when the peer closes it, although nothing is read."""
        transport = self._transport
        assert transport is not None
        if not transport.is_closing():
            self._watched = transport.get_extra_info("socket").fileno()
            self._acceptor.hangups.watch(self._watched, transport.abort)

    def resume_reading(self) -> None:
        """Read from the socket again."""
        assert self._transport is not None
        self._unwatch()
        if not self._transport.is_closing():
            self._transport.resume_reading()

    def _unwatch(self) -> None:
        if self._watched >= 0:
            self._acceptor.hangups.forget(self._watched)
            self._watched = -1

    def close(self, delay_ms: int) -> None:
        """Close when what was written has left, or else a few seconds later."""
        transport = self._transport
        assert transport is not None
        if self._peer is not None and self._peer.session.error:
            error, self._peer.session.error = self._peer.session.error, ""
            self._acceptor.error_frames.note(self.host, self._peer.name, error)
        loop = asyncio.get_running_loop()
        if delay_ms:
            loop.call_later(delay_ms / 1000, transport.close)
        else:
            transport.close()
        loop.call_later(delay_ms / 1000 + ABORT_AFTER_SECONDS, transport.abort)


async def _bound(host: str, port: int) -> list[socket.socket]:
    """Sockets bound to each address that a host name means; raises OSError."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    bound: list[socket.socket] = []
    try:
        for family, kind, protocol, _, address in dict.fromkeys(found):
            listener = socket.socket(family, kind, protocol)
            bound.append(listener)
            listener.setblocking(False)
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                # An acceptor for IPv4 may have the same port.
                listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            listener.bind(address)
    except BaseException:
        for listener in bound:
            listener.close()
        raise
    return bound


def _keep_alive(accepted: socket.socket, idle_ms: int) -> None:
    """Ask the kernel to find out about peers that vanished without a word."""
    if not idle_ms:
        return
    accepted.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, max(1, idle_ms // 1000))
    interval = max(1, idle_ms // 1000 // KEEPALIVE_PROBES)
    accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, interval)
    accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, KEEPALIVE_PROBES)


def _dismiss(accepted: socket.socket, why: bytes) -> None:
    """Tell a peer why it is not let in, as far as it can be told at once, and close."""
    with accepted, contextlib.suppress(OSError):
        accepted.setblocking(False)
        accepted.send(why)
        accepted.shutdown(socket.SHUT_WR)
        # What came and is not read would make the kernel take back what was said.
        accepted.recv(READ_BYTES)
