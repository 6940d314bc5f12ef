"""Encoding: values as bytes, each in the shortest way.

Raises ValueError for a value that its type cannot have. Must never know what a value is used for.
"""

import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from daybook.engine.facts.values import Char, Decimal, Symbol, Timestamp, Uuid
from daybook.engine.messages.amqp.constructors import (
    BY_NAME,
    NULL,
    VARIABLE,
    Constructor,
    kind_of,
    width_of,
)
from daybook.engine.messages.amqp.described import Described

NOTHING: Final = bytes((NULL,))
_SHORT_MAX: Final = 255
_LONG_MAX: Final = 0xFFFF_FFFF


def of_type(name: str, value: Any) -> bytes:
    """Encode a value as one of a primitive type; None is null whatever the type."""
    if value is None:
        return NOTHING
    if name in ("list", "map"):
        return encoded(value)
    for constructor in BY_NAME[name].constructors:
        raw = _packed(constructor, value)
        if raw is not None:
            return bytes((constructor.code,)) + raw
    raise ValueError(f"{value!r} is no {name}")


def encoded(value: Any) -> bytes:
    """Encode a value whose type nobody says: as one that has all values of its type in Python."""
    if isinstance(value, Described):
        return described(encoded(value.descriptor), encoded(value.value))
    if isinstance(value, list):
        return list_of([encoded(each) for each in value])
    if isinstance(value, dict):
        return map_of(value)
    return of_type(type_of(value), value)


def type_of(value: Any) -> str:
    """Return the name of the type that a value is encoded as if nobody says one."""
    if isinstance(value, int) and not isinstance(value, bool):
        return "long" if -_LONGS <= value < _LONGS else "ulong"
    if isinstance(value, Decimal):
        return f"decimal{8 * len(value.raw)}"
    return _TYPES_OF[type(value)]


_LONGS: Final = 1 << 63
_TYPES_OF: Final[dict[type, str]] = {
    type(None): "null", bool: "boolean", float: "double", str: "string", bytes: "binary",
    Char: "char", Symbol: "symbol", Timestamp: "timestamp", Uuid: "uuid", list: "list", dict: "map",
}  # fmt: skip


def described(descriptor: bytes, value: bytes) -> bytes:
    """Encode a described value; both parts are encoded already."""
    return b"\0" + descriptor + value


def list_of(items: Sequence[bytes]) -> bytes:
    """Encode a list of items that are encoded already."""
    return _sized(0xC0, len(items), b"".join(items)) if items else b"\x45"


def map_of(pairs: Mapping[Any, Any]) -> bytes:
    """Encode a map."""
    return map_of_items([encoded(each) for pair in pairs.items() for each in pair])


def map_of_items(items: Sequence[bytes]) -> bytes:
    """Encode a map of keys and values, in turns, that are encoded already."""
    return _sized(0xC1, len(items), b"".join(items))


def section_of(code: int, value: bytes) -> bytes:
    """Encode a section, or any value with this small number as its descriptor."""
    return bytes((0, 0x53, code)) + value


def array_of(name: str, values: Iterable[Any], descriptor: bytes = b"") -> bytes:
    """Encode an array of values of a primitive type, each with this encoded descriptor if any."""
    wanted = list(values)
    for constructor in BY_NAME[name].constructors[::-1]:
        raws = [raw for value in wanted if (raw := _packed(constructor, value)) is not None]
        if len(raws) == len(wanted):
            break
    else:
        raise ValueError(f"not all of {wanted!r} are {name}")
    of = (b"\0" + descriptor if descriptor else b"") + bytes((constructor.code,))
    return _sized(0xE0, len(raws), of + b"".join(raws))


def _packed(constructor: Constructor, value: Any) -> bytes | None:
    """Encode what is behind a constructor; None if it does not fit the value."""
    pack = constructor.pack
    assert pack is not None, "lists, maps and arrays are packed elsewhere"
    try:
        raw = pack(value)
    except (struct.error, OverflowError) as error:
        raise ValueError(f"{value!r}: {error}") from None
    if raw is None or kind_of(constructor.code) != VARIABLE:
        return raw
    return _with_size(width_of(constructor.code), raw)


def _with_size(width: int, raw: bytes) -> bytes | None:
    if width == 1 and len(raw) > _SHORT_MAX:
        return None
    if len(raw) > _LONG_MAX:
        raise ValueError(f"{len(raw)} bytes are too many for one value")
    return len(raw).to_bytes(width) + raw


def _sized(code: int, count: int, raw: bytes) -> bytes:
    """Encode a list, map or array; its constructor with sizes of 4 bytes is 0x10 higher."""
    if len(raw) < _SHORT_MAX and count <= _SHORT_MAX:
        return bytes((code, len(raw) + 1, count)) + raw
    if len(raw) + 4 > _LONG_MAX:
        raise ValueError(f"{len(raw)} bytes are too many for one value")
    return _LONG_HEAD.pack(code + 0x10, len(raw) + 4, count) + raw


_LONG_HEAD: Final = struct.Struct(">BII")
