"""The same conversations with stomp.py, stompest, @stomp/stompjs and stompit, in the versions of
STOMP that they speak."""

from pathlib import Path
from typing import Any

import pytest
import stomp  # type: ignore[import-untyped]

from tests.interop.clients import QUIET_SECONDS, StompitClient, take
from tests.support.process import BrokerProcess, wait_for

# stompest leaves sockets open that could not connect.
pytestmark = [pytest.mark.interop, pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")]


def test_bodies_and_headers_arrive_as_they_were_sent(
    shared_broker: BrokerProcess, connect: Any, request: pytest.FixtureRequest
) -> None:
    client = connect(shared_broker)
    name = f"/queue/plain.{request.node.callspec.id}"
    client.subscribe(name, "1")
    texts = ["", "plain", "ünïcode ✓ 漢字", "lines\nand\r\nmore", "x" * 100_000]
    for number, text in enumerate(texts):
        client.send(name, text, receipt=f"r{number}", kind=f"k{number}")
    heard = [client.receive() for _ in range(2 * len(texts))]
    receipts = [frame for frame in heard if frame.command == "RECEIPT"]
    messages = [frame for frame in heard if frame.command == "MESSAGE"]
    assert [frame.headers["receipt-id"] for frame in receipts] == [f"r{n}" for n in range(5)]
    assert [frame.body for frame in messages] == texts
    assert [frame.headers["kind"] for frame in messages] == [f"k{n}" for n in range(5)]
    assert {frame.headers["destination"] for frame in messages} == {name}
    client.disconnect()


@pytest.mark.parametrize("ack", ["auto", "client", "client-individual"])
def test_what_was_not_acknowledged_comes_again(
    shared_broker: BrokerProcess, connect: Any, ack: str, request: pytest.FixtureRequest
) -> None:
    name = f"/queue/ack.{request.node.callspec.id}"
    client = connect(shared_broker)
    client.subscribe(name, "1", ack)
    for number in range(4):
        client.send(name, str(number))
    messages = [take(client) for _ in range(4)]
    if ack != "auto":
        client.settle("ack", messages[1])
    client.disconnect()
    again = connect(shared_broker)
    again.subscribe(name, "1")
    again.send(name, "end")
    bodies = []
    while (message := take(again)).body != "end":
        bodies.append(message.body)
    assert bodies == {"auto": [], "client": ["2", "3"], "client-individual": ["0", "2", "3"]}[ack]
    again.disconnect()


def test_a_nack_is_a_failed_attempt(
    shared_broker: BrokerProcess, connect: Any, request: pytest.FixtureRequest
) -> None:
    name = f"/queue/nack.{request.node.callspec.id}"
    client = connect(shared_broker)
    if client.version == "1.0":
        client.disconnect()
        pytest.skip("STOMP 1.0 has no NACK")
    client.subscribe(name, "1", "client-individual")
    client.send(name, "x")
    first = take(client)
    assert "redelivered" not in first.headers
    client.settle("nack", first)
    second = take(client)
    assert second.headers["redelivered"] == "true"
    assert second.headers["delivery-count"] == "2"
    client.settle("ack", second)
    client.disconnect()


def test_a_transaction_happens_whole_or_not_at_all(
    shared_broker: BrokerProcess, connect: Any, request: pytest.FixtureRequest
) -> None:
    name = f"/queue/tx.{request.node.callspec.id}"
    client = connect(shared_broker)
    client.send(name, "before")
    client.subscribe(name, "1", "client-individual")
    before = take(client)
    client.transact("begin", "t1")
    client.send(name, "aborted", transaction="t1")
    client.transact("abort", "t1")
    client.transact("begin", "t2")
    client.send(name, "one", transaction="t2")
    client.settle("ack", before, "t2")
    client.send(name, "two", transaction="t2")
    assert client.receive(QUIET_SECONDS) is None
    client.transact("commit", "t2", receipt="done")
    heard = [client.receive() for _ in range(3)]
    assert sorted(frame.command for frame in heard) == ["MESSAGE", "MESSAGE", "RECEIPT"]
    assert [frame.body for frame in heard if frame.command == "MESSAGE"] == ["one", "two"]
    client.disconnect()


def test_a_topic_reaches_all_and_only_those_who_subscribed(
    shared_broker: BrokerProcess, connect: Any, request: pytest.FixtureRequest
) -> None:
    name = f"/topic/news.{request.node.callspec.id}"
    first, second = connect(shared_broker), connect(shared_broker)
    first.send(name, "too early", receipt="sent")
    take(first, "RECEIPT")
    for client in (first, second):
        client.subscribe(name, "1", receipt="subscribed")
        take(client, "RECEIPT")
    first.send(name, "news")
    assert take(first).body == take(second).body == "news"
    first.disconnect()
    second.disconnect()


def test_a_fully_qualified_queue_is_consumed(
    shared_broker: BrokerProcess, connect: Any, request: pytest.FixtureRequest
) -> None:
    name = f"fqqn.{request.node.callspec.id}"
    client = connect(shared_broker)
    client.subscribe(f"{name}::{name}.q", "1")
    client.send(f"{name}::{name}.q", "x")
    assert take(client).body == "x"
    client.disconnect()


def test_an_error_carries_the_receipt_id(shared_broker: BrokerProcess, connect: Any) -> None:
    client = connect(shared_broker)
    if isinstance(client, StompitClient):
        pytest.skip("stompit shows no headers of an ERROR")
    client.send("/queue/a", "x", transaction="none", receipt="r")
    error = take(client, "ERROR")
    assert error.headers["receipt-id"] == "r"
    assert "none" in error.headers["message"]


def test_a_durable_subscription_outlives_connections_and_brokers(
    tmp_path: Path, connect: Any
) -> None:
    with BrokerProcess(tmp_path / "data") as broker:
        client = connect(broker.start())
        client.subscribe("/topic/events", "me", "client", persistent="true", receipt="s")
        take(client, "RECEIPT")
        client.send("/topic/events", "one")
        client.settle("ack", take(client))
        client.disconnect()
        producer = connect(broker)
        producer.send("/topic/events", "two", receipt="sent")
        take(producer, "RECEIPT")
        broker.kill()
        broker.start()
        producer = connect(broker)
        producer.send("/topic/events", "three", receipt="sent")
        take(producer, "RECEIPT")
        client = connect(broker)
        client.subscribe("/topic/events", "me", "client", persistent="true")
        second, third = take(client), take(client)
        assert (second.body, third.body) == ("two", "three")
        client.settle("ack", third)
        client.unsubscribe("me", persistent="true")
        client.disconnect()
        producer.send("/topic/events", "four", receipt="sent")
        take(producer, "RECEIPT")
        producer.disconnect()
        assert broker.stop() == 0


def test_heart_beats_keep_a_silent_connection_alive(broker: BrokerProcess) -> None:
    connection = stomp.StompConnection12([("127.0.0.1", broker.port)], heartbeats=(1000, 1000))
    beats: list[str] = []

    class Listener(stomp.ConnectionListener):  # type: ignore[misc]
        def on_heartbeat(self) -> None:
            beats.append("heard")

        def on_heartbeat_timeout(self) -> None:
            beats.append("timeout")

    connection.set_listener("", Listener())
    connection.connect("guest", "guest", wait=True)
    wait_for(lambda: beats.count("heard") >= 2 or "timeout" in beats, "heart-beats")
    assert connection.is_connected()
    assert "timeout" not in beats
    connection.disconnect(receipt="bye")
