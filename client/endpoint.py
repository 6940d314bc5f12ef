"""The endpoint of a client: the URL of a broker, its protocol and login, and TLS.

Fault model: no server may listen there, or one without TLS, or a broker whose certificate is not
trusted. Each case raises an EndpointError that explains it.
"""

import socket
import ssl
from typing import Final, NamedTuple
from urllib.parse import parse_qsl, unquote, urlsplit

from daybook.engine.names.names import HOST
from daybook.errors import DaybookError

DEFAULT_URL: Final = "stomp://127.0.0.1:61613"
STOMP: Final = "stomp"
AMQP: Final = "amqp"
PORTS: Final = {STOMP: (61613, 61612), AMQP: (5672, 5671)}
"""The ports of each protocol, without TLS and with it."""
_SCHEMES: Final = {
    f"{protocol}{'s' * tls}": (protocol, tls) for protocol in PORTS for tls in (False, True)
}
_FILES: Final = ("ca", "certificate", "key")
_HOST: Final = "virtual-host"
_EXAMPLE: Final = (
    "write it like stomp://LOGIN:PASSCODE@127.0.0.1:61613 or amqp://LOGIN:PASSCODE@127.0.0.1:5672,"
    " or with TLS stomps://LOGIN:PASSCODE@HOST:61612?ca=FILE"
)


class ClientError(DaybookError):
    """The broker refused, or the connection cannot be used; the text says why.

    `code` is the code of a refusal for programs, if the broker said one.
    """

    def __init__(self, text: str, *, code: str = "") -> None:
        super().__init__(text)
        self.code: Final = code


class EndpointError(ClientError):
    """No connection can be made to an endpoint; the text says why."""


class Endpoint(NamedTuple):
    """The place to connect to, and the login to use.

    With TLS `ca` is a file of trusted certificates, empty for those of the system; `certificate`
    and `key` are those of the client, if any. A client that shows a certificate needs no login.
    `virtual_host` is the value of its header `host`, or the `hostname` of AMQP.
    """

    host: str
    port: int
    login: str
    passcode: str
    tls: bool = False
    ca: str = ""
    certificate: str = ""
    key: str = ""
    virtual_host: str = HOST
    protocol: str = STOMP

    def __str__(self) -> str:
        return f"{self.protocol}{'s' * self.tls}://{self.host}:{self.port}"

    def connect(self, timeout: float) -> socket.socket:
        """Connect within `timeout` seconds, and do the handshake of TLS. Raises EndpointError."""
        context = self._context() if self.tls else None
        try:
            plain = socket.create_connection((self.host, self.port), timeout)
        except OSError as error:
            raise EndpointError(
                f"cannot connect to {self}: {error.strerror or error}; is a broker running "
                "there? `daybook serve` starts one; otherwise name another URL"
            ) from error
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if context is None:
            return plain
        try:
            return context.wrap_socket(plain, server_hostname=self.host)
        except OSError as error:
            plain.close()
            raise EndpointError(f"cannot speak TLS with {self}: {_reason(error)}") from error

    def _context(self) -> ssl.SSLContext:
        """Return the trusted certificates, and those of the client. Raises EndpointError."""
        try:
            context = ssl.create_default_context(cafile=self.ca or None)
            if self.certificate:
                context.load_cert_chain(self.certificate, self.key or None)
        except OSError as error:
            files = ", ".join(filter(None, (self.ca, self.certificate, self.key)))
            raise EndpointError(
                f"the certificates for {self} cannot be used ({files}): {_reason(error)}"
            ) from error
        return context


def _reason(error: OSError) -> str:
    """Return why TLS failed, with the remedy if it is known."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return (
            f"its certificate is not trusted: {error.verify_message}; name a file of certificates"
            " to trust in the URL, as ?ca=FILE"
        )
    if isinstance(error, ssl.SSLError) and error.reason:
        if error.reason == "WRONG_VERSION_NUMBER":
            return "the peer does not speak TLS"
        return error.reason.lower().replace("_", " ")
    return error.strerror or str(error)


def parse_url(url: str) -> Endpoint:
    """Parse stomp://LOGIN:PASSCODE@HOST:PORT or amqp://, or either with TLS and its files as
    parameters.

    Raises a ValueError that shows the right form.
    """
    shown = _without_login(url)
    try:
        parts = urlsplit(url)
        protocol, tls = _SCHEMES.get(parts.scheme, ("", False))
        port = parts.port or (PORTS[protocol][tls] if protocol else 0)
        pairs = parse_qsl(parts.query, strict_parsing=True) if parts.query else []
    except ValueError as error:
        text = f"'{shown}' is not an address to connect to ({error}); {_EXAMPLE}"
        raise ValueError(text) from error
    if not protocol or not parts.hostname or parts.path not in ("", "/") or parts.fragment:
        raise ValueError(f"'{shown}' is not an address to connect to; {_EXAMPLE}")
    files = dict(pairs)
    virtual_host = files.pop(_HOST, HOST)
    if unknown := [key for key in files if key not in _FILES or not tls]:
        raise ValueError(
            f"'{shown}': {unknown[0]} is not known; {protocol}s:// takes {', '.join(_FILES)}, and"
            f" both take {_HOST}"
        )
    # A certificate is a login, unless another one is named.
    nobody = "" if files.get("certificate") else "guest"
    login, passcode = unquote(parts.username or nobody), unquote(parts.password or nobody)
    return Endpoint(
        parts.hostname, port, login, passcode, tls, **files,
        virtual_host=virtual_host, protocol=protocol,
    )  # fmt: skip


def _without_login(url: str) -> str:
    """Hide the part before the @ of a URL, as it may contain a passcode."""
    start, at, rest = url.rpartition("@")
    return f"{start.partition('://')[0]}://...@{rest}" if at else url
