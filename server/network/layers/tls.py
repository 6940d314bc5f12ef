"""TLS of one connection, between its socket and the layer above: bytes in, bytes out.

Data flow: `put` takes bytes of the socket, `shake` does the next step of the handshake, `read`
returns what was decrypted, `encrypt` encrypts; `output` returns what must go to the socket. It
keeps only one unfinished record and OpenSSL's state in memory; the input before the end of the
handshake is limited. Must never know sockets, nor the meaning of the bytes.
"""

import contextlib
import ssl
from typing import Any, Final

EARLY_BYTES_MAX: Final = 64 * 1024
"""The limit of input before the end of the handshake: certificates of clients are below it."""
STATE_BYTES: Final = 24 * 1024
"""The approximate memory of a connection with TLS, besides that of one without."""
HANDSHAKE_BYTES: Final = 48 * 1024
"""The same during the handshake."""
HANDSHAKE_RECORD: Final = 0x16
"""The first byte of every TLS connection."""
REFUSAL: Final = bytes((21, 3, 1, 0, 2, 2, 40))
"""A fatal alert, "handshake failure", which a client of TLS understands before any handshake."""
_READ_BYTES: Final = 64 * 1024

_OF_CLIENTS: Final = {
    "UNSUPPORTED_PROTOCOL": "the client offers no TLS version that is allowed (tls-min-version)",
    "NO_SHARED_CIPHER": "client and broker have no cipher in common (ciphers)",
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "the client shows no certificate (client-certificates)",
    "CERTIFICATE_VERIFY_FAILED": "the client's certificate is not accepted",
    "TLSV1_ALERT_UNKNOWN_CA": "the client does not trust the broker's certificate",
    "TLSV1_ALERT_DECRYPT_ERROR": "the client does not accept the broker's certificate",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": "the client does not accept the broker's certificate",
    "SSLV3_ALERT_BAD_CERTIFICATE": "the client does not accept the broker's certificate",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "for the client the broker's certificate has expired",
    "HTTP_REQUEST": "the client speaks without TLS",
    "WRONG_VERSION_NUMBER": "the client does not speak TLS",
}
"""The words of an acceptor about its clients."""
_OF_SERVERS: Final = {
    "UNSUPPORTED_PROTOCOL": "the peer speaks no TLS version that is allowed (tls-min-version)",
    "TLSV1_ALERT_PROTOCOL_VERSION": "the peer allows none of the TLS versions (tls-min-version)",
    "SSLV3_ALERT_HANDSHAKE_FAILURE": "the peer refused the handshake: it wants another"
    " cipher, a certificate, or no TLS",
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": "the peer wants a certificate (certificate)",
    "CERTIFICATE_VERIFY_FAILED": "the peer's certificate is not accepted",
    "TLSV1_ALERT_UNKNOWN_CA": "the peer does not trust the broker's certificate",
    "TLSV1_ALERT_DECRYPT_ERROR": "the peer does not accept the broker's certificate",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": "the peer does not accept the broker's certificate",
    "SSLV3_ALERT_BAD_CERTIFICATE": "the peer does not accept the broker's certificate",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "for the peer the broker's certificate has expired",
    "WRONG_VERSION_NUMBER": "the peer does not speak TLS; write the URL without s",
}
"""The same of a peer that the broker connects to."""


class TlsFailure(Exception):
    """The handshake or the connection has failed; the text says why."""


class Tls:
    """The state of one connection. `is_open` is set after the handshake, `has_ended` when the peer
    has said that nothing more comes. `is_client` says that the broker has connected to the peer.
    """

    def __init__(
        self, context: ssl.SSLContext, end_point: bytes = b"", server_name: str | None = None
    ) -> None:
        """`end_point` is the hash of the broker's certificate by which logins are bound to it.
        `server_name` is the name of a peer that the broker has connected to, None for a client."""
        self.is_client: Final = server_name is not None
        self.is_open = False
        self.has_ended = False
        self._incoming: Final = ssl.MemoryBIO()
        self._outgoing: Final = ssl.MemoryBIO()
        self._object: Final = context.wrap_bio(
            self._incoming, self._outgoing, not self.is_client, server_name
        )
        self._end_point: Final = end_point
        self._early = 0

    def put(self, data: bytes) -> None:
        """Take bytes of the socket. Raises TlsFailure."""
        if not self.is_open:
            self._early += len(data)
            if self._early > EARLY_BYTES_MAX:
                raise TlsFailure("the handshake is too long")
        self._incoming.write(data)

    def shake(self) -> bool:
        """Continue the handshake; return whether it is over. Raises TlsFailure."""
        try:
            self._object.do_handshake()
        except ssl.SSLWantReadError:
            return False
        except ssl.SSLError as error:
            raise TlsFailure(self._reason(error)) from None
        self.is_open = True
        return True

    @property
    def certificate(self) -> dict[str, Any] | None:
        """The certificate that the peer has shown, checked by the context; None without one."""
        return self._object.getpeercert()

    @property
    def bindings(self) -> dict[str, bytes]:
        """The data that bind a login to this connection (RFC 5929), by type."""
        found = {"tls-server-end-point": self._end_point} if self._end_point else {}
        # From TLS 1.3 on it is not defined.
        if self._object.version() == "TLSv1.2" and (unique := self._object.get_channel_binding()):
            found["tls-unique"] = unique
        return found

    @property
    def version(self) -> str:
        """The version and the cipher that were agreed on, for people."""
        cipher = self._object.cipher()
        return f"{self._object.version()} {cipher[0] if cipher else ''}"

    def read(self) -> bytes:
        """Return what was decrypted. Raises TlsFailure."""
        parts = []
        try:
            while part := self._object.read(_READ_BYTES):
                parts.append(part)
            self.has_ended = True
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLZeroReturnError:
            self.has_ended = True
        except ssl.SSLError as error:
            raise TlsFailure(self._reason(error)) from None
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def encrypt(self, data: bytes) -> bytes:
        """Encrypt bytes for the peer. Raises TlsFailure."""
        try:
            self._object.write(data)
        except ssl.SSLError as error:
            raise TlsFailure(self._reason(error)) from None
        return self._outgoing.read()

    def output(self) -> bytes:
        """Return what TLS itself has to say to the peer."""
        return self._outgoing.read()

    def farewell(self) -> bytes:
        """Return the end of the connection, after which nothing is encrypted any more."""
        # The peer need not answer it.
        with contextlib.suppress(ssl.SSLError):
            self._object.unwrap()
        return self._outgoing.read()

    @property
    def buffered_bytes(self) -> int:
        """Bytes of memory that hold input of the peer."""
        return self._incoming.pending

    def _reason(self, error: ssl.SSLError) -> str:
        reason = error.reason or ""
        known = (_OF_SERVERS if self.is_client else _OF_CLIENTS).get(reason)
        text = known or reason.lower().replace("_", " ") or str(error)
        detail = getattr(error, "verify_message", "")
        return f"{text}: {detail}" if detail else text
