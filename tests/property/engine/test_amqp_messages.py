"""Laws of messages of AMQP: stored and put together they are what came, whatever is inside."""

from hypothesis import given
from hypothesis import strategies as st

from daybook.engine.messages.amqp.content_codec import SectionsCodec, leaving, stored, whole
from daybook.engine.messages.amqp.malformed import Malformed
from daybook.engine.messages.amqp.places import Place, header_of, places_of
from daybook.engine.messages.amqp.reader import Reader
from daybook.engine.messages.amqp.sections import COMPOSITES, MESSAGE_ANNOTATIONS
from tests.support.amqp.strategies import headers, messages

CODEC = SectionsCodec()


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
