"""Frames and protocol headers: examples of bytes, what is none, and what is held."""

import struct

import pytest

from daybook.protocols.amqp.wire.errors import DECODE_ERROR, FRAMING_ERROR, AmqpError
from daybook.protocols.amqp.wire.frames import (
    AMQP,
    EMPTY_FRAME,
    FOREIGN,
    FRAME_SIZE_MIN,
    SASL,
    TLS,
    Frame,
    FrameReader,
    Header,
    frame,
    protocol_header,
)
from daybook.protocols.amqp.wire.performatives import (
    Attach,
    Begin,
    Close,
    Error,
    Open,
    SaslInit,
    SaslMechanisms,
    SaslOutcome,
    Transfer,
)
from daybook.protocols.amqp.wire.termini import Accepted

OPEN = Open("c", hostname="h")
SIZE_MAX = 4096


def opened(protocol: int = AMQP, size: int = SIZE_MAX) -> FrameReader:
    """A reader that has read a header."""
    reader = FrameReader(size)
    reader.receive(protocol_header(protocol))
    header = reader.next()
    assert isinstance(header, Header)
    assert header.protocol == protocol
    return reader


def raw(body: bytes, offset: int = 2, frame_type: int = 0, channel: int = 0) -> bytes:
    """A frame with any content."""
    return struct.pack(">IBBH", len(body) + 8, offset, frame_type, channel) + body


def one(reader: FrameReader, data: bytes) -> Frame:
    """The only frame of some bytes."""
    reader.receive(data)
    found = reader.next()
    assert isinstance(found, Frame)
    assert reader.next() is None
    return found


@pytest.mark.parametrize(
    ("protocol", "data"),
    [(AMQP, b"AMQP\0\1\0\0"), (TLS, b"AMQP\2\1\0\0"), (SASL, b"AMQP\3\1\0\0")],
)
def test_a_protocol_has_its_header(protocol: int, data: bytes) -> None:
    assert protocol_header(protocol) == data
    reader = FrameReader(SIZE_MAX)
    for at in range(8):
        assert reader.next() is None
        reader.receive(data[at : at + 1])
    header = reader.next()
    assert isinstance(header, Header)
    assert header.protocol == protocol
    assert reader.buffered_bytes == 0


@pytest.mark.parametrize(
    "data",
    [b"AMQP\0\0\x09\1", b"AMQP\1\1\0\0", b"AMQP\xff", b"G", b"CONNECT\n\n\0", b"AMQQ", b"\0",
     b"AMQP\0\1\0\1", b"\x16\3\1"],
)  # fmt: skip
def test_another_protocol_is_known_at_its_first_wrong_byte(data: bytes) -> None:
    reader = FrameReader(SIZE_MAX)
    reader.receive(data)
    header = reader.next()
    assert isinstance(header, Header)
    assert header.protocol == FOREIGN
    reader.receive(b"more")
    assert (reader.next(), reader.buffered_bytes) == (None, 0)


def test_nothing_is_read_behind_the_header_of_tls() -> None:
    reader = opened(TLS)
    reader.receive(frame(0, OPEN))
    assert (reader.next(), reader.buffered_bytes) == (None, 0)


def test_an_open_frame_is_these_bytes() -> None:
    data = bytes.fromhex("00 00 00 14 02 00 00 07 00 53 10 c0 07 02 a1 01 63 a1 01 68")
    assert frame(7, OPEN) == data
    found = one(opened(), data)
    assert (found.channel, found.performative, found.payload) == (7, OPEN, b"")


def test_frames_come_one_after_the_other_however_they_are_cut() -> None:
    sent = [OPEN, Begin(next_outgoing_id=1, incoming_window=2, outgoing_window=3), Close()]
    data = b"".join(frame(number, each) for number, each in enumerate(sent)) + EMPTY_FRAME
    for step in (1, 2, 3, 7, len(data)):
        reader = opened()
        found = []
        for at in range(0, len(data), step):
            reader.receive(data[at : at + step])
            while (each := reader.next()) is not None:
                assert isinstance(each, Frame)
                found.append((each.channel, each.performative))
        assert found == [*enumerate(sent), (0, None)]
        assert reader.buffered_bytes == 0


def test_a_transfer_has_a_payload() -> None:
    sent = Transfer(0, 1, b"t", 0)
    found = one(opened(), frame(3, sent, b"\0\x53payload"))
    assert (found.performative, found.payload) == (sent, b"\0\x53payload")


def test_an_extended_header_is_passed_over() -> None:
    body = frame(0, OPEN)[8:]
    assert one(opened(), raw(b"12345678" + body, offset=4)).performative == OPEN
    assert one(opened(), raw(b"1234", offset=3)).performative is None


def test_frames_of_sasl_are_followed_by_a_header() -> None:
    reader = opened(SASL)
    init = SaslInit("PLAIN", b"\0a\0b")
    reader.receive(frame(0, init) + protocol_header(AMQP) + frame(0, OPEN))
    first, header, second = reader.next(), reader.next(), reader.next()
    assert isinstance(first, Frame)
    assert first.performative == init
    assert isinstance(header, Header)
    assert header.protocol == AMQP
    assert isinstance(second, Frame)
    assert second.performative == OPEN
    outcome = frame(0, SaslOutcome(0))
    assert outcome == bytes.fromhex("00 00 00 10 02 01 00 00 00 53 44 c0 03 01 50 00")
    assert one(opened(SASL), frame(0, SaslMechanisms(("A",)))).performative.sasl_server_mechanisms


def error_of(reader: FrameReader, data: bytes) -> AmqpError:
    """The error of bytes; nothing is read after it, and nothing is held."""
    reader.receive(data)
    with pytest.raises(AmqpError) as found:
        list(iter(reader.next, None))
    reader.receive(frame(0, OPEN))
    assert (reader.next(), reader.buffered_bytes) == (None, 0)
    return found.value


NOT_FRAMED = [
    (b"\0\0\0\7", AMQP, "cannot have 7 bytes"), (b"\0\0\0\0" * 9, AMQP, "cannot have 0 bytes"),
    (b"\x7f\xff\xff\xff", AMQP, "cannot have 2147483647 bytes"),
    (b"\x7f\xff\xff\xff\2\1\0\0", SASL, "cannot have 2147483647 bytes"),
    (raw(b"", offset=1), AMQP, "cannot begin at 4"), (raw(b"", offset=3), AMQP, "begin at 12"),
    (raw(b"", frame_type=1), AMQP, "type 1"), (raw(b"x", frame_type=7), AMQP, "type 7"),
    (frame(0, SaslInit("A")), AMQP, "type 1"), (frame(0, OPEN), SASL, "type 0"),
    (raw(b"", frame_type=1), SASL, "empty"),
    (raw(bytes(SIZE_MAX - 7)), AMQP, "cannot have 4097 bytes"),
    (raw(bytes(FRAME_SIZE_MIN - 7), frame_type=1), SASL, "cannot have 513 bytes"),
    (b"GET / HTTP/1.1\r\n", AMQP, "cannot have"), (b"AMQP\0\1\0\0", AMQP, "cannot have"),
]  # fmt: skip


@pytest.mark.parametrize(("data", "protocol", "expected"), NOT_FRAMED)
def test_what_is_no_frame_ends_the_reader(data: bytes, protocol: int, expected: str) -> None:
    error = error_of(opened(protocol), data)
    assert error.condition == FRAMING_ERROR
    assert expected in error.text


BODY = frame(0, OPEN)[8:]
NOT_DECODED = [
    (raw(b"\x40"), "described value is expected"), (raw(BODY[:-1]), "announced"),
    (raw(BODY + b"more"), "4 bytes are left behind a performative"),
    (raw(b"\0\x53\x1d\xc0\x04\x01\xa3\x01a"), "of no kind that frames have"),
    (raw(b"\0\x53\x41\xc0\x04\x01\xa3\x01a"), "of no kind that frames have"),
    (raw(b"\0\x53\xff\x45"), "of no kind that frames have"),
    (raw(b"\0\x53\x10\x45"), "lacks the mandatory field container-id"),
    (raw(b"\0\x53\x14\x45"), "lacks the mandatory field handle"),
    (raw(b"\0\x53\x15\xc0\x02\x01\x41"), "lacks the mandatory field first"),
    (raw(b"\0\x53\x13\xc0\x02\x01\x43"), "lacks the mandatory field"),
    (raw(b"\0\x53\x14\xd0\xff\xff\xff\xff\xff\xff\xff\xff"), "announced"),
    (raw(b"\0\x53\x14\xd0\0\0\0\6\xff\xff\xff\xff\x43\x43"), "transfer has 11 fields"),
]  # fmt: skip


@pytest.mark.parametrize(("data", "expected"), NOT_DECODED)
def test_what_is_no_performative_ends_the_reader(data: bytes, expected: str) -> None:
    error = error_of(opened(), data)
    assert error.condition == DECODE_ERROR
    assert expected in error.text


def test_frames_before_an_error_are_read() -> None:
    reader = opened()
    reader.receive(frame(0, OPEN) + raw(b"\x40"))
    first = reader.next()
    assert isinstance(first, Frame)
    assert first.performative == OPEN
    with pytest.raises(AmqpError):
        reader.next()


def test_a_frame_that_arrives_byte_by_byte_is_copied_few_times() -> None:
    reader = opened(size=1 << 20)
    data = frame(0, Transfer(0), bytes(200_000))
    for at in range(len(data) - 1):
        reader.receive(data[at : at + 1])
        assert reader.next() is None
    assert reader.buffered_bytes == len(data) - 1
    assert len(reader._data) < 16
    reader.receive(data[-1:])
    found = reader.next()
    assert isinstance(found, Frame)
    assert len(found.payload) == 200_000


@pytest.mark.parametrize("value", [Accepted(), Error("a"), 5])
def test_only_performatives_are_framed(value: object) -> None:
    with pytest.raises(AssertionError):
        frame(0, value)


def test_what_a_field_cannot_have_is_not_framed() -> None:
    with pytest.raises(ValueError, match="4294967296"):
        frame(0, Attach("l", 1 << 32, True))
