"""Exclusive queues and priorities of consumers on a real broker."""

import pytest

from tests.interop.using import daybook
from tests.interop.wire import Wire
from tests.support.process import BrokerProcess

pytestmark = pytest.mark.interop


def subscribe(wire: Wire, **headers: str) -> None:
    wire.connect()
    headers = {"ack": "client-individual", "destination": "/queue/jobs", **headers}
    wire.send("SUBSCRIBE", id="s", receipt="s", **headers)
    wire.expect("RECEIPT")


def send(wire: Wire, count: int) -> None:
    wire.connect()
    for number in range(count):
        wire.send("SEND", b"%d" % number, destination="/queue/jobs", receipt="r")
        wire.expect("RECEIPT")


def test_an_exclusive_queue_fails_over(broker: BrokerProcess) -> None:
    daybook(broker, "queue", "create", "jobs", "--exclusive")
    broker.kill()
    broker.start()
    with Wire(broker.port) as producer, Wire(broker.port) as second:
        first = Wire(broker.port)
        subscribe(first)
        subscribe(second)
        send(producer, 4)
        got = [first.expect("MESSAGE") for _ in range(4)]
        first.send("ACK", id=got[0].headers["ack"], receipt="a")
        first.expect("RECEIPT")
        first.close()
        rest = [second.expect("MESSAGE") for _ in range(3)]
        assert [frame.body for frame in rest] == [b"1", b"2", b"3"]
        assert all(frame.headers["redelivered"] == "true" for frame in rest)


@pytest.mark.parametrize("header", ["exclusive", "activemq.exclusive"])
def test_an_exclusive_subscription_fails_over(broker: BrokerProcess, header: str) -> None:
    """Seed, "Exclusive Subscriptions": one subscription gets all messages, then another one."""
    with Wire(broker.port) as producer, Wire(broker.port) as usual, Wire(broker.port) as second:
        first = Wire(broker.port)
        subscribe(usual)
        subscribe(first, **{header: "true"})
        subscribe(second, **{header: "true"})
        send(producer, 4)
        got = [first.expect("MESSAGE") for _ in range(4)]
        first.send("ACK", id=got[0].headers["ack"], receipt="a")
        first.expect("RECEIPT")
        first.close()
        rest = [second.expect("MESSAGE") for _ in range(3)]
        assert [frame.body for frame in rest] == [b"1", b"2", b"3"]
        second.send("UNSUBSCRIBE", id="s", receipt="u")
        second.expect("RECEIPT")
        assert [usual.expect("MESSAGE").body for _ in range(3)] == [b"1", b"2", b"3"]


def test_a_higher_priority_is_served_first(broker: BrokerProcess) -> None:
    with Wire(broker.port) as low, Wire(broker.port) as high, Wire(broker.port) as producer:
        subscribe(low)
        subscribe(high, priority="5", credit="3,0")
        send(producer, 5)
        assert [high.expect("MESSAGE").body for _ in range(3)] == [b"0", b"1", b"2"]
        assert [low.expect("MESSAGE").body for _ in range(2)] == [b"3", b"4"]
