"""Reading values: examples of bytes, what is malformed, and limits before anything is allocated."""

import struct
import tracemalloc
from typing import Any

import pytest

from daybook.engine.facts.values import Char, Decimal, Symbol, Timestamp, Uuid
from daybook.engine.messages.amqp.described import Described
from daybook.engine.messages.amqp.malformed import Malformed
from daybook.engine.messages.amqp.reader import DEPTH_MAX, ITEMS_MAX, Reader, decoded, end_of

VECTORS: list[tuple[str, Any]] = [
    ("40", None),
    ("41", True), ("42", False), ("56 01", True), ("56 00", False),
    ("50 ff", 255), ("60 ff ff", 65535),
    ("43", 0), ("52 2a", 42), ("70 ff ff ff ff", 4294967295),
    ("44", 0), ("53 2a", 42), ("80 ff ff ff ff ff ff ff ff", 2**64 - 1),
    ("51 80", -128), ("61 80 00", -32768),
    ("54 ff", -1), ("71 80 00 00 00", -(2**31)),
    ("55 fe", -2), ("81 80 00 00 00 00 00 00 00", -(2**63)),
    ("72 3f 80 00 00", 1.0), ("82 c0 00 00 00 00 00 00 00", -2.0),
    ("74 31 80 04 d2", Decimal(b"\x31\x80\x04\xd2")),
    ("73 00 01 f6 00", Char("\U0001f600")),
    ("83 00 00 00 00 00 00 03 e8", Timestamp(1000)),
    ("98" + " 01" * 16, Uuid(b"\1" * 16)),
    ("a0 02 00 ff", b"\0\xff"), ("b0 00 00 00 01 07", b"\7"),
    # The example of section 1.2: a string in UTF-8.
    ("a1 1e 48 65 6c 6c 6f 20 47 6c 6f 72 69 6f 75 73 20 4d 65 73 73 61 67 69 6e 67 20 57 6f 72"
     " 6c 64", "Hello Glorious Messaging World"),
    ("b1 00 00 00 02 c3 a9", "é"),
    ("a3 03 61 3a 62", Symbol("a:b")), ("b3 00 00 00 00", Symbol("")),
    ("45", []), ("c0 01 00", []), ("c0 04 02 41 52 07", [True, 7]),
    ("d0 00 00 00 05 00 00 00 01 40", [None]),
    ("c1 05 02 a1 01 61 41", {"a": True}), ("c1 01 00", {}),
    ("d1 00 00 00 06 00 00 00 02 43 44", {0: 0}),
    # Arrays: of fixed, of variable and of empty width, of lists, of arrays, of nothing.
    ("e0 04 02 50 01 02", [1, 2]),
    ("e0 07 02 a3 01 61 02 62 63", [Symbol("a"), Symbol("bc")]),
    ("f0 00 00 00 05 00 00 00 03 41", [True, True, True]),
    ("e0 08 02 c0 01 00 03 02 41 42", [[], [True, False]]),
    ("e0 0a 02 e0 03 01 50 07 03 01 50 08", [[7], [8]]),
    ("e0 02 00 40", []), ("e0 02 02 45", [[], []]),
    # The example of section 1.2: a described value, here with a symbol and in an array.
    ("00 a3 03 55 52 4c a1 01 78", Described(Symbol("URL"), "x")),
    ("00 53 24 45", Described(36, [])),
    ("e0 0a 02 00 a3 01 55 a1 01 78 01 79",
     [Described(Symbol("U"), "x"), Described(Symbol("U"), "y")]),
    ("e0 09 01 00 53 01 00 53 02 50 09", [Described(1, Described(2, 9))]),
]  # fmt: skip


@pytest.mark.parametrize(("text", "value"), VECTORS, ids=[text for text, _ in VECTORS])
def test_an_example_is_read(text: str, value: Any) -> None:
    data = bytes.fromhex(text)
    assert decoded(data) == value
    assert type(decoded(data)) is type(value)
    assert end_of(data + b"\0", 0, len(data)) == len(data)


MALFORMED = [
    ("", "end where a value should begin"),
    ("3f", "no constructor 0x3f"), ("4f", "no constructor 0x4f"), ("5f 00", "no constructor 0x5f"),
    ("a2 00", "no constructor 0xa2"), ("c2 01 00", "no constructor 0xc2"),
    ("e1 02 00 40", "no constructor 0xe1"),
    ("56 02", "neither true nor false"),
    ("70 00 00 00", "4 bytes is announced, and 3 are there"),
    ("a0", "1 bytes is announced"), ("a0 05 00", "5 bytes is announced"),
    ("b0 7f ff ff ff", "2147483647 bytes is announced"),
    ("a1 01 ff", "utf-8"), ("a1 02 c0 80", "utf-8"), ("a1 03 ed a0 80", "utf-8"),
    ("a3 01 80", "ascii"),
    ("73 00 11 00 00", "utf-32"), ("73 00 00 d8 00", "utf-32"),
    ("c0 00", "no room for the count"), ("d0 00 00 00 03 00 00 00", "no room for the count"),
    ("c0 05 01 41", "5 bytes is announced"),
    ("d0 00 00 00 04 ff ff ff ff", "4294967295 values are announced in 0 bytes"),
    ("c0 02 02 41", "2 values are announced in 1 bytes"),
    ("c0 03 01 41 41", "a size is wrong: 1 bytes are left"),
    ("c0 03 02 53 41", "end where a value should begin"),
    ("c0 03 01 50 41 41", "1 bytes are left behind a value"),
    ("c0 02 01 50 41", "1 bytes is announced, and 0 are there"),
    ("c1 04 03 41 42 40", "key without a value"),
    ("c1 05 04 41 40 41 40", "a key twice"), ("c1 04 02 45 41", "announced"),
    ("c1 03 02 45 41", "key of a map is a list"),
    ("e0 03 02 50 01", "2 values 0x50 are announced in 1 bytes"),
    ("e0 02 01 3f", "0x3f"), ("e0 01 00", "end where a value should begin"),
    ("e0 04 01 50 01 02", "a size is wrong"),
    ("f0 00 00 00 05 ff ff ff ff 40", "too many values"),
    ("00", "end where"), ("00 53 24", "end where"),
    ("41 41", "1 bytes are left behind a value"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), MALFORMED, ids=[text for text, _ in MALFORMED])
def test_malformed_bytes_are_refused(text: str, expected: str) -> None:
    with pytest.raises(Malformed) as found:
        decoded(bytes.fromhex(text))
    assert expected in str(found.value)


def nested(depth: int) -> bytes:
    """A list in a list in a list."""
    data = b"\x45"
    for _ in range(depth - 1):
        data = b"\xd0" + struct.pack(">II", len(data) + 4, 1) + data
    return data


def test_depth_is_limited() -> None:
    assert decoded(nested(DEPTH_MAX))
    with pytest.raises(Malformed, match="too deep"):
        decoded(nested(DEPTH_MAX + 2))
    with pytest.raises(Malformed, match="too deep"):
        decoded(b"\0\x43" * 100 + b"\x40")
    with pytest.raises(Malformed, match="too deep"):
        decoded(b"\0" * 100_000)
    with pytest.raises(Malformed, match="too deep"):
        decoded(bytes.fromhex("f0 00 01 00 00 00 00 00 01") + b"\0\x43" * 32766)


def test_items_are_limited_in_all_lists_together() -> None:
    half = (
        b"\xd0"
        + struct.pack(">II", ITEMS_MAX // 2 + 4, ITEMS_MAX // 2)
        + b"\x40" * (ITEMS_MAX // 2)
    )
    assert len(decoded(half)) == ITEMS_MAX // 2
    both = half * 2
    with pytest.raises(Malformed, match="too many values"):
        decoded(b"\xd0" + struct.pack(">II", len(both) + 4, 2) + both)
    more = Reader(both, 0, len(both), items=ITEMS_MAX)
    assert len(more.value()) == len(more.value()) == ITEMS_MAX // 2


@pytest.mark.parametrize(
    "text",
    ["b0 ff ff ff ff", "d0 7f ff ff ff 7f ff ff ff", "d1 ff ff ff ff 00 ff ff ff",
     "f0 00 00 00 05 7f ff ff ff 41", "f0 00 00 00 05 7f ff ff ff 45"],
)  # fmt: skip
def test_nothing_is_allocated_for_what_is_only_announced(text: str) -> None:
    data = bytes.fromhex(text)
    tracemalloc.start()
    try:
        with pytest.raises(Malformed):
            decoded(data)
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


def test_a_value_is_passed_over_without_its_inside() -> None:
    data = bytes.fromhex("c0 03 02 53 41 41")
    assert end_of(data, 0, len(data)) == 5
    assert end_of(b"\0" * 5 + b"\x40" * 6, 0, 11) == 11
    with pytest.raises(Malformed):
        end_of(b"\0" * 5 + b"\x40" * 5, 0, 10)


@pytest.mark.parametrize(
    ("text", "value"), [("43", 0), ("52 ff", 255), ("70 01 02 03 04", 16909060), ("40", -1)]
)
def test_a_number_of_32_bits_is_read_quickly(text: str, value: int) -> None:
    data = bytes.fromhex(text)
    reader = Reader(data, 0, len(data))
    assert reader.uint() == value
    assert reader.at == len(data)


@pytest.mark.parametrize("text", ["", "52", "70 00 00 00", "53 01", "41"])
def test_what_is_no_number_of_32_bits_is_refused(text: str) -> None:
    data = bytes.fromhex(text)
    with pytest.raises(Malformed):
        Reader(data, 0, len(data)).uint()


def test_a_boolean_is_read_quickly() -> None:
    reader = Reader(b"\x41\x42\x40\x56\x01", 0, 5)
    assert [reader.boolean() for _ in range(3)] == [True, False, False]
    with pytest.raises(Malformed):
        reader.boolean()


@pytest.mark.parametrize("text", ["45", "a1 01 61", "41"])
def test_a_map_is_no_other_value(text: str) -> None:
    data = bytes.fromhex(text)
    with pytest.raises(Malformed, match="a map is expected"):
        Reader(data, 0, len(data)).begin_map()
