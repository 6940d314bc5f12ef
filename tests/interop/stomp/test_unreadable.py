"""Bodies that cannot be read back: nobody else pays for them, and they are said to be there."""

import random
import signal
from pathlib import Path

import pytest

from daybook.client.control import ask
from tests.interop.history.test_retention import (
    SETTINGS,
    leave,
    next_large,
    send,
    send_large,
    status,
)
from tests.interop.wire import Closed, Wire
from tests.support.process import BrokerProcess, wait_for

pytestmark = pytest.mark.interop

LARGE_FROM = "acceptor.min-large-message-size=1KiB"
ONE_ATTEMPT = """
[[address-setting]]
match = "#"
max-delivery-attempts = 1
dead-letter-address = "dead"
"""


def spoil(data: Path, body: bytes) -> None:
    """Flip a bit in the journal, in the middle of a body."""
    piece = body[3000:3064]
    for segment in (data / "journal").glob("*.seg"):
        found = segment.read_bytes().find(piece)
        if found >= 0:
            with segment.open("r+b") as file:
                file.seek(found)
                file.write(bytes([piece[0] ^ 1]))
            return
    raise AssertionError("the body is not in the journal as it is")


def subscribe(consumer: Wire) -> None:
    consumer.connect()
    consumer.send("SUBSCRIBE", destination="/queue/q", id="1", ack="client-individual")


def test_nobody_else_pays_for_a_body_that_cannot_be_read(tmp_path: Path) -> None:
    body = random.Random(1).randbytes(20_000)
    with BrokerProcess(tmp_path / "data", settings=[LARGE_FROM], config=ONE_ATTEMPT) as broker:
        broker.start()
        send_large(broker, "q", body)
        for number in range(3):
            send_large(broker, "q", f"small {number}".encode())
        spoil(broker.data, body)
        with Wire(broker.port) as consumer:
            subscribe(consumer)
            with pytest.raises(Closed):
                consumer.expect("MESSAGE")
        for _ in range(2):
            with Wire(broker.port) as consumer:
                subscribe(consumer)
                found = [consumer.expect("MESSAGE") for _ in range(3)]
                assert [each.body for each in found] == [b"small 0", b"small 1", b"small 2"]
                # They may have been on their way, and were not attempted.
                assert {each.headers["redelivered"] for each in found} == {"true"}
                assert {each.headers.get("delivery-count", "1") for each in found} <= {"0", "1"}
                consumer.send("DISCONNECT", receipt="end")
                consumer.expect("RECEIPT")
        (queue,) = (ask(broker.data, {"do": "queues"}) or {})["queues"]
        assert (queue["queue"], queue["messages"], queue["withheld"]) == ("q", 4, 1)
        assert status(broker)["messages_withheld"] == 1
        assert broker.log_text().count("cannot be read") == 1
        assert "it stays in queue 'q' and is not delivered" in broker.log_text()
        assert broker.stop() == 0


def test_a_large_message_that_is_not_persistent_is_carried_too(tmp_path: Path) -> None:
    body = random.Random(1).randbytes(20_000)
    settings = [*SETTINGS, LARGE_FROM]
    with BrokerProcess(tmp_path / "data", settings=settings) as broker:
        broker.start()
        with Wire(broker.port) as producer:
            producer.connect()
            producer.send("SEND", body, destination="/queue/q", persistent="false", receipt="1")
            producer.expect("RECEIPT")
        send(broker, "later", 0, 60)
        broker.configure("[journal]\nretention-max-age = 200\n")
        broker.send_signal(signal.SIGHUP)
        leave(broker)
        wait_for(lambda: status(broker)["retention_carried_messages"] > 1, "what is carried")
        with Wire(broker.port) as consumer:
            assert next_large(consumer, "q").body == body
        assert status(broker)["retention_trouble"] == ""
