"""The performatives of every message, by hand: they equal those of the table."""

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from daybook.engine.messages.amqp.malformed import Malformed
from daybook.engine.messages.amqp.reader import Reader
from daybook.protocols.amqp.wire import hot
from daybook.protocols.amqp.wire.frames import AMQP, Frame, FrameReader, frame, protocol_header
from daybook.protocols.amqp.wire.kinds import FIRST, SECOND
from daybook.protocols.amqp.wire.performatives import Disposition, Flow, Open, Transfer
from daybook.protocols.amqp.wire.table import COMPOSITES
from daybook.protocols.amqp.wire.termini import Accepted, Modified, Released
from tests.support.amqp.strategies import struct

HOT = [row for row in COMPOSITES.rows if row.name in ("flow", "transfer", "disposition")]
numbers = st.integers(0, 300) | st.integers(0, (1 << 32) - 1)


def both(data: bytes) -> tuple[Any, Any]:
    """The results of both readers; None if neither, or only the table's, can read it."""
    reader = Reader(data, 0, len(data))
    quick = hot.read(reader)
    quick_at = reader.at
    slow_reader = Reader(data, 0, len(data))
    try:
        slow: Any = COMPOSITES.read(slow_reader)
    except Malformed:
        slow = None
    assert quick_at == (slow_reader.at if quick is not None else 0)
    assert quick is None or reader.end == len(data)
    return quick, slow


@pytest.mark.parametrize("row", HOT, ids=lambda row: row.name)
@given(st.data())
def test_what_is_read_by_hand_is_what_the_table_reads(row: Any, data: st.DataObject) -> None:
    encoding = bytearray(COMPOSITES.encoded(data.draw(struct(row))) + b"payload")
    for at, byte in data.draw(
        st.lists(st.tuples(st.integers(0, 60), st.integers(0, 255)), max_size=3)
    ):
        encoding[at % len(encoding)] = byte
    quick, slow = both(bytes(encoding))
    assert quick is None or quick == slow


@pytest.mark.parametrize(
    "value",
    [
        Transfer(0), Transfer(300, 70_000, b"tag", 0, True, True, 1, Accepted(), True, True, True),
        Transfer(1, settled=False), Transfer(1, rcv_settle_mode=0), Disposition(True, 0),
        Disposition(False, 1, 300, True, Released(), True),
        Disposition(True, 1, None, True, Accepted()),
        Flow(incoming_window=1, next_outgoing_id=0, outgoing_window=1 << 31),
        Flow(next_incoming_id=1, incoming_window=1, next_outgoing_id=0, outgoing_window=9, handle=0,
             delivery_count=4, link_credit=100, available=0, drain=True, echo=True),
    ],
)  # fmt: skip
def test_what_is_usual_is_read_by_hand(value: Any) -> None:
    quick, slow = both(COMPOSITES.encoded(value))
    assert quick == slow == value


def test_a_state_of_an_empty_list_of_8_bits_is_read_by_hand() -> None:
    data = bytes.fromhex("00 53 15 c0 0b 05 41 43 40 41 00 53 24 c0 01 00")
    assert both(data) == (Disposition(True, 0, None, True, Accepted()),) * 2


@pytest.mark.parametrize("value", [Disposition(True, 0, state=Modified()), Open("c")])
def test_what_is_rare_is_left_to_the_table(value: Any) -> None:
    quick, slow = both(COMPOSITES.encoded(value))
    assert quick is None
    assert slow == value


def opened() -> FrameReader:
    """A reader behind the header of the protocol."""
    reader = FrameReader(1 << 24)
    reader.receive(protocol_header(AMQP))
    assert reader.next() is not None
    return reader


@given(st.data())
def test_a_single_message_is_what_the_table_reads(data: st.DataObject) -> None:
    said = data.draw(st.builds(Transfer, numbers, numbers, st.binary(max_size=32)) | struct(HOT[1]))
    encoding = bytearray(frame(data.draw(st.integers(0, 0xFFFF)), said, b"payload"))
    for at, byte in data.draw(
        st.lists(st.tuples(st.integers(0, 60), st.integers(0, 255)), max_size=2)
    ):
        encoding[at % len(encoding)] = byte
    single = hot.single(bytes(encoding), 0, len(encoding), 1 << 24)
    if single is None:
        return
    reader = opened()
    reader.receive(bytes(encoding))
    found = reader.next()
    assert isinstance(found, Frame)
    assert (found.channel, found.payload) == (single.channel, single.payload)
    table = found.performative
    assert single.stop == len(encoding) - reader.buffered_bytes
    assert table == Transfer(
        single.handle, single.delivery, table.delivery_tag, table.message_format,
        single.is_settled if table.settled is not None else None,
    )  # fmt: skip
    assert table.settled is not None or not single.is_settled


@pytest.mark.parametrize(
    "said",
    [
        Transfer(0, 0), Transfer(300, 70_000, b"tag", 0, True), Transfer(1, 2, b"t", 0, False),
        Transfer(1, 2, b"", 7),
    ],
)  # fmt: skip
def test_what_most_send_is_a_single_message(said: Transfer) -> None:
    data = frame(7, said, b"payload")
    single = hot.single(b"before" + data + b"after", 6, 6 + len(data), len(data))
    assert single is not None
    assert (single.handle, single.delivery) == (said.handle, said.delivery_id)
    assert (single.channel, single.is_settled) == (7, said.settled is True)
    assert (single.payload, single.stop) == (b"payload", 6 + len(data))
    assert hot.single(data, 0, len(data), len(data) - 1) is None
    assert all(hot.single(data[:end], 0, end, 1 << 20) is None for end in range(len(data)))


@pytest.mark.parametrize(
    "said",
    [
        Transfer(0), Transfer(0, 1, more=True), Transfer(0, 1, rcv_settle_mode=0),
        Transfer(0, 1, state=Accepted()), Transfer(0, 1, resume=True), Transfer(0, 1, aborted=True),
        Flow(incoming_window=0, next_outgoing_id=0, outgoing_window=0),
    ],
)  # fmt: skip
def test_what_says_more_is_no_single_message(said: Any) -> None:
    data = frame(0, said, b"x" if isinstance(said, Transfer) else b"")
    assert hot.single(data, 0, len(data), 1 << 20) is None


@given(
    st.lists(st.booleans(), max_size=12), st.lists(st.integers(1, 40), min_size=1, max_size=9),
    st.booleans(),
)  # fmt: skip
def test_single_messages_come_in_their_order_however_they_are_cut(
    kinds: list[bool], steps: list[int], empty: bool
) -> None:
    sent = [Transfer(0, at, b"t", 0, more=not whole) for at, whole in enumerate(kinds)]
    data = b"".join(frame(0, each, b"x" * (not empty)) for each in sent)
    reader, found, at, turn = opened(), [], 0, 0
    while at < len(data):
        reader.receive(data[at : at + steps[turn % len(steps)]])
        at += steps[turn % len(steps)]
        turn += 1
        while (single := reader.next_single()) is not None or (each := reader.next()) is not None:
            if single is not None:
                found.append((single.delivery, single.payload))
            else:
                assert isinstance(each, Frame)
                found.append((each.performative.delivery_id, each.payload))
    assert found == [(number, b"x" * (not empty)) for number in range(len(sent))]
    assert reader.buffered_bytes == 0


@given(
    st.integers(0, 0xFFFF), numbers, st.integers(hot.SHORT_NUMBERS, (1 << 32) - 1),
    st.integers(0, (1 << 64) - 1), st.binary(min_size=8, max_size=8), st.booleans(),
    st.binary(max_size=300),
)  # fmt: skip
def test_the_head_of_a_transfer_is_written_as_by_the_table(
    channel: int, handle: int, number: int, tag: int, more: bytes, settled: bool, payload: bytes
) -> None:
    heads = hot.TransferHeads(channel, handle, settled)
    said = Transfer(handle, number, tag.to_bytes(8, "big") + more, 0, settled)
    head = heads.head(number, tag, more, len(payload))
    assert len(head) == heads.size
    assert head + payload == frame(channel, said, payload)


def read_all(data: bytes) -> list[Frame]:
    reader = opened()
    reader.receive(data)
    frames = []
    while (each := reader.next()) is not None:
        assert isinstance(each, Frame)
        frames.append(each)
    assert reader.buffered_bytes == 0
    return frames


@given(
    st.integers(0, 0xFFFF), numbers, numbers, st.binary(max_size=32), st.booleans(),
    st.lists(st.binary(max_size=700), max_size=4), st.integers(512, 1600),
)  # fmt: skip
def test_a_delivery_is_cut_into_frames(
    channel: int, handle: int, number: int, tag: bytes, settled: bool, parts: list[bytes], most: int
) -> None:
    frames = hot.transfer_frames(channel, handle, number, tag, settled, parts, most)
    payload = b"".join(parts)
    assert all(len(each) <= most for each in frames)
    assert all(len(each) == most for each in frames[:-1])
    found = read_all(b"".join(frames))
    assert {each.channel for each in found} == {channel}
    assert b"".join(each.payload for each in found) == payload
    first = Transfer(handle, number, tag, 0, settled, more=len(frames) > 1)
    later = [Transfer(handle, more=True)] * (len(frames) - 2) + [Transfer(handle)]
    assert [each.performative for each in found] == [first, *later[: len(frames) - 1]]
    if len(frames) == 1:
        assert frames == [frame(channel, first, payload)]


@given(
    st.builds(
        Transfer, numbers, numbers, st.binary(max_size=32), st.sampled_from((0, 0, 0, 1, None)),
        st.booleans(), st.booleans(), st.sampled_from((None, FIRST, SECOND)),
        st.sampled_from((None, Accepted())), st.booleans(), st.booleans(), st.booleans(),
    )
)  # fmt: skip
@example(Transfer(1, 2, b"tag", 0, True))
def test_what_is_plain_is_written_as_by_the_table(said: Transfer) -> None:
    tag, number = said.delivery_tag, said.delivery_id
    assert tag is not None
    assert number is not None
    frames = hot.transfer_frames(3, said.handle, number, tag, bool(said.settled), (b"body",), 512)
    assert (frames == [frame(3, said, b"body")]) == hot.is_plain(said)


@given(st.integers(0, 0xFFFF), st.booleans(), numbers, numbers, st.booleans())
def test_a_disposition_is_written_as_by_the_table(
    channel: int, role: bool, first: int, last: int, settled: bool
) -> None:
    state = COMPOSITES.encoded(Accepted())
    data = hot.disposition_frame(channel, role, first, last, settled, state)
    wanted = Disposition(role, first, last if last != first else None, settled, Accepted())
    assert data == frame(channel, wanted)


@given(st.integers(0, 0xFFFF), st.lists(numbers, min_size=7, max_size=7))
def test_a_flow_is_written_as_by_the_table(channel: int, given: list[int]) -> None:
    data = hot.flow_frame(
        channel, *given[:4], handle=given[4], delivery_count=given[5], link_credit=given[6]
    )
    assert data == frame(
        channel,
        Flow(
            next_incoming_id=given[0], incoming_window=given[1], next_outgoing_id=given[2],
            outgoing_window=given[3], handle=given[4], delivery_count=given[5],
            link_credit=given[6],
        ),
    )  # fmt: skip
