"""A client of the acceptor for administration of a broker elsewhere: `control://HOST:PORT`.

`controls://` speaks TLS. A token is never sent over a connection that others could read. Fault
model: the broker may be away, refuse the token, or die in the middle of an answer.
"""

import re
import socket
import ssl
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from daybook.client.control import TIMEOUT_SECONDS, ControlError, Unanswered, exchange

_URL: Final = re.compile(r"(controls?)://(?:\[([0-9A-Fa-f:.%\w]+)\]|([^\s\[\]:/]+)):([0-9]{1,5})/?")
_LOOPBACK: Final = ("127.", "::1", "::ffff:127.")


class TokenRefused(ControlError):
    """The broker refused the token; the text says why."""


class Remote(NamedTuple):
    """A broker elsewhere: where, whether by TLS, the token, and a file of certificates to trust."""

    host: str
    port: int
    tls: bool
    token: str
    ca_file: Path | None = None


def remote_at(url: str, token: str, ca_file: Path | None = None) -> Remote:
    """Return the broker of a URL. Raises ControlError."""
    found = _URL.fullmatch(url)
    if found is None or not 0 < int(found[4]) <= 65_535:
        raise ControlError(
            f"{url!r} is not the URL of a broker; write control://HOST:PORT, or controls:// for TLS"
        )
    return Remote(found[2] or found[3], int(found[4]), found[1] == "controls", token, ca_file)


def remote(url: str, token_file: Path | None, ca_file: Path | None = None) -> Remote:
    """Return the broker of a URL, with the token in a file. Raises ControlError."""
    broker = remote_at(url, "", ca_file)
    if token_file is None:
        raise ControlError("name the file with your token, with --token-file")
    try:
        token = token_file.read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not text"
        raise ControlError(f"{token_file}: cannot be read: {why}") from None
    if not token or "\n" in token:
        raise ControlError(f"{token_file} must have one line, the token")
    return broker._replace(token=token)


def ask_remote(
    broker: Remote, request: dict[str, Any], timeout: float = TIMEOUT_SECONDS
) -> dict[str, Any]:
    """Send a request and return the answer. Raises ControlError, TokenRefused before the request
    was sent, and Unanswered if no answer arrives within `timeout` seconds."""
    place = f"{broker.host}:{broker.port}"
    kind: type[ControlError] = ControlError
    try:
        with (
            socket.create_connection((broker.host, broker.port), timeout) as plain,
            _secured(plain, broker) as connection,
        ):
            _show(connection, broker.token)
            kind = Unanswered
            return exchange(connection, [request])
    except TimeoutError:
        raise kind(f"the broker at {place} did not answer within {timeout:.0f} s") from None
    except ssl.SSLError as error:
        raise ControlError(f"TLS with {place} failed: {error.reason or error}") from None
    except msgspec.DecodeError:
        raise ControlError(f"the server on {place} is not an acceptor for administration") from None
    except OSError as error:
        raise kind(f"the broker at {place} cannot be reached: {error}") from None


def _show(connection: socket.socket, token: str) -> None:
    try:
        exchange(connection, [{"token": token}])
    except ControlError as error:
        raise TokenRefused(str(error), code=error.code) from None


def _secured(plain: socket.socket, broker: Remote) -> socket.socket:
    """Return the connection to send the token on. Raises ControlError if others could read it."""
    if broker.tls:
        context = ssl.create_default_context(cafile=broker.ca_file)
        return context.wrap_socket(plain, server_hostname=broker.host)
    if not str(plain.getpeername()[0]).startswith(_LOOPBACK):
        raise ControlError(
            f"others could read the token on the way to {broker.host}; use controls:// or a tunnel"
        )
    return plain
