"""Composite destinations on a real broker (seed, "Composite Destinations")."""

import pytest

from tests.interop.using import connected, daybook, sent, subscribed
from tests.interop.wire import Wire
from tests.support.process import BrokerProcess

pytestmark = pytest.mark.interop

ALL = "/queue/a,/queue/b,/topic/c"


def received(wire: Wire, destination: str, count: int = 1) -> list[tuple[bytes, str]]:
    subscribed(wire, destination, destination)
    frames = [wire.expect("MESSAGE") for _ in range(count)]
    return [(frame.body, frame.headers["destination"]) for frame in frames]


def test_one_message_goes_to_two_queues_and_a_topic(broker: BrokerProcess) -> None:
    with connected(broker) as producer, connected(broker) as listener:
        subscribed(listener, "/topic/c")
        producer.send(
            "SEND", b"Composites rock!", destination=ALL, receipt="r",
            **{"receipt-outcome": "true"},
        )  # fmt: skip
        assert set(producer.expect("RECEIPT").headers["routed"].split(",")) >= {"a", "b"}
        message = listener.expect("MESSAGE")
        assert (message.body, message.headers["destination"]) == (b"Composites rock!", "/topic/c")
    broker.kill()
    broker.start()
    with connected(broker) as consumer:
        assert received(consumer, "/queue/a") == [(b"Composites rock!", "/queue/a")]
        assert received(consumer, "/queue/b") == [(b"Composites rock!", "/queue/b")]


def test_all_of_them_or_none(broker: BrokerProcess) -> None:
    daybook(broker, "address", "create", "only-topic", "--routing-type", "multicast")
    daybook(broker, "settings", "set", "only-topic", "auto-create-addresses=false")
    daybook(broker, "settings", "set", "only-topic", "auto-create-queues=false")
    with connected(broker) as producer:
        producer.send("SEND", b"nowhere", destination="/queue/a,/queue/only-topic", receipt="r")
        assert "only-topic" in producer.expect("ERROR").headers["message"]
    with connected(broker) as producer:
        sent(producer, "/queue/a", b"behind it")
        assert received(producer, "/queue/a") == [(b"behind it", "/queue/a")]


def test_within_a_transaction(broker: BrokerProcess) -> None:
    with connected(broker) as producer:
        producer.send("BEGIN", transaction="t")
        sent(producer, "/queue/a, /queue/b", b"one", transaction="t")
        producer.send("ABORT", transaction="t")
        producer.send("BEGIN", transaction="u")
        sent(producer, "/queue/a, /queue/b", b"two", transaction="u")
        producer.send("COMMIT", transaction="u", receipt="c")
        producer.expect("RECEIPT")
        assert received(producer, "/queue/a") == [(b"two", "/queue/a")]
        assert received(producer, "/queue/b") == [(b"two", "/queue/b")]


def test_large_messages_and_duplicates(broker: BrokerProcess) -> None:
    body = bytes(range(256)) * 2000
    with connected(broker) as producer:
        for _ in range(2):
            sent(producer, "/queue/a,/queue/b", body, _AMQ_DUPL_ID="7")
        sent(producer, "/queue/b,/queue/c", body, _AMQ_DUPL_ID="7")
        broker.kill()
    broker.start()
    with connected(broker) as consumer:
        for name in "abc":
            assert received(consumer, f"/queue/{name}") == [(body, f"/queue/{name}")]
            sent(consumer, f"/queue/{name}", b"end")
            assert consumer.expect("MESSAGE").body == b"end"


def test_a_full_address_blocks_all_of_it(broker: BrokerProcess) -> None:
    daybook(broker, "settings", "set", "full", "address-full-policy=BLOCK")
    daybook(broker, "settings", "set", "full", "max-size-messages=1")
    with connected(broker) as producer, connected(broker) as consumer:
        sent(producer, "/queue/full", b"first")
        producer.send("SEND", b"both", destination="/queue/a,/queue/full", receipt="r")
        sent(consumer, "/queue/a", b"meanwhile")
        assert received(consumer, "/queue/a") == [(b"meanwhile", "/queue/a")]
        subscribed(consumer, "/queue/full", "f")
        producer.expect("RECEIPT")
        bodies = {(frame.body) for frame in (consumer.expect("MESSAGE") for _ in range(3))}
        assert bodies == {b"first", b"both"}


@pytest.mark.parametrize(
    ("destination", "said"),
    [
        ("/queue/a,,/queue/b", "has an empty name"),
        ("/queue/a,/queue/a", "has a name twice"),
        (",".join(f"/queue/q{number}" for number in range(65)), "64 are the most"),
        ("/queue/a,/topic/b.*", "wildcards"),
    ],
)
def test_wrong_ones_are_refused(shared_broker: BrokerProcess, destination: str, said: str) -> None:
    with connected(shared_broker) as producer:
        producer.send("SEND", b"x", destination=destination)
        assert said in producer.expect("ERROR").headers["message"]
    assert daybook(shared_broker, "queue", "list", "--json").strip() == "[]"
