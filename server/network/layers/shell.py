"""TLS of a connection, with the socket below and the session above it.

Data flow: `received` takes bytes of the socket and passes on what was decrypted; `write` encrypts
output of the session. The limits of plain connections stay true: the handshake counts in the time
and the number of strangers, as the session exists before it; nothing is read while the owner does
not read, nor while a handshake waits for its turn; the answers of a layer itself are bounded. Must
never know the hub, nor a protocol.
"""

import asyncio
from collections.abc import Callable
from typing import Final, Protocol

from daybook.protocols.port import Certificate
from daybook.server.network.layers.client_names import ClientNames
from daybook.server.network.layers.handshakes import Handshakes
from daybook.server.network.layers.tls import (
    HANDSHAKE_BYTES,
    HANDSHAKE_RECORD,
    STATE_BYTES,
    Tls,
    TlsFailure,
)

UNREAD_BYTES_MAX: Final = 64 * 1024
"""A peer that does not read may make the layers answer so much; then it is disconnected."""


class Owner(Protocol):
    """The connection."""

    @property
    def transport(self) -> asyncio.Transport:
        """The transport of its socket."""
        ...

    def hold(self, is_busy: bool) -> None:
        """Read nothing from the socket while a layer is busy."""
        ...

    def finish(self) -> None:
        """Close the socket when all output is sent."""
        ...

    def pass_on(self, data: bytes) -> None:
        """Give the session bytes."""
        ...

    def fail(self, why: str, last: bytes) -> None:
        """End the connection because of the peer; `last` are its last bytes."""
        ...

    def identify(self, certificate: Certificate | None, bindings: dict[str, bytes]) -> None:
        """Note which certificate the peer has shown, and what binds a login to the connection."""
        ...

    def charge(self, count: int) -> None:
        """Note how much more memory a layer takes."""
        ...


class Shell:
    """TLS of one connection."""

    def __init__(
        self,
        owner: Owner,
        tls: Tls,
        names: ClientNames,
        handshakes: Handshakes,
        explain: Callable[[bytes], bytes],
    ) -> None:
        """`explain` encodes, for a peer that begins without TLS, that the port wants TLS."""
        self._owner: Final = owner
        self._tls: Final = tls
        self._names: Final = names
        self._handshakes: Final = handshakes
        self._explain: Final = explain
        self._is_shaking = False
        self._has_begun = False
        self._is_ended = False

    def begin(self) -> None:
        """Begin the handshake, as the broker has connected to the peer."""
        self._has_begun = self._is_shaking = True
        self._owner.charge(HANDSHAKE_BYTES)
        self._handshakes.add(self)

    # ---- from the socket

    def received(self, data: bytes) -> None:
        """Take bytes of the socket."""
        if self._is_ended:
            return
        if not self._has_begun:
            self._has_begun = True
            if data[0] != HANDSHAKE_RECORD:
                self._end(
                    "TLS is spoken here, and the client speaks without it", self._explain(data)
                )
                return
            self._owner.charge(HANDSHAKE_BYTES)
        try:
            self._tls.put(data)
            if self._tls.is_open:
                self._decrypt()
            elif not self._is_shaking:
                self._is_shaking = True
                self._owner.hold(True)
                self._handshakes.add(self)
        except TlsFailure as failure:
            self._fail(failure)

    def shake(self) -> None:
        """Do a step of the handshake; called by the handshakes."""
        self._is_shaking = False
        if self._is_ended:
            return
        try:
            if self._tls.shake():
                shown = self._names.certificate(self._tls.certificate)
                self._owner.identify(shown, self._tls.bindings)
                self._owner.charge(STATE_BYTES - HANDSHAKE_BYTES)
                self._decrypt()
            else:
                self._say()
        except TlsFailure as failure:
            self._fail(failure)
            return
        self._owner.hold(False)

    def _decrypt(self) -> None:
        data = self._tls.read()
        self._say()
        if data:
            self._owner.pass_on(data)
        if self._tls.has_ended and not self._is_ended:
            self._owner.finish()

    def _say(self) -> None:
        """Send what TLS itself has to say."""
        if output := self._tls.output():
            transport = self._owner.transport
            if transport.get_write_buffer_size() > UNREAD_BYTES_MAX and not self._is_ended:
                self._end("the peer makes TLS answer, and does not read", b"")
            elif not transport.is_closing():
                transport.write(output)

    def _fail(self, failure: TlsFailure) -> None:
        """End the connection; the alert of TLS tells the peer why."""
        self._end(f"TLS: {failure}", self._tls.output())

    def _end(self, why: str, last: bytes) -> None:
        self._is_ended = True
        self._owner.fail(why, last)

    # ---- from the owner

    def write(self, data: bytes) -> bytes:
        """Encrypt output of the session; return nothing before the end of the handshake."""
        if self._is_ended or not self._tls.is_open:
            return b""
        try:
            return self._tls.encrypt(data)
        except TlsFailure as failure:
            self._fail(failure)
            return b""

    def farewell(self) -> bytes:
        """Return the last bytes, which say that nothing more comes; input is ignored from now."""
        if self._is_ended:
            return b""
        self._is_ended = True
        return self._tls.farewell() if self._tls.is_open else b""

    def lost(self) -> None:
        """The socket is closed; a handshake that waits for its turn is not continued."""
        self._is_ended = True

    @property
    def agreed(self) -> str:
        """Version and cipher, for people; "" before the end of the handshake."""
        return self._tls.version if self._tls.is_open else ""
