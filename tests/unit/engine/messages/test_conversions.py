"""The table of conversions: each type of values as text, in filters, and as a body."""

import pytest

from daybook.engine.facts.values import Char, Decimal, Symbol, Timestamp, Uuid, Value
from daybook.engine.messages.conversions import CONVERSIONS, bytes_of, plain_of, text_of

ID = Uuid(bytes(range(16)))


def number(coefficient: int, exponent: int, sign: int = 0) -> Decimal:
    """A number of 4 bytes."""
    biased = exponent + 101
    if coefficient < 1 << 23:
        return Decimal((sign << 31 | biased << 23 | coefficient).to_bytes(4))
    low = coefficient & (1 << 21) - 1
    return Decimal((sign << 31 | 3 << 29 | biased << 21 | low).to_bytes(4))


@pytest.mark.parametrize(
    ("value", "text", "plain"),
    [
        (None, "", None),
        (True, "true", True),
        (False, "false", False),
        (-7, "-7", -7),
        (0.5, "0.5", 0.5),
        ("x", "x", "x"),
        (b"\0\xff", "00ff", b"\0\xff"),
        (Char("x"), "x", "x"),
        (Symbol("x"), "x", "x"),
        (Timestamp(5), "5", 5),
        (ID, "00010203-0405-0607-0809-0a0b0c0d0e0f", "00010203-0405-0607-0809-0a0b0c0d0e0f"),
        (number(1234, -2), "12.34", 12.34),
        ([1, "x", [Timestamp(5), b"\1"]], '[1,"x",[5,"01"]]', None),
        ({Symbol("a"): None, 1: ID}, f'{{"a":null,"1":"{ID}"}}', None),
    ],
)
def test_a_value(value: Value, text: str, plain: object) -> None:
    assert text_of(value) == text
    assert plain_of(value) == plain
    assert type(plain_of(value)) is type(plain)
    assert bytes_of(value) == (value if isinstance(value, bytes) else text.encode())


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (number(0, 0), "0"),
        (number(12345, -2, sign=1), "-123.45"),
        (number(1, -3), "0.001"),
        (number(1, 5), "1E+5"),
        (number(1, -20), "1E-20"),
        (number(9_999_999, 0), "9999999"),
        (number(8_388_608, -1), "838860.8"),
        # More digits than the width has are zero.
        (number(10_485_759, 0), "0"),
        (Decimal(bytes.fromhex("78000000")), "Infinity"),
        (Decimal(bytes.fromhex("f8000000")), "-Infinity"),
        (Decimal(bytes.fromhex("7c000000")), "NaN"),
        (Decimal((398 << 53 | 5).to_bytes(8)), "5"),
        (Decimal((6174 << 113 | 10**33).to_bytes(16)), "1" + "0" * 31 + ".00"),
    ],
)
def test_decimals(value: Decimal, text: str) -> None:
    assert str(value) == text


def test_a_decimal_that_is_no_number_is_unknown_to_filters() -> None:
    assert plain_of(Decimal(bytes.fromhex("7c000000"))) is None
    assert plain_of(Decimal(bytes.fromhex("78000000"))) == float("inf")


def test_every_type_has_one_row() -> None:
    types = [each.type for each in CONVERSIONS]
    assert len(set(types)) == len(types) == 13
    assert all(type(each.example) is each.type for each in CONVERSIONS)
