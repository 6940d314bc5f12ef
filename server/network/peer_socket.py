"""One socket of a peer: its transport, and the layers between the socket and the session.

Moves bytes between the socket and the handler of its acceptor, through TLS and WebSocket where they
are spoken. Fault model: a peer may disappear, stall, or stop reading at any moment.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, Final, Protocol, cast

from daybook.protocols.port import Certificate, Offer
from daybook.server.configuration.encryption import is_loopback
from daybook.server.hub.peer import Peer, write_high
from daybook.server.network.entrances import ConnectionHandler, Entrance, PeerState
from daybook.server.network.first_bytes import (
    NEEDS_MORE,
    Unclear,
    of_subprotocol,
    recognised,
)
from daybook.server.network.hangups import Hangups
from daybook.server.network.layers.client_names import ClientNames
from daybook.server.network.layers.handshakes import Handshakes
from daybook.server.network.layers.shell import Shell
from daybook.server.network.layers.tls import HANDSHAKE_RECORD, REFUSAL, Tls
from daybook.server.network.layers.websocket import CLOSE_MS, WebSocket, WebSocketOptions
from daybook.server.process.logs import logger

FAILED_SECONDS: Final = 0.25
"""How long a connection stays open after a layer has failed, so that the peer can read why."""

ABORT_AFTER_SECONDS: Final = 5.0
"""How long a closed connection may take to send its remaining output."""

WRONG_PORT: Final = "this port speaks TLS: connect with TLS (stomp+ssl, stomps, wss or https)"

_BEGIN_OF_HTTP: Final = b"G"
"""GET begins with it, and no command of STOMP does."""

log = logger("listeners")


class Ends(Protocol):
    """Gets the reasons why connections end."""

    def note(self, host: str, peer: str, error: str, /) -> None:
        """Note the reason why the connection of a peer ends."""
        ...


class ConnectionOwner(Protocol):
    """The acceptor of a connection, or the connector, as far as the connection knows it. A
    connector has opened it (`is_outgoing`), so the session speaks first."""

    is_outgoing: bool
    entrance: Entrance
    client_names: ClientNames
    websocket: WebSocketOptions | None
    hangups: Hangups
    handshakes: Handshakes

    @property
    def name(self) -> str:
        """Its name, for people."""
        ...

    def tls(self) -> Tls | None:
        """Return the TLS of a new connection, None if it is spoken without."""
        ...

    @property
    def buffer(self) -> memoryview:
        """The buffer for reads; its content is processed before the next read of any connection."""
        ...

    @property
    def early_buffer(self) -> memoryview:
        """The part of it for connections without a login."""
        ...

    @property
    def error_frames(self) -> Ends:
        """Gets the errors that sessions ended with."""
        ...

    @property
    def layer_errors(self) -> Ends:
        """Gets the errors of the layers below the sessions."""
        ...

    def forget(self, connection: Any, /) -> None:
        """Stop counting a connection whose socket is closed."""
        ...


class Connection(asyncio.BufferedProtocol):
    """One socket: the transport of a peer."""

    def __init__(self, owner: ConnectionOwner, host: str, port: int) -> None:
        self._owner: Final = owner
        self._entrance: Final = owner.entrance
        self._handler: Final[ConnectionHandler] = owner.entrance.handler
        self.host: Final = host
        self._port: Final = port
        # The protocol of the peer: the first one, until its bytes have shown another.
        self._offer = owner.entrance.offers[0]
        self._first_bytes = b""
        self._transport: asyncio.Transport | None = None
        self._peer: PeerState | None = None
        self._dismissed = ""
        self._is_unwanted = False
        self._watched = -1
        self._early_buffer: Final = owner.early_buffer
        self._buffer: Final = owner.buffer
        # The receiver of the bytes of the socket: at first the one that looks at them.
        self._take: Callable[[bytes], None] = self._look
        self._decoded: Callable[[bytes], None] = self._look
        self._encode: Callable[[bytes], bytes] | None = None
        self._shell: Shell | None = None
        self._web: WebSocket | None = None
        self.is_paused = False
        self._is_busy = False
        self._is_finished = False
        self._is_open = False
        self.lost_by = ""
        """The error of the socket that has ended it, "" for none."""

    @property
    def is_made(self) -> bool:
        """Whether there is a transport; the event loop creates one soon after accepting."""
        return self._transport is not None

    @property
    def peer(self) -> PeerState | None:
        """The state of its peer, None after its end."""
        return self._peer

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
            self.write(self._offer.refusal(why))
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
        high = write_high(self._entrance.room)
        self._transport.set_write_buffer_limits(high, high // 4)
        is_local = is_loopback(self.host)
        self._peer = self._entrance.peer(self, name, is_loopback=is_local)
        tls = self._owner.tls()
        if tls is not None:
            self._begin_tls(tls)
        log.debug("connected", peer=name, acceptor=self._owner.name)
        if tls is None or not tls.is_client:
            self._open()
        if self._is_unwanted:
            self.abort()
        if self._dismissed:
            self.dismiss(self._dismissed)

    def _open(self) -> None:
        """Let the session begin; one that speaks first, when the layers below can carry that."""
        self._is_open = True
        if self._owner.is_outgoing:
            self._take_directly()
        self._handler.opened(self._peer)

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
            self._handler.drained(self._peer)

    def connection_lost(self, exc: Exception | None) -> None:
        """The socket is closed."""
        self.lost_by = str(exc) if exc is not None else ""
        self._owner.forget(self)
        self._unwatch()
        self._let_go()
        peer, self._peer = self._peer, None
        if peer is not None:
            log.debug("disconnected", peer=peer.name, error=self.lost_by or None)
            if self._is_open:
                self._handler.lost(peer)

    def _let_go(self) -> None:
        """Drop the layers and whatever refers to the peer: cycles would live until a collection of
        all objects, which is rare.
        """
        self._take = self._decoded = _ignore
        self._encode = _drop
        if self._shell is not None:
            self._shell.lost()
        if self._web is not None:
            self._web.lost()
        self._shell = self._web = None

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
        self.is_paused = True
        if not self._transport.is_closing():
            self._transport.pause_reading()

    def notice_end(self) -> None:
        """Detect that the peer closes the connection, although nothing is read."""
        transport = self._transport
        assert transport is not None
        if not transport.is_closing():
            self._watched = transport.get_extra_info("socket").fileno()
            self._owner.hangups.watch(self._watched, transport.abort)

    def resume_reading(self) -> None:
        """Read from the socket again."""
        assert self._transport is not None
        self._unwatch()
        self.is_paused = False
        if self._web is not None:
            self._web.resume()
        if not self._is_busy and not self._transport.is_closing():
            self._transport.resume_reading()

    def _unwatch(self) -> None:
        if self._watched >= 0:
            self._owner.hangups.forget(self._watched)
            self._watched = -1

    def close(self, delay_ms: int) -> None:
        """Close when all output is sent, or after a few seconds."""
        transport = self._transport
        assert transport is not None
        error = ""
        if self._peer is not None and self._peer.session.error:
            error, self._peer.session.error = self._peer.session.error, ""
            self._owner.error_frames.note(self.host, self._peer.name, error)
        if self._web is not None and (last := self._web.farewell(error)):
            delay_ms = max(delay_ms, CLOSE_MS)
            self._write_below(last)
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

    def _begin_tls(self, tls: Tls) -> None:
        """Let TLS take the bytes of the socket."""
        owner = self._owner
        shell = self._shell = Shell(
            self, tls, owner.client_names, owner.handshakes, self._explain_tls
        )
        self._take = shell.received
        self._encode = shell.write
        if tls.is_client:
            shell.begin()

    def _explain_tls(self, data: bytes) -> bytes:
        """Encode for a peer that begins so, without TLS, that the port wants TLS."""
        offer = recognised(self._entrance.offers, data)
        return (self._offer if isinstance(offer, Unclear) else offer).refusal(WRONG_PORT)

    def _look(self, data: bytes) -> None:
        """Look at the first bytes for the session: do they begin a protocol that is spoken here?"""
        if data[0] == HANDSHAKE_RECORD and self._shell is None and not self._first_bytes:
            self.fail("the client speaks TLS, and this port does not", REFUSAL)
            return
        if self._owner.websocket is not None and data[:1] == _BEGIN_OF_HTTP:
            self._begin_websocket(self._owner.websocket)
            (self._take if self._shell is None else self._decoded)(data)
        else:
            self._recognise(data)

    def _recognise(self, data: bytes) -> None:
        """Find out which protocol the first bytes for the session begin, and give it to them."""
        offers = self._entrance.offers
        data = self._first_bytes + data
        if self._web is not None and self._web.subprotocol:
            self._speak(of_subprotocol(offers, self._web.subprotocol))
        elif len(offers) > 1:
            found = recognised(offers, data)
            if found is NEEDS_MORE:
                self._first_bytes = data
                return
            self._speak(None if isinstance(found, Unclear) else found)
        self._first_bytes = b""
        self._take_directly()(data)

    def _take_directly(self) -> Callable[[bytes], None]:
        """Let the session take the bytes that the layers decode."""
        direct = partial(self._handler.received, self._peer)
        if self._web is not None:
            self._web.deliver = direct
        elif self._shell is None:
            self._take = direct
        else:
            self._decoded = direct
        return direct

    def _speak(self, offer: Offer | None) -> None:
        self._offer = offer or self._offer
        self._entrance.speak(self._peer, offer)

    def _begin_websocket(self, options: WebSocketOptions) -> None:
        """Let WebSocket take the bytes of the socket, or what TLS has decrypted."""
        below = self._encode
        web = self._web = WebSocket(
            self, options, below, asyncio.get_running_loop().call_soon, self._recognise
        )
        if below is None:
            self._take = web.received
            self._encode = web.encode
        else:
            self._decoded = web.received
            self._encode = partial(_both, web.encode, below)

    def _write_below(self, data: bytes) -> None:
        """Send bytes that a layer has encoded."""
        if self._shell is not None:
            data = self._shell.write(data)
        if not self.transport.is_closing():
            self.transport.write(data)

    def pass_on(self, data: bytes) -> None:
        """Give the session bytes that a layer has decoded."""
        if self._peer is not None:
            self._decoded(data)

    def hold(self, is_busy: bool) -> None:
        """Read nothing from the socket while a layer is busy."""
        self._is_busy = is_busy
        if self.transport.is_closing():
            return
        if is_busy:
            self.transport.pause_reading()
        elif not self.is_paused:
            self.transport.resume_reading()

    def charge_input(self, buffered_bytes: int) -> None:
        """Note how much input of the peer a layer holds."""
        peer: Any = self._peer
        if isinstance(peer, Peer):
            peer.layer_bytes = buffered_bytes

    def charge(self, count: int) -> None:
        """Note how much more memory a layer takes."""
        peer: Any = self._peer
        if isinstance(peer, Peer):
            peer.fixed_bytes += count

    def identify(self, certificate: Certificate | None, bindings: dict[str, bytes]) -> None:
        """Note which certificate the peer has shown, and what binds a login to the connection."""
        peer: Any = self._peer
        if isinstance(peer, Peer):
            caller = peer.caller
            caller.is_encrypted = True
            caller.certificate = certificate
            caller.bindings = bindings
        if peer is not None and self._shell is not None:
            login = certificate.login or None if certificate is not None else None
            log.debug("encrypted", peer=peer.name, tls=self._shell.agreed, certified=login)
        if not self._is_open:
            self._open()

    def fail(self, why: str, last: bytes) -> None:
        """End the connection because a layer cannot decode what the peer sends."""
        transport = self.transport
        if self._peer is not None:
            self._owner.layer_errors.note(self.host, self._peer.name, why)
        if not transport.is_closing():
            transport.write(last + (b"" if self._shell is None else self._shell.farewell()))
        self._is_finished = True
        # Further input is read and ignored, or the kernel would discard the answer.
        self._take = _ignore
        self._encode = _drop
        loop = asyncio.get_running_loop()
        loop.call_later(FAILED_SECONDS, transport.close)
        loop.call_later(ABORT_AFTER_SECONDS, transport.abort)

    def finish(self) -> None:
        """Close the socket when all output is sent."""
        transport = self.transport
        if self._is_finished:
            return
        self._is_finished = True
        if self._shell is not None and not transport.is_closing():
            transport.write(self._shell.farewell())
        transport.close()


def _ignore(data: bytes) -> None:
    """Take bytes of a connection that has ended."""


def _drop(data: bytes) -> bytes:
    """Discard output of the session on a connection that has ended."""
    return b""


def _both(upper: Callable[[bytes], bytes], lower: Callable[[bytes], bytes], data: bytes) -> bytes:
    """Encode output by two layers."""
    return lower(upper(data))
