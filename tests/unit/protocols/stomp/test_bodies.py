"""Large bodies: in as chunks, however they were cut; out as places in the output."""

import pytest

from daybook.engine.commands import Chunk, CloseConnection, Command, Send
from daybook.engine.refusals import Code
from daybook.protocols.port import Body
from daybook.protocols.stomp.bodies import CHUNK_BYTES
from daybook.protocols.stomp.wire.options import StompOptions
from tests.unit.protocols.stomp.fakes import NOW, SECOND, FakeMessage, Peer, connected, frame

SMALL = StompOptions(min_large_message_size=4, max_data_length=50)


def sends(peer: Peer) -> list[Command]:
    return [each for each in peer.broker.commands if isinstance(each, Send | Chunk)]


def bodies_of(peer: Peer) -> list[bytes]:
    return [each.body for each in sends(peer) if isinstance(each, Send | Chunk)]


@pytest.mark.parametrize("version", [None, "1.1", "1.2"])
@pytest.mark.parametrize("length", ["", "content-length:10\n"])
def test_a_large_body_goes_to_the_broker_in_chunks(version: str | None, length: str) -> None:
    peer = connected(version, SMALL)
    head = f"SEND\ndestination:/queue/a\n{length}receipt:r\n\n"
    assert peer.send(head.encode() + b"0123456789\0") == b"RECEIPT\nreceipt-id:r\n\n\0"
    first, second, third, send = sends(peer)
    assert isinstance(first, Chunk)
    assert isinstance(second, Chunk)
    assert isinstance(third, Chunk)
    assert isinstance(send, Send)
    assert (first.body, second.body, third.body) == (b"0123", b"4567", b"89")
    lsn = peer.broker.lsn
    assert (first.previous, second.previous, third.previous) == (0, lsn - 3, lsn - 2)
    assert send.chunks == (lsn - 3, lsn - 2, lsn - 1)
    assert (send.body, send.body_bytes) == (b"", 10)
    assert peer.session.gate == lsn


def test_chunks_go_as_they_come() -> None:
    peer = connected(options=StompOptions())
    peer.send(b"SEND\ndestination:/queue/a\ncontent-length:%d\n\n" % (3 * CHUNK_BYTES))
    assert not sends(peer)
    peer.send(b"x" * (CHUNK_BYTES - 1))
    assert not sends(peer)
    peer.send(b"xy")
    assert bodies_of(peer) == [b"x" * CHUNK_BYTES]
    peer.send(b"y" * (2 * CHUNK_BYTES - 1))
    assert list(map(len, bodies_of(peer))) == [CHUNK_BYTES] * 3
    peer.send(b"\0")
    (*_, send) = sends(peer)
    assert isinstance(send, Send)
    assert send.body_bytes == 3 * CHUNK_BYTES


def test_a_body_of_the_size_itself_is_not_large() -> None:
    for lines in ("", "content-length:4\n"):
        peer = connected(options=SMALL)
        peer.send(f"SEND\ndestination:/queue/a\n{lines}\n".encode() + b"1234\0")
        (send,) = sends(peer)
        assert isinstance(send, Send)
        assert (send.body, send.chunks) == (b"1234", ())


def test_a_refused_first_chunk_is_an_error_with_the_receipt() -> None:
    peer = connected(options=SMALL)
    peer.broker.refuse(Chunk, Code.NOT_FOUND, "no such queue")
    output = peer.send(b"SEND\ndestination:/queue/a\nreceipt:7\ncontent-length:9\n\n12345")
    assert b"no such queue" in output
    assert b"receipt-id:7" in output
    assert len(sends(peer)) == 1
    assert peer.session.closing
    peer.send(b"6789\0")
    assert len(sends(peer)) == 1


def test_what_is_too_long_names_the_key() -> None:
    peer = connected(options=SMALL)
    output = peer.send(frame("SEND\ndestination:/queue/a", b"x" * 51))
    assert b"max-data-length" in output
    assert bodies_of(peer) == [b"xxxx"] * 12
    assert not any(isinstance(each, Send) for each in sends(peer))


def test_a_wrong_length_is_told_behind_the_chunks() -> None:
    peer = connected(options=SMALL)
    output = peer.send(frame("SEND\ndestination:/queue/a\ncontent-length:9", b"123456789!"))
    assert b"no NUL after the 9 bytes" in output
    assert bodies_of(peer) == [b"1234", b"5678"]


def test_who_goes_half_way_leaves_no_send() -> None:
    peer = connected(options=SMALL)
    peer.send(b"SEND\ndestination:/queue/a\ncontent-length:9\n\n12345")
    peer.session.connection_lost(NOW)
    assert bodies_of(peer) == [b"1234"]
    assert isinstance(peer.broker.commands[-1], CloseConnection)


def test_who_sends_more_than_the_disk_takes_is_ahead() -> None:
    peer = connected(options=SMALL)
    session = peer.session
    assert not session.is_ahead(0, 1)
    peer.send(b"SEND\ndestination:/queue/a\ncontent-length:9\n\n1234567")
    first = peer.broker.lsn
    assert session.is_ahead(first - 1, 1)
    assert not session.is_ahead(first, 1)
    assert not session.is_ahead(first - 1, 2)
    peer.send(b"89")
    assert session.is_ahead(first - 1, 2)
    assert not session.is_ahead(first, 2)
    assert session.is_ahead(first, 1)
    peer.send(b"\0")
    assert not session.is_ahead(0, 1)


def test_a_time_to_live_counts_from_the_end() -> None:
    peer = connected(options=SMALL)
    peer.send(b"SEND\ndestination:/queue/a\nttl:1000\n\n12345")
    peer.now += 10 * SECOND
    peer.send(b"\0")
    (*_, send) = sends(peer)
    assert isinstance(send, Send)
    assert send.expires == peer.now // 1000 + 1000
    assert b"expires:%d\n" % send.expires in send.headers


@pytest.mark.parametrize("version", [None, "1.1", "1.2"])
def test_a_large_message_is_said_around_the_place_of_its_body(version: str | None) -> None:
    peer = connected(version)
    peer.send(frame("SUBSCRIBE\nid:s\ndestination:/queue/a\nack:client\nreceipt:r"))
    session = peer.session
    session.gate = 0
    subscription = peer.subscribed()
    subscription.deliver(FakeMessage(8, b"destination:a\n", chunks=(5, 7)), 1, False, 9)
    subscription.deliver(FakeMessage(10, b"destination:a\n", b"small"), 1, False, 4)
    subscription.deliver(FakeMessage(11, b"destination:a\n", chunks=(3, 12)), 2, True, 0)
    output = b"".join(session.out)
    first, second = session.bodies
    assert first == Body(output.index(b"\n\n\0") + 2, (5, 7), 20, 8, subscription.consumer)
    assert (second.chunks, second.size) == ((3, 12), 20)
    assert output[first.at : first.at + 1] == output[second.at :] == b"\0"
    assert b"redelivered:true" in output[first.at : second.at]
    assert session.gate == 12
    if version == "1.2":
        assert b"\nack:1-8\n" in output


def test_a_delivery_waits_for_its_last_chunk() -> None:
    peer = connected()
    peer.send(frame("SUBSCRIBE\nid:s\ndestination:/queue/a"))
    peer.session.gate = 0
    peer.subscribed().deliver(FakeMessage(8, b"", chunks=(5, 6)), 1, False, 0)
    assert peer.session.gate == 6


def test_a_peer_that_takes_is_neither_silent_nor_bored() -> None:
    peer = Peer(StompOptions(heart_beat_send_ms=1000, heart_beat_receive_ms=1000))
    peer.connect("1.2", b"heart-beat:1000,1000\n")
    for _ in range(10):
        peer.now += SECOND
        peer.session.is_taking(peer.now)
        peer.session.tick(peer.now)
        assert peer.taken() == b""
    assert not peer.session.closing
    peer.now += 3 * SECOND
    peer.session.tick(peer.now)
    assert peer.session.closing
