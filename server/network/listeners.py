"""Listening sockets: accepts connections within the limits, or refuses them with a reason.

The hub and the session decide everything about a connection, and `peer_socket` moves its bytes.
Fault model: a peer may disappear at any moment.
"""

import asyncio
import contextlib
import socket
from itertools import islice
from typing import Final

from daybook.journal.spares import OUT_OF_DESCRIPTORS
from daybook.protocols.registry import OFFERS
from daybook.server.config_keys.acceptor_config import AcceptorConfig
from daybook.server.hub.error_frames import ERROR_FRAME, LAYER_FAILED, REFUSED, ErrorFrames
from daybook.server.monitoring.figures import AcceptorFigures
from daybook.server.network.admission import Admission, network_of
from daybook.server.network.entrances import Entrance, EntranceMaker
from daybook.server.network.hangups import Hangups
from daybook.server.network.keep_alive import keep_alive
from daybook.server.network.layers.certificates import Identity, TlsError
from daybook.server.network.layers.client_names import ClientNames
from daybook.server.network.layers.handshakes import Handshakes
from daybook.server.network.layers.tls import Tls
from daybook.server.network.layers.websocket import WebSocketOptions
from daybook.server.network.peer_socket import Connection
from daybook.server.process import logs
from daybook.server.users.pools import share_of_address

READ_BYTES: Final = 64 * 1024
"""The most bytes read from a socket at once: after each read other connections have their turn, and
the writer gets its next block while the rest is still being read.
"""

EARLY_READ_BYTES: Final = 4 * 1024
"""The same before the login, which limits the memory for strangers."""

BACKLOG: Final = 1024
"""How many connections the kernel queues until they are accepted."""

ACCEPTS_AT_ONCE: Final = 64
"""How many connections are accepted in one turn; only one if a new connection closes the oldest, so
that the oldest can be served before.
"""

WARN_SECONDS: Final = 24 * 3600.0
"""How often warnings about a certificate are repeated."""

ANSWERED_AMONG: Final = 64
"""The number of oldest connections among which an answered one is searched."""

SHARED_AMONG: Final = 1024
"""The number of oldest connections among which those of an address are counted."""

log = logs.logger("listeners")


class Acceptor:
    """A listening address, with a socket for each resolved address.

    Sockets are accepted here and not by the event loop, which would continue to accept without free
    descriptors, and could refuse a connection only after it has created a transport.
    """

    is_outgoing = False

    def __init__(
        self, entrances: EntranceMaker, config: AcceptorConfig, admission: Admission
    ) -> None:
        """Raise TlsError if the certificate cannot be used."""
        self.config = config
        self.admission: Final = admission
        self.entrance: Entrance = entrances.make(config)
        ending = ERROR_FRAME if self.entrance.logs_in else REFUSED
        self.error_frames: Final = ErrorFrames(config.name, ending)
        self.layer_errors: Final = ErrorFrames(config.name, LAYER_FAILED, by_reason=True)
        self._warn_at = 0.0
        self.identity = Identity(config) if config.tls else None
        self.client_names = _names(config)
        self.websocket = _websocket(config)
        # Oldest first.
        self.connections: Final[dict[Connection, None]] = {}
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
            logs.warn_all(log, self.identity.warnings(), acceptor=self.config.name)

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
            keep_alive(accepted, self.config.tcp_keepalive)
        connection = Connection(self, host, port)
        self.connections[connection] = None
        if self.entrance.logs_in:
            self.admission.add(connection, host)
        task = self._loop.create_task(self._open(connection, accepted))
        self._opening.add(task)
        task.add_done_callback(self._opening.discard)

    async def _open(self, connection: Connection, accepted: socket.socket) -> None:
        try:
            await self._loop.connect_accepted_socket(lambda: connection, accepted)
        except OSError as error:
            # The peer has already disconnected.
            accepted.close()
            connection.connection_lost(error)

    def forget(self, connection: Connection) -> None:
        """Stop counting a connection whose socket is closed."""
        if connection in self.connections:
            del self.connections[connection]
            if self.entrance.logs_in:
                self.admission.remove(connection, connection.host)

    @property
    def name(self) -> str:
        """Its name."""
        return self.config.name

    def tls(self) -> Tls | None:
        """Return the TLS of a new connection, None if it is spoken without."""
        identity = self.identity
        return Tls(identity.context, identity.end_point) if identity is not None else None

    @property
    def port(self) -> int:
        """The port in use, which the system chose if 0 was configured."""
        if not self._sockets:
            return self.config.port
        return int(self._sockets[0].getsockname()[1])

    @property
    def figures(self) -> AcceptorFigures:
        """Return the figures of the acceptor."""
        return AcceptorFigures(self.config.name, self.config.protocol, len(self.connections))

    @property
    def urls(self) -> str:
        """The URL for clients, one for each protocol, divided by spaces."""
        host = f"[{self.config.host}]" if ":" in self.config.host else self.config.host
        tls = "s" * self.config.tls
        return " ".join(f"{each}{tls}://{host}:{self.port}" for each in self.config.speaks)

    def configure(self, config: AcceptorConfig) -> None:
        """Apply a changed configuration, and a renewed certificate, to new connections.

        With a certificate that cannot be used, the former one stays in use.
        """
        self.config = config
        self.entrance = self._entrances.make(config)
        self.websocket = _websocket(config)
        if self.identity is None:
            return
        self._warn_at = 0.0
        try:
            renewed = self.identity.renewed(config)
        except TlsError as error:
            log.error(
                "the certificate was not reloaded, the former one stays in use",
                acceptor=config.name, why=str(error),
            )  # fmt: skip
            return
        self.identity, self.client_names = renewed, _names(config)

    def refusal(self, host: str) -> str:
        """Return why no more connections are accepted now; "" if they are.

        For a protocol without login, a new connection closes the oldest one, so that idle
        connections keep nobody out. Connections that already got an answer are closed first, so
        that a client with a single request gets its answer. An address that has its share of them
        closes its own.
        """
        if not self.entrance.logs_in:
            while len(self.connections) >= self.config.max_connections:
                oldest = self._oldest_for(host)
                answered = (connection for connection in oldest if connection.was_answered)
                self._displace(next(answered, oldest[0]))
            return ""
        refusal = self.admission.refusal(host)
        if refusal:
            return refusal
        if len(self.connections) >= self.config.max_connections:
            return f"acceptor {self.config.name} has reached max-connections"
        return ""

    def _oldest_for(self, host: str) -> list[Connection]:
        """Return connections, oldest first, of which one may make room for one of an address."""
        network = network_of(host)
        among = islice(self.connections, SHARED_AMONG)
        own = [each for each in among if network_of(each.host) == network]
        if len(own) >= share_of_address(self.config.max_connections):
            return own[:ANSWERED_AMONG]
        return list(islice(self.connections, ANSWERED_AMONG))

    def _displace(self, connection: Connection) -> None:
        self.forget(connection)
        connection.abort()

    def explain(self, why: str) -> bytes:
        """Encode, for the first protocol, why a connection is refused."""
        return self.entrance.offers[0].refusal(why)

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


def _websocket(config: AcceptorConfig) -> WebSocketOptions | None:
    offered = [name for each in config.speaks for name in OFFERS[each].subprotocols]
    return WebSocketOptions.of(offered, config.options)


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


def _dismiss(accepted: socket.socket, why: bytes) -> None:
    """Send a refused peer the reason, as far as possible without waiting, and close."""
    with accepted, contextlib.suppress(OSError):
        accepted.setblocking(False)
        accepted.send(why)
        accepted.shutdown(socket.SHUT_WR)
        # Unread input would make the kernel discard the output when the socket is closed.
        accepted.recv(READ_BYTES)
