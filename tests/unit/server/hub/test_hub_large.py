"""Large messages through the hub: in by chunks, out in slices, nothing in between."""

from typing import Any

import pytest

from daybook.engine.facts import events
from daybook.journal.segments.reader import read_blocks
from daybook.paging.tables.layout import LAYOUT
from daybook.protocols.stomp import StompOptions
from daybook.server.administration import views
from daybook.server.hub.hub import STALL_US
from daybook.server.hub.peer import LARGE_AHEAD_CHUNKS, WRITE_HIGH_BYTES
from daybook.server.process.slices import at_once
from tests.unit.server.hub.test_hub import Bench, Client

SMALL: dict[str, Any] = {"min_large_message_size": 10}
SUBSCRIBE = b"SUBSCRIBE\nid:1\ndestination:/queue/a\nack:client-individual\n\n\0"
BODY = bytes(range(256)) * 4


def frames(output: bytes) -> list[bytes]:
    """Bodies of the MESSAGEs in the output, which must hold nothing but whole frames."""
    found = []
    while output:
        head, _, rest = output.partition(b"\n\n")
        lengths = [line for line in head.split(b"\n") if line.startswith(b"content-length:")]
        length = int(lengths[0][15:]) if lengths else rest.index(b"\0")
        assert rest[length : length + 1] == b"\0"
        if head.startswith(b"MESSAGE\n"):
            found.append(rest[:length])
        output = rest[length + 1 :].lstrip(b"\n")
    return found


def kinds(bench: Bench) -> list[int]:
    """Kinds of the events in the journal."""
    return [
        row[events.KIND]
        for block in read_blocks(bench.disk, LAYOUT)
        for _, row, *_ in block.events()
    ]


def pair(**options: Any) -> tuple[Bench, Client, Client]:
    """A producer of large messages, and a consumer that has subscribed."""
    bench = Bench()
    producer = bench.connect(**SMALL)
    consumer = bench.connect(**options)
    consumer.do(SUBSCRIBE)
    return bench, producer, consumer


def test_a_large_message_goes_through() -> None:
    bench, producer, consumer = pair()
    producer.message(BODY, receipt="r")
    bench.turn()
    assert producer.transport.take() == b""
    bench.run()
    assert producer.transport.take() == b"RECEIPT\nreceipt-id:r\n\n\0"
    assert frames(consumer.transport.take()) == [BODY]
    assert kinds(bench).count(events.CHUNK_RECEIVED) == -(-len(BODY) // 10)


def test_without_a_content_length_too() -> None:
    bench, producer, consumer = pair()
    producer.send(b"SEND\ndestination:/queue/a\n\n" + b"x" * 999 + b"\0")
    bench.run()
    assert frames(consumer.transport.take()) == [b"x" * 999]


def test_several_in_a_row_with_small_ones_between() -> None:
    bench, producer, consumer = pair()
    sent = [BODY, b"small", BODY[::-1], b"", b"tiny", BODY * 2]
    for body in sent:
        producer.message(body)
    bench.run()
    assert frames(consumer.transport.take()) == sent


def test_what_is_not_persistent_comes_when_it_can_be_read() -> None:
    bench, producer, consumer = pair()
    head = b"SEND\ndestination:/queue/a\npersistent:false\nreceipt:r\ncontent-length:1024\n\n"
    producer.send(head + BODY + b"\0")
    bench.turn()
    assert producer.transport.take() == b"RECEIPT\nreceipt-id:r\n\n\0"
    assert consumer.transport.take() == b""
    bench.run()
    assert frames(consumer.transport.take()) == [BODY]


def test_nothing_comes_between_the_pieces_of_a_body() -> None:
    bench, producer, consumer = pair()
    producer.message(BODY)
    bench.turn()
    bench.writer.write()
    bench.hub.turn()
    first = consumer.transport.take()
    assert 0 < len(first) < len(BODY)
    consumer.transport.stuck = WRITE_HIGH_BYTES + 1
    consumer.send(b"BEGIN\ntransaction:t\nreceipt:b\n\n\0")
    bench.run()
    assert b"receipt-id:b" not in consumer.transport.take()
    consumer.transport.stuck = 0
    bench.hub.drained(consumer.peer)
    bench.run()
    output = consumer.transport.take()
    assert output.endswith(b"\0RECEIPT\nreceipt-id:b\n\n\0")


def test_a_peer_that_was_paused_for_what_waits_behind_a_body_is_read_again() -> None:
    bench, producer, consumer = pair(room=200)
    producer.message(BODY)
    bench.turn()
    bench.writer.write()
    bench.hub.turn()
    consumer.transport.stuck = WRITE_HIGH_BYTES + 1
    bench.hub.turn()
    consumer.transport.stuck = 0
    asked = 0
    while consumer.transport.reading:
        asked += 1
        consumer.send(b"BEGIN\ntransaction:%d\nreceipt:%d\n\n\0" % (asked, asked))
        # Nothing of the body is written meanwhile, so the answers wait behind it.
        consumer.transport.stuck = WRITE_HIGH_BYTES + 1
        bench.turn()
        consumer.transport.stuck = 0
    bench.hub.drained(consumer.peer)
    bench.turn()
    assert vars(consumer.transport)["reading"] is True
    assert consumer.transport.take().count(b"RECEIPT\n") == asked


def test_a_body_uses_the_room_of_its_connection() -> None:
    bench, producer, consumer = pair(room=2000)
    consumer.transport.stuck = WRITE_HIGH_BYTES + 1
    for _ in range(4):
        producer.message(BODY * 4)
    bench.run()
    assert bench.hub.status()["messages_in_flight"] == 1
    assert consumer.peer.output_bytes() < WRITE_HIGH_BYTES + 1000
    consumer.transport.stuck = 0
    bench.hub.drained(consumer.peer)
    bench.run()
    assert frames(consumer.transport.take()) == [BODY * 4] * 4


def test_an_ack_may_come_before_the_body_has_left() -> None:
    bench, producer, consumer = pair()
    producer.message(BODY)
    bench.turn()
    bench.writer.write()
    bench.hub.turn()
    output = consumer.transport.take()
    ack = output.partition(b"\nack:")[2].partition(b"\n")[0]
    consumer.send(b"ACK\nid:" + ack + b"\n\n\0")
    bench.run()
    assert frames(output + consumer.transport.take()) == [BODY]
    assert bench.hub.status()["messages_in_flight"] == 0


def test_peers_take_turns() -> None:
    bench = Bench()
    producer = bench.connect(**SMALL)
    consumers = [bench.connect() for _ in range(3)]
    for consumer in consumers:
        consumer.do(b"SUBSCRIBE\nid:1\ndestination:/topic/a\n\n\0")
    head = b"SEND\ndestination:/topic/a\ncontent-length:1024\n\n"
    producer.send(head + BODY + b"\0")
    bench.turn()
    bench.writer.write()
    most = 0
    while bench.turns:
        bench.turns -= 1
        bench.hub.turn()
        written = [len(consumer.transport.written) for consumer in consumers]
        most = max(most, max(written) - min(written))
    assert most < 400
    assert [frames(consumer.transport.take()) for consumer in consumers] == [[BODY]] * 3


def test_a_consumer_that_goes_in_the_middle_gives_the_message_back() -> None:
    bench, producer, consumer = pair()
    producer.message(BODY)
    bench.turn()
    bench.writer.write()
    bench.hub.turn()
    bench.hub.lost(consumer.peer)
    bench.run()
    assert bench.hub.status()["messages_ready"] == 1
    assert consumer.peer.body_bytes == 0
    other = bench.connect()
    output = other.do(SUBSCRIBE)
    assert b"redelivered:true" in output
    assert frames(output) == [BODY]


def test_a_producer_that_goes_in_the_middle_leaves_nothing() -> None:
    bench, producer, consumer = pair()
    producer.send(b"SEND\ndestination:/queue/a\ncontent-length:1024\n\n" + BODY[:500])
    bench.run()
    bench.hub.lost(producer.peer)
    bench.run()
    assert bench.hub.status()["messages_ready"] == 0
    assert consumer.transport.take() == b""
    assert kinds(bench).count(events.CHUNK_RECEIVED) == 50
    assert kinds(bench).count(events.ROUTED) == 0


def test_what_must_stay_readable_begins_with_the_oldest_chunk_in_use() -> None:
    bench, producer, _ = pair()
    hub = bench.hub
    assert hub.first_chunk() == 0
    first = hub.broker.lsn + 1
    head = b"SEND\ndestination:/queue/a\ncontent-length:1024\n\n"
    producer.send(head + BODY[:500])
    assert hub.first_chunk() == first
    producer.send(BODY[500:] + b"\0")
    # A queued message is somebody else's concern.
    assert hub.first_chunk() == 0
    bench.turn()
    bench.writer.write()
    assert hub.first_chunk() == first
    hub.turn()
    assert first < hub.first_chunk() < first + 100
    bench.run()
    assert hub.first_chunk() == 0
    other = bench.connect(**SMALL)
    other.send(b"BEGIN\ntransaction:t\n\n\0")
    begun = hub.broker.lsn + 1
    other.send(head.replace(b"/a", b"/a\ntransaction:t") + BODY + b"\0")
    assert hub.first_chunk() == begun
    other.send(b"ABORT\ntransaction:t\n\n\0")
    assert hub.first_chunk() == 0


def test_browsing_says_how_long_a_body_is_and_shows_its_beginning() -> None:
    bench = Bench()
    producer = bench.connect(**SMALL)
    producer.message(b"beginning of a body")
    state = bench.hub.broker.state
    for shown in ("", "beginning "):
        page = at_once(views.browse(state, "a", beginning=bench.hub.beginning_of))
        assert isinstance(page, dict)
        (told,) = page["messages"]
        assert (told["body_bytes"], told["truncated"], told["body"]) == (19, True, shown)
        bench.run()
    page = at_once(views.browse(state, "a"))
    assert isinstance(page, dict)
    assert (page["messages"][0]["body"], page["messages"][0]["body_bytes"]) == ("", 19)


def test_a_sender_that_is_ahead_of_the_disk_is_paused() -> None:
    bench = Bench()
    producer = bench.connect(**SMALL)
    producer.send(b"SEND\ndestination:/queue/a\ncontent-length:1024\n\n")
    sent = 0
    while producer.transport.reading:
        producer.send(BODY[sent : sent + 10])
        bench.turn()
        sent += 10
    assert sent == 10 * LARGE_AHEAD_CHUNKS
    bench.run()
    assert vars(producer.transport)["reading"] is True
    producer.send(BODY[sent:] + b"\0")
    bench.run()
    assert bench.hub.status()["messages_ready"] == 1


@pytest.mark.parametrize("last", [b"DISCONNECT\nreceipt:2\n\n\0", b"BOGUS\nreceipt:2\n\n\0"])
def test_the_last_word_waits_for_the_body(last: bytes) -> None:
    bench, producer, consumer = pair()
    producer.message(BODY)
    bench.turn()
    bench.writer.write()
    bench.hub.turn()
    consumer.send(last)
    assert consumer.transport.closed_after_ms is None
    bench.run()
    output = consumer.transport.take()
    assert frames(output) == [BODY]
    assert b"receipt-id:2" in output.rpartition(BODY[-5:])[2]
    assert vars(consumer.transport)["closed_after_ms"] is not None


def test_the_end_does_not_wait_for_a_peer_that_takes_nothing() -> None:
    bench, producer, consumer = pair()
    producer.message(BODY)
    bench.turn()
    bench.writer.write()
    bench.hub.turn()
    consumer.transport.stuck = WRITE_HIGH_BYTES + 1
    consumer.send(b"BOGUS\n\n\0")
    bench.run()
    bench.hub.tick()
    assert consumer.transport.closed_after_ms is None
    consumer.transport.take()
    bench.now += STALL_US
    bench.hub.tick()
    bench.run()
    assert vars(consumer.transport)["closed_after_ms"] == StompOptions().die_delay_ms
    assert consumer.transport.take() == b""


def test_a_body_that_cannot_be_read_ends_the_connection_and_says_why() -> None:
    bench, producer, consumer = pair()
    producer.message(BODY)
    bench.turn()
    bench.writer.write()
    for name in bench.disk.names():
        bench.disk.remove(name)
    bench.hub.turn()
    assert consumer.transport.closed_after_ms == 0
    bench.turn()
    assert bench.hub.status()["messages_ready"] == 1
    assert bench.hub.status()["messages_withheld"] == 1
    details = [
        events.decode_detail(events.CONNECTION_CLOSED, detail)
        for batch in bench.writer.waiting
        for detail in batch.heaps[0]
    ]
    assert "cannot be read" in str(details)


def test_a_body_that_went_on_in_the_middle_waits_in_no_line() -> None:
    # The first piece asks for room at the address, later ones only whether there is a disk.
    bench, producer, _ = pair()
    producer.send(b"SEND\ndestination:/queue/a\ncontent-length:90\n\n" + b"x" * 30)
    bench.run()
    bench.hub.disk_full("no room")
    producer.send(b"x" * 30)
    bench.run()
    assert producer.peer.session.is_blocked
    bench.hub.disk_full("")
    bench.run()
    assert not producer.peer.session.is_blocked
    assert bench.hub.broker.room.waiting.addresses() == []
