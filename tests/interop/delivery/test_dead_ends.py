"""Queues that a real broker creates for what could not be delivered, expired, or found no queue."""

from pathlib import Path

import pytest

from tests.interop.using import connected, sent
from tests.interop.wire import Frame, Wire
from tests.support.process import BrokerProcess

pytestmark = pytest.mark.interop

CONFIG = """
message-expiry-scan-period = 100

[[address-setting]]
match = "#"
max-delivery-attempts = 1
dead-letter-address = "DLA"
auto-create-dead-letter-resources = true
expiry-address = "expiryAddress"
auto-create-expiry-resources = true
expiry-queue-prefix = ""
expiry-queue-suffix = ".EXP"
send-to-dla-on-no-route = true
"""


def rejected(wire: Wire, destination: str, body: bytes) -> str:
    """Send a message and fail with it; return its id."""
    sent(wire, destination, body)
    wire.send("SUBSCRIBE", id="s", destination=destination, ack="client-individual")
    message = wire.expect("MESSAGE")
    wire.send("NACK", id=message.headers["ack"], receipt="n")
    wire.expect("RECEIPT")
    wire.send("UNSUBSCRIBE", id="s", receipt="u")
    wire.expect("RECEIPT")
    return message.headers["message-id"]


def taken(wire: Wire, destination: str) -> Frame:
    wire.send("SUBSCRIBE", id="t", destination=destination, ack="auto")
    message = wire.expect("MESSAGE")
    wire.send("UNSUBSCRIBE", id="t", receipt="u")
    wire.expect("RECEIPT")
    return message


def test_stocks_and_orders_have_queues_of_their_own_over_a_kill(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data", config=CONFIG) as broker:
        with connected(broker.start()) as wire:
            number = rejected(wire, "/queue/stocks", b"stock")
            rejected(wire, "/queue/orders", b"order")
            rejected(wire, "/queue/it's", b"quoted")
        broker.kill()
        broker.start()
        with connected(broker) as wire:
            dead = taken(wire, "/queue/DLA::DLQ.stocks")
            assert dead.body == b"stock"
            assert dead.headers["_AMQ_ORIG_ADDRESS"] == "stocks"
            assert dead.headers["_AMQ_ORIG_QUEUE"] == "stocks"
            assert dead.headers["_AMQ_ORIG_MESSAGE_ID"] == number
            assert dead.headers["_AMQ_ORIG_ROUTING_TYPE"] == "0"
            assert taken(wire, "/queue/DLA::DLQ.orders").body == b"order"
            assert taken(wire, "/queue/DLA::DLQ.it's").body == b"quoted"


def test_expired_messages_go_to_the_queue_of_their_address(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data", config=CONFIG) as broker, connected(broker.start()) as w:
        sent(w, "/queue/stocks", b"old", expires="1000")
        w.send("SUBSCRIBE", id="s", destination="/queue/stocks", ack="auto", receipt="s")
        w.expect("RECEIPT")
        expired = taken(w, "/queue/expiryAddress::stocks.EXP")
        assert expired.body == b"old"
        assert expired.headers["_AMQ_ORIG_ADDRESS"] == "stocks"
        assert int(expired.headers["_AMQ_ACTUAL_EXPIRY"]) > 1000


def test_what_no_queue_takes_is_a_dead_letter(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data", config=CONFIG) as broker, connected(broker.start()) as w:
        sent(w, "/topic/news", b"to nobody")
        dead = taken(w, "/queue/DLA::DLQ.news")
        assert dead.body == b"to nobody"
        assert dead.headers["_AMQ_ORIG_ADDRESS"] == "news"
        assert dead.headers["_AMQ_ORIG_QUEUE"] == ""
        assert dead.headers["_AMQ_ORIG_ROUTING_TYPE"] == "1"


DIVERTED = """
[[divert]]
name = "tell"
address = "DLA"
forwarding-addresses = ["told"]
exclusive = true
filter = "_AMQ_ORIG_QUEUE = ''"
"""


def test_what_no_queue_takes_passes_the_diverts_there(tmp_path: Path) -> None:
    with (
        BrokerProcess(tmp_path / "data", config=CONFIG + DIVERTED) as broker,
        connected(broker.start()) as w,
    ):
        sent(w, "/topic/news", b"to nobody")
        told = taken(w, "/queue/told")
        assert told.body == b"to nobody"
        assert (told.headers["_AMQ_ORIG_ADDRESS"], told.headers["_AMQ_ORIG_QUEUE"]) == (
            "DLA",
            "tell",
        )
        rejected(w, "/queue/stocks", b"stock")
        assert taken(w, "/queue/DLA::DLQ.stocks").body == b"stock"


def test_a_stranger_cannot_take_the_name(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data", config=CONFIG) as broker, connected(broker.start()) as w:
        w.send("SEND", b"bait", destination="/queue/DLQ.stocks", receipt="r")
        error = w.expect("ERROR")
        assert b"the name is kept for messages that cannot be delivered" in error.body
