"""Laws of messages of AMQP: stored and put together they are what came, whatever is inside."""

from hypothesis import given
from hypothesis import strategies as st

from daybook.engine.messages.amqp.content_codec import (
    PREFIX,
    SectionsCodec,
    beginning_of,
    leaving,
    stored,
    whole,
)
from daybook.engine.messages.amqp.malformed import Malformed
from daybook.engine.messages.amqp.places import Place, header_of, places_of
from daybook.engine.messages.amqp.reader import Reader
from daybook.engine.messages.amqp.sections import COMPOSITES, MESSAGE_ANNOTATIONS, Header
from daybook.engine.messages.amqp.writer import encoded, section_of
from tests.support.amqp.strategies import headers, messages

CODEC = SectionsCodec()
HEADER = COMPOSITES.encoded(Header(durable=True))


def changed(data: bytes, at: int, byte: int) -> bytes:
    """The bytes with another one at a place."""
    at %= len(data) + 1
    return data[:at] + bytes((byte,)) + data[at + 1 :]


broken = st.builds(changed, messages(), st.integers(0, 1 << 16), st.integers(0, 255))


def bare(data: bytes, places: list[Place]) -> bytes:
    """The part that must leave as it came: from the message annotations on."""
    return b"".join(data[each.at : each.end] for each in places if each.code >= MESSAGE_ANNOTATIONS)


@given(messages() | broken)
def test_a_message_is_put_together_as_it_came(data: bytes) -> None:
    try:
        places = places_of(data)
    except Malformed:
        return
    head, body = stored(data, places)
    assert whole(head, body) == data
    assert b"".join(leaving(head, body, b"")) == bare(data, places)


bodies = st.binary(max_size=3) | st.sampled_from([b"x" * size for size in (254, 255, 256, 300)])
alike = st.builds(
    lambda body, kind, rest: HEADER + section_of(kind, encoded(body)) + rest,
    bodies, st.sampled_from([0x75, 0x77]),
    st.sampled_from([b"", b"", b"", section_of(0x75, b"\xa0\0")]),
)  # fmt: skip


@given(st.lists(alike | messages() | broken, min_size=1, max_size=6))
def test_a_message_that_begins_as_another_one_is_stored_as_any(several: list[bytes]) -> None:
    try:
        beginning = beginning_of(several[0], places_of(several[0]))
    except Malformed:
        return
    if beginning is None:
        return
    for data in several:
        found = beginning.headers_of(data)
        if found:
            assert (found, data[len(found) - PREFIX :]) == stored(data, places_of(data))


def test_messages_that_begin_alike_have_headers_in_common() -> None:
    first, second, longer, shorter = (
        HEADER + section_of(0x75, b"\xb0" + len(body).to_bytes(4, "big") + body)
        for body in (b"one", b"two", b"three", b"")
    )
    beginning = beginning_of(first, places_of(first))
    assert beginning is not None
    headers = beginning.headers_of(first)
    assert headers == stored(first, places_of(first))[0]
    assert beginning.headers_of(second) is headers
    for data in (longer, shorter, first):
        assert beginning.headers_of(data) == stored(data, places_of(data))[0]
    for data in (b"", first[:-1], first + b"x", first[1:], HEADER, HEADER + b"\0\x53\x75\xa0\0"):
        assert beginning.headers_of(data) == b""


@given(messages() | broken)
def test_a_stored_message_is_always_read(data: bytes) -> None:
    try:
        head, body = stored(data, places_of(data))
    except Malformed:
        return
    CODEC.standard(head)
    CODEC.body(head, body)
    found = CODEC.properties(head)
    assert all(repr(CODEC.first(head, name)) == repr(value) for name, value in found.items())
    copy = CODEC.copied(head, list(found)[:1], {"new": "value"})
    expected = {**dict(list(found.items())[1:]), "new": "value"}
    assert repr(sorted(CODEC.properties(copy).items())) == repr(sorted(expected.items()))
    marked = CODEC.marked(copy, "mark")
    assert CODEC.first(marked, "mark") is True
    places_of(whole(marked, body))
    assert repr(CODEC.body(marked, body)) == repr(CODEC.body(head, body))


@given(headers, st.integers(0, 40), st.integers(0, 255))
def test_a_header_is_read_by_hand_as_by_the_table(header: object, at: int, byte: int) -> None:
    data = changed(COMPOSITES.encoded(header), at, byte)
    results = []
    for read in (header_of, lambda data, place: COMPOSITES.read(Reader(data, 0, len(data)))):
        try:
            places = places_of(data)
            results.append(read(data, places[0]) if places[0].code == 0x70 else None)
        except Malformed as error:
            results.append(str(error))
    assert results[0] == results[1]
