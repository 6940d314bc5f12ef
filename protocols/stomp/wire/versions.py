"""The differences of header lines between STOMP 1.0, 1.1 and 1.2.

| | escapes | raw carriage return | line ends |
|---|---|---|---|
| 1.0 | none, either way | part of the value | LF |
| 1.1 | `\\n` `\\c` `\\\\` | part of the value | LF |
| 1.2 | also `\\r` | not allowed | LF or CR LF |

Must never know sessions or the broker.
"""

from typing import Final

from daybook.engine.messages import headers
from daybook.protocols.stomp.wire.errors import UndefinedEscape, shortened

V10: Final = 10
V11: Final = 11
V12: Final = 12
NAMES: Final[dict[str, int]] = {"1.0": V10, "1.1": V11, "1.2": V12}
TEXTS: Final[dict[int, str]] = {number: name for name, number in NAMES.items()}
ALL: Final = ",".join(NAMES)

_ESCAPES: Final[dict[int, str]] = {V11: "\\n, \\c and \\\\", V12: "\\n, \\r, \\c and \\\\"}


def unescape(text: bytes, version: int) -> bytes:
    """Unescape a received name or value. Raises UndefinedEscape."""
    if version == V10 or b"\\" not in text:
        return text
    try:
        if version == V11 and b"\\r" in headers.without_pairs(text):
            raise ValueError
        return headers.unescape(text)
    except ValueError:
        raise UndefinedEscape(
            f"undefined escape in {shortened(text.decode('utf-8', 'replace'))}",
            f"STOMP {TEXTS[version]} has {_ESCAPES[version]} only",
        ) from None


def escape(text: bytes, version: int) -> bytes:
    """Escape a value of the broker for a peer of this version; in 1.0 line feeds become blanks."""
    if version == V10:
        return text.replace(b"\n", b" ")
    escaped = text.replace(b"\\", b"\\\\").replace(b"\n", b"\\n").replace(b":", b"\\c")
    return escaped.replace(b"\r", b"\\r") if version == V12 else escaped


def canonical(line: bytes, version: int) -> bytes:
    """Convert a received header line to the form of `engine.messages.headers` (without the line
    feed)."""
    if version == V10:
        line = line.replace(b"\\", b"\\\\")
    line = line.replace(b"\r", b"\\r")
    return headers.explicit_line(line) if line.count(b":") > 1 else line


def express(block: bytes, version: int) -> bytes:
    """Convert a canonical block for a peer of this version.

    In 1.0 a line with a line feed, or with a colon in its name, cannot be expressed and is omitted.
    """
    if version == V12 or (version == V11 and b"\\r" not in block):
        return headers.explicit(block)
    if b"\\" not in block:
        return block
    lines = []
    for line in block.split(b"\n")[:-1]:
        if b"\\" in line:
            name, _, value = line.partition(b":")
            plain_name, plain_value = headers.unescape(name), headers.unescape(value)
            if version == V11:
                line = escape(plain_name, V11) + b":" + escape(plain_value, V11)
            elif b":" in plain_name or b"\n" in plain_name or b"\n" in plain_value:
                continue
            else:
                line = plain_name + b":" + plain_value
        lines.append(line + b"\n")
    return b"".join(lines)
