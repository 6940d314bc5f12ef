"""A second opinion about frames: a slow reader of STOMP, written from the specification alone.

It shares no code with the broker. `read` says which frames a stream has, up to the first thing that
is no frame; what a frame means it does not know.
"""

from typing import Final, NamedTuple

ESCAPES: Final[dict[str, dict[bytes, bytes]]] = {
    "1.0": {},
    "1.1": {b"\\n": b"\n", b"\\c": b":", b"\\\\": b"\\"},
    "1.2": {b"\\n": b"\n", b"\\r": b"\r", b"\\c": b":", b"\\\\": b"\\"},
}


class Broken(Exception):
    """The bytes are not a frame of STOMP."""


class Partial(Exception):
    """The frame is not complete."""


class Limits(NamedTuple):
    """The limits of a frame; `lines` are headers besides a receipt."""

    line: int
    lines: int
    head: int
    body: int


class Frame(NamedTuple):
    """A frame: headers in order, without escapes."""

    command: bytes
    headers: list[tuple[bytes, bytes]]
    body: bytes

    def first(self, name: bytes) -> bytes | None:
        """The value that counts."""
        return next((value for given, value in self.headers if given == name), None)


def unescape(text: bytes, version: str) -> bytes:
    """Undo the escapes of a version, a character at a time. Raises Broken."""
    if version == "1.0":
        return text
    done = bytearray()
    at = 0
    while at < len(text):
        if text[at : at + 1] != b"\\":
            done += text[at : at + 1]
            at += 1
            continue
        plain = ESCAPES[version].get(text[at : at + 2])
        if plain is None:
            raise Broken("escape")
        done += plain
        at += 2
    return bytes(done)


def read(stream: bytes, version: str, limits: Limits) -> tuple[list[Frame], str]:
    """All frames at the beginning, and how they end: "whole", "partial" or "broken"."""
    frames: list[Frame] = []
    at = 0
    while True:
        while stream[at : at + 1] in (b"\n", b"\r"):
            at += 1
        if at == len(stream):
            return frames, "whole"
        try:
            frame, at = _frame(stream, at, version, limits)
        except Broken:
            return frames, "broken"
        except Partial:
            return frames, "partial"
        frames.append(frame)


def _frame(stream: bytes, at: int, version: str, limits: Limits) -> tuple[Frame, int]:
    begin = at
    lines: list[bytes] = []
    while True:
        end = stream.find(b"\n", at)
        nul = stream.find(b"\0", at, end if end >= 0 else len(stream))
        if nul >= 0:
            raise Broken("NUL in a head")
        if end < 0:
            raise Partial
        line = stream[at:end]
        at = end + 1
        if version == "1.2":
            line = line.removesuffix(b"\r")
        if not line:
            break
        lines.append(line)
    if stream.find(b"\0", at) < 0:
        raise Partial
    receipts = any(line.startswith(b"receipt:") for line in lines)
    if at - begin - 2 > limits.head + 2 or len(lines) - 1 - receipts > limits.lines:
        raise Broken("limit")
    if version == "1.2" and any(b"\r" in line for line in lines):
        raise Broken("CR")
    headers = [_header(line, version, limits) for line in lines[1:]]
    body, at = _body(stream, at, Frame(lines[0], headers, b""), limits)
    return Frame(lines[0], headers, body), at


def _header(line: bytes, version: str, limits: Limits) -> tuple[bytes, bytes]:
    if len(line) > limits.line or b":" not in line or line[:1] == b":":
        raise Broken("header")
    name, _, value = line.partition(b":")
    found = unescape(name, version), unescape(value, version)
    try:
        b"".join(found).decode()
        found[0].decode()
    except UnicodeDecodeError:
        raise Broken("UTF-8") from None
    return found


def _body(stream: bytes, at: int, head: Frame, limits: Limits) -> tuple[bytes, int]:
    lengths = [value for name, value in head.headers if name == b"content-length"]
    if len(lengths) > 1:
        raise Broken("lengths")
    if lengths and head.command == b"SEND":
        text = lengths[0].strip(b" \t")
        if not text.isdigit() or int(text) > limits.body:
            raise Broken("length")
        end = at + int(text)
        if end >= len(stream):
            raise Partial
        if stream[end] != 0:
            raise Broken("no NUL")
    else:
        end = stream.find(b"\0", at)
        if head.command != b"SEND" and stream[at : at + 1] not in (b"\0", b""):
            raise Broken("a body")
        if end < 0:
            raise Partial
    if end - at > limits.body:
        raise Broken("limit")
    return stream[at:end], end + 1
