"""Listening sockets and connections: the asyncio shell around the hub.

Everything that is decided about a connection is decided in the hub and in its session; here bytes
are moved between them and the sockets. Fault model: a peer may vanish, stall, or never read at any
moment.
"""

import asyncio
from collections.abc import Callable
from typing import Final, cast

from protocols.stomp import Session
from server.config import AcceptorConfig, stomp_options
from server.hangups import Hangups
from server.hub import Hub
from server.logs import logger
from server.peer import WRITE_HIGH_BYTES, Peer

READ_BYTES: Final = 64 * 1024
"""Most bytes taken from a socket at once: after each such piece others get their turn, and the
writer gets its next block while the rest is still being read."""

ABORT_AFTER_SECONDS: Final = 5.0
"""How long a closed connection may take to get rid of what was written to it."""

_LOOPBACK: Final = ("127.", "::1", "::ffff:127.")

log = logger("listeners")


class Acceptor:
    """One listening socket."""

    def __init__(
        self, hub: Hub, config: AcceptorConfig, server_name: str, is_full: Callable[[], bool]
    ) -> None:
        self.config = config
        self.hub: Final = hub
        self.connections: Final[set[Connection]] = set()
        self.stomp = stomp_options(config)
        self.server_name: Final = server_name
        # One buffer for all: it is emptied before the next read, whoever that is for.
        self.buffer: Final = memoryview(bytearray(READ_BYTES))
        self._is_full: Final = is_full
        self._server: asyncio.Server | None = None
        self.hangups: Hangups

    async def bind(self) -> None:
        """Take the port, and no connections yet; raises OSError."""
        loop = asyncio.get_running_loop()
        self.hangups = Hangups(loop)
        self._server = await loop.create_server(
            lambda: Connection(self),
            self.config.host,
            self.config.port,
            backlog=1024,
            start_serving=False,
        )

    async def start(self) -> None:
        """Take connections."""
        assert self._server is not None
        await self._server.start_serving()

    @property
    def port(self) -> int:
        """The port that is really listened on, which the system chose if 0 was asked for."""
        if self._server is None or not self._server.sockets:
            return self.config.port
        return int(self._server.sockets[0].getsockname()[1])

    @property
    def url(self) -> str:
        """Where clients connect to."""
        host = f"[{self.config.host}]" if ":" in self.config.host else self.config.host
        return f"{self.config.protocol}://{host}:{self.port}"

    def configure(self, config: AcceptorConfig) -> None:
        """Put a changed configuration in force for connections to come."""
        self.config = config
        self.stomp = stomp_options(config)

    def refusal(self) -> str:
        """Say why no more connections are taken now; empty if they are."""
        if self._is_full():
            return "the broker has reached max-connections"
        if len(self.connections) >= self.config.max_connections:
            return f"acceptor {self.config.name} has reached max-connections"
        return ""

    def stop(self) -> None:
        """Listen no more; connections stay."""
        if self._server is not None:
            self._server.close()

    def close_all(self) -> None:
        """Close what is still connected."""
        for connection in list(self.connections):
            connection.close(0)
        self.hangups.close()


class Connection(asyncio.BufferedProtocol):
    """One socket: the transport of a peer."""

    def __init__(self, acceptor: Acceptor) -> None:
        self._acceptor: Final = acceptor
        self._hub: Final = acceptor.hub
        self._transport: asyncio.Transport | None = None
        self._peer: Peer | None = None
        self._watched = -1
        self._buffer: Final = acceptor.buffer

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A peer connected."""
        self._transport = cast(asyncio.Transport, transport)
        address = transport.get_extra_info("peername") or ("?", 0)
        name = f"{address[0]}:{address[1]}"
        acceptor = self._acceptor
        refusal = acceptor.refusal()
        if refusal:
            log.warning("connection refused", peer=name, why=refusal)
            self._transport.write(
                f"ERROR\nmessage:{refusal}\ncontent-type:text/plain\n\n"
                f"{refusal}; try again later\n\0".encode()
            )
            self.close(0)
            return
        acceptor.connections.add(self)
        # Less than the room of the connection: the hub must hear when a buffer has drained that was
        # full enough to stop deliveries.
        high = min(WRITE_HIGH_BYTES, acceptor.stomp.room // 2)
        self._transport.set_write_buffer_limits(high, high // 4)
        session = Session(self._hub.broker, acceptor.stomp, name, acceptor.server_name)
        peer = Peer(session, self, name, acceptor.config.name, acceptor.stomp.room)
        peer.is_loopback = str(address[0]).startswith(_LOOPBACK)
        self._peer = peer
        log.debug("connected", peer=name, acceptor=acceptor.config.name)
        self._hub.opened(peer)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Where to put what comes."""
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Bytes came."""
        if self._peer is not None:
            self._hub.received(self._peer, bytes(self._buffer[:nbytes]))

    def resume_writing(self) -> None:
        """The write buffer has room again."""
        if self._peer is not None:
            self._hub.drained(self._peer)

    def connection_lost(self, exc: Exception | None) -> None:
        """The socket is closed."""
        self._acceptor.connections.discard(self)
        self._unwatch()
        peer, self._peer = self._peer, None
        if peer is not None:
            log.debug("disconnected", peer=peer.name, error=str(exc) if exc else None)
            self._hub.lost(peer)

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
        loop = asyncio.get_running_loop()
        if delay_ms:
            loop.call_later(delay_ms / 1000, transport.close)
        else:
            transport.close()
        loop.call_later(delay_ms / 1000 + ABORT_AFTER_SECONDS, transport.abort)
