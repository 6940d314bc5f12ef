"""Apollo's manual, "Topic Retained Messages": a test for each sentence, and for what we add to it.

Where Daybook differs on purpose the docstring says why.
"""

import subprocess
import threading
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.interop.using import connected, daybook, rows, sent
from tests.interop.wire import Frame, Wire
from tests.support.process import BrokerProcess, wait_for

pytestmark = pytest.mark.interop

TOPIC = "/topic/stock/IBM"
QUEUE = "$.artemis.internal.retained"


def subscribe(wire: Wire, destination: str = TOPIC, **headers: str) -> None:
    wire.send("SUBSCRIBE", id="s", destination=destination, receipt="s", **headers)
    wire.expect("RECEIPT")


def publish(broker: BrokerProcess, body: bytes, destination: str = TOPIC, **headers: str) -> None:
    with connected(broker) as wire:
        sent(wire, destination, body, **headers)


def gets(broker: BrokerProcess, expected: list[bytes], **headers: str) -> list[Frame]:
    """A new subscription gets exactly these before what is sent next."""
    destination = headers.pop("destination", TOPIC)
    to = headers.pop("to", destination)
    with connected(broker) as wire:
        subscribe(wire, destination, **headers)
        publish(broker, b"next", to, kind="next")
        frames = [wire.expect("MESSAGE") for _ in range(len(expected) + 1)]
    assert [frame.body for frame in frames] == [*expected, b"next"]
    return frames[:-1]


def retained(broker: BrokerProcess, name: str = "stock/IBM") -> int | None:
    # An address without it may be deleted by now, because nobody uses it.
    found = rows(broker, "address").get(name)
    return None if found is None else found["retained"]


# ---- the sentences


def test_a_new_subscription_is_sent_the_message_with_retain_set(broker: BrokerProcess) -> None:
    """ "If a message sent to a Topic has the retain:set header ... the last retained message is
    sent to the subscription" """
    publish(broker, b"old", retain="set")
    publish(broker, b"112.12", retain="set")
    publish(broker, b"not this one")
    (frame,) = gets(broker, [b"112.12"])
    assert (frame.headers["retain"], frame.headers["retained"]) == ("set", "true")
    gets(broker, [b"112.12"])


def test_the_example_of_the_last_price_with_retain_true(broker: BrokerProcess) -> None:
    """ "retain:true 112.12": the frame as the manual prints it."""
    with connected(broker) as wire:
        wire.write(b"SEND\ndestination:/topic/stock/IBM\nretain:true\nreceipt:1\n\n112.12\0")
        wire.expect("RECEIPT")
    (frame,) = gets(broker, [b"112.12"])
    assert frame.headers["destination"] == TOPIC


def test_a_message_with_retain_remove_makes_the_topic_forget(broker: BrokerProcess) -> None:
    """ "send a new message with the retain:remove header to have the topic forget about the last
    retained message" """
    publish(broker, b"112.12", retain="true")
    with connected(broker) as wire:
        subscribe(wire)
        assert wire.expect("MESSAGE").body == b"112.12"
        publish(broker, b"closed", retain="remove")
        # It is delivered as usual, as Apollo does it.
        frame = wire.expect("MESSAGE")
        assert (frame.body, frame.headers["retain"]) == (b"closed", "remove")
    gets(broker, [])
    publish(broker, b"nothing to forget", retain="remove")
    publish(broker, b"again", retain="set")
    gets(broker, [b"again"])


def test_retained_messages_outlive_restarts_and_kills(broker: BrokerProcess) -> None:
    """ "Note: retained messages are not retained between broker restarts." Here they are: a durable
    broker has no reason to lose them. Those that are not persistent are lost, as all such ones."""
    publish(broker, b"kept", retain="set")
    publish(broker, b"lost", "/topic/other", retain="set", persistent="false")
    gets(broker, [b"lost"], destination="/topic/other")
    broker.kill()
    broker.start()
    gets(broker, [b"kept"])
    gets(broker, [], destination="/topic/other")
    broker.stop()
    broker.start()
    gets(broker, [b"kept"])


# ---- what we say beyond


def test_a_message_that_is_not_from_before_is_not_marked(broker: BrokerProcess) -> None:
    with connected(broker) as wire:
        subscribe(wire)
        publish(broker, b"live", retain="set", retained="true")
        frame = wire.expect("MESSAGE")
        assert frame.headers["retain"] == "set"
        assert "retained" not in frame.headers, "only the broker says it"


def test_durable_subscriptions_get_it_when_they_are_created(broker: BrokerProcess) -> None:
    publish(broker, b"1", retain="set")
    with connected(broker) as wire:
        wire.send("SUBSCRIBE", id="d", destination=TOPIC, persistent="true", ack="client")
        frame = wire.expect("MESSAGE")
        assert (frame.body, frame.headers["retained"]) == (b"1", "true")
        wire.send("ACK", id=frame.headers["ack"], receipt="a")
        wire.expect("RECEIPT")
    publish(broker, b"2", retain="set")
    with connected(broker) as wire:
        wire.send("SUBSCRIBE", id="d", destination=TOPIC, persistent="true", ack="client")
        frame = wire.expect("MESSAGE")
        assert frame.body == b"2"
        assert "retained" not in frame.headers, "it was routed to the subscription"
    broker.kill()
    broker.start()
    with connected(broker) as wire:
        wire.send("SUBSCRIBE", id="e", destination=TOPIC, persistent="true", receipt="e")
        assert {wire.read().body, wire.read().body} == {b"", b"2"}


def test_a_subscription_with_wildcards_gets_that_of_each_topic(broker: BrokerProcess) -> None:
    for name in ("stock.IBM", "stock.SAP", "bond.X"):
        publish(broker, name.encode(), f"/topic/{name}", retain="set")
    publish(broker, b"new", "/topic/stock.IBM", retain="set")
    gets(broker, [b"stock.SAP", b"new"], destination="/topic/stock.*", to="/topic/stock.Z")
    everything = [b"stock.SAP", b"bond.X", b"new"]
    gets(broker, everything, destination="/topic/#", to="/topic/z")


def test_a_composite_subscription_gets_that_of_each_topic(broker: BrokerProcess) -> None:
    for name in ("a", "b", "c"):
        publish(broker, name.encode(), f"/topic/{name}", retain="set")
    with connected(broker) as wire:
        subscribe(wire, "/topic/a,/topic/c")
        frames = [wire.expect("MESSAGE") for _ in range(2)]
        assert sorted(frame.body for frame in frames) == [b"a", b"c"]
        assert {frame.headers["retained"] for frame in frames} == {"true"}


def test_patterns_with_regular_expressions_get_those_that_fit(broker: BrokerProcess) -> None:
    for name in ("stock.IBM", "stock.INTC", "stock.SAP"):
        publish(broker, name.encode(), f"/topic/{name}", retain="set")
    gets(broker, [b"stock.IBM", b"stock.INTC"], destination="/topic/stock.I*", to="/topic/stock.I")
    gets(broker, [b"stock.SAP"], destination="/topic/stock.{S.*}", to="/topic/stock.S")


def test_a_selector_decides(broker: BrokerProcess) -> None:
    publish(broker, b"big", retain="set", kind="big")
    gets(broker, [b"big"], selector="kind = 'big' OR kind = 'next'")
    gets(broker, [], selector="kind = 'next'")


def test_an_expired_one_is_forgotten(tmp_path: Path) -> None:
    scans = "message-expiry-scan-period = 100\n"
    with BrokerProcess(tmp_path / "data", config=scans) as broker:
        broker.start()
        publish(broker, b"short", retain="set", ttl="2000")
        assert retained(broker)
        wait_for(lambda: retained(broker) is None, "the retained message to expire")
        gets(broker, [])


def test_in_a_transaction_it_is_retained_at_the_commit(broker: BrokerProcess) -> None:
    with connected(broker) as wire:
        wire.send("BEGIN", transaction="t")
        sent(wire, TOPIC, b"1", retain="set", transaction="t")
        gets(broker, [])
        wire.send("COMMIT", transaction="t", receipt="c")
        wire.expect("RECEIPT")
        gets(broker, [b"1"])
        wire.send("BEGIN", transaction="u")
        sent(wire, TOPIC, b"2", retain="remove", transaction="u")
        wire.send("ABORT", transaction="u", receipt="a")
        wire.expect("RECEIPT")
    gets(broker, [b"1"])


def test_the_topics_of_a_composite_destination_retain_it(broker: BrokerProcess) -> None:
    publish(broker, b"all", "/topic/a,/queue/b,/topic/c", retain="set")
    (frame,) = gets(broker, [b"all"], destination="/topic/a")
    assert frame.headers["destination"] == "/topic/a"
    gets(broker, [b"all"], destination="/topic/c")
    with connected(broker) as wire:
        wire.send("SUBSCRIBE", id="q", destination="/queue/b")
        assert wire.expect("MESSAGE").body == b"all"


def test_a_large_message_is_retained(broker: BrokerProcess) -> None:
    body = bytes(range(256)) * 12_000
    publish(broker, body, retain="set")
    gets(broker, [body])
    broker.kill()
    broker.start()
    gets(broker, [body])


@pytest.mark.parametrize(
    ("destination", "headers", "said"),
    [
        ("/queue/a", {"retain": "set"}, "only a topic"),
        ("/queue/a", {"retain": "remove"}, "only a topic"),
        ("/dsub/a", {"retain": "true"}, "only a topic"),
        ("/queue/a,/queue/b", {"retain": "true"}, "only a topic"),
        ("plain", {"retain": "true"}, "only a topic"),
        ("/topic/a", {"retain": "yes"}, "retain is 'yes'"),
        ("/topic/a", {"retain": ""}, "retain is"),
        ("/topic/a", {"retain": "set", "AMQ_SCHEDULED_DELAY": "1000"}, "delivery time"),
    ],
)
def test_what_cannot_be_retained_is_an_error(
    shared_broker: BrokerProcess, destination: str, headers: dict[str, str], said: str
) -> None:
    """Apollo ignores the header at queues; a promise that nobody keeps is refused here."""
    with connected(shared_broker) as wire:
        wire.send("SEND", b"x", destination=destination, **headers)
        error = wire.expect("ERROR")
        assert said in error.headers["message"]
        assert error.body


def test_retain_false_is_a_message_as_usual(broker: BrokerProcess) -> None:
    publish(broker, b"x", "/queue/a", retain="false")
    publish(broker, b"x", retain="false")
    gets(broker, [])


def test_retroactive_false_asks_for_nothing_from_before(broker: BrokerProcess) -> None:
    publish(broker, b"1", retain="set")
    gets(broker, [], retroactive="false")


def test_administration_lists_browses_and_forgets(broker: BrokerProcess) -> None:
    publish(broker, b"1", retain="set")
    publish(broker, b"2", "/topic/other", retain="set")
    told = msgspec.json.decode(daybook(broker, "browse", QUEUE, "--json"), type=dict[str, Any])
    assert [each["message"] for each in told["messages"]] == [
        retained(broker), retained(broker, "other"),
    ]  # fmt: skip
    assert "has forgotten" in daybook(broker, "address", "forget", "stock/IBM")
    assert "nothing changed" in daybook(broker, "address", "forget", "stock/IBM")
    assert retained(broker) is None
    gets(broker, [])
    with pytest.raises(subprocess.CalledProcessError):
        daybook(broker, "queue", "delete", QUEUE, "--force")
    daybook(broker, "queue", "purge", QUEUE)
    assert retained(broker, "other") is None


def test_a_new_subscription_has_no_gap_and_no_duplicate_at_the_seam(broker: BrokerProcess) -> None:
    """It gets the last retained message, and then all that were sent since."""
    stops = threading.Event()

    def produce() -> None:
        with connected(broker) as wire:
            number = 0
            while not stops.is_set():
                number += 1
                sent(wire, TOPIC, b"%d" % number, retain="set")

    thread = threading.Thread(target=produce)
    publish(broker, b"0", retain="set")
    thread.start()
    try:
        for _ in range(20):
            with connected(broker) as wire:
                wire.send("SUBSCRIBE", id="s", destination=TOPIC)
                frames = [wire.expect("MESSAGE") for _ in range(10)]
            numbers = [int(frame.body) for frame in frames]
            assert numbers == list(range(numbers[0], numbers[0] + 10))
            assert [frame.headers.get("retained") for frame in frames] == ["true", *[None] * 9]
    finally:
        stops.set()
        thread.join()
