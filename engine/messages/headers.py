"""Header lines, the first format of content: the canonical block, and its codec.

A block is lines `name:value`, each ended by a line feed, in UTF-8 with the escapes of STOMP 1.2
("Value Encoding"): `\\\\` for a backslash, `\\n` and `\\r` for line feed and carriage return,
`\\c` for a colon. The one bare colon of a line ends its name. Older journals have blocks with
bare colons in values, too; they mean the same, and `explicit` escapes them. Lines are in the order
of the sender; of repeated names the first one counts. The empty block is `b""`.

Protocols pass blocks through untouched where they can; parsing costs only where a header is read.
Must never know a protocol's frames or versions.
"""

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, Final

from daybook.engine.facts.formats import LINES, Property, Standard, Typed
from daybook.engine.facts.values import Value
from daybook.engine.messages.conversions import text_of

_BACKSLASH: Final = b"\\"
_NO_UTF_8: Final = b"\xff"
"""A byte that no text in UTF-8 has."""
_has_special: Final = re.compile(rb"[\\\n\r:]").search


def unescape(text: bytes) -> bytes:
    """Undo the escapes of a name or value. Raises ValueError on an undefined escape."""
    if _BACKSLASH not in text:
        return text
    if _NO_UTF_8 in text:
        pieces = list(map(_unescape, text.split(b"\\\\")))
        plain, joined = b"".join(pieces), _BACKSLASH.join(pieces)
    else:
        plain = _unescape(without_pairs(text))
        joined = plain.replace(_NO_UTF_8, _BACKSLASH)
    if _BACKSLASH in plain:
        raise ValueError(f"undefined escape in {text.decode('utf-8', 'replace')!r}")
    return joined


def without_pairs(text: bytes) -> bytes:
    """Replace the escapes of backslashes by a byte that no text has, so that each backslash that is
    left begins another escape.

    A run of backslashes always starts at an escape, so replacing pairs from the left is exact.
    """
    return text.replace(b"\\\\", _NO_UTF_8)


def _unescape(text: bytes) -> bytes:
    """Undo the other escapes."""
    return text.replace(b"\\n", b"\n").replace(b"\\r", b"\r").replace(b"\\c", b":")


def escape(text: bytes) -> bytes:
    """Escape a name or value: backslash, line feed, carriage return, colon."""
    if _has_special(text) is None:
        return text
    text = text.replace(b"\\", b"\\\\").replace(b"\n", b"\\n").replace(b"\r", b"\\r")
    return text.replace(b":", b"\\c")


def explicit_line(line: bytes) -> bytes:
    """Escape the bare colons in the value of a line, which are those after the first one."""
    name, colon, value = line.partition(b":")
    return name + colon + value.replace(b":", b"\\c")


def explicit(block: bytes) -> bytes:
    """Escape the bare colons in the values of a block."""
    if block.count(b":") == block.count(b"\n"):
        return block
    return b"".join(explicit_line(line) for line in block.splitlines(keepends=True))


def build(pairs: Iterable[tuple[str, str]]) -> bytes:
    """Build a block of pairs (name, value), in their order."""
    lines = []
    for name, value in pairs:
        assert name, "a header has a name"
        lines.append(_starts(name)[0] + escape(value.encode()) + b"\n")
    return b"".join(lines)


def parse(block: bytes) -> list[tuple[str, str]]:
    """Parse a block into pairs (name, value), in their order, repeated names included."""
    pairs = []
    for line in block.split(b"\n"):
        if line:
            name, _, value = line.partition(b":")
            pairs.append(
                (
                    unescape(name).decode("utf-8", "replace"),
                    unescape(value).decode("utf-8", "replace"),
                )
            )
    return pairs


def as_dict(block: bytes) -> dict[str, str]:
    """Headers by name; of repeated names the first one counts."""
    found: dict[str, str] = {}
    for name, value in parse(block):
        found.setdefault(name, value)
    return found


def first(block: bytes, name: str) -> str | None:
    """The value that counts for this name, or None; only the one line is parsed."""
    start, later = _starts(name)
    if block.startswith(start):
        at = 0
    else:
        at = block.find(later) + 1
        if at == 0:
            return None
    end = block.find(b"\n", at)
    return unescape(block[at + len(start) : end]).decode("utf-8", "replace")


@lru_cache(maxsize=1024)
def _starts(name: str) -> tuple[bytes, bytes]:
    """Return how the line of a name begins, at the beginning of a block and after another line."""
    start = escape(name.encode()) + b":"
    return start, b"\n" + start


def without(block: bytes, names: Iterable[str]) -> bytes:
    """The block without any line of these names."""
    starts = tuple([_starts(name)[0] for name in names])
    kept = [line for line in block.splitlines(keepends=True) if not line.startswith(starts)]
    return b"".join(kept)


def replaced(block: bytes, pairs: Iterable[tuple[str, str]]) -> bytes:
    """The block with these headers set: older lines of their names go, the new ones come last."""
    new = list(pairs)
    return without(block, [name for name, _ in new]) + build(new)


_STANDARD: Final = {
    "destination": ("destination",),
    "content_type": ("content-type",),
    "reply_to": ("reply-to",),
    "correlation_id": ("correlation-id",),
    "group_id": ("JMSXGroupID", "_AMQ_GROUP_ID", "message_group"),
    "type": ("type",),
}
"""The headers that contain the fields of `Standard`; if there are several, the first one counts."""
_FURTHER: Final = {
    "message_id": "sender-message-id",
    "user_id": "sender-user-id",
    "content_encoding": "content-encoding",
    "group_sequence": "JMSXGroupSeq",
    "reply_to_group_id": "reply-to-group-id",
}
"""The headers that the other fields are translated into. Lines that have these names themselves are
properties of the application."""
_TIMESTAMP: Final = "timestamp"
_TIMESTAMP_DIGITS_MAX: Final = 18
_EXPIRES: Final = "expires"
_AMQP: Final = {
    "destination": "to", "type": "subject", _TIMESTAMP: "creation_time",
    _EXPIRES: "absolute_expiry_time",
}  # fmt: skip
"""The names that fields have in AMQP 1.0, where they have others."""
_NOT_OF_APPLICATIONS: Final = frozenset(
    (
        *(name for names in _STANDARD.values() for name in names),
        *(_TIMESTAMP, _EXPIRES, "content-length", "destination-type", "persistent", "priority"),
    )
)
"""Headers with a standard meaning, which are not properties of the application."""


def standard_pairs(standard: Standard) -> list[tuple[str, str]]:
    """Return the headers for the fields of `Standard`, as `Codec.standard` reads them."""
    said = standard._asdict()
    pairs = [(names[0], text_of(said[field])) for field, names in _STANDARD.items() if said[field]]
    if standard.timestamp:
        pairs.append((_TIMESTAMP, str(standard.timestamp)))
    if standard.user_id:
        said["user_id"] = standard.user_id.decode("utf-8", "replace")
    pairs += [(name, text_of(said[field])) for field, name in _FURTHER.items() if said[field]]
    return pairs


def _milliseconds(text: str) -> int:
    text = text.strip()
    is_number = text.isascii() and text.isdigit() and len(text) <= _TIMESTAMP_DIGITS_MAX
    return int(text) if is_number else 0


def is_of_applications(name: str) -> bool:
    """Whether a header is a property of the application, not one with a standard meaning."""
    return name not in _NOT_OF_APPLICATIONS


FOUND_ALONE: Final = 4
"""So many values of a block are searched for, before all of its lines are taken apart."""


class _LastBlock:
    """The block that was read last, so that many questions about it cost little.

    After a few questions its lines are known by name: hundreds of filters may ask about one
    message. `lines` is one value that is replaced as a whole, so every thread may read it.
    """

    __slots__ = ("asked", "block", "lines")

    def __init__(self) -> None:
        self.block: bytes = b""
        self.asked = 0
        self.lines: tuple[bytes, dict[bytes, bytes]] = b"", {}

    def first(self, block: bytes, name: str) -> str | None:
        """Return what `first` returns."""
        known, lines = self.lines
        if known is not block:
            if self.block is not block:
                self.block, self.asked = block, 0
            self.asked += 1
            if self.asked <= FOUND_ALONE:
                return first(block, name)
            lines = _lines_of(block)
            self.lines = block, lines
        value = lines.get(_starts(name)[0])
        return None if value is None else unescape(value).decode("utf-8", "replace")


def _lines_of(block: bytes) -> dict[bytes, bytes]:
    """Return the first value of each name as it is written, by the name with its colon."""
    found: dict[bytes, bytes] = {}
    for line in block.split(b"\n"):
        name, colon, value = line.partition(b":")
        found.setdefault(name + colon, value)
    return found


class LinesCodec:
    """Reads header lines. All properties are strings."""

    flags: Final[int] = LINES
    name: Final[str] = "STOMP lines"
    is_typed: Final[bool] = False

    def __init__(self) -> None:
        self._last: Final = _LastBlock()

    def standard(self, headers: bytes) -> Standard:
        """As `Codec.standard`; a timestamp that is no number is ignored."""
        given = as_dict(headers)
        found: dict[str, Any] = {
            field: next((given[name] for name in names if name in given), "")
            for field, names in _STANDARD.items()
        }
        found["timestamp"] = _milliseconds(given.get(_TIMESTAMP, ""))
        return Standard(**found)

    def said(self, headers: bytes, field: str) -> str | int:
        """As `Codec.said`."""
        if field == _TIMESTAMP:
            return _milliseconds(self._last.first(headers, _TIMESTAMP) or "")
        for name in _STANDARD[field]:
            value = self._last.first(headers, name)
            if value is not None:
                return value
        return ""

    def unread(self, headers: bytes) -> int:
        """As `Codec.unread`: lines are searched, not decoded."""
        return 0

    def properties(self, headers: bytes) -> dict[str, Value]:
        """As `Codec.properties`."""
        given = as_dict(headers)
        return {name: value for name, value in given.items() if name not in _NOT_OF_APPLICATIONS}

    def typed(self, headers: bytes) -> Typed:
        """As `Codec.typed`."""
        said = self.standard(headers)._asdict()
        said[_EXPIRES] = _milliseconds(first(headers, _EXPIRES) or "")
        standard = {_AMQP.get(field, field): value for field, value in said.items() if value}
        properties = self.properties(headers).items()
        return Typed(standard, {name: Property("string", value) for name, value in properties})

    def first(self, headers: bytes, name: str) -> Value | None:
        """As `Codec.first`."""
        return None if name in _NOT_OF_APPLICATIONS else self._last.first(headers, name)

    def body(self, headers: bytes, body: bytes) -> Value:
        """As `Codec.body`: lines say nothing of a type."""
        return body

    def copied(self, headers: bytes, left_out: Iterable[str], added: Mapping[str, Value]) -> bytes:
        """As `Codec.copied`; added headers come last."""
        kept = without(headers, (_EXPIRES, *left_out, *added))
        return kept + build((name, str(value)) for name, value in added.items())

    def marked(self, headers: bytes, name: str) -> bytes:
        """As `Codec.marked`; it comes last."""
        return replaced(headers, [(name, "true")])
