"""A small synchronous STOMP 1.2 client for the command line and the pipeline.

Fault model: the peer may not be a STOMP server, may send any bytes, may close the connection in the
middle of a frame, or may never answer. Each case raises a StompError that explains it. Bodies of
any size are sent and received in pieces; long ones are kept in an unnamed temporary file.
"""

import ssl
from collections import deque
from collections.abc import Iterable
from time import monotonic
from typing import Final, NamedTuple

from daybook.client.bodies import PIECE_BYTES, Content, Received
from daybook.client.endpoint import ClientError, Endpoint, EndpointError

ANSWER_SECONDS: Final = 30.0
HEAD_BYTES_MAX: Final = 1 << 20
UNTIL_NUL: Final = -1
_ESCAPES: Final = str.maketrans({"\\": "\\\\", "\r": "\\r", "\n": "\\n", ":": "\\c"})
_MEANINGS: Final = {"\\": "\\", "r": "\r", "n": "\n", "c": ":"}


class StompError(ClientError):
    """The broker refused, or the connection cannot be used; the text says why."""


class Refused(StompError):
    """The broker sent an ERROR frame; the text is its message, `code` its code for programs or "".

    `receipt` is the receipt id of the refused frame, "" if that frame asked for no receipt.
    """

    def __init__(self, text: str, *, code: str = "", receipt: str = "") -> None:
        super().__init__(text, code=code)
        self.receipt: Final = receipt


class Frame(NamedTuple):
    """A received frame; of repeated headers the first one is used."""

    command: str
    headers: dict[str, str]
    content: Received

    @property
    def body(self) -> bytes:
        """The whole body, in memory."""
        return b"".join(self.content.pieces())


class _Incoming:
    """A frame whose head was received, and whose body is being received."""

    def __init__(self, command: str, headers: dict[str, str]) -> None:
        length = headers.get("content-length", "")
        self._frame: Final = Frame(command, headers, Received())
        self._length: Final = int(length) if length.isdigit() else UNTIL_NUL

    def close(self) -> None:
        """Discard the received part of the body."""
        self._frame.content.close()

    def take(self, buffer: bytearray) -> Frame | None:
        """Take the frame's bytes out of the buffer; return the frame once it is complete."""
        content = self._frame.content
        end = buffer.find(b"\0") if self._length == UNTIL_NUL else self._length - content.size
        if not 0 <= end < len(buffer):
            content.add(bytes(buffer))
            buffer.clear()
            return None
        content.add(bytes(buffer[:end]))
        del buffer[: end + 1]
        return self._frame


def escaped(text: str) -> str:
    """Escape a header's name or value as STOMP 1.2 requires."""
    return text.translate(_ESCAPES)


def unescaped(text: str) -> str:
    """Undo `escaped`; an unknown escape sequence stays as it is."""
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
    """Encode a frame; one with a body gets the header `content-length`."""
    return _head(command, headers, len(body)) + body + b"\0"


def _head(command: str, headers: Iterable[tuple[str, str]], body_bytes: int) -> bytes:
    plain = command == "CONNECT"
    lines = [command]
    for name, value in headers:
        # CONNECT is sent before the version is agreed, so its headers are not escaped.
        lines.append(f"{name}:{value}" if plain else f"{escaped(name)}:{escaped(value)}")
    if body_bytes:
        lines.append(f"content-length:{body_bytes}")
    return "\n".join(lines).encode() + b"\n\n"


class StompClient:
    """A connection with a completed login; a context manager."""

    def __init__(
        self, endpoint: Endpoint, *, timeout: float = ANSWER_SECONDS, heart_beat_ms: int = 0
    ) -> None:
        """Connect, log in and ask the broker for heart-beats (0: none). Raises StompError."""
        self.endpoint: Final = endpoint
        self._timeout: Final = timeout
        self._heard = monotonic()
        self._buffer = bytearray()
        self._incoming: _Incoming | None = None
        self._receipts: set[str] = set()
        self.outcomes: dict[str, dict[str, str]] = {}
        """Headers of receipts that report the outcome of a message, until the caller removes them.
        """
        self._messages: deque[Frame] = deque()
        self._serial = 0
        try:
            self._socket = endpoint.connect(timeout)
        except EndpointError as error:
            raise StompError(str(error)) from error
        try:
            self._log_in(heart_beat_ms)
        except BaseException:
            self._socket.close()
            raise

    def _log_in(self, heart_beat_ms: int) -> None:
        endpoint = self.endpoint
        for text in (endpoint.login, endpoint.passcode, endpoint.virtual_host):
            if set(text) & {"\n", "\r", "\0"}:
                raise StompError("a login, passcode or virtual host cannot contain line breaks")
        headers = [("accept-version", "1.2"), ("host", endpoint.virtual_host)]
        headers += [("heart-beat", f"0,{heart_beat_ms}")]
        if endpoint.login or endpoint.passcode:
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
        if self._incoming is not None:
            self._incoming.close()
        for frame in self._messages:
            frame.content.close()

    def send(self, command: str, headers: Iterable[tuple[str, str]], body: bytes = b"") -> None:
        """Write a frame. Raises StompError."""
        self._write(encode(command, headers, body))

    def send_encoded(self, frames: bytes) -> None:
        """Write frames made by `encode`. Raises StompError, also for an ERROR frame."""
        self._write(frames)
        self._hear()

    def send_content(self, headers: Iterable[tuple[str, str]], content: Content) -> None:
        """Write a SEND piece by piece. Raises StompError, also for an ERROR frame.

        If the content ends early, the connection cannot be used any more.
        """
        # The head and a short body are written with one call.
        unwritten = _head("SEND", headers, content.size)
        left = content.size
        for piece in content.pieces():
            if len(unwritten) + len(piece) > PIECE_BYTES:
                self._write(unwritten)
                unwritten = b""
                # If the broker refuses the message, this raises, and the rest is not sent.
                self._hear()
            unwritten += piece[:left]
            left -= len(piece[:left])
        if left:
            raise StompError(f"the body ended {left:,} bytes early: it changed while it was read")
        self._write(unwritten + b"\0")

    def request_receipt(self, command: str, headers: Iterable[tuple[str, str]]) -> str:
        """Write a frame that asks for a receipt; returns what `wait_for` takes."""
        receipt = self._next_receipt()
        self.send(command, [*headers, ("receipt", receipt)])
        return receipt

    def send_with_receipt(self, headers: Iterable[tuple[str, str]], content: Content) -> str:
        """Write a SEND that asks for a receipt; returns what `wait_for` takes."""
        receipt = self._next_receipt()
        self.send_content([*headers, ("receipt", receipt)], content)
        return receipt

    def _next_receipt(self) -> str:
        self._serial += 1
        return str(self._serial)

    def wait_for(self, receipt: str) -> None:
        """Wait for the receipt of a frame: its effect is then durable. Raises StompError."""
        if not self.has_receipt(receipt, self._timeout):
            raise StompError(f"no receipt arrived within {self._timeout:.0f} s")

    def has_receipt(self, receipt: str, seconds: float) -> bool:
        """Return whether the receipt of a frame arrives within `seconds`. Raises StompError."""
        deadline = monotonic() + seconds
        while receipt not in self._receipts:
            frame = self._frame(deadline)
            if frame is None:
                return False
            self._note(frame)
        self._receipts.discard(receipt)
        return True

    @property
    def silence(self) -> float:
        """Seconds since the broker last sent anything, heart-beats included."""
        return monotonic() - self._heard

    def message(self, timeout: float | None) -> Frame | None:
        """Return the next MESSAGE, None after `timeout` seconds (None: wait without limit)."""
        deadline = None if timeout is None else monotonic() + timeout
        while not self._messages:
            frame = self._frame(deadline)
            if frame is None:
                return None
            self._note(frame)
        return self._messages.popleft()

    def frame(self, seconds: float) -> Frame | None:
        """Return the next frame of any kind, None after `seconds`; for callers that only wait for
        frames. Raises StompError, also for an ERROR frame.
        """
        return self._frame(monotonic() + seconds)

    def disconnect(self, last: bytes = b"") -> None:
        """Send DISCONNECT and wait until everything sent before is confirmed. Raises StompError.

        `last` are frames made by `encode` that leave together with it, so that the broker does no
        work between them and the end.
        """
        receipt = self._next_receipt()
        self._write(last + encode("DISCONNECT", [("receipt", receipt)]))
        self.wait_for(receipt)

    def _note(self, frame: Frame) -> None:
        if frame.command == "RECEIPT":
            receipt = frame.headers.get("receipt-id", "")
            self._receipts.add(receipt)
            if "routed" in frame.headers or "dropped" in frame.headers:
                self.outcomes[receipt] = frame.headers
        elif frame.command == "MESSAGE":
            self._messages.append(frame)

    def _hear(self) -> None:
        """Read the frames that have arrived, without waiting for more."""
        while (frame := self._next()) is not None or self._read(0.0):
            if frame is not None:
                self._note(frame)

    def _write(self, data: bytes) -> None:
        try:
            self._socket.settimeout(self._timeout)
            self._socket.sendall(data)
        except OSError as error:
            self._explain_end(error)

    def _explain_end(self, error: OSError) -> None:
        """Raise the broker's ERROR frame, if one explains why writing failed, else the failure."""
        try:
            while True:
                frame = self._frame(monotonic() + 1.0)
                if frame is None:
                    break
        except StompError as said:
            raise said from error
        raise StompError(f"the connection to {self.endpoint} broke: {error}") from error

    def _frame(self, deadline: float | None) -> Frame | None:
        """Return the next frame, None at the deadline.

        While a body is being received, only silence is limited, not the time of the whole body.
        """
        while (frame := self._next()) is None:
            left = None if deadline is None else deadline - monotonic()
            if left is not None and self._incoming is not None:
                left = max(left, self._timeout)
            if left is not None and left <= 0:
                return None
            if not self._read(left) and self._incoming is not None:
                raise StompError(f"{self.endpoint} stopped sending in the middle of a message")
        return frame

    def _next(self) -> Frame | None:
        """Return a complete frame, None if there is none. Raises Refused for an ERROR frame."""
        frame = self._take()
        if frame is not None and frame.command == "ERROR":
            text = frame.body.decode("utf-8", "replace").strip()
            raise Refused(
                text or frame.headers.get("message", "the broker refused"),
                code=frame.headers.get("code", ""),
                receipt=frame.headers.get("receipt-id", ""),
            )
        return frame

    def _read(self, seconds: float | None) -> bool:
        """Read bytes, waiting up to `seconds` (None: without limit); return whether any arrived."""
        self._socket.settimeout(seconds)
        try:
            data = self._socket.recv(PIECE_BYTES)
        except (TimeoutError, BlockingIOError, ssl.SSLWantReadError):
            return False
        except OSError as error:
            raise StompError(f"the connection to {self.endpoint} broke: {error}") from error
        if not data:
            raise StompError(f"{self.endpoint} closed the connection")
        self._heard = monotonic()
        self._buffer += data
        return True

    def _take(self) -> Frame | None:
        """Take a complete frame from the buffer, None if there is none yet."""
        buffer = self._buffer
        if self._incoming is None:
            self._incoming = self._take_head()
        if self._incoming is None:
            return None
        frame = self._incoming.take(buffer)
        if frame is not None:
            self._incoming = None
        return frame

    def _take_head(self) -> _Incoming | None:
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
        del buffer[: end + 2]
        return _Incoming(lines[0].rstrip("\r"), headers)
