"""The places of a message's sections in every order and spelling, and malformed messages."""

import pytest

from daybook.engine.facts.values import Symbol
from daybook.engine.messages.amqp.malformed import Malformed
from daybook.engine.messages.amqp.places import header_of, places_of, properties_of
from daybook.engine.messages.amqp.reader import Reader
from daybook.engine.messages.amqp.sections import COMPOSITES, SECTIONS, Header, Properties
from daybook.engine.messages.amqp.writer import described, encoded, section_of

EMPTY = {"list": b"\x45", "map": b"\xc1\x01\0", "binary": b"\xa0\0", "*": b"\x40"}
HEADER, DELIVERY, ANNOTATIONS, PROPERTIES, APPLICATION, DATA, SEQUENCE, VALUE, FOOTER = (
    section_of(each.code, EMPTY[each.type]) for each in SECTIONS
)


def codes(data: bytes) -> list[int]:
    """The kinds of the sections; they lie one behind the other, from beginning to end."""
    places = places_of(data)
    assert [0, *(each.end for each in places)] == [*(each.at for each in places), len(data)]
    return [each.code for each in places]


@pytest.mark.parametrize(
    "data",
    [
        b"", DATA, DATA * 3, SEQUENCE * 2, VALUE, HEADER + VALUE, APPLICATION, FOOTER,
        HEADER + DELIVERY + ANNOTATIONS + PROPERTIES + APPLICATION + DATA + FOOTER,
    ],
)  # fmt: skip
def test_sections_in_their_order(data: bytes) -> None:
    assert codes(data) == [each for each in data if 0x70 <= each <= 0x78]


@pytest.mark.parametrize("section", SECTIONS, ids=[each.name for each in SECTIONS])
def test_every_spelling_of_a_descriptor_is_known(section: object) -> None:
    code, name, kind = section.code, section.name, section.type  # type: ignore[attr-defined]
    for descriptor in (
        bytes((0x80, 0, 0, 0, 0, 0, 0, 0, code)), encoded(Symbol(f"amqp:{name}:{kind}")),
    ):  # fmt: skip
        assert codes(described(descriptor, EMPTY[kind])) == [code]


WRONG = [
    (VALUE * 2, "0x77 is behind one of 0x77"), (HEADER * 2, "0x70 is behind one of 0x70"),
    (PROPERTIES + HEADER, "0x70 is behind one of 0x73"), (FOOTER + DATA, "is behind"),
    (DATA + VALUE, "two bodies"), (DATA + SEQUENCE, "two bodies"), (SEQUENCE + VALUE, "two bodies"),
    (section_of(0x75, encoded("a")), "a value of another type"),
    (section_of(0x70, encoded({})), "a value of another type"),
    (section_of(0x74, encoded([])), "a value of another type"),
    (b"\0\x53\x75", "a value of another type"), (b"\0\x53", "announced"), (b"\0", "end"),
    (b"\xa0\0", "not described"), (section_of(0x79, b"\x40"), "no kind that messages have"),
    (section_of(0x6F, b"\x40"), "no kind"), (described(encoded("a"), b"\x40"), "no kind"),
    (described(encoded(Symbol("amqp:other:map")), b"\x40"), "no kind"),
    (DATA[:-1], "announced"), (section_of(0x75, b"\xb0\xff\xff\xff\xff"), "announced"),
]  # fmt: skip


@pytest.mark.parametrize(("data", "expected"), WRONG)
def test_what_is_no_message_is_malformed(data: bytes, expected: str) -> None:
    with pytest.raises(Malformed) as found:
        places_of(data)
    assert expected in str(found.value)


HEADERS = [
    ("45", Header()),
    ("c0 01 00", Header()),
    ("c0 02 01 41", Header(durable=True)),
    ("c0 04 02 40 50 07", Header(priority=7)),
    ("c0 03 02 40 40", Header()),
    ("c0 0b 05 42 50 04 70 00 00 27 10 41 43", Header(ttl=10_000, first_acquirer=True)),
    ("d0 00 00 00 0a 00 00 00 05 40 40 40 40 52 02", Header(delivery_count=2)),
    ("c0 03 01 56 01", Header(durable=True)),
    ("c0 06 05 40 40 40 40 40", Header()),
]


@pytest.mark.parametrize(("text", "header"), HEADERS)
def test_a_header_is_read_as_the_table_says(text: str, header: Header) -> None:
    data = section_of(0x70, bytes.fromhex(text))
    (place,) = places_of(data)
    assert header_of(data, place) == header == COMPOSITES.read(Reader(data, 0, len(data)))


@pytest.mark.parametrize(
    "text", ["c0 02 01 50", "c0 03 02 40 50", "c0 07 06 40 40 40 40 40 40", "c0 04 03 40 40 41",
             "c0 03 01 41 41"]
)  # fmt: skip
def test_a_header_with_other_fields_is_malformed(text: str) -> None:
    data = section_of(0x70, bytes.fromhex(text))
    (place,) = places_of(data)
    with pytest.raises(Malformed):
        header_of(data, place)


def test_properties_are_read() -> None:
    wanted = Properties(message_id=b"\1", to="a", creation_time=5, group_sequence=7)
    data = COMPOSITES.encoded(wanted)
    (place,) = places_of(data)
    assert properties_of(data, place) == wanted
