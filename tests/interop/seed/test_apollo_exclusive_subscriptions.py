"""The seed's section "Exclusive Subscriptions", sentence by sentence, over a raw socket.

Shown elsewhere already:

| sentence | test in `test_consumer_rules.py` |
|---|---|
| "created by adding a exclusive:true header" | `test_an_exclusive_subscription_fails_over` |
| the same for a queue that is exclusive itself | `test_an_exclusive_queue_fails_over` |
"""

import pytest

from tests.interop.using import arrived, connected, sent
from tests.interop.wire import Wire
from tests.support.process import BrokerProcess

pytestmark = pytest.mark.interop

QUEUE = "/queue/foo"


def subscribe(wire: Wire, queue: str = QUEUE, **headers: str) -> None:
    headers = {"ack": "client-individual", **headers}
    wire.send("SUBSCRIBE", id="mysub", destination=queue, receipt="s", **headers)
    wire.expect("RECEIPT")


def put(wire: Wire, *bodies: str, queue: str = QUEUE) -> None:
    for body in bodies:
        sent(wire, queue, body.encode())


def taken(wire: Wire) -> list[str]:
    """Acknowledge the messages that were delivered by now, and return them."""
    found = arrived(wire)
    for frame in found:
        wire.send("ACK", id=frame.headers["ack"])
    return [frame.body.decode() for frame in found]


def test_messages_are_dispatched_in_order(broker: BrokerProcess) -> None:
    """Seed: "We maintain the order of messages in queues and dispatch them ... in order."."""
    bodies = [str(number) for number in range(50)]
    with connected(broker) as client:
        put(client, *bodies)
        subscribe(client)
        assert taken(client) == bodies


def test_several_subscriptions_share_the_messages(broker: BrokerProcess) -> None:
    """Seed: "the messages may be processed concurrently on different subscribers"."""
    with connected(broker) as one, connected(broker) as other, connected(broker) as client:
        subscribe(one)
        subscribe(other)
        put(client, *"123456")
        assert (taken(one), taken(other)) == (["1", "3", "5"], ["2", "4", "6"])


def test_one_subscription_gets_all_the_messages(broker: BrokerProcess) -> None:
    """Seed: "The broker will pick a single subscription to get all the messages for a queue"."""
    with connected(broker) as usual, connected(broker) as one, connected(broker) as other:
        subscribe(usual)
        for wire in (one, other):
            subscribe(wire, exclusive="true")
        with connected(broker) as client:
            put(client, *"123456")
        assert taken(one) == list("123456")
        assert taken(other) == taken(usual) == []


@pytest.mark.parametrize("failure", ["DISCONNECT", "UNSUBSCRIBE", "lost"])
def test_the_broker_fails_over_to_another_one(broker: BrokerProcess, failure: str) -> None:
    """Seed: "If that subscription fails, the broker will auto failover and choose another"."""
    with connected(broker) as one, connected(broker) as other, connected(broker) as client:
        for wire in (one, other):
            subscribe(wire, exclusive="true")
        put(client, *"123")
        frames = arrived(one)
        one.send("ACK", id=frames[0].headers["ack"], receipt="a")
        one.expect("RECEIPT")
        put(client, *"45")
        if failure == "lost":
            one.close()
        else:
            headers = {"id": "mysub"} if failure == "UNSUBSCRIBE" else {}
            one.send(failure, receipt="bye", **headers)
            while one.read().command != "RECEIPT":
                pass
        # In order, with what the first one did not acknowledge.
        found = [other.expect("MESSAGE") for _ in range(4)]
        assert [frame.body for frame in found] == [b"2", b"3", b"4", b"5"]
        assert [frame.headers.get("redelivered") for frame in found] == ["true"] * 4


def test_one_without_credit_keeps_the_order_and_the_others_wait(broker: BrokerProcess) -> None:
    """Seed: "to guarantee the order in which messages are processed": nobody else gets any."""
    with connected(broker) as one, connected(broker) as usual, connected(broker) as client:
        subscribe(one, exclusive="true", credit="1,0")
        subscribe(usual)
        put(client, *"123")
        for body in "123":
            assert arrived(usual) == []
            assert taken(one) == [body]


def test_it_holds_for_durable_subscriptions(broker: BrokerProcess) -> None:
    """A durable subscription is backed by a queue, which several connections share."""
    with connected(broker) as one, connected(broker) as other, connected(broker) as client:
        for wire in (one, other):
            subscribe(wire, "/topic/foo", persistent="true", exclusive="true")
        put(client, *"123", queue="/topic/foo")
        assert (taken(one), taken(other)) == (["1", "2", "3"], [])
