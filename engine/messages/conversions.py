"""How values are expressed where a type is unknown: the one table of conversions between formats.

The writers of headers of another format, the views of values, and filters take it from here;
docs/events.md has the table. Must never know a single format.
"""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import msgspec

from daybook.engine.facts.values import (
    Char,
    Decimal,
    Plain,
    Symbol,
    Timestamp,
    Uuid,
    Value,
)


class Conversion(NamedTuple):
    """A row of the table: a type, what AMQP 1.0 calls it, and how its values are expressed as text,
    and in filters (None: the value is unknown there)."""

    type: type
    amqp: str
    text: Callable[[Any], str]
    plain: Callable[[Any], Plain | None]
    example: Value


def _as_json(value: Any) -> str:
    return msgspec.json.encode(as_json(value)).decode()


def as_json(value: Value) -> Any:
    """Return a value with types of JSON; a value that JSON has no type for becomes text."""
    if isinstance(value, list):
        return [as_json(each) for each in value]
    if isinstance(value, dict):
        return {text_of(name): as_json(each) for name, each in value.items()}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Timestamp):
        return value.milliseconds
    return text_of(value)


def _number_of(value: Decimal) -> Plain | None:
    number = float(str(value))
    return number if number == number else None


CONVERSIONS: Final = (
    Conversion(type(None), "null", lambda value: "", lambda value: None, None),
    Conversion(bool, "boolean", lambda value: "true" if value else "false", bool, True),
    Conversion(
        int, "ubyte, ushort, uint, ulong, byte, short, int, long", str, lambda value: value, -7
    ),
    Conversion(float, "float, double", str, lambda value: value, 0.5),
    Conversion(
        Decimal, "decimal32, decimal64, decimal128", str, _number_of, Decimal(b"\x31\x80\x04\xd2")
    ),
    Conversion(
        Char, "char", lambda value: value.text, lambda value: value.text, Char("x")
    ),
    Conversion(
        Timestamp, "timestamp", lambda value: str(value.milliseconds),
        lambda value: value.milliseconds, Timestamp(1_700_000_000_000),
    ),
    Conversion(Uuid, "uuid", str, str, Uuid(bytes(range(16)))),
    Conversion(bytes, "binary", lambda value: value.hex(), lambda value: value, b"\0\xff"),
    Conversion(str, "string", lambda value: value, lambda value: value, "text"),
    Conversion(
        Symbol, "symbol", lambda value: value.text, lambda value: value.text, Symbol("name")
    ),
    Conversion(list, "list, array", _as_json, lambda value: None, [1, "x", Timestamp(5)]),
    Conversion(dict, "map", _as_json, lambda value: None, {"a": True}),
)  # fmt: skip
"""The table. Header lines, user properties of MQTT 5, catalogs and SQL have the texts."""

_BY_TYPE: Final = {each.type: each for each in CONVERSIONS}


def text_of(value: Value) -> str:
    """Return a value as text, as in header lines."""
    if isinstance(value, str):
        return value
    return _BY_TYPE[type(value)].text(value)


def plain_of(value: Value) -> Plain | None:
    """Return a value as filters compare it; None where it cannot be compared."""
    if isinstance(value, str):
        return value
    return _BY_TYPE[type(value)].plain(value)


def bytes_of(value: Value) -> bytes:
    """Return a body as bytes: data as they are, everything else as text in UTF-8."""
    return value if isinstance(value, bytes) else text_of(value).encode()
