"""Subscriptions without the messages of their own connection, on a real broker."""

import pytest

from tests.interop.using import connected, daybook, sent
from tests.interop.wire import Wire
from tests.support.process import BrokerProcess

pytestmark = pytest.mark.interop


def subscribe(wire: Wire, destination: str, **headers: str) -> None:
    wire.send("SUBSCRIBE", id="s", destination=destination, receipt="s", **headers)
    wire.expect("RECEIPT")


@pytest.mark.parametrize("name", ["no-local", "noLocal", "activemq.noLocal"])
def test_a_topic(shared_broker: BrokerProcess, name: str) -> None:
    topic = f"/topic/news.{name}"
    with connected(shared_broker) as own, connected(shared_broker) as other:
        subscribe(own, topic, **{name: "true"})
        sent(own, topic, b"mine")
        sent(other, topic, b"theirs")
        assert own.expect("MESSAGE").body == b"theirs"


def test_the_receipt_says_why_nobody_got_it(shared_broker: BrokerProcess) -> None:
    with connected(shared_broker) as own:
        subscribe(own, "/topic/alone", no_local="true")
        own.send("SEND", b"mine", destination="/topic/alone", receipt="r", receipt_outcome="true")
        assert own.expect("RECEIPT").headers["dropped"] == "no-local"


def test_wildcards(shared_broker: BrokerProcess) -> None:
    with connected(shared_broker) as own, connected(shared_broker) as other:
        subscribe(own, "/topic/prices.#", no_local="true")
        sent(own, "/topic/prices.ibm", b"mine")
        sent(other, "/topic/prices.ibm", b"theirs")
        assert own.expect("MESSAGE").body == b"theirs"


def test_a_durable_subscription_goes_by_the_client_id_over_a_kill(broker: BrokerProcess) -> None:
    wanted = {"persistent": "true", "no_local": "true", "ack": "client-individual"}
    with Wire(broker.port) as own:
        own.connect(client_id="shop")
        subscribe(own, "/topic/news", **wanted)
    broker.kill()
    broker.start()
    with Wire(broker.port) as own, connected(broker) as other:
        own.connect(client_id="shop")
        sent(own, "/topic/news", b"mine")
        sent(other, "/topic/news", b"theirs")
        subscribe(own, "/topic/news", **wanted)
        assert own.expect("MESSAGE").body == b"theirs"
        sent(own, "/topic/news", b"mine again")
        sent(other, "/topic/news", b"theirs again")
        assert own.expect("MESSAGE").body == b"theirs again"
    assert '"messages": 2' in daybook(broker, "queue", "list", "--json")


@pytest.mark.parametrize(
    ("destination", "headers", "part"),
    [
        ("/queue/a", {}, "for subscriptions to topics"),
        ("/topic/a", {"persistent": "true"}, "connect with a client-id"),
    ],
)
def test_refused(
    shared_broker: BrokerProcess, destination: str, headers: dict[str, str], part: str
) -> None:
    with connected(shared_broker) as own:
        own.send("SUBSCRIBE", id="s", destination=destination, no_local="true", **headers)
        assert part in own.expect("ERROR").headers["message"]
