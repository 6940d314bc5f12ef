"""consumers-before-dispatch, delay-before-dispatch and purge-on-no-consumers on a real broker."""

import time
from typing import Any

import pytest

from tests.interop.using import daybook, journal, queues
from tests.interop.wire import Wire
from tests.support.process import BrokerProcess, wait_for

pytestmark = pytest.mark.interop


def figures(broker: BrokerProcess) -> dict[str, Any]:
    found = queues(broker).values()
    (row,) = [row for row in found if row["queue"] == "jobs"]
    return row


def told(broker: BrokerProcess, kind: str) -> str:
    return journal(broker, "inspect", "--kind", kind)


def send(wire: Wire, *bodies: bytes) -> None:
    wire.connect()
    for body in bodies:
        wire.send("SEND", body, destination="/queue/jobs", receipt="r")
        wire.expect("RECEIPT")


def subscribe(wire: Wire, **headers: str) -> None:
    wire.connect()
    headers = {"ack": "client-individual", "credit": "1,0", **headers}
    wire.send("SUBSCRIBE", id="s", destination="/queue/jobs", receipt="s", **headers)
    wire.expect("RECEIPT")


def test_a_queue_waits_for_its_consumers(broker: BrokerProcess) -> None:
    daybook(broker, "queue", "create", "jobs", "--consumers-before-dispatch", "2")
    with Wire(broker.port) as producer, Wire(broker.port) as first, Wire(broker.port) as second:
        send(producer, b"0", b"1")
        subscribe(first)
        assert figures(broker)["waits_for_consumers"]
        subscribe(second)
        assert (first.expect("MESSAGE").body, second.expect("MESSAGE").body) == (b"0", b"1")
        assert not figures(broker)["waits_for_consumers"]
    why = "as many consumers are attached"
    wait_for(lambda: why in told(broker, "DispatchStarted"), "the journal")


@pytest.mark.parametrize("is_killed", [False, True])
def test_a_delay_ends_by_itself(broker: BrokerProcess, is_killed: bool) -> None:
    daybook(
        broker, "queue", "create", "jobs", "--consumers-before-dispatch", "3",
        "--delay-before-dispatch", "1500",
    )  # fmt: skip
    with Wire(broker.port) as wire:
        send(wire, b"x")
    if is_killed:
        with Wire(broker.port) as wire:
            subscribe(wire)
            broker.kill()
        broker.start()
    with Wire(broker.port) as wire:
        begun = time.monotonic()
        subscribe(wire)
        # Nothing happens but time.
        assert wire.expect("MESSAGE").body == b"x"
        assert time.monotonic() - begun >= 1.5
    why = "the first consumer has waited long enough"
    wait_for(lambda: why in told(broker, "DispatchStarted"), "the journal")


def test_default_settings(broker: BrokerProcess) -> None:
    broker.stop()
    broker.configure(
        '[[address-setting]]\nmatch = "jobs"\ndefault-consumers-before-dispatch = 2\n'
        'default-delay-before-dispatch = "1s"\n'
        '[[address-setting]]\nmatch = "news"\ndefault-purge-on-no-consumers = true\n'
        "default-consumers-before-dispatch = 2\n"
    )
    broker.start()
    with Wire(broker.port) as producer, Wire(broker.port) as wire:
        send(producer, b"x")
        begun = time.monotonic()
        subscribe(wire)
        assert wire.expect("MESSAGE").body == b"x"
        assert time.monotonic() - begun >= 1
        wire.send("SUBSCRIBE", id="t", destination="/topic/news", receipt="t")
        wire.expect("RECEIPT")
        producer.send("SEND", b"y", destination="/topic/news")
        # The queue of a subscription waits for nobody.
        assert wire.expect("MESSAGE").body == b"y"


def test_messages_only_for_those_who_are_there(broker: BrokerProcess) -> None:
    daybook(broker, "queue", "create", "jobs", "--purge-on-no-consumers")
    with Wire(broker.port) as producer:
        producer.connect()
        producer.send("SEND", b"x", destination="/queue/jobs", receipt="r", receipt_outcome="true")
        assert producer.expect("RECEIPT").headers["dropped"] == "no-consumers"
        with Wire(broker.port) as wire:
            subscribe(wire)
            for body in (b"0", b"1", b"2"):
                producer.send("SEND", body, destination="/queue/jobs", receipt="r")
                producer.expect("RECEIPT")
            assert wire.expect("MESSAGE").body == b"0"
            assert figures(broker)["messages"] == 3
        wait_for(lambda: figures(broker)["messages"] == 0, "the purge")
        why = "only while it has consumers"
        wait_for(lambda: told(broker, "Removed").count(why) == 3, "the journal")
        with Wire(broker.port) as wire:
            subscribe(wire)
            producer.send("SEND", b"y", destination="/queue/jobs", receipt="r")
            producer.expect("RECEIPT")
            broker.kill()
    broker.start()
    assert figures(broker)["messages"] == 0
