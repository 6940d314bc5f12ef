"""A small synchronous STOMP 1.2 client for the command line.

Fault model: the peer may be no STOMP server at all, may send anything, may go away in the middle of
a frame, or may say nothing for ever. Each ends in a StompError with a sentence.
"""

import socket
from collections import deque
from collections.abc import Iterable
from time import monotonic
from typing import Final, NamedTuple
from urllib.parse import unquote, urlsplit

DEFAULT_URL: Final = "stomp://127.0.0.1:61613"
DEFAULT_PORT: Final = 61613
ANSWER_SECONDS: Final = 30.0
HEAD_BYTES_MAX: Final = 1 << 20
_ESCAPES: Final = {"\\": "\\\\", "\r": "\\r", "\n": "\\n", ":": "\\c"}
_MEANINGS: Final = {"\\": "\\", "r": "\r", "n": "\n", "c": ":"}


class StompError(Exception):
    """The broker refused, or the connection is of no use; the text says why."""


class Endpoint(NamedTuple):
    """Where to connect to, and as whom."""

    host: str
    port: int
    login: str
    passcode: str

    def __str__(self) -> str:
        return f"stomp://{self.host}:{self.port}"


class Frame(NamedTuple):
    """A frame received; of repeated headers the first counts."""

    command: str
    headers: dict[str, str]
    body: bytes


def parse_url(url: str) -> Endpoint:
    """Read stomp://LOGIN:PASSCODE@HOST:PORT; ValueError with what would be right."""
    example = "write it like stomp://LOGIN:PASSCODE@127.0.0.1:61613"
    try:
        parts = urlsplit(url)
        port = parts.port or DEFAULT_PORT
    except ValueError as error:
        raise ValueError(f"'{url}' is not an address to connect to ({error}); {example}") from error
    if parts.scheme != "stomp" or not parts.hostname or parts.path not in ("", "/"):
        raise ValueError(f"'{url}' is not an address to connect to; {example}")
    login = unquote(parts.username or "guest")
    return Endpoint(parts.hostname, port, login, unquote(parts.password or "guest"))


def escaped(text: str) -> str:
    """A header's name or value as STOMP 1.2 writes it."""
    return "".join(_ESCAPES.get(character, character) for character in text)


def unescaped(text: str) -> str:
    """Undo `escaped`; an escape that does not exist is left as it is."""
    if "\\" not in text:
        return text
    pieces = []
    characters = iter(text)
    for character in characters:
        if character != "\\":
            pieces.append(character)
            continue
        follower = next(characters, "")
        pieces.append(_MEANINGS.get(follower, "\\" + follower))
    return "".join(pieces)


def encode(command: str, headers: Iterable[tuple[str, str]], body: bytes = b"") -> bytes:
    """A frame as bytes; `content-length` is added to one with a body."""
    plain = command == "CONNECT"
    lines = [command]
    for name, value in headers:
        # CONNECT is written before both sides know that they speak 1.2, so it has no escapes.
        lines.append(f"{name}:{value}" if plain else f"{escaped(name)}:{escaped(value)}")
    if body:
        lines.append(f"content-length:{len(body)}")
    return "\n".join(lines).encode() + b"\n\n" + body + b"\0"


class StompClient:
    """A connection that is logged in; a context manager."""

    def __init__(self, endpoint: Endpoint, *, timeout: float = ANSWER_SECONDS) -> None:
        """Connect and log in. Raises StompError."""
        self.endpoint: Final = endpoint
        self._timeout: Final = timeout
        self._buffer = bytearray()
        self._receipts: set[str] = set()
        self._messages: deque[Frame] = deque()
        self._serial = 0
        try:
            self._socket = socket.create_connection((endpoint.host, endpoint.port), timeout)
        except OSError as error:
            raise StompError(
                f"cannot connect to {endpoint}: {error.strerror or error}; is a broker running "
                "there? `daybook serve` starts one, --url names another"
            ) from error
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            self._log_in()
        except BaseException:
            self._socket.close()
            raise

    def _log_in(self) -> None:
        endpoint = self.endpoint
        for text in (endpoint.login, endpoint.passcode):
            if set(text) & {"\n", "\r", "\0"}:
                raise StompError("a login or passcode cannot hold line breaks")
        headers = [("accept-version", "1.2"), ("host", "default"), ("heart-beat", "0,0")]
        headers += [("login", endpoint.login), ("passcode", endpoint.passcode)]
        self._write(encode("CONNECT", headers))
        frame = self._frame(monotonic() + self._timeout)
        if frame is None:
            raise StompError(
                f"{endpoint} did not answer within {self._timeout:.0f} s: is it a STOMP broker?"
            )
        if frame.command != "CONNECTED":
            raise StompError(f"{endpoint} answered {frame.command} instead of CONNECTED")

    def __enter__(self) -> "StompClient":
        return self

    def __exit__(self, *failure: object) -> None:
        self._socket.close()

    def send(self, command: str, headers: Iterable[tuple[str, str]], body: bytes = b"") -> None:
        """Write a frame. Raises StompError."""
        self._write(encode(command, headers, body))

    def request_receipt(
        self, command: str, headers: Iterable[tuple[str, str]], body: bytes = b""
    ) -> str:
        """Write a frame that asks for a receipt; returns what `wait_for` takes."""
        self._serial += 1
        receipt = str(self._serial)
        self.send(command, [*headers, ("receipt", receipt)], body)
        return receipt

    def wait_for(self, receipt: str) -> None:
        """Wait until the broker confirmed a frame: it is durable. Raises StompError."""
        deadline = monotonic() + self._timeout
        while receipt not in self._receipts:
            frame = self._frame(deadline)
            if frame is None:
                raise StompError(f"no receipt came within {self._timeout:.0f} s")
            self._note(frame)
        self._receipts.discard(receipt)

    def message(self, timeout: float | None) -> Frame | None:
        """The next MESSAGE; None if none came in `timeout` seconds (None: wait for ever)."""
        deadline = None if timeout is None else monotonic() + timeout
        while not self._messages:
            frame = self._frame(deadline)
            if frame is None:
                return None
            self._note(frame)
        return self._messages.popleft()

    def disconnect(self) -> None:
        """Say goodbye and wait until everything sent before was confirmed. Raises StompError."""
        self.wait_for(self.request_receipt("DISCONNECT", []))

    def _note(self, frame: Frame) -> None:
        if frame.command == "RECEIPT":
            self._receipts.add(frame.headers.get("receipt-id", ""))
        elif frame.command == "MESSAGE":
            self._messages.append(frame)

    def _write(self, data: bytes) -> None:
        try:
            self._socket.settimeout(self._timeout)
            self._socket.sendall(data)
        except OSError as error:
            self._explain_end(error)

    def _explain_end(self, error: OSError) -> None:
        """The connection broke while writing: what the broker said before explains it better."""
        try:
            while True:
                frame = self._frame(monotonic() + 1.0)
                if frame is None:
                    break
        except StompError as said:
            raise said from error
        raise StompError(f"the connection to {self.endpoint} broke: {error}") from error

    def _frame(self, deadline: float | None) -> Frame | None:
        """The next frame, None at the deadline. An ERROR is raised as StompError."""
        while True:
            frame = self._take()
            if frame is not None:
                if frame.command == "ERROR":
                    text = frame.body.decode("utf-8", "replace").strip()
                    raise StompError(text or frame.headers.get("message", "the broker refused"))
                return frame
            left = None if deadline is None else deadline - monotonic()
            if left is not None and left <= 0:
                return None
            self._socket.settimeout(left)
            try:
                data = self._socket.recv(1 << 18)
            except TimeoutError:
                return None
            except OSError as error:
                raise StompError(f"the connection to {self.endpoint} broke: {error}") from error
            if not data:
                raise StompError(f"{self.endpoint} closed the connection")
            self._buffer += data

    def _take(self) -> Frame | None:
        """Cut a whole frame from what came, None if there is none yet."""
        buffer = self._buffer
        while buffer.startswith((b"\n", b"\r")):
            del buffer[0]
        end = buffer.find(b"\n\n")
        if end < 0:
            if len(buffer) > HEAD_BYTES_MAX:
                raise StompError(f"{self.endpoint} does not speak STOMP")
            return None
        lines = buffer[:end].decode("utf-8", "replace").split("\n")
        headers: dict[str, str] = {}
        for line in lines[1:]:
            name, _, value = line.rstrip("\r").partition(":")
            headers.setdefault(unescaped(name), unescaped(value))
        begin = end + 2
        length = headers.get("content-length", "")
        stop = begin + int(length) if length.isdigit() else buffer.find(b"\0", begin)
        if stop < begin or len(buffer) <= stop:
            return None
        frame = Frame(lines[0].rstrip("\r"), headers, bytes(buffer[begin:stop]))
        del buffer[: stop + 1]
        return frame
