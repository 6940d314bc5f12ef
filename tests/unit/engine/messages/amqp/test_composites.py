"""Composite types: fields from structs, their defaults, and errors in a list of fields."""

from typing import Any

import msgspec
import pytest

from daybook.engine.facts.values import Symbol
from daybook.engine.messages.amqp.composites import Composites, composite
from daybook.engine.messages.amqp.described import Described
from daybook.engine.messages.amqp.kinds import (
    Anything,
    Boolean,
    Fields,
    Kind,
    MessageId,
    Moment,
    Name,
    Names,
    String,
    UInt,
)
from daybook.engine.messages.amqp.malformed import Malformed
from daybook.engine.messages.amqp.reader import Reader
from daybook.engine.messages.amqp.writer import described, encoded, list_of, of_type


class Book(msgspec.Struct, frozen=True):
    title: String
    pages: UInt = 7
    is_new: Boolean = False
    id: MessageId | None = None
    kind: Name | None = None
    marks: Names = ()
    notes: Fields | None = None
    when: Moment | None = None
    more: Anything = None


TABLE = Composites((composite("book", 0xB0, Book, "thing"),))


def read(data: bytes) -> Any:
    reader = Reader(data, 0, len(data))
    value = TABLE.read(reader)
    assert reader.at == reader.end
    return value


def book(*items: bytes) -> bytes:
    return described(of_type("ulong", 0xB0), list_of(items))


def test_a_struct_says_its_fields() -> None:
    row = TABLE.row_of(Book("a"))
    assert row is not None
    assert row.symbol == "amqp:book:list"
    shown = [(each.name, each.kind.name, each.is_mandatory, each.default) for each in row.fields]
    assert shown == [
        ("title", "string", True, None), ("pages", "uint", False, 7),
        ("is-new", "boolean", False, False), ("id", "message-id", False, None),
        ("kind", "symbol", False, None), ("marks", "symbol", False, ()),
        ("notes", "fields", False, None), ("when", "timestamp", False, None),
        ("more", "*", False, None),
    ]  # fmt: skip
    assert isinstance(row.fields[5].kind, Kind)
    assert row.fields[5].kind.is_multiple


def test_what_has_its_default_is_null_and_omitted_at_the_end() -> None:
    assert TABLE.encoded(Book("a")) == bytes.fromhex("00 53 b0 c0 04 01 a1 01 61")
    assert TABLE.encoded(Book("a", is_new=True)) == bytes.fromhex(
        "00 53 b0 c0 06 03 a1 01 61 40 41"
    )
    assert TABLE.encoded([1]) == encoded([1])


def test_null_and_absent_fields_have_their_defaults() -> None:
    title = encoded("a")
    assert read(book(title)) == read(book(title, *[b"\x40"] * 8)) == Book("a")


@pytest.mark.parametrize(
    "descriptor", ["53 b0", "80 00 00 00 00 00 00 00 b0", "a3 0e" + b"amqp:book:list".hex()]
)
def test_every_spelling_of_a_descriptor_is_known(descriptor: str) -> None:
    data = b"\0" + bytes.fromhex(descriptor) + list_of([encoded("a")])
    assert read(data) == Book("a")


def test_values_are_as_they_are_in_python() -> None:
    data = book(
        encoded("a"), b"\x40", b"\x56\x01", of_type("ulong", 5), encoded(Symbol("k")),
        bytes.fromhex("e0 06 02 a3 01 61 01 62"), encoded({Symbol("n"): 1}),
        bytes.fromhex("83 00 00 00 00 00 00 00 09"), encoded({"x": [Symbol("y")]}),
    )  # fmt: skip
    whole = Book("a", 7, True, 5, "k", ("a", "b"), {"n": 1}, 9, {"x": [Symbol("y")]})
    assert read(data) == whole
    assert read(TABLE.encoded(whole)) == whole


def test_a_single_value_may_stand_for_several() -> None:
    assert read(book(encoded("a"), *[b"\x40"] * 4, encoded(Symbol("m")))).marks == ("m",)


def test_an_unknown_descriptor_is_kept() -> None:
    data = described(encoded(Symbol("other:list")), list_of([]))
    assert read(data) == Described(Symbol("other:list"), [])


WRONG = [
    (encoded("a"), "a described value is expected"),
    (described(of_type("ulong", 0xB0), encoded("a")), "a list is expected"),
    (described(encoded([1]), encoded("a"))[:-1], "is announced"),
    (book(), "lacks the mandatory field title"),
    (book(b"\x40"), "lacks the mandatory field title"),
    (book(encoded(b"a")), "title of book is not of type string"),
    (book(encoded("a"), of_type("ubyte", 7)), "pages of book is not of type uint"),
    (
        book(encoded("a"), *[b"\x40"] * 2, encoded(Symbol("x"))),
        "id of book is not of type message-id",
    ),
    (book(encoded("a"), *[b"\x40"] * 4, bytes.fromhex("e0 03 01 50 01")), "marks of book is not"),
    (
        book(encoded("a"), *[b"\x40"] * 5, encoded({"n": 1})),
        "a key of notes of book is not a symbol",
    ),
    (book(encoded("a"), *[b"\x40"] * 9), "book has 9 fields, not 10"),
    (bytes.fromhex("00 53 b0 c0 05 01 a1 01 61 40"), "the size of book is wrong"),
    (bytes.fromhex("00 53 b0 c0 03 01 a1 01 61"), "1 bytes is announced, and 0 are there"),
]


@pytest.mark.parametrize(("data", "expected"), WRONG, ids=[each for _, each in WRONG])
def test_what_is_no_such_struct_is_malformed(data: bytes, expected: str) -> None:
    with pytest.raises(Malformed) as found:
        read(data)
    assert expected in str(found.value)


def test_a_descriptor_that_is_a_list_is_of_no_known_type() -> None:
    assert read(described(encoded([1]), encoded("a"))) == Described([1], "a")
