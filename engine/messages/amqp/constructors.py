"""The primitive types of AMQP 1.0 (part 1, section 1.6) and their constructors: one table.

A constructor is the byte that begins an encoded value. Its upper half says how long the value is
(1.2.1), its lower half which value it is. Reader, writer, the sizes that skip a value, and
docs/amqp.md come from this table. Must never know what a value is used for.
"""

import struct
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from daybook.engine.facts.values import Char, Decimal, Symbol, Timestamp, Uuid, Value

DESCRIBED: Final = 0x00
"""The byte that begins a described value: a descriptor and a value follow."""
NULL: Final = 0x40

VARIABLE: Final = "variable"
COMPOUND: Final = "compound"
ARRAY: Final = "array"
FIXED: Final = "fixed"


class Constructor(NamedTuple):
    """A way to encode values of a type.

    `pack` returns the bytes behind the constructor, without the size of a variable width, and None
    for a value that this constructor does not fit. `unpack` undoes it, and raises ValueError for
    other bytes. Compound types and arrays have neither: reader and writer know them.
    """

    code: int
    label: str
    pack: Callable[[Any], bytes | None] | None = None
    unpack: Callable[[bytes], Value] | None = None


class Type(NamedTuple):
    """A primitive type, what it is in Python, and its constructors, the shortest one first."""

    name: str
    python: type
    constructors: tuple[Constructor, ...]


def kind_of(code: int) -> str:
    """Return how a constructor says the size of its values."""
    return (FIXED, VARIABLE, COMPOUND, ARRAY)[max(0, (code >> 4) - 8) // 2]


def width_of(code: int) -> int:
    """Return the bytes of a fixed width, or those of the size of any other; -1 for no width."""
    return _WIDTHS[code >> 4]


_WIDTHS: Final = (-1, -1, -1, -1, 0, 1, 2, 4, 8, 16, 1, 4, 1, 4, 1, 4)


def _integers(code: int, label: str, layout: str) -> Constructor:
    whole = struct.Struct(layout)
    return Constructor(code, label, whole.pack, lambda raw: int(whole.unpack(raw)[0]))


def _zero(code: int, label: str) -> Constructor:
    return Constructor(code, label, lambda value: None if value else b"", lambda raw: 0)


def _small(code: int, label: str) -> Constructor:
    return Constructor(
        code, label, lambda value: bytes((value,)) if 0 <= value < 256 else None, lambda raw: raw[0]
    )


def _small_signed(code: int, label: str) -> Constructor:
    return Constructor(
        code, label,
        lambda value: bytes((value & 0xFF,)) if -128 <= value < 128 else None,
        lambda raw: raw[0] - 256 if raw[0] > 127 else raw[0],
    )  # fmt: skip


def _floats(code: int, label: str, layout: str) -> Constructor:
    whole = struct.Struct(layout)
    return Constructor(code, label, whole.pack, lambda raw: float(whole.unpack(raw)[0]))


def _decimal(code: int, size: int) -> Constructor:
    return Constructor(code, "ieee-754", _raw_of(size), Decimal)


def _raw_of(size: int) -> Callable[[Any], bytes | None]:
    return lambda value: value.raw if len(value.raw) == size else None


def _boolean(raw: bytes) -> Value:
    if raw[0] > 1:
        raise ValueError(f"{raw[0]} is neither true nor false")
    return raw[0] == 1


def _text(raw: bytes) -> Value:
    return raw.decode("utf-8")


def _symbol(raw: bytes) -> Value:
    return Symbol(raw.decode("ascii"))


def _char(raw: bytes) -> Value:
    return Char(raw.decode("utf-32-be"))


def _pack_char(value: Char) -> bytes | None:
    raw = value.text.encode("utf-32-be")
    return raw if len(raw) == 4 else None


def _pack_symbol(value: Symbol) -> bytes:
    return value.text.encode("ascii")


def _pack_timestamp(value: Timestamp) -> bytes:
    return _LONG.pack(value.milliseconds)


def _timestamp(raw: bytes) -> Value:
    return Timestamp(_LONG.unpack(raw)[0])


_LONG: Final = struct.Struct(">q")

TYPES: Final = (
    Type("null", type(None), (Constructor(NULL, "", lambda value: b"", lambda raw: None),)),
    Type("boolean", bool, (
        Constructor(0x41, "true", lambda value: b"" if value else None, lambda raw: True),
        Constructor(0x42, "false", lambda value: None if value else b"", lambda raw: False),
        Constructor(0x56, "", lambda value: bytes((value,)), _boolean),
    )),
    Type("ubyte", int, (_integers(0x50, "", ">B"),)),
    Type("ushort", int, (_integers(0x60, "", ">H"),)),
    Type("uint", int, (
        _zero(0x43, "uint0"), _small(0x52, "smalluint"), _integers(0x70, "", ">I"),
    )),
    Type("ulong", int, (
        _zero(0x44, "ulong0"), _small(0x53, "smallulong"), _integers(0x80, "", ">Q"),
    )),
    Type("byte", int, (_integers(0x51, "", ">b"),)),
    Type("short", int, (_integers(0x61, "", ">h"),)),
    Type("int", int, (_small_signed(0x54, "smallint"), _integers(0x71, "", ">i"))),
    Type("long", int, (_small_signed(0x55, "smalllong"), _integers(0x81, "", ">q"))),
    Type("float", float, (_floats(0x72, "ieee-754", ">f"),)),
    Type("double", float, (_floats(0x82, "ieee-754", ">d"),)),
    Type("decimal32", Decimal, (_decimal(0x74, 4),)),
    Type("decimal64", Decimal, (_decimal(0x84, 8),)),
    Type("decimal128", Decimal, (_decimal(0x94, 16),)),
    Type("char", Char, (
        Constructor(0x73, "utf32", _pack_char, _char),
    )),
    Type("timestamp", Timestamp, (
        Constructor(0x83, "ms64", _pack_timestamp, _timestamp),
    )),
    Type("uuid", Uuid, (Constructor(0x98, "", _raw_of(16), Uuid),)),
    Type("binary", bytes, (
        Constructor(0xA0, "vbin8", lambda value: value, lambda raw: raw),
        Constructor(0xB0, "vbin32", lambda value: value, lambda raw: raw),
    )),
    Type("string", str, (
        Constructor(0xA1, "str8-utf8", lambda value: value.encode(), _text),
        Constructor(0xB1, "str32-utf8", lambda value: value.encode(), _text),
    )),
    Type("symbol", Symbol, (
        Constructor(0xA3, "sym8", _pack_symbol, _symbol),
        Constructor(0xB3, "sym32", _pack_symbol, _symbol),
    )),
    Type("list", list, (
        Constructor(0x45, "list0"), Constructor(0xC0, "list8"), Constructor(0xD0, "list32"),
    )),
    Type("map", dict, (Constructor(0xC1, "map8"), Constructor(0xD1, "map32"))),
    Type("array", list, (Constructor(0xE0, "array8"), Constructor(0xF0, "array32"))),
)  # fmt: skip
"""The table, in the order of the specification."""

BY_NAME: Final = {each.name: each for each in TYPES}

CONSTRUCTORS: Final = {each.code: each for row in TYPES for each in row.constructors}

NAME_OF: Final = {each.code: row.name for row in TYPES for each in row.constructors}
"""The name of the type that a constructor has values of."""
