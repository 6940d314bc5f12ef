"""The sections of a message as a format of content: stored, read and sent."""

from typing import Any

import pytest

from daybook.engine.facts.formats import Standard
from daybook.engine.facts.values import Symbol, Timestamp, Uuid
from daybook.engine.messages.amqp.content_codec import (
    FRAMINGS,
    PREFIX,
    SectionsCodec,
    bare_at,
    leaving,
    stored,
    whole,
)
from daybook.engine.messages.amqp.places import places_of
from daybook.engine.messages.amqp.sections import COMPOSITES, Header, Properties
from daybook.engine.messages.amqp.writer import (
    described,
    encoded,
    list_of,
    map_of,
    section_of,
)

CODEC = SectionsCodec()
HEADER = COMPOSITES.encoded(Header(durable=True, ttl=9))
DELIVERY = section_of(0x71, map_of({Symbol("for-me"): 1}))
ANNOTATIONS = section_of(0x72, map_of({Symbol("x-opt-a"): 1}))
PROPERTIES = COMPOSITES.encoded(
    Properties(
        message_id=7, user_id=b"u", to="a", subject="s", reply_to="r",
        correlation_id=Uuid(b"\2" * 16),
        content_type="text/plain", content_encoding="gzip", absolute_expiry_time=5,
        creation_time=6, group_id="g", group_sequence=8, reply_to_group_id="h",
    )
)  # fmt: skip
APPLICATION = section_of(0x74, map_of({"one": 1, "text": "é", "when": Timestamp(4)}))
DATA = section_of(0x75, encoded(b"body"))
FOOTER = section_of(0x78, map_of({Symbol("sum"): 3}))
ALL = (HEADER, DELIVERY, ANNOTATIONS, PROPERTIES, APPLICATION, DATA, FOOTER)


def kept(data: bytes) -> tuple[bytes, bytes]:
    """The stored parts of a message, from which it can be put together again."""
    headers, body = stored(data, places_of(data))
    assert whole(headers, body) == data
    return headers, body


BODIES: list[tuple[str, bytes, bytes, Any]] = [
    ("data", DATA, b"body", b"body"),
    ("long data", section_of(0x75, encoded(b"b" * 300)), b"b" * 300, b"b" * 300),
    ("text", section_of(0x77, encoded("é")), "é".encode(), "é"),
    ("long text", section_of(0x77, encoded("t" * 300)), b"t" * 300, "t" * 300),
    ("binary value", section_of(0x77, encoded(b"v")), b"v", b"v"),
    ("long binary value", section_of(0x77, encoded(b"v" * 300)), b"v" * 300, b"v" * 300),
    ("number", section_of(0x77, encoded(5)), section_of(0x77, encoded(5)), 5),
    ("null", section_of(0x77, b"\x40"), section_of(0x77, b"\x40"), None),
    ("map", section_of(0x77, encoded({"a": []})), section_of(0x77, encoded({"a": []})), {"a": []}),
    ("several data", DATA * 3, b"body" + DATA * 2, b"body" * 3),
    ("sequence", section_of(0x76, encoded([1])), section_of(0x76, encoded([1])), [1]),
    ("sequences", section_of(0x76, encoded([1, "a"])) * 2, section_of(0x76, encoded([1, "a"])) * 2,
     [1, "a", 1, "a"]),
    ("described", section_of(0x77, described(b"\x43", list_of([described(b"\x43", b"\x41")]))),
     section_of(0x77, described(b"\x43", list_of([described(b"\x43", b"\x41")]))), [True]),
    ("nothing", b"", b"", b""),
]  # fmt: skip


@pytest.mark.parametrize(("data", "body", "value"), [each[1:] for each in BODIES],
                         ids=[each[0] for each in BODIES])  # fmt: skip
@pytest.mark.parametrize("front", [b"", b"".join(ALL[:5])], ids=["alone", "with sections"])
@pytest.mark.parametrize("footer", [b"", FOOTER], ids=["", "footer"])
def test_a_body_is_apart_and_has_its_type(
    front: bytes, data: bytes, body: bytes, value: Any, footer: bytes
) -> None:
    headers, found = kept(front + data + footer)
    assert found == body
    assert CODEC.body(headers, found) == value
    assert type(CODEC.body(headers, found)) is type(value)


def test_framings_are_for_ever() -> None:
    assert {number: tuple(each) for number, each in FRAMINGS.items()} == {
        1: (0x75, 0xA0, 1, False), 2: (0x75, 0xB0, 4, False), 3: (0x77, 0xA1, 1, True),
        4: (0x77, 0xB1, 4, True), 5: (0x77, 0xA0, 1, False), 6: (0x77, 0xB0, 4, False),
    }  # fmt: skip
    assert kept(DATA + FOOTER)[0] == (
        b"\1" + len(FOOTER).to_bytes(4) + b"\0\x53\x75\xa0\x04" + FOOTER
    )


def test_the_standard_properties_are_read() -> None:
    headers, _ = kept(b"".join(ALL))
    assert CODEC.standard(headers) == Standard(
        "a", "text/plain", "r", Uuid(b"\2" * 16), "g", "s", 6, 7, b"u", "gzip", 8, "h"
    )
    assert CODEC.said(headers, "group_id") == "g"
    assert CODEC.standard(kept(DATA)[0]) == Standard()


def test_application_properties_are_read_all_or_one() -> None:
    headers, _ = kept(b"".join(ALL))
    assert CODEC.properties(headers) == {"one": 1, "text": "é", "when": Timestamp(4)}
    assert CODEC.first(headers, "text") == "é"
    assert CODEC.first(headers, "gone") is None
    assert CODEC.properties(kept(DATA)[0]) == {}
    odd = section_of(0x74, map_of({5: 1, "a": 2}))
    assert CODEC.properties(kept(odd + DATA)[0]) == {"a": 2}


def test_names_are_decoded_once_for_several_questions() -> None:
    one, other = (
        stored(data, places_of(data))[0]
        for data in (section_of(0x74, encoded({"n": number, "m": 3})) for number in (1, 2))
    )
    assert CODEC.unread(one) == len(one)
    assert CODEC.first(one, "n") == 1
    assert CODEC.unread(one) == 0
    assert CODEC.first(one, "m") == 3
    assert CODEC.first(one, "x") is None
    assert CODEC.unread(other) == len(other)
    assert CODEC.first(other, "n") == 2
    assert CODEC.first(one, "n") == 1


def test_a_copy_has_other_properties_and_no_expiry() -> None:
    for footer in (b"", FOOTER):
        headers, body = kept(b"".join(ALL[:6]) + footer)
        copy = CODEC.copied(headers, ["one"], {"text": "new", "more": True})
        assert CODEC.properties(copy) == {"when": Timestamp(4), "text": "new", "more": True}
        assert CODEC.standard(copy) == CODEC.standard(headers)
        again = whole(copy, body)
        assert [each.code for each in places_of(again)] == [
            each.code for each in places_of(whole(headers, body))
        ]
        assert b"\x83" + bytes(7) + b"\5" not in again  # absolute-expiry-time
        assert CODEC.body(copy, body) == b"body"


@pytest.mark.parametrize("front", [b"", HEADER, PROPERTIES])
@pytest.mark.parametrize("body", [b"", DATA, section_of(0x77, b"\x40")])
def test_a_mark_is_put_where_it_belongs(front: bytes, body: bytes) -> None:
    headers, rest = kept(front + body)
    marked = CODEC.marked(headers, "retained")
    assert CODEC.properties(marked) == {"retained": True}
    expected = {each.code for each in places_of(front + body)} | {0x74}
    assert {each.code for each in places_of(whole(marked, rest))} == expected
    assert CODEC.marked(marked, "retained") == marked


def test_what_leaves_is_the_bare_message_byte_for_byte() -> None:
    headers, body = kept(b"".join(ALL))
    assert b"".join(leaving(headers, body, b"front")) == b"front" + b"".join(ALL[2:])
    annotations, bare = bare_at(headers)
    assert headers[annotations:bare] == ANNOTATIONS
    assert headers[PREFIX:annotations] == HEADER + DELIVERY


@pytest.mark.parametrize(
    "data", [DATA, PROPERTIES + DATA, section_of(0x77, b"\x40"), HEADER + section_of(0x77, b"\x40")]
)
def test_without_annotations_the_bare_message_follows_the_header(data: bytes) -> None:
    headers, body = kept(data)
    annotations, bare = bare_at(headers)
    assert annotations == bare
    assert b"".join(leaving(headers, body, b"")) == data.removeprefix(HEADER)


BROKEN = [
    section_of(0x74, b"\xc1\x03\x02\xa1\x05"), section_of(0x74, b"\xc1\x04\x02\x41\x50\x01"),
    section_of(0x74, b"\xc1\x06\x02\xa1\x01a\xa1\xff"), section_of(0x73, b"\xc0\x02\x01\x50"),
    section_of(0x73, b"\xc0\x09\x0e" + b"\x40" * 8),
]  # fmt: skip


@pytest.mark.parametrize("data", BROKEN)
def test_nothing_is_found_in_a_section_that_is_malformed_inside(data: bytes) -> None:
    headers, body = kept(data + DATA)
    assert CODEC.standard(headers) == Standard()
    assert CODEC.properties(headers) in ({}, {"a": None})
    assert CODEC.first(headers, "b") is None
    assert CODEC.properties(CODEC.copied(headers, [], {"b": 1}))["b"] == 1
    assert CODEC.body(headers, body) == b"body"


def test_a_body_that_is_malformed_inside_is_its_bytes() -> None:
    for data in (
        section_of(0x77, b"\xa1\x01\xff"), section_of(0x77, b"\xc0\x02\x01\x50"),
        section_of(0x76, b"\xc0\x02\x01\x50"), section_of(0x77, b"\xa3\x01\xff"),
    ):  # fmt: skip
        headers, body = kept(data)
        assert CODEC.body(headers, body) == body


def test_a_large_list_is_read_whole() -> None:
    value = [0] * 100_000
    headers, body = kept(section_of(0x77, encoded(value)))
    assert CODEC.body(headers, body) == value


def test_a_list_of_the_widest_encodings_is_kept() -> None:
    wide = section_of(0x73, b"\xd0" + (9).to_bytes(4) + (1).to_bytes(4)
                      + b"\xb1\0\0\0\0")  # fmt: skip
    headers, _ = kept(wide + DATA)
    assert CODEC.standard(headers).message_id == ""
