"""Values of all types as bytes, for the journal and the index: one form for each value.

Numbers, text, bytes, lists and what is nothing are MessagePack's own. The other types of
`engine.facts.values` are its extensions, with permanent numbers; a map is the list of its names and
values by turns, since names have types that a map of MessagePack cannot have. Must never know the
meaning of a value.
"""

from typing import Any, Final

import msgspec

from daybook.engine.facts.values import Char, Decimal, Symbol, Timestamp, Uuid, Value

_CHAR: Final = 1
_SYMBOL: Final = 2
_TIMESTAMP: Final = 3
_UUID: Final = 4
_DECIMAL: Final = 5
_MAP: Final = 6
_CODES: Final[dict[type, int]] = {
    Char: _CHAR, Symbol: _SYMBOL, Timestamp: _TIMESTAMP, Uuid: _UUID, Decimal: _DECIMAL,
}  # fmt: skip
_TYPES: Final[dict[int, Any]] = {code: kind for kind, code in _CODES.items()}
_PLAIN: Final = frozenset((bool, int, float, str, bytes, type(None)))

_encode: Final = msgspec.msgpack.Encoder().encode


def pack(value: Value) -> bytes:
    """Return a value as bytes. Raises ValueError for an object of another type, an integer of more
    than 64 bits, and text that UTF-8 cannot express."""
    try:
        return _encode(_prepared(value))
    except (OverflowError, UnicodeEncodeError) as error:
        raise ValueError(str(error)) from error


def unpack(packed: bytes) -> Value:
    """Return the value that `pack` made bytes of. Raises ValueError."""
    try:
        value: Value = msgspec.msgpack.decode(packed, ext_hook=_extended)
    except (msgspec.DecodeError, RecursionError, TypeError, KeyError) as error:
        raise ValueError(f"these bytes cannot be a packed value: {error}") from error
    return value


def _prepared(value: Any) -> Any:
    kind = type(value)
    if kind in _PLAIN:
        return value
    if kind is list:
        return [_prepared(each) for each in value]
    if kind is dict:
        pairs = [_prepared(each) for pair in value.items() for each in pair]
        return msgspec.msgpack.Ext(_MAP, _encode(pairs))
    code = _CODES.get(kind)
    if code is None:
        raise ValueError(f"values of the type {kind.__name__} are unknown")
    return msgspec.msgpack.Ext(code, _encode(msgspec.structs.astuple(value)[0]))


def _extended(code: int, data: memoryview) -> Value:
    inner: Any = msgspec.msgpack.decode(data, ext_hook=_extended)
    if code == _MAP:
        if len(inner) % 2:
            raise ValueError("a name has no value")
        return dict(zip(inner[::2], inner[1::2], strict=True))
    value: Value = _TYPES[code](inner)
    return value
