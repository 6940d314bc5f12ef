"""Listening sockets and connections: the asyncio shell around the hub.

The hub and the session decide everything about a connection; this module moves bytes between them
and the sockets. Fault model: a peer may disappear, stall, or stop reading at any moment.
"""

import asyncio
import contextlib
import socket
from collections.abc import Callable
from functools import partial
from itertools import islice
from typing import Any, Final, cast

from daybook.journal.spares import OUT_OF_DESCRIPTORS
from daybook.protocols.registry import OFFERS
from daybook.server.admission import Admission
from daybook.server.config import AcceptorConfig
from daybook.server.encryption import is_loopback
from daybook.server.entrances import Entrance, Entrances, Guest, House
from daybook.server.error_frames import LAYER_FAILED, ErrorFrames
from daybook.server.figures import AcceptorFigures
from daybook.server.hangups import Hangups
from daybook.server.layers.certificates import Identity, TlsError
from daybook.server.layers.client_names import ClientNames
from daybook.server.layers.handshakes import Handshakes
from daybook.server.layers.shell import Shell
from daybook.server.layers.tls import HANDSHAKE_RECORD, REFUSAL, Tls
from daybook.server.logs import logger
from daybook.server.peer import WRITE_HIGH_BYTES, Peer

READ_BYTES: Final = 64 * 1024
"""The most bytes read from a socket at once: after each read other connections have their turn, and
the writer gets its next block while the rest is still being read.
"""

EARLY_READ_BYTES: Final = 4 * 1024
"""The same before the login, which limits the memory for strangers."""

ABORT_AFTER_SECONDS: Final = 5.0
"""How long a closed connection may take to send its remaining output."""

BACKLOG: Final = 1024
"""How many connections the kernel queues until they are accepted."""

ACCEPTS_AT_ONCE: Final = 64
"""How many connections are accepted in one turn; only one where a new connection closes the oldest,
so that the oldest can be served before.
"""

WARN_SECONDS: Final = 24 * 3600.0
"""How often warnings about a certificate are repeated."""

ANSWERED_AMONG: Final = 64
"""Among how many of the oldest connections an answered one is searched."""

KEEPALIVE_PROBES: Final = 6
"""How many unanswered keep-alive probes the kernel sends before it closes a connection."""

WRONG_PORT: Final = "this port speaks TLS: connect with TLS (stomp+ssl, stomps, wss or https)"

log = logger("listeners")


class Acceptor:
    """A listening address, with a socket for each resolved address.

    Sockets are accepted here and not by the event loop, which would continue to accept without free
    descriptors, and could refuse a connection only after it has created a transport.
    """

    def __init__(self, entrances: Entrances, config: AcceptorConfig, admission: Admission) -> None:
        """Raise TlsError if the certificate cannot be used."""
        self.config = config
        self.admission: Final = admission
        self.error_frames: Final = ErrorFrames(config.name)
        self.layer_errors: Final = ErrorFrames(config.name, LAYER_FAILED, by_reason=True)
        self._warn_at = 0.0
        self.identity = self._identify(config) if config.tls else None
        self.client_names = _names(config)
        # Oldest first.
        self.connections: Final[dict[Connection, None]] = {}
        self.entrance: Entrance = entrances.make(config)
        self._entrances: Final = entrances
        # One buffer for all connections: its content is processed before the next read.
        self.buffer: Final = memoryview(bytearray(READ_BYTES))
        self.early_buffer: Final = self.buffer[:EARLY_READ_BYTES]
        self.hangups: Hangups
        self.handshakes: Handshakes
        self._loop: asyncio.AbstractEventLoop
        self._sockets: list[socket.socket] = []
        self._is_accepting = False
        self._opening: Final[set[asyncio.Task[None]]] = set()

    async def bind(self) -> None:
        """Bind the port, without accepting connections yet; raises OSError."""
        self._loop = asyncio.get_running_loop()
        self.hangups = Hangups(self._loop)
        self.handshakes = Handshakes(self._loop.call_soon)
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
        """Leave connections in the kernel's queue until `tick` finds free descriptors."""
        self._is_accepting = False
        for listener in self._sockets:
            self._loop.remove_reader(listener.fileno())

    def tick(self) -> None:
        """Resume accepting when there are free descriptors; called ten times a second."""
        if self._sockets and not self._is_accepting and not self.admission.descriptors.is_short:
            log.info("connections are accepted again", acceptor=self.config.name)
            self._accept_again()
        if self.identity is not None and self._loop.time() >= self._warn_at:
            self._warn_at = self._loop.time() + WARN_SECONDS
            for warning in self.identity.warnings():
                log.warning(warning, acceptor=self.config.name)

    def _accept(self, listener: socket.socket) -> None:
        """Accept waiting connections of a socket, up to a limit."""
        for _ in range(ACCEPTS_AT_ONCE if self.entrance.logs_in else 1):
            if self.admission.descriptors.is_short:
                self._run_out("files needed the descriptors in reserve")
                return
            try:
                accepted, address = listener.accept()
            except BlockingIOError:
                return
            except OSError as error:
                # Any other error concerns only this connection, which has ended.
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
        """Create the connection of a socket, or refuse it with the reason."""
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
            # The peer has already disconnected.
            accepted.close()
            connection.connection_lost(error)

    def forget(self, connection: "Connection") -> None:
        """Stop counting a connection whose socket is closed."""
        if connection in self.connections:
            del self.connections[connection]
            if self.entrance.logs_in:
                self.admission.remove(connection, connection.host)

    @property
    def port(self) -> int:
        """The port in use, which the system chose if 0 was configured."""
        if not self._sockets:
            return self.config.port
        return int(self._sockets[0].getsockname()[1])

    @property
    def figures(self) -> AcceptorFigures:
        """Return the figures of the acceptor."""
        expires = self.identity.expires if self.identity is not None else 0.0
        return AcceptorFigures(
            self.config.name, self.config.protocol, len(self.connections), expires
        )

    @property
    def url(self) -> str:
        """The URL for clients."""
        host = f"[{self.config.host}]" if ":" in self.config.host else self.config.host
        return f"{self.config.protocol}{'s' * self.config.tls}://{host}:{self.port}"

    def configure(self, config: AcceptorConfig) -> None:
        """Apply a changed configuration, and a renewed certificate, to new connections.

        With a certificate that cannot be used, the former one stays in use.
        """
        self.config = config
        self.entrance = self._entrances.make(config)
        if self.identity is None:
            return
        try:
            renewed = self._identify(config)
            if not self.identity.is_expired:
                renewed.check_dates(config.certificate)
        except TlsError as error:
            log.error(
                "the certificate was not reloaded, the former one stays in use",
                acceptor=config.name, why=str(error),
            )  # fmt: skip
            return
        self.identity, self.client_names = renewed, _names(config)

    def _identify(self, config: AcceptorConfig) -> Identity:
        self._warn_at = 0.0
        return Identity(config)

    def refusal(self, host: str) -> str:
        """Return why no more connections are accepted now; "" if they are.

        For a protocol without login, a new connection closes the oldest one, so that idle
        connections keep nobody out. Connections that already got an answer are closed first, so
        that a client with a single request gets its answer.
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
        """Encode, for the protocol, why a connection is refused or closed."""
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
        self.layer_errors.report()


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
        # What takes the bytes of the socket: at first what looks at them.
        self._take: Callable[[bytes], None] = self._look
        self._pass_on: Callable[[bytes], None] = self._look
        self._encode: Callable[[bytes], bytes] | None = None
        self._shell: Shell | None = None
        self._is_held = False
        self._is_busy = False
        self._is_finished = False

    @property
    def is_made(self) -> bool:
        """Whether there is a transport; the event loop creates one soon after accepting."""
        return self._transport is not None

    @property
    def has_logged_in(self) -> bool:
        """Whether a user is logged in on it, which holds until it is closed."""
        return self._peer is not None and self._peer.connection != 0

    @property
    def is_stranger(self) -> bool:
        """Whether nobody logged in on it, and no login is being checked."""
        return self._peer is None or self._peer.is_stranger

    @property
    def was_answered(self) -> bool:
        """Whether anything was sent to the peer."""
        return self._peer is not None and self._peer.was_answered

    def dismiss(self, why: str) -> None:
        """Send the peer the reason, and close; as soon as there is a transport."""
        if self._transport is None:
            self._dismissed = why
            return
        if self._peer is not None and not self._peer.session.closing:
            self.write(self._acceptor.explain(why))
        self.close(0)

    def abort(self) -> None:
        """Close at once without output; as soon as there is a transport."""
        self._is_unwanted = True
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A peer connected."""
        self._transport = cast(asyncio.Transport, transport)
        name = f"{self.host}:{self._port}"
        # Less than the room of the connection, so that the hub is notified when a buffer drains
        # that was full enough to stop deliveries.
        high = min(WRITE_HIGH_BYTES, self._entrance.room // 2)
        self._transport.set_write_buffer_limits(high, high // 4)
        is_local = is_loopback(self.host)
        peer = self._peer = self._entrance.guest(self, name, is_loopback=is_local)
        if self._acceptor.identity is not None:
            self._begin_tls(self._acceptor.identity)
        log.debug("connected", peer=name, acceptor=self._acceptor.config.name)
        self._house.opened(peer)
        if self._is_unwanted:
            self.abort()
        if self._dismissed:
            self.dismiss(self._dismissed)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return the buffer for the next read."""
        peer = self._peer
        return self._buffer if peer is not None and peer.connection else self._early_buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Bytes came."""
        if self._peer is not None:
            self._take(bytes(self._buffer[:nbytes]))

    def resume_writing(self) -> None:
        """The write buffer has drained."""
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
        transport = self._transport
        assert transport is not None
        if self._encode is not None:
            data = self._encode(data)
        if not transport.is_closing():
            transport.write(data)

    def buffered(self) -> int:
        """The number of bytes that wait for the kernel."""
        assert self._transport is not None
        return self._transport.get_write_buffer_size()

    def pause_reading(self) -> None:
        """Stop reading from the socket."""
        assert self._transport is not None
        self._is_held = True
        if not self._transport.is_closing():
            self._transport.pause_reading()

    def notice_end(self) -> None:
        """Detect that the peer closes the connection, although nothing is read."""
        transport = self._transport
        assert transport is not None
        if not transport.is_closing():
            self._watched = transport.get_extra_info("socket").fileno()
            self._acceptor.hangups.watch(self._watched, transport.abort)

    def resume_reading(self) -> None:
        """Read from the socket again."""
        assert self._transport is not None
        self._unwatch()
        self._is_held = False
        if not self._is_busy and not self._transport.is_closing():
            self._transport.resume_reading()

    def _unwatch(self) -> None:
        if self._watched >= 0:
            self._acceptor.hangups.forget(self._watched)
            self._watched = -1

    def close(self, delay_ms: int) -> None:
        """Close when all output is sent, or after a few seconds."""
        transport = self._transport
        assert transport is not None
        if self._peer is not None and self._peer.session.error:
            error, self._peer.session.error = self._peer.session.error, ""
            self._acceptor.error_frames.note(self.host, self._peer.name, error)
        loop = asyncio.get_running_loop()
        if delay_ms:
            loop.call_later(delay_ms / 1000, self.finish)
        else:
            self.finish()
        loop.call_later(delay_ms / 1000 + ABORT_AFTER_SECONDS, transport.abort)

    # ---- the layers between the socket and the session

    @property
    def transport(self) -> asyncio.Transport:
        """The transport of the socket."""
        assert self._transport is not None
        return self._transport

    def _begin_tls(self, identity: Identity) -> None:
        """Let TLS take the bytes of the socket."""
        acceptor = self._acceptor
        shell = self._shell = Shell(
            self,
            Tls(identity.context),
            acceptor.client_names,
            acceptor.handshakes,
            lambda: acceptor.explain(WRONG_PORT),
        )
        self._take = shell.received
        self._encode = shell.write

    def _look(self, data: bytes) -> None:
        """Look at the first bytes for the session: are they what is spoken here?"""
        if data[0] == HANDSHAKE_RECORD and self._shell is None:
            self.fail("the client speaks TLS, and this port does not", REFUSAL)
            return
        direct = partial(self._house.received, self._peer)
        if self._shell is None:
            self._take = direct
        self._pass_on = direct
        direct(data)

    def pass_on(self, data: bytes) -> None:
        """Give the session bytes that a layer has decoded."""
        if self._peer is not None:
            self._pass_on(data)

    def hold(self, is_busy: bool) -> None:
        """Read nothing from the socket while a layer is busy."""
        self._is_busy = is_busy
        if self.transport.is_closing():
            return
        if is_busy:
            self.transport.pause_reading()
        elif not self._is_held:
            self.transport.resume_reading()

    def charge(self, held_bytes: int) -> None:
        """Note how much memory a layer takes."""
        peer: Any = self._peer
        if isinstance(peer, Peer):
            peer.fixed_bytes = held_bytes

    def identify(self, login: str) -> None:
        """Note the login that a certificate gives."""
        peer: Any = self._peer
        if isinstance(peer, Peer):
            peer.certified = login
        if peer is not None and self._shell is not None:
            log.debug("encrypted", peer=peer.name, tls=self._shell.agreed, certified=login or None)

    def fail(self, why: str, last: bytes) -> None:
        """End the connection because a layer cannot decode what the peer sends."""
        transport = self.transport
        if self._peer is not None:
            self._acceptor.layer_errors.note(self.host, self._peer.name, why)
        if last and not transport.is_closing():
            transport.write(last)
        self._is_finished = True
        transport.close()
        asyncio.get_running_loop().call_later(ABORT_AFTER_SECONDS, transport.abort)

    def finish(self) -> None:
        """Close the socket when all output is sent."""
        transport = self.transport
        if self._is_finished:
            return
        self._is_finished = True
        if self._shell is not None and not transport.is_closing():
            transport.write(self._shell.farewell())
        transport.close()


def _names(config: AcceptorConfig) -> ClientNames:
    return ClientNames(config.certificate_login, config.certificate_pattern)


async def _bound(host: str, port: int) -> list[socket.socket]:
    """Bind a socket to each address of a host name; raises OSError."""
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
                # An acceptor for IPv4 may use the same port.
                listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            listener.bind(address)
    except BaseException:
        for listener in bound:
            listener.close()
        raise
    return bound


def _keep_alive(accepted: socket.socket, idle_ms: int) -> None:
    """Make the kernel detect peers that disappeared."""
    if not idle_ms:
        return
    accepted.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, max(1, idle_ms // 1000))
    interval = max(1, idle_ms // 1000 // KEEPALIVE_PROBES)
    accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, interval)
    accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, KEEPALIVE_PROBES)


def _dismiss(accepted: socket.socket, why: bytes) -> None:
    """Send a refused peer the reason, as far as possible without waiting, and close."""
    with accepted, contextlib.suppress(OSError):
        accepted.setblocking(False)
        accepted.send(why)
        accepted.shutdown(socket.SHUT_WR)
        # Unread input would make the kernel discard the output when the socket is closed.
        accepted.recv(READ_BYTES)
