"""A STOMP peer of bare sockets, for what no client library does: odd cuts, silence, floods."""

import socket
import ssl
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

SECONDS: Final = 60.0


class Frame(NamedTuple):
    """A frame as it came; of repeated headers the first counts."""

    command: str
    headers: dict[str, str]
    body: bytes


class Closed(AssertionError):
    """The broker closed the connection where a frame was expected."""


class Wire:
    """One connection. `seconds` bounds every wait."""

    def __init__(
        self,
        port: int,
        *,
        seconds: float = SECONDS,
        receive_buffer: int = 0,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        plain = socket.socket()
        if receive_buffer:
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        plain.settimeout(seconds)
        try:
            plain.connect(("127.0.0.1", port))
            self.socket: Final = (
                plain if tls is None else tls.wrap_socket(plain, server_hostname="localhost")
            )
        except BaseException:
            plain.close()
            raise
        self._buffer = bytearray()

    def write(self, data: bytes) -> None:
        """Send bytes as they are."""
        self.socket.sendall(data)

    def send(self, command: str, body: bytes = b"", **headers: Any) -> None:
        """Send a frame, as `frame` makes it."""
        self.write(frame(command, body, **headers))

    def connect(self, version: str = "1.2", **headers: Any) -> Frame:
        """CONNECT, and the answer."""
        self.send("CONNECT", accept_version=version, host="h", **headers)
        return self.read()

    def read(self) -> Frame:
        """The next frame; raises Closed, and TimeoutError when nothing comes."""
        while True:
            while self._buffer.startswith((b"\n", b"\r")):
                del self._buffer[:1]
            found = cut_frame(self._buffer)
            if found is not None:
                return found
            data = self.socket.recv(1 << 18)
            if not data:
                raise Closed(f"closed after {bytes(self._buffer)[:200]!r}")
            self._buffer += data

    def frames(self, count: int) -> Iterator[Frame]:
        """So many frames."""
        for _ in range(count):
            yield self.read()

    def expect(self, command: str) -> Frame:
        """The next frame, which must be of this command."""
        found = self.read()
        assert found.command == command, found
        return found

    def at_end(self) -> bool:
        """Read until the broker closes; whether no frame came before."""
        try:
            self.read()
        except (Closed, ConnectionResetError):
            return True
        return False

    def close(self) -> None:
        """Drop the connection."""
        self.socket.close()

    def __enter__(self) -> "Wire":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def frame(command: str, body: bytes = b"", **headers: Any) -> bytes:
    """The bytes of a frame; underscores in names of headers become hyphens, but not in names like
    AMQ_SCHEDULED_TIME and JMSXGroupID."""
    lines = [command, *(f"{_header(name)}:{value}" for name, value in headers.items())]
    if body:
        lines.append(f"content-length:{len(body)}")
    return "\n".join(lines).encode() + b"\n\n" + body + b"\0"


def _header(name: str) -> str:
    return name.replace("_", "-") if name.islower() and name != "message_group" else name


def cut_frame(buffer: bytearray) -> Frame | None:
    """Take the first frame out of the buffer, if it is whole."""
    end = buffer.find(b"\n\n")
    if end < 0:
        return None
    command, *lines = buffer[:end].decode().split("\n")
    headers: dict[str, str] = {}
    for line in lines:
        name, _, value = line.partition(":")
        headers.setdefault(name, value)
    start = end + 2
    if "content-length" in headers:
        stop = start + int(headers["content-length"])
        if len(buffer) <= stop:
            return None
    else:
        stop = buffer.find(b"\0", start)
        if stop < 0:
            return None
    body = bytes(buffer[start:stop])
    del buffer[: stop + 1]
    return Frame(command, headers, body)
