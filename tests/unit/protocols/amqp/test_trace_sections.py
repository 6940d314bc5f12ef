"""A trace alone is read and written by hand, as the table would."""

from typing import Any

import pytest

from daybook.engine.facts.values import Symbol
from daybook.engine.messages.amqp.content_codec import AMQP, stored
from daybook.engine.messages.amqp.malformed import Malformed
from daybook.engine.messages.amqp.places import places_of
from daybook.engine.messages.amqp.reader import decoded
from daybook.engine.messages.amqp.sections import (
    COMPOSITES,
    DATA,
    FOOTER,
    MESSAGE_ANNOTATIONS,
    Header,
)
from daybook.engine.messages.amqp.writer import encoded, section_of
from daybook.engine.messages.message import Message
from daybook.protocols.amqp.arriving import Arrivals, Said
from daybook.protocols.amqp.leaving import parts_of
from daybook.protocols.amqp.tracing import (
    HOPS_MAX,
    TRACE,
    onward,
    section_with,
    trace_of,
    with_stop,
    written_at,
)

STOPS = [f"{number:032x}/{10**number}/q{number:08x}" for number in range(HOPS_MAX)]
BODY = section_of(DATA, encoded(b"body"))
FRONT = COMPOSITES.encoded(Header(durable=True))


def annotations(noted: dict[Any, Any]) -> bytes:
    return section_of(MESSAGE_ANNOTATIONS, encoded(noted))


def trace(count: int) -> bytes:
    return annotations({TRACE: STOPS[:count]}) if count else b""


def test_a_stop_is_added_as_by_the_table_or_left_to_it() -> None:
    found = []
    for count in range(1, HOPS_MAX):
        before, after = trace(count - 1), trace(count)
        found.append(section_with(b"ab" + before + BODY, 2, 2 + len(before), STOPS[count - 1]))
        assert found[-1] in (after, b"")
    assert found.index(b"") == 4
    assert not any(found[4:])


def test_other_annotations_are_left_to_the_table() -> None:
    other = {Symbol("x-opt-mine"): 1}
    for noted in ({**other, TRACE: STOPS[:1]}, {TRACE: STOPS[:1], **other}, other, {TRACE: 1}):
        section = annotations(noted)
        assert not section_with(section, 0, len(section), STOPS[1])
        assert written_at(section, 0) == ((), 0)


def test_what_is_written_is_read() -> None:
    for count in range(1, 5):
        data = FRONT + trace(count) + BODY
        at = len(FRONT)
        assert written_at(data, at) == (tuple(STOPS[:count]), at + len(trace(count)))
    assert written_at(trace(5), 0) == ((), 0)
    assert written_at(BODY, 0) == ((), 0)


def test_no_byte_of_it_means_something_else_than_to_the_table() -> None:
    """It is read alike, or left to the table."""
    whole = trace(2)
    for at in range(len(whole)):
        assert written_at(whole[:at], 0)[0] == ()
        for byte in {0, 1, 0x41, 0xA1, 0xC0, whole[at] ^ 1, whole[at] ^ 0x80}:
            changed = whole[:at] + bytes((byte,)) + whole[at + 1 :]
            try:
                stops, end = written_at(changed + BODY, 0)
            except Malformed:
                with pytest.raises(Malformed):
                    trace_of(decoded(changed[3:])[TRACE])
                continue
            if stops:
                assert stops == trace_of(decoded(changed[3:end])[TRACE])


@pytest.mark.parametrize("before", [b"", trace(1), trace(4), annotations({Symbol("x"): 1})])
@pytest.mark.parametrize("first", [b"", FRONT, COMPOSITES.encoded(Header())])
@pytest.mark.parametrize("footer", [b"", section_of(FOOTER, encoded({}))])
def test_a_message_leaves_with_a_stop_as_by_the_table(
    before: bytes, first: bytes, footer: bytes
) -> None:
    data = first + before + BODY + footer
    headers, body = stored(data, places_of(data))
    message = Message(7, 1, 4, AMQP, 0, headers, body)
    found = b"".join(with_stop(message, FRONT, STOPS[9]))
    asked = b"".join(parts_of(message, FRONT, (), onward(message, STOPS[9])))
    is_usual = not footer and len(before) < len(trace(4)) and b"\xa3\x01x" not in before
    assert found == (asked if is_usual else b"")


def said_by(said: Said) -> dict[str, Any]:
    return {name: getattr(said, name) for name in ("persistent", "priority", "expires", "attempts")}


def test_a_message_arrives_as_if_it_was_read_by_the_table() -> None:
    """Whatever the one before was like."""
    arrivals = Arrivals(1000)
    again = COMPOSITES.encoded(Header(priority=7, delivery_count=3))
    firsts = (b"", FRONT, again, b"\0\x53\x70\x45")
    for _ in range(2):
        for first in firsts:
            for count in (2, 0, 1, 5):
                for body in (BODY, section_of(DATA, encoded(b"other body"))):
                    data = first + trace(count) + body
                    said, *found, stops = arrivals.read(data, 1000)
                    places = places_of(data)
                    assert found == [*stored(data, places)]
                    assert stops == tuple(STOPS[:count])
                    assert said_by(said) == said_by(Said(data, places, 1000, 1000))
    for second in (trace(1), FRONT, annotations({})):
        with pytest.raises(Malformed, match="is behind one of"):
            arrivals.read(FRONT + trace(1) + second + BODY, 1000)
    with pytest.raises(Malformed, match="must be a list"):
        arrivals.read(FRONT + annotations({TRACE: [STOPS[0][:-1]]}) + BODY, 1000)
