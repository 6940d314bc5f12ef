"""Writing values: the bytes of examples, and what cannot be written."""

from typing import Any

import pytest

from daybook.engine.facts.values import Char, Decimal, Symbol, Timestamp, Uuid
from daybook.engine.messages.amqp.described import Described
from daybook.engine.messages.amqp.writer import array_of, encoded, list_of, of_type

TYPED: list[tuple[str, Any, str]] = [
    ("null", None, "40"), ("boolean", True, "41"), ("boolean", False, "42"),
    ("uint", 0, "43"), ("uint", 255, "52 ff"), ("uint", 256, "70 00 00 01 00"),
    ("ulong", 0, "44"), ("ulong", 255, "53 ff"), ("ulong", 256, "80 00 00 00 00 00 00 01 00"),
    ("int", -128, "54 80"), ("int", 128, "71 00 00 00 80"),
    ("long", 127, "55 7f"), ("long", -129, "81 ff ff ff ff ff ff ff 7f"),
    ("ubyte", 7, "50 07"), ("ushort", 7, "60 00 07"), ("byte", -1, "51 ff"),
    ("short", -1, "61 ff ff"), ("float", 1.0, "72 3f 80 00 00"),
    ("binary", b"", "a0 00"), ("string", "é", "a1 02 c3 a9"), ("symbol", Symbol("a"), "a3 01 61"),
    ("list", [1], "c0 03 01 55 01"), ("map", {}, "c1 01 00"), ("uint", None, "40"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "value", "text"), TYPED)
def test_a_value_is_written_in_the_shortest_way(name: str, value: Any, text: str) -> None:
    assert of_type(name, value) == bytes.fromhex(text)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (True, "41"), (7, "55 07"), (1 << 63, "80 80" + "00" * 7),
        (0.5, "82 3f e0" + "00" * 6),
        (Char("x"), "73 00 00 00 78"), (Timestamp(-1), "83" + "ff" * 8),
        (Decimal(b"\1" * 8), "84" + "01" * 8), (Uuid(b"\1" * 16), "98" + "01" * 16),
        (Described(Symbol("a"), [None]), "00 a3 01 61 c0 02 01 40"), ([], "45"),
        ({"a": [b""]}, "c1 09 02 a1 01 61 c0 03 01 a0 00"),
    ],
)  # fmt: skip
def test_a_value_without_a_type_gets_one(value: Any, text: str) -> None:
    assert encoded(value) == bytes.fromhex(text)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ubyte", 256), ("ubyte", -1), ("uint", 1 << 32), ("uint", -1), ("ulong", 1 << 64),
        ("long", 1 << 63), ("float", 1e300), ("decimal32", Decimal(b"\0" * 8)),
        ("uuid", Uuid(b"\0" * 15)), ("char", Char("ab")), ("symbol", Symbol("é")),
    ],
)  # fmt: skip
def test_what_a_type_does_not_have_is_refused(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=r"is no|argument|format|too large|ordinal|require"):
        of_type(name, value)


def test_a_number_beyond_every_type_is_refused() -> None:
    with pytest.raises(ValueError, match="18446744073709551616"):
        encoded(1 << 64)


@pytest.mark.parametrize("size", [0, 253, 254, 255, 256, 70_000])
def test_lists_and_arrays_of_every_size_have_the_right_head(size: int) -> None:
    items = list_of([b"\x40"] * size)
    array = array_of("ubyte", [1] * size)
    if 0 < size < 255:
        assert items[:3] == bytes((0xC0, size + 1, size))
    elif size:
        assert items[:9] == b"\xd0" + (size + 4).to_bytes(4) + size.to_bytes(4)
    if size < 254:
        assert array[:4] == bytes((0xE0, size + 2, size, 0x50))
    else:
        assert array[:10] == b"\xf0" + (size + 5).to_bytes(4) + size.to_bytes(4) + b"\x50"


def test_an_array_of_other_values_is_refused() -> None:
    with pytest.raises(ValueError, match="not all"):
        array_of("decimal32", [Decimal(b"\0" * 4), Decimal(b"\0" * 8)])
