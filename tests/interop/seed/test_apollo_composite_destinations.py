"""The sentences of the seed's section "Composite Destinations", on a real broker."""

import pytest

from tests.interop.using import connected, daybook, sent, subscribed
from tests.interop.wire import Frame, Wire
from tests.support.process import BrokerProcess

pytestmark = pytest.mark.interop

ALL = "/queue/a,/queue/b,/topic/c"


def acknowledged(wire: Wire, message: Frame, version: str = "1.2", **headers: str) -> None:
    """Acknowledge a message as a version does, and wait until that is durable."""
    named = {"id": message.headers["ack"]} if version == "1.2" else {}
    if version == "1.1":
        named = {"subscription": message.headers["subscription"]}
    if version != "1.2":
        named["message_id"] = message.headers["message-id"]
    wire.send("ACK", receipt="k", **named, **headers)
    wire.expect("RECEIPT")


def left_in(broker: BrokerProcess, *queues: str) -> list[bytes]:
    """Return the remaining messages of the queues, read by a browser of all of them."""
    with connected(broker) as wire:
        subscribed(wire, ",".join(f"/queue/{name}" for name in queues), browser="true")
        found = []
        while (frame := wire.expect("MESSAGE")).headers.get("browser") != "end":
            found.append(frame.body)
        return found


def test_composite_destinations_subscribe_to_several_at_one_time(broker: BrokerProcess) -> None:
    """ "send or subscribe to multiple destinations at one time" """
    with connected(broker) as producer, connected(broker) as consumer:
        sent(producer, "/queue/a", b"before")
        subscribed(consumer, ALL)
        for destination in ALL.split(","):
            sent(producer, destination, destination.encode())
        got = [consumer.expect("MESSAGE") for _ in range(4)]
        assert {frame.headers["subscription"] for frame in got} == {"s"}
        assert [(frame.body.decode(), frame.headers["destination"]) for frame in got] == [
            ("before", "/queue/a"), *((each, each) for each in ALL.split(",")),
        ]  # fmt: skip
        consumer.send("UNSUBSCRIBE", id="s", receipt="u")
        consumer.expect("RECEIPT")
        sent(producer, ALL, b"nobody")
        consumer.send("DISCONNECT", receipt="d")
        consumer.expect("RECEIPT")
    assert left_in(broker, "a", "b") == [b"nobody", b"nobody"]


def test_a_separator_of_commas(broker: BrokerProcess) -> None:
    """ "You use separator of , between destination names" """
    with connected(broker) as wire:
        subscribed(wire, "/queue/a , /queue/b")
        sent(wire, "/queue/b", b"b")
        assert wire.expect("MESSAGE").body == b"b"
    for destination, said in (
        ("/queue/a,/queue/a", "has a name twice"),
        ("/queue/a,,/queue/b", "has an empty name"),
        (",".join(f"/queue/q{number}" for number in range(65)), "64 are the most"),
        ("/queue/a,/queue/a::a", "are the queue"),
    ):
        with connected(broker) as wire:
            wire.send("SUBSCRIBE", id="s", destination=destination)
            assert said in wire.expect("ERROR").headers["message"]


def test_one_message_to_two_queues_and_a_topic(broker: BrokerProcess) -> None:
    """ "to send one message to 2 queues and 1 topic" """
    with connected(broker) as producer, connected(broker) as consumer:
        subscribed(consumer, ALL)
        sent(producer, ALL, b"Composites rock!")
        got = [consumer.expect("MESSAGE") for _ in range(3)]
        assert {frame.body for frame in got} == {b"Composites rock!"}
        assert sorted(frame.headers["destination"] for frame in got) == sorted(ALL.split(","))


@pytest.mark.parametrize("version", ["1.0", "1.1", "1.2"])
def test_one_acknowledgement_for_all_in_every_version(broker: BrokerProcess, version: str) -> None:
    """Not in the seed: ack:client is cumulative in the order of the MESSAGE frames."""
    with connected(broker) as producer, Wire(broker.port) as consumer:
        consumer.connect(version)
        subscribed(consumer, "/queue/a,/queue/b", ack="client")
        for name in "abbab":
            sent(producer, f"/queue/{name}", name.encode())
        got = [consumer.expect("MESSAGE") for _ in range(5)]
        acknowledged(consumer, got[3], version)
        # The others return at once with the connection that ends.
        broker.kill()
    broker.start()
    assert left_in(broker, "a", "b") == [b"b"]


@pytest.mark.parametrize("version", ["1.0", "1.1", "1.2"])
def test_each_message_by_itself(broker: BrokerProcess, version: str) -> None:
    with connected(broker) as producer, Wire(broker.port) as consumer:
        consumer.connect(version)
        subscribed(consumer, ALL, ack="client-individual")
        for name in ("/queue/a", "/topic/c", "/queue/b"):
            sent(producer, name, name.encode())
        got = [consumer.expect("MESSAGE") for _ in range(3)]
        acknowledged(consumer, got[2], version)
        if version != "1.0":
            named = {"id": got[0].headers["ack"]} if version == "1.2" else {
                "subscription": "s", "message_id": got[0].headers["message-id"]
            }  # fmt: skip
            consumer.send("NACK", **named)
            again = consumer.expect("MESSAGE")
            assert (again.body, again.headers["redelivered"]) == (b"/queue/a", "true")
        consumer.send("ACK", id="nothing", message_id="0", subscription="s")
        assert "no such delivery" in consumer.expect("ERROR").headers["message"]
    assert left_in(broker, "a", "b") == [b"/queue/a"]


def test_one_credit_for_all(broker: BrokerProcess) -> None:
    """Not in the seed: "Each subscription maintains 2 credit windows", and this is one of them."""
    with connected(broker) as producer, connected(broker) as consumer:
        subscribed(consumer, "/queue/a,/queue/b", ack="client-individual", credit="2,0")
        for name in "abab":
            sent(producer, f"/queue/{name}", name.encode())
        got = [consumer.expect("MESSAGE") for _ in range(2)]
        consumer.send("BEGIN", transaction="t", receipt="nothing more came before this")
        consumer.expect("RECEIPT")
        acknowledged(consumer, got[0], transaction="t")
        got.append(consumer.expect("MESSAGE"))
        consumer.send("ABORT", transaction="t", receipt="b")
        consumer.expect("RECEIPT")
        # It gave its credit back already.
        acknowledged(consumer, got[0])
        acknowledged(consumer, got[1])
        assert consumer.expect("MESSAGE").headers["subscription"] == "s"


def test_credit_with_automatic_acknowledgement(broker: BrokerProcess) -> None:
    with connected(broker) as producer, connected(broker) as consumer:
        subscribed(consumer, "/queue/a,/queue/b", credit="1,0")
        for name in "ab":
            sent(producer, f"/queue/{name}", name.encode())
        first = consumer.expect("MESSAGE")
        acknowledged(consumer, first)
        assert {first.body, consumer.expect("MESSAGE").body} == {b"a", b"b"}


def test_all_of_them_or_none(broker: BrokerProcess) -> None:
    daybook(broker, "address", "create", "only-topic", "--routing-type", "multicast")
    daybook(broker, "settings", "set", "only-topic", "auto-create-addresses=false")
    daybook(broker, "settings", "set", "only-topic", "auto-create-queues=false")
    for wrong in ("/queue/only-topic", "/queue/temp.default.999.x", "/dsub/nobody"):
        with connected(broker) as wire:
            wire.send("SUBSCRIBE", id="s", destination=f"/queue/a,/topic/c,{wrong}")
            assert wire.expect("ERROR").headers["message"]
    assert daybook(broker, "queue", "list", "--json").strip() == "[]"


def test_a_transaction_over_all_survives_a_kill_as_a_whole(broker: BrokerProcess) -> None:
    with connected(broker) as producer, connected(broker) as consumer:
        subscribed(consumer, "/queue/a,/queue/b", ack="client")
        sent(producer, "/queue/a,/queue/b", b"one")
        got = [consumer.expect("MESSAGE") for _ in range(2)]
        consumer.send("BEGIN", transaction="t")
        acknowledged(consumer, got[1], transaction="t")
        broker.kill()
    broker.start()
    assert left_in(broker, "a", "b") == [b"one", b"one"]
    with connected(broker) as consumer:
        subscribed(consumer, "/queue/a,/queue/b", ack="client")
        got = [consumer.expect("MESSAGE") for _ in range(2)]
        consumer.send("BEGIN", transaction="t")
        acknowledged(consumer, got[1], transaction="t")
        sent(consumer, "/queue/d", b"done", transaction="t")
        consumer.send("COMMIT", transaction="t", receipt="c")
        consumer.expect("RECEIPT")
        broker.kill()
    broker.start()
    assert left_in(broker, "a", "b", "d") == [b"done"]


def test_large_messages(broker: BrokerProcess) -> None:
    body = bytes(range(256)) * 2000
    with connected(broker) as producer, connected(broker) as consumer:
        subscribed(consumer, "/queue/a,/queue/b", ack="client")
        sent(producer, "/queue/a,/queue/b", body)
        got = [consumer.expect("MESSAGE") for _ in range(2)]
        assert {frame.body for frame in got} == {body}
        acknowledged(consumer, got[1])
    assert left_in(broker, "a", "b") == []


def test_parts_of_every_kind(broker: BrokerProcess) -> None:
    with connected(broker) as wire:
        subscribed(wire, "/topic/news", "d", persistent="true")
        wire.send("UNSUBSCRIBE", id="d")
        sent(wire, "/topic/news", b"kept", kind="big")
        parts = "/dsub/d,/topic/price.*,/temp-queue/replies,/queue/work.*,orders"
        subscribed(wire, parts, selector="kind <> 'small'", include_seq="seq")
        assert wire.expect("MESSAGE").body == b"kept"
        for name in ("/topic/price.a", "/temp-queue/replies", "/queue/work.b", "/queue/orders"):
            wire.send("SEND", b"no", destination=name, kind="small")
            wire.send("SEND", name.encode(), destination=name, kind="big")
            message = wire.expect("MESSAGE")
            assert message.body == name.encode()
            assert message.headers["seq"] == message.headers["message-id"]


def test_what_one_destination_only_can_have(broker: BrokerProcess) -> None:
    """ "with a wildcard or composite destination then the connection will be closed" """
    for headers, said in (
        ({"from_seq": "0"}, "may be several destinations"),
        ({"persistent": "true"}, "several destinations"),
        ({"no_local": "true"}, "no-local is for subscriptions to topics"),
    ):
        with connected(broker) as wire:
            wire.send("SUBSCRIBE", id="s", destination="/topic/c,/queue/a", **headers)
            assert said in wire.expect("ERROR").headers["message"]
            assert wire.at_end()


def test_an_exclusive_one_holds_all_of_its_queues(broker: BrokerProcess) -> None:
    with connected(broker) as first, connected(broker) as second:
        subscribed(first, "/queue/a,/queue/b", exclusive="true")
        subscribed(second, "/queue/a,/queue/b", exclusive="true")
        for name in "abab":
            sent(second, f"/queue/{name}", name.encode())
        assert [first.expect("MESSAGE").body for _ in range(4)] == [b"a", b"b", b"a", b"b"]
        first.send("DISCONNECT", receipt="d")
        first.expect("RECEIPT")
        sent(second, "/queue/b", b"taken over")
        assert second.expect("MESSAGE").body == b"taken over"


def test_consumers_are_shown_with_the_subscription_that_they_are_of(broker: BrokerProcess) -> None:
    with connected(broker) as wire:
        subscribed(wire, "/queue/a,/queue/b", ack="client", credit="7,8")
        rows = daybook(broker, "consumer", "list", "--json")
        assert rows.count('"credit_messages": 7') == 2
        assert rows.count('"subscription": "s"') == 2
        assert '"bundle": null' not in rows
        sent(wire, "/queue/a", b"x")
        wire.expect("MESSAGE")
        assert daybook(broker, "consumer", "list", "--json").count('"credit_messages": 6') == 2


def test_each_part_counts_as_a_subscription(broker: BrokerProcess) -> None:
    broker.stop()
    broker.settings.append("acceptor.max-subscriptions=3")
    broker.start()
    with connected(broker) as wire:
        subscribed(wire, "/queue/a,/queue/b")
        subscribed(wire, "/queue/a", "t")
        wire.send("SUBSCRIBE", id="u", destination="/queue/a")
        assert "more than 3 subscriptions" in wire.expect("ERROR").headers["message"]
