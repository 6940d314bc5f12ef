"""Frames as bytes: parsing of heads, limits on input, and frames of the broker.

The head of a frame is its command and header lines, without the blank line. Must never know what a
header means, except `receipt` and `content-length`, which every frame may have.
"""

from typing import Final

from daybook.protocols.stomp.wire.errors import StompError, shortened
from daybook.protocols.stomp.wire.options import StompOptions
from daybook.protocols.stomp.wire.versions import V10, canonical, escape, unescape

UNTIL_NUL: Final = -1
"""Length of a body that ends at the first NUL because no content-length was given."""

_LONGEST_COMMAND: Final = 32
_CONNECTING: Final = ("CONNECT", "STOMP")
BLANKS: Final = " \t"


class HeaderLine:
    """A received header line: unescaped name and value, and the line as in
    `engine.messages.headers`."""

    __slots__ = ("canonical", "name", "value")

    def __init__(self, name: str, value: str, canonical_line: bytes) -> None:
        self.name: str = name
        self.value: str = value
        self.canonical: bytes = canonical_line


class Head:
    """A parsed head: command, header lines in order, and the effective value of each name."""

    __slots__ = ("command", "lines", "values")

    def __init__(self, command: str, lines: list[HeaderLine]) -> None:
        self.command: str = command
        self.lines: list[HeaderLine] = lines
        self.values: dict[str, str] = {}
        for line in lines:
            self.values.setdefault(line.name, line.value)


def parse_head(head: bytes, version: int, options: StompOptions) -> Head:
    """Parse a head from which the receipt was already removed. Raises StompError.

    CONNECT and STOMP are never escaped. In 1.0, where blanks around values are customary, they are
    not part of a value, but a message is stored with them. Values of CONNECT and STOMP keep their
    blanks, because the version is not known yet.
    """
    parts = head.split(b"\n")
    command = _command(parts[0])
    trims = version == V10 and command not in _CONNECTING
    if command in _CONNECTING:
        version = V10
    if len(parts) - 1 > options.max_headers:
        raise StompError(
            f"{command} has {len(parts) - 1} headers, the limit is {options.max_headers}",
            "send fewer headers, or raise max-headers in the broker's configuration",
        )
    lines = []
    for raw in parts[1:]:
        check_line_length(len(raw), options)
        name, colon, value = raw.partition(b":")
        if not colon:
            raise StompError(f"header line without a colon: {_shown(raw)}", "write name:value")
        if not name:
            raise StompError(f"header without a name: {_shown(raw)}", "write name:value")
        meaning = _text(unescape(value, version), raw)
        lines.append(
            HeaderLine(
                _text(unescape(name, version), raw),
                meaning.strip(BLANKS) if trims else meaning,
                canonical(raw, version),
            )
        )
    return Head(command, lines)


def _command(raw: bytes) -> str:
    if len(raw) > _LONGEST_COMMAND or not raw.isalpha():
        raise StompError(
            f"unknown command {_shown(raw)}", "a frame begins with a STOMP command in capitals"
        )
    return raw.decode("ascii")


def _text(raw: bytes, line: bytes) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        raise StompError(
            f"header line is not UTF-8: {_shown(line)}", "encode headers in UTF-8"
        ) from None


def _shown(raw: bytes) -> str:
    return shortened(raw[:200].decode("utf-8", "replace"))


def check_line_length(length: int, options: StompOptions) -> None:
    """Raise StompError when a header line is longer than allowed."""
    if length > options.max_header_length:
        raise StompError(
            f"a header line has {length} bytes, the limit is {options.max_header_length}",
            "send shorter headers, or raise max-header-length in the broker's configuration",
        )


def check_receipt(receipt: bytes, version: int, options: StompOptions) -> bytes:
    """Return the receipt id for the answer: unchanged, except that STOMP 1.1 and 1.2 escape bare
    colons ("Value Encoding"). Raises StompError if it is invalid.
    """
    check_line_length(len(receipt) + len(b"receipt:"), options)
    if b"\0" in receipt:
        raise no_blank_line()
    _text(unescape(receipt, version), receipt)
    if version == V10:
        return receipt.strip(BLANKS.encode())
    return receipt.replace(b":", b"\\c")


def no_blank_line() -> StompError:
    """Return the error for a frame whose NUL comes before the end of its headers."""
    return StompError(
        "frame without a blank line after its headers",
        "end headers by an empty line; lines end in LF, from STOMP 1.2 on also in CR LF",
    )


def cut_receipt(head: bytes) -> tuple[bytes, bytes | None]:
    """Return the head without its receipt line, and the receipt id as received, None if none."""
    at = head.find(b"\nreceipt:")
    if at < 0:
        return head, None
    end = head.find(b"\n", at + 9)
    if end < 0:
        return head[:at], head[at + 9 :]
    return head[:at] + head[end:], head[at + 9 : end]


def without_carriage_returns(head: bytes) -> bytes:
    """Convert CR LF line ends of a head to LF. Raises StompError for a CR anywhere else."""
    if head.endswith(b"\r"):
        head = head[:-1]
    plain = head.replace(b"\r\n", b"\n")
    if b"\r" in plain:
        raise StompError(
            "carriage return inside a header line", "escape it as \\r, or end the line by CR LF"
        )
    return plain


def content_length(head: Head, options: StompOptions) -> int:
    """Return the length of the body, or UNTIL_NUL. Raises StompError if it is not allowed."""
    given = head.values.get("content-length")
    if given is None:
        return UNTIL_NUL
    if sum(line.name == "content-length" for line in head.lines) > 1:
        # Otherwise programs that use the first and programs that use the last would see different
        # frames.
        raise StompError("content-length is given more than once", "give it once")
    length = number(given)
    if length is None:
        raise StompError(
            f"content-length is {shortened(given)}", "give the number of bytes of the body"
        )
    if length > options.max_data_length:
        raise body_too_long(f"{length}", options)
    return length


def body_too_long(size: str, options: StompOptions) -> StompError:
    """Return the error for a body above the limit."""
    return StompError(
        f"the body has {size} bytes, the limit is {options.max_data_length}",
        "send less, or raise max-data-length in the broker's configuration",
    )


def number(text: str) -> int | None:
    """Parse an unsigned integer of at most 18 digits; return None for anything else."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 18 else None


def truth(head: Head, name: str, default: bool) -> bool:
    """Return the value of a boolean header. Raises StompError if it is neither true nor false."""
    given = head.values.get(name)
    if given is None:
        return default
    if given not in ("true", "false"):
        raise StompError(f"{name} is {shortened(given)}", f"write {name}:true or {name}:false")
    return given == "true"


def required(head: Head, name: str) -> str:
    """Return the value of a required header. Raises StompError if it is missing or empty."""
    value = head.values.get(name)
    if not value:
        what = "without" if value is None else "with an empty"
        raise StompError(f"{head.command} {what} {name}", f"give the header {name}")
    return value


def error_frame(error: StompError, head: bytes, receipt: bytes | None, version: int) -> bytes:
    """Make an ERROR frame: the problem, the advice, and the frame that caused it. The advice is in
    the header `message` and in the first line of the body, since many clients show only one of the
    two.
    """
    body = error.sentence + "\n"
    where = _where(head)
    if where:
        body += f"Where: {where}\n"
    content = body.encode("utf-8", "replace")
    said = escape(error.sentence.encode("utf-8", "replace"), version)
    head = b"ERROR\nmessage:" + said + b"\n"
    if receipt is not None:
        head += b"receipt-id:" + receipt + b"\n"
    if error.versions:
        head += b"version:1.0,1.1,1.2\n"
    if error.code:
        head += b"code:" + error.code.encode() + b"\n"
    head += b"content-type:text/plain\ncontent-length:%d\n\n" % len(content)
    return head + content + b"\0"


def _where(head: bytes) -> str:
    """Describe the frame for people, without headers that could contain a secret."""
    lines = head.split(b"\n")
    shown = lines[0][:40]
    for line in lines[1:]:
        if line.startswith((b"destination:", b"id:", b"transaction:", b"message-id:")):
            shown += b" " + line[:100]
    return shown.decode("utf-8", "replace")


def wrong_length(length: int) -> StompError:
    """Return the error for a body that is longer than its content-length."""
    return StompError(
        f"no NUL after the {length} bytes of body that content-length announced",
        "content-length counts the bytes of the body, without the NUL that ends the frame",
    )
