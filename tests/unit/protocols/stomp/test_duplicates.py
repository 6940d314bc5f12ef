"""Duplicates over STOMP, on the real engine: the answers to repeated messages."""

import pytest

from daybook.engine.facts.events import DROPPED, KIND
from daybook.engine.facts.rows import unpack_wide
from tests.unit.protocols.stomp.exchange import Client, Exchange

SEND = "SEND\ndestination:/queue/q\n_AMQ_DUPL_ID:{}\nreceipt:{}"


def kinds(exchange: Exchange) -> list[int]:
    """Kinds of the events since the last look."""
    batch = exchange.broker.take()
    return [unpack_wide(row)[0][KIND] for row in batch.rows] if batch is not None else []


def test_a_message_that_comes_again_is_receipted_and_dropped() -> None:
    exchange = Exchange()
    client = exchange.client()
    client.send(SEND.format("a", "1"), b"x")
    kinds(exchange)
    assert client.send(SEND.format("a", "2"), b"y") == [b"RECEIPT\nreceipt-id:2\n\n"]
    assert kinds(exchange) == [DROPPED]
    assert client.gate == exchange.broker.lsn
    assert exchange.broker.state.queue_by_name["q"].message_count == 1


def test_frames_that_come_together_are_told_apart_like_others() -> None:
    """Of one connection they are read in a run, of the other frame by frame."""
    exchange = Exchange()
    one, two = exchange.client(), exchange.client()
    frames = [(SEND.format(number % 3, number) + "\n\nx\0").encode() for number in range(9)]
    together = one.send_raw(b"".join(frames))
    assert exchange.broker.state.queue_by_name["q"].message_count == 3
    for frame in frames:
        for position in range(len(frame)):
            two.session.receive(frame[position : position + 1], 1)
    assert two.read() == together
    assert exchange.broker.state.queue_by_name["q"].message_count == 3


def commit(client: Client, duplicate_id: str) -> list[bytes]:
    client.send("BEGIN\ntransaction:t")
    client.send(SEND.format(duplicate_id, "s") + "\ntransaction:t")
    client.send("SEND\ndestination:/queue/q\ntransaction:t")
    return client.send("COMMIT\ntransaction:t\nreceipt:c")


@pytest.mark.parametrize("version", ["1.0", "1.1", "1.2"])
def test_a_transaction_that_comes_again_is_refused_with_a_code(version: str) -> None:
    exchange = Exchange()
    assert commit(exchange.client(version), "a") == [b"RECEIPT\nreceipt-id:c\n\n"]
    client = exchange.client(version)
    (error,) = commit(client, "a")
    head, _, body = error.partition(b"\n\n")
    assert head.startswith(b"ERROR\nmessage:transaction 't' is a duplicate")
    assert {b"receipt-id:c", b"code:duplicate-id"} <= set(head.split(b"\n"))
    assert b"nothing of this transaction was kept; if this repeats a transaction" in body
    assert client.session.closing
    assert exchange.broker.state.queue_by_name["q"].message_count == 2


def test_the_error_waits_for_what_it_speaks_of() -> None:
    """It says that the first one is there, which nobody may say before it is written."""
    exchange = Exchange()
    commit(exchange.client(), "a")
    client = exchange.client()
    commit(client, "a")
    assert client.gate == exchange.broker.lsn


def test_the_error_waits_although_the_end_of_its_connection_takes_longer() -> None:
    """Its subscriptions are detached in later turns."""
    exchange = Exchange()
    commit(exchange.client(), "a")
    client = exchange.client()
    for number in range(200):
        client.send(f"SUBSCRIBE\nid:{number}\ndestination:/queue/s{number}")
    client.send("BEGIN\ntransaction:t")
    client.send(SEND.format("a", "s") + "\ntransaction:t")
    exchange.broker.budget.allow(5)
    (error,) = client.send("COMMIT\ntransaction:t")
    assert b"code:duplicate-id" in error
    assert exchange.broker.work.closing, "the connection has not ended yet"
    assert client.gate >= exchange.broker.lsn


def test_other_errors_have_no_code_and_wait_for_nothing() -> None:
    client = Exchange().client()
    (error,) = client.send("COMMIT\ntransaction:t")
    assert error.startswith(b"ERROR\n")
    assert b"\ncode:" not in error
    assert client.gate == 0
