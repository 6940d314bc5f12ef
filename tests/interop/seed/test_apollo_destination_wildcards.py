"""The sentences of the seed's section "Destination Wildcards", on a real broker."""

import pytest

from tests.interop.using import connected, daybook, sent, subscribed
from tests.interop.wire import Wire
from tests.support.process import BrokerProcess

pytestmark = pytest.mark.interop

STOCKS = (
    "PRICE.STOCK.NASDAQ.IBM",
    "PRICE.STOCK.NYSE.SUNW",
    "PRICE.STOCK.NYSE.IBM",
    "PRICE.BOND.X",
    "WEATHER",
)


def bodies(wire: Wire, count: int) -> list[str]:
    return [wire.expect("MESSAGE").body.decode() for _ in range(count)]


def matched(broker: BrokerProcess, kind: str, pattern: str) -> list[str]:
    """Return the messages that an earlier subscription gets, up to an end."""
    with connected(broker) as consumer, connected(broker) as producer:
        subscribed(consumer, f"/{kind}/{pattern},/{kind}/end")
        for name in STOCKS:
            sent(producer, f"/{kind}/{name}", name.encode())
        sent(producer, f"/{kind}/end", b"end")
        found = []
        while (body := consumer.expect("MESSAGE").body) != b"end":
            found.append(body.decode())
        return found


@pytest.mark.parametrize("kind", ["topic", "queue"])
@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("PRICE.**", STOCKS[:4]),
        ("PRICE.STOCK.**", STOCKS[:3]),
        ("PRICE.STOCK.NASDAQ.*", STOCKS[:1]),
        ("PRICE.STOCK.*.IBM", (STOCKS[0], STOCKS[2])),
        ("*", STOCKS[4:]),
    ],
)
def test_the_table_of_patterns(
    broker: BrokerProcess, kind: str, pattern: str, expected: tuple[str, ...]
) -> None:
    """ "* is used to match any name in a path", "** is used to recursively match path names" """
    assert matched(broker, kind, pattern) == list(expected)


def test_a_name_in_a_path_is_one_word(broker: BrokerProcess) -> None:
    """ ". is used to separate names in a path" """
    with connected(broker) as wire:
        subscribed(wire, "/queue/PRICE.*")
        sent(wire, "/queue/PRICE.STOCK.IBM", b"two words")
        sent(wire, "/queue/PRICE.STOCK", b"one word")
        assert bodies(wire, 1) == ["one word"]


def test_wildcards_are_for_subscribe(broker: BrokerProcess) -> None:
    """ "Destination wildcards can only be used in a SUBSCRIBE frame" """
    for destination in ("/queue/PRICE.*", "/topic/PRICE.**"):
        with connected(broker) as wire:
            wire.send("SEND", b"x", destination=destination)
            assert "has wildcards" in wire.expect("ERROR").headers["message"]


def test_queues_that_exist_and_queues_to_come(broker: BrokerProcess) -> None:
    with connected(broker) as producer, connected(broker) as consumer:
        sent(producer, "/queue/PRICE.A", b"there before")
        subscribed(consumer, "/queue/PRICE.**", ack="client")
        assert bodies(consumer, 1) == ["there before"]
        for number in range(3):
            sent(producer, "/queue/PRICE.B", b"%d" % number)
        daybook(broker, "queue", "create", "made", "--address", "PRICE.C")
        sent(producer, "/queue/PRICE.C::made", b"by a command")
        assert bodies(consumer, 3) == ["0", "1", "2"]
        last = consumer.expect("MESSAGE")
        assert last.body == b"by a command"
        consumer.send("ACK", id=last.headers["ack"], receipt="k")
        consumer.expect("RECEIPT")
        broker.kill()
    broker.start()
    with connected(broker) as consumer:
        # Nothing is left, and subscriptions end with their connection.
        subscribed(consumer, "/queue/PRICE.**", browser="true")
        assert consumer.expect("MESSAGE").headers["browser"] == "end"


def test_one_subscription_shares_messages_with_others(broker: BrokerProcess) -> None:
    with connected(broker) as first, connected(broker) as second, connected(broker) as producer:
        subscribed(first, "/queue/PRICE.*")
        subscribed(second, "/queue/PRICE.*")
        for number in range(4):
            sent(producer, "/queue/PRICE.A", b"%d" % number)
        assert sorted(bodies(first, 2) + bodies(second, 2)) == ["0", "1", "2", "3"]


def test_one_credit_for_all_queues(broker: BrokerProcess) -> None:
    with connected(broker) as producer, connected(broker) as consumer:
        subscribed(consumer, "/queue/PRICE.*", ack="client", credit="1,0")
        for name in "ABC":
            sent(producer, f"/queue/PRICE.{name}", name.encode())
        found = []
        for _ in range(3):
            message = consumer.expect("MESSAGE")
            found.append(message.body)
            consumer.send("BEGIN", transaction="t", receipt="nothing more came before this")
            consumer.expect("RECEIPT")
            consumer.send("ABORT", transaction="t")
            consumer.send("ACK", id=message.headers["ack"])
        assert sorted(found) == [b"A", b"B", b"C"]


def test_a_queue_that_is_deleted_leaves_silently(broker: BrokerProcess) -> None:
    with connected(broker) as producer, connected(broker) as consumer:
        subscribed(consumer, "/queue/PRICE.*", ack="client")
        sent(producer, "/queue/PRICE.A", b"lost")
        assert bodies(consumer, 1) == ["lost"]
        daybook(broker, "queue", "delete", "PRICE.A", "--force")
        sent(producer, "/queue/PRICE.B", b"goes on")
        sent(producer, "/queue/PRICE.A", b"again")
        assert bodies(consumer, 2) == ["goes on", "again"]


def test_temporary_queues_of_others_are_no_match(broker: BrokerProcess) -> None:
    with connected(broker) as owner, connected(broker) as other:
        subscribed(owner, "/temp-queue/replies")
        subscribed(other, "/queue/**")
        sent(other, "/queue/A", b"mine", reply_to="/queue/B")
        assert bodies(other, 1) == ["mine"]
        sent(owner, "/temp-queue/replies", b"theirs")
        assert bodies(owner, 1) == ["theirs"]


def test_a_browser_reads_the_queues_that_exist(broker: BrokerProcess) -> None:
    with connected(broker) as producer, connected(broker) as browser:
        for name in "AB":
            sent(producer, f"/queue/PRICE.{name}", name.encode())
        subscribed(browser, "/queue/PRICE.*", browser="true")
        found = [browser.expect("MESSAGE") for _ in range(3)]
        assert sorted(each.body for each in found[:2]) == [b"A", b"B"]
        assert found[2].headers["browser"] == "end"
        sent(producer, "/queue/PRICE.A", b"later")
        browser.send("DISCONNECT", receipt="nothing more came before this")
        browser.expect("RECEIPT")


def test_at_most_so_many_queues(broker: BrokerProcess) -> None:
    broker.stop()
    broker.settings.append("acceptor.max-wildcard-queues=2")
    broker.start()
    with connected(broker) as producer, connected(broker) as consumer:
        subscribed(consumer, "/queue/PRICE.*")
        for name in "ABC":
            sent(producer, f"/queue/PRICE.{name}", name.encode())
        assert bodies(consumer, 2) == ["A", "B"]
        assert "max-wildcard-queues" in broker.log_text()
        daybook(broker, "queue", "delete", "PRICE.A")
        assert bodies(consumer, 1) == ["C"]


def test_an_end_of_the_subscription_ends_all(broker: BrokerProcess) -> None:
    with connected(broker) as producer, connected(broker) as consumer:
        subscribed(consumer, "/queue/PRICE.*")
        sent(producer, "/queue/PRICE.A", b"A")
        assert bodies(consumer, 1) == ["A"]
        consumer.send("UNSUBSCRIBE", id="s", receipt="u")
        consumer.expect("RECEIPT")
        sent(producer, "/queue/PRICE.A", b"stays")
        sent(producer, "/queue/PRICE.B", b"stays")
        assert daybook(broker, "consumer", "list", "--json").strip() == "[]"
