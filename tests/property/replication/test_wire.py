"""Whatever arrives on a connection between nodes: the messages that were sent, or one error."""

from collections.abc import Iterator
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daybook.journal.places import Place
from daybook.replication import wire
from daybook.replication.epochs import Beginning
from daybook.replication.messages import (
    Ack,
    Ask,
    Beat,
    Blocks,
    Join,
    Joined,
    Refused,
    Segment,
    Standing,
)
from daybook.replication.wire import FrameReader, Hello, Message, Ping, Pong, WireDamage, pack

NUMBERS = st.integers(0, (1 << 64) - 1)
PLACES = st.builds(Place, NUMBERS, NUMBERS)
NAMES = st.text(max_size=10)
EPOCHS = st.lists(st.builds(Beginning, NUMBERS, PLACES, NAMES), max_size=4).map(tuple)
# Some are larger than the reader's scratch.
CONTENTS = st.one_of(
    st.binary(max_size=200),
    st.builds(lambda piece, count: piece * count, st.binary(min_size=1), st.integers(0, 60_000)),
)
MESSAGES = st.one_of(
    st.builds(Ask, NAMES, NUMBERS, NAMES, st.booleans()),
    st.builds(
        Standing, NAMES, NUMBERS, st.binary(max_size=16), EPOCHS, PLACES, NUMBERS, st.booleans()
    ),
    st.builds(Refused, NUMBERS, NAMES),
    st.builds(Join, st.binary(max_size=16), PLACES, st.binary(max_size=16), EPOCHS),
    st.builds(Joined, NUMBERS),
    st.builds(Segment, CONTENTS),
    st.builds(Blocks, PLACES, CONTENTS),
    st.builds(Ack, PLACES, NUMBERS),
    st.builds(Beat, NUMBERS),
    st.builds(Ping),
    st.builds(Pong),
    st.builds(Hello, NUMBERS, NAMES, NAMES),
)


def read(reader: FrameReader, data: bytes, sizes: Iterator[int]) -> list[Message]:
    """Feed a reader in pieces of these sizes."""
    found: list[Message] = []
    at = 0
    while at < len(data):
        buffer = reader.buffer()
        count = min(next(sizes), len(buffer), len(data) - at)
        buffer[:count] = data[at : at + count]
        found += reader.received(count)
        at += count
    return found


def packed(messages: list[Message]) -> bytes:
    return b"".join(part for message in messages for part in pack(message))


def trusting() -> FrameReader:
    reader = FrameReader()
    reader.trust()
    return reader


def forever(sizes: list[int]) -> Iterator[int]:
    while True:
        yield from sizes


@given(st.lists(MESSAGES, max_size=6), st.lists(st.integers(1, 300_000), min_size=1, max_size=5))
def test_messages_arrive_however_the_stream_is_split(
    messages: list[Message], sizes: list[int]
) -> None:
    assert read(trusting(), packed(messages), forever([*sizes, 5_000])) == messages


@given(st.lists(MESSAGES, min_size=1, max_size=3), st.data())
def test_a_flipped_bit_is_an_error_or_keeps_the_reader_waiting(
    messages: list[Message], data: st.DataObject
) -> None:
    sent = bytearray(packed(messages))
    at = data.draw(st.integers(0, len(sent) * 8 - 1))
    sent[at // 8] ^= 1 << at % 8
    with pytest.raises(WireDamage):
        read(trusting(), bytes(sent), forever([50_000]))


@given(st.binary(max_size=300))
def test_anything_else_is_an_error_or_nothing(sent: bytes) -> None:
    with suppress(WireDamage):
        assert read(trusting(), sent, forever([7])) == []


@given(st.integers(0, 255), st.integers(0, (1 << 32) - 1), st.booleans())
def test_no_memory_is_reserved_for_what_is_too_large(kind: int, size: int, trusted: bool) -> None:
    head = wire._HEADER.pack(kind, size, 0)
    reader = trusting() if trusted else FrameReader()
    try:
        read(reader, head + wire._CRC.pack(wire.crc32c(head)), forever([50]))
    except WireDamage:
        return
    assert size <= wire._BYTES_MAX[wire.Kind(kind)]
    assert trusted or (kind == wire.Kind.HELLO and reader._large is None)


def test_a_stranger_says_hello_first() -> None:
    with pytest.raises(WireDamage, match="before the other side's hello"):
        read(FrameReader(), packed([Ping()]), forever([50]))
    hello = Hello(wire.VERSION, "c", "a")
    assert read(FrameReader(), packed([hello]), forever([50])) == [hello]


def test_a_said_is_no_answer() -> None:
    """A follower cannot speak as a leader: the kinds of frames differ."""
    content = wire._encoder.encode(Beat(1))
    head = wire._header(wire.Kind.ANSWER, len(content), wire.crc32c(content))
    with pytest.raises(WireDamage, match="cannot be read"):
        read(trusting(), head + content, forever([50]))
