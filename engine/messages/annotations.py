"""What consumers note on a message when they return it, for its next delivery (ADR 100).

Annotations are a fact of an entry, beside its delivery count: headers and body stay as they are. An
entry with annotations has a message object of its own, so that all others cost nothing; its size
includes them. They are merged by their keys, as AMQP 1.0 says (part 3, 3.4.5). Must never know who
notes them, or who shows them.
"""

from contextlib import suppress
from hashlib import sha256
from typing import Any, Final, TypeAlias, cast

import msgspec

from daybook.engine.facts.packed_values import pack, unpack
from daybook.engine.facts.values import Symbol, Value
from daybook.engine.messages.conversions import as_json, text_of
from daybook.engine.messages.message import Message

Annotations: TypeAlias = dict[Symbol | int, Value]
"""Annotations by key: those of AMQP, a symbol or a number."""

COUNT_MAX: Final = 100
"""How many annotations a message can have."""
BYTES_MAX: Final = 64 * 1024
"""How many bytes all annotations of a message can have together, packed."""
DEPTH_MAX: Final = 8
"""How deep lists and maps can be within each other."""
ONE_BY_ONE: Final = "annotations are for one delivery; settle each by itself, not all up to one"
"""Why a settlement of several deliveries has none."""
_NUMBER_MAX: Final = (1 << 64) - 1
_HASH_BYTES: Final = 8


class Annotated(Message):
    """A message as one entry has it, with the annotations of that entry, packed."""

    __slots__ = ("_annotations",)

    def __init__(self, message: Message, annotations: bytes) -> None:
        """Begin with another message, and these annotations instead of its own."""
        super().__init__(
            message.id, message.address_id, message.priority, message.flags, message.expires,
            message.headers, message.body,
        )  # fmt: skip
        self._annotations: Final = annotations
        growth = len(annotations) - len(message.annotations)
        self.size = message.size + growth
        self.weight = message.weight + growth
        self.resident = message.resident
        self.chunks = message.chunks
        self.origin = message.origin

    @property
    def annotations(self) -> bytes:
        """The annotations, packed."""
        return self._annotations


def annotated(message: Message, annotations: bytes) -> Message:
    """Return a message with these annotations, packed; without any it is the same message."""
    return Annotated(message, annotations) if annotations else message


def merged(before: bytes, added: bytes) -> bytes:
    """Return packed annotations with others, which replace those of the same key. Raises
    ValueError if they cannot be annotations."""
    if not before or not added:
        return before or added
    return pack(cast(Value, {**unpacked(before), **unpacked(added)}))


def unpacked(annotations: bytes) -> Annotations:
    """Return packed annotations by key. Raises ValueError for other bytes."""
    found: Any = unpack(annotations) if annotations else {}
    if not isinstance(found, dict):
        raise ValueError("annotations must be a map")
    return found


def packed(annotations: Annotations | None) -> bytes:
    """Return annotations packed, b"" for none. Raises ValueError, whose text explains the first
    fault to their consumer."""
    if not annotations:
        return b""
    for key, value in annotations.items():
        _check_key(key)
        _check_depth(key, value, DEPTH_MAX)
    try:
        found = pack(cast(Value, annotations))
    except ValueError as error:
        raise ValueError(f"an annotation cannot be kept: {error}") from error
    _check_limits(len(annotations), found)
    return found


def check_merged(before: bytes, added: bytes) -> None:
    """Raise ValueError if a message with packed annotations has no room for others."""
    if before:
        found = merged(before, added)
        _check_limits(len(unpacked(found)), found)


def _check_key(key: object) -> None:
    is_symbol = type(key) is Symbol and key.text.isascii()
    if not is_symbol and not (type(key) is int and 0 <= key <= _NUMBER_MAX):
        raise ValueError(
            f"the key of an annotation is {key!r}; use a symbol in ASCII, or a number of 64 bits"
        )


def _check_depth(key: Symbol | int, value: object, depth: int) -> None:
    inner: list[object] = []
    if isinstance(value, list):
        inner = value
    elif isinstance(value, dict):
        inner = [*value, *value.values()]
    if inner and not depth:
        raise ValueError(
            f"annotation '{text_of(key)}' has more than {DEPTH_MAX} lists and maps within each"
            " other"
        )
    for each in inner:
        _check_depth(key, each, depth - 1)


def _check_limits(count: int, found: bytes) -> None:
    if count > COUNT_MAX:
        raise ValueError(f"a message would have {count} annotations; it can have {COUNT_MAX}")
    if len(found) > BYTES_MAX:
        raise ValueError(
            f"a message would have {len(found):,} bytes of annotations; it can have {BYTES_MAX:,}"
        )


def is_sound(annotations: bytes) -> bool:
    """Whether a broker may have packed these annotations."""
    try:
        return packed(unpacked(annotations)) == annotations
    except ValueError:
        return False


def hash_of(annotations: bytes) -> int:
    """Return a hash of 64 bits of packed annotations, which is not 0; 0 for none."""
    if not annotations:
        return 0
    return int.from_bytes(sha256(annotations).digest()[:_HASH_BYTES], "little") | 1


def readable(detail: object) -> Any:
    """Return the detail of an event for people and SQL, with types of JSON: the same, unless it has
    annotations. Bytes that cannot be annotations stay as they are."""
    noted = getattr(detail, "annotations", b"")
    if not noted:
        return detail
    with suppress(ValueError):
        fields: dict[str, Any] = msgspec.to_builtins(detail)
        return fields | {"annotations": as_json(cast(Value, unpacked(noted)))}
    return detail
