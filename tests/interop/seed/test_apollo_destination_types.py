"""The seed's section "Destination Types", sentence by sentence, over a raw socket.

Durable subscriptions are in `test_apollo_topic_durable_subscriptions.py`. Shown elsewhere already:
"Topics replicate every message" by two client libraries, in
`test_clients.py::test_a_topic_reaches_all_and_only_those_who_subscribed`.
"""

from typing import Any

import pytest

from tests.interop.using import arrived, connected, sent
from tests.interop.wire import Wire
from tests.support.process import BrokerProcess

pytestmark = pytest.mark.interop


def subscribe(wire: Wire, destination: str, **headers: Any) -> None:
    wire.send("SUBSCRIBE", id="s", destination=destination, receipt="s", **headers)
    wire.expect("RECEIPT")


def bodies(wire: Wire) -> list[bytes]:
    return [frame.body for frame in arrived(wire)]


def test_a_queue_load_balances_its_messages(shared_broker: BrokerProcess) -> None:
    """Seed: "A queue will load balance it's messages ... so that only one subscriber gets"."""
    with connected(shared_broker) as one, connected(shared_broker) as other:
        for wire in (one, other):
            subscribe(wire, "/queue/balanced")
        with connected(shared_broker) as sender:
            for number in range(6):
                sent(sender, "/queue/balanced", b"%d" % number)
        assert (bodies(one), bodies(other)) == ([b"0", b"2", b"4"], [b"1", b"3", b"5"])


def test_a_topic_replicates_every_message(shared_broker: BrokerProcess) -> None:
    """Seed: "Topics replicate every message sent to it to all the connected subscribers"."""
    with connected(shared_broker) as one, connected(shared_broker) as other:
        for wire in (one, other):
            subscribe(wire, "/topic/replicated")
        with connected(shared_broker) as sender:
            for number in range(3):
                sent(sender, "/topic/replicated", b"%d" % number)
        assert bodies(one) == bodies(other) == [b"0", b"1", b"2"]


def test_a_queue_holds_on_to_messages_without_subscriptions(broker: BrokerProcess) -> None:
    """Seed: "Queues hold on to unconsumed messages even when there are no subscriptions", here over
    a kill, too, as messages are persistent unless they say otherwise."""
    with connected(broker) as sender:
        sent(sender, "/queue/held", b"kept")
    broker.kill()
    broker.start()
    with connected(broker) as client:
        subscribe(client, "/queue/held")
        assert bodies(client) == [b"kept"]


def test_a_topic_drops_messages_without_subscriptions(shared_broker: BrokerProcess) -> None:
    """Seed: "a topic will drop messages when there are no connected subscriptions"."""
    with connected(shared_broker) as client:
        sent(client, "/topic/dropped", b"before")
        subscribe(client, "/topic/dropped")
        sent(client, "/topic/other", b"")
        assert bodies(client) == []
        client.send("UNSUBSCRIBE", id="s", receipt="u")
        client.expect("RECEIPT")
        headers = {"receipt-outcome": "true"}
        client.send("SEND", b"", destination="/topic/dropped", receipt="r", **headers)
        assert client.expect("RECEIPT").headers["dropped"] == "no-binding"


@pytest.mark.parametrize("kind", ["queue", "topic", "dsub"])
def test_the_prefix_says_which_kind(shared_broker: BrokerProcess, kind: str) -> None:
    """Seed: "prefixed with /queue/, /topic/ or /dsub/ respectively", with one name for all."""
    with connected(shared_broker) as client:
        if kind == "dsub":
            client.send("SUBSCRIBE", id="kinds", destination="/topic/kinds", persistent="true")
            client.send("UNSUBSCRIBE", id="kinds")
        destination = f"/{kind}/kinds"
        subscribe(client, destination)
        sent(client, destination, b"hello")
        (message,) = arrived(client)
        assert message.headers["destination"] == destination
        assert message.body == b"hello"


@pytest.mark.parametrize("destination", ["/nothing/a", "/queue/", "/topic/", "/dsub/"])
def test_what_is_no_destination(shared_broker: BrokerProcess, destination: str) -> None:
    """A prefix without a name is an ERROR; any other word is part of a name."""
    with connected(shared_broker) as client:
        client.send("SEND", b"", destination=destination, receipt="r")
        found = client.read()
        assert found.command == ("RECEIPT" if destination == "/nothing/a" else "ERROR")


def test_the_example_of_the_manual(shared_broker: BrokerProcess) -> None:
    """Seed: "Example STOMP frame sending to a queue", byte by byte, without content-length."""
    with Wire(shared_broker.port) as client:
        client.write(b"CONNECT\n\n\0")
        client.expect("CONNECTED")
        client.write(b"SEND\ndestination:/queue/a\n\nhello queue a\n\0")
        client.write(b"SUBSCRIBE\ndestination:/queue/a\n\n\0")
        assert client.expect("MESSAGE").body == b"hello queue a\n"
