"""Large messages: chunks come first, a message they become by the Routed that lists them."""

from collections.abc import Callable

import pytest

from daybook.engine.commands import Attach, ChangeSettings, Chunk, ExpireDue, Send
from daybook.engine.facts import events
from daybook.engine.facts.definitions import MULTICAST
from daybook.engine.messages.message import MESSAGE_OVERHEAD_BYTES, Message
from daybook.engine.refusals import Code, Refusal
from daybook.engine.state.digest import digest
from tests.support.topology import create_queue
from tests.support.world import World

PIECES = (b"a" * 10, b"b" * 10, b"c" * 3)
BODY = b"".join(PIECES)


def message_in(world: World, queue: str) -> Message:
    (entry,) = world.queue(queue).entries.values()
    return entry.message


def test_chunks_change_nothing(world: World) -> None:
    connection = world.connect()
    before = digest(world.state)
    lsn = 0
    for piece in PIECES:
        lsn = world.ok(Chunk(Send(connection, "q", b"", b""), piece, lsn))
    assert digest(world.state) == before
    chunks = world.events_named("ChunkReceived")
    assert [chunk.body for chunk in chunks] == list(PIECES)
    assert [chunk.row[events.RELATED] for chunk in chunks] == [0, chunks[0].lsn, chunks[1].lsn]
    assert {chunk.row[events.CONNECTION] for chunk in chunks} == {connection}


def test_the_message_refers_to_its_chunks(world: World) -> None:
    lsn = world.send_large("q", PIECES, headers={"a": "b"})
    message = message_in(world, "q")
    assert message.id == lsn
    assert message.flags == events.PERSISTENT | events.LARGE
    assert message.body == b""
    assert message.body_bytes == len(BODY)
    assert message.size == len(b"a:b\n") + len(BODY) + MESSAGE_OVERHEAD_BYTES
    assert world.large_body(message) == BODY
    assert world.queue("q").bytes == message.size


def test_a_restart_knows_the_chunks(world: World) -> None:
    world.send_large("q", PIECES)
    before = message_in(world, "q")
    world.restart()
    after = message_in(world, "q")
    assert (after.chunks, after.size, after.flags) == (before.chunks, before.size, before.flags)
    assert world.large_body(after) == BODY


def test_others_may_come_between_chunks(world: World) -> None:
    command = Send(world.connect(), "q", b"", b"")
    lsn = 0
    for piece in PIECES:
        lsn = world.ok(Chunk(command, piece, lsn))
        command.chunks += (lsn,)
        world.send("other", b"x")
    command.body_bytes = len(BODY)
    world.ok(command)
    assert world.large_body(message_in(world, "q")) == BODY
    world.restart()
    assert world.large_body(message_in(world, "q")) == BODY


def test_the_first_chunk_is_refused_if_the_send_would_be(world: World) -> None:
    world.ok(ChangeSettings({"#": {"auto-create-queues": False}}))
    refused = world.refused(Chunk(Send(0, "nowhere", b"", b""), b"x"))
    assert refused.code is Code.NOT_FOUND
    connection = world.connect()
    no_transaction = Send(connection, "q", b"", b"", transaction="t")
    assert "no open transaction" in world.refused(Chunk(no_transaction, b"x")).text


def test_a_full_disk_takes_no_chunks(world: World) -> None:
    world.broker.report_disk("the disk is full")
    refused = world.refused(Chunk(Send(0, "q", b"", b""), b"x", 7))
    assert refused == Refusal(Code.BLOCKED, "the disk is full")


def test_all_queues_of_a_multicast_address_share_the_chunks(world: World) -> None:
    for name in ("one", "two"):
        world.ok(create_queue(name, "news", MULTICAST))
    world.send_large("news", PIECES, routing_type=MULTICAST)
    assert message_in(world, "one") is message_in(world, "two")
    assert len(world.events_named("ChunkReceived")) == len(PIECES)
    assert world.large_body(message_in(world, "two")) == BODY


def test_what_nobody_wants_is_dropped(world: World) -> None:
    world.send_large("news", PIECES, routing_type=MULTICAST)
    (dropped,) = world.events_named("Dropped")
    assert dropped.row[events.FLAGS] == events.PERSISTENT | events.LARGE


def test_a_delivery_counts_the_whole_body(world: World) -> None:
    connection = world.connect()
    consumer = world.ok(
        Attach(connection, "q", credit_messages=0, credit_bytes=1, acknowledges=True)
    )
    lsn = world.send_large("q", PIECES)
    state = world.state.consumers[consumer]
    assert state.credit_bytes == 1 - len(BODY)
    world.ack(consumer, lsn)
    assert state.credit_bytes == 1
    assert not world.queue("q").entries


def test_a_dead_letter_refers_to_the_same_chunks(world: World) -> None:
    world.settings(all={"max_delivery_attempts": 1, "dead_letter_address": "dead"})
    lsn = world.send_large("q", PIECES, headers={"a": "b"})
    chunks = message_in(world, "q").chunks
    consumer = world.attach(world.connect(), "q")
    world.nack(consumer, lsn)
    copy = message_in(world, "dead")
    assert copy.chunks == chunks
    assert copy.body_bytes == len(BODY)
    assert b"_AMQ_ORIG_QUEUE:q\n" in copy.headers
    assert len(world.events_named("ChunkReceived")) == len(PIECES)
    world.restart()
    assert world.large_body(message_in(world, "dead")) == BODY


def test_an_expired_one_too(world: World) -> None:
    world.settings(all={"expiry_address": "late"})
    world.send_large("q", PIECES, expires=world.now // 1000 + 10)
    world.sleep(1)
    world.ok(ExpireDue())
    copy = message_in(world, "late")
    assert world.large_body(copy) == BODY
    assert copy.expires == 0


@pytest.mark.parametrize("mode", ["decisions", "full"])
def test_chunks_of_what_is_not_persistent_are_journaled(world: World, mode: str) -> None:
    world.ok(ChangeSettings({}, mode))
    assert world.send_large("q", PIECES, persistent=False, headers={"a": "b"}) == 0
    message = message_in(world, "q")
    assert message.headers == b"a:b\n"
    assert message.flags & events.LARGE
    assert world.large_body(message) == BODY
    world.restart()
    assert not world.queue("q").message_count


def test_chunks_precede_the_commit(world: World) -> None:
    connection = world.connect()
    world.begin(connection)
    world.send_large("q", PIECES, connection, transaction="t")
    assert "q" not in world.state.queue_by_name
    world.commit(connection)
    assert world.large_body(message_in(world, "q")) == BODY
    (committed,) = world.events_named("TransactionCommitted")
    assert committed.decoded.first > max(message_in(world, "q").chunks)


def test_after_an_abort_the_chunks_are_history(world: World) -> None:
    connection = world.connect()
    world.begin(connection)
    world.send_large("q", PIECES, connection, transaction="t")
    world.abort(connection)
    assert "q" not in world.state.queue_by_name
    assert len(world.events_named("ChunkReceived")) == len(PIECES)


def test_a_transaction_weighs_the_list_of_chunks(worlds: Callable[..., World]) -> None:
    world = worlds(max_transaction_bytes=MESSAGE_OVERHEAD_BYTES + 150)
    connection = world.connect()
    world.begin(connection)
    world.send_large("q", [b"x" * 10_000, b"y" * 10_000], connection, transaction="t")
    command = Send(connection, "q", b"", b"", transaction="t", chunks=(5,), body_bytes=1)
    assert "max-transaction-bytes" in world.refused(command).text
