"""Durable subscriptions named beside their id, with the client id in front."""

import pytest

from tests.unit.protocols.stomp.exchange import Client, Exchange

SPELLINGS = (
    "durable-subscription-name", "durable-subscriber-name", "activemq.subscriptionName",
    "activemq.subcriptionName", "durableSubscriptionName", "subscription-name",
    "ACTIVEMQ.SUBSCRIPTION_NAME", "durable-subcription-name",
)  # fmt: skip
NAMED = "SUBSCRIBE\nid:1\nreceipt:s\ndestination:/topic/news\ndurable-subscription-name:all"


def queues(exchange: Exchange) -> dict[str, str]:
    return {name: queue.address.name for name, queue in exchange.broker.state.queue_by_name.items()}


def subscribed(exchange: Exchange, version: str = "1.2") -> Client:
    client = exchange.client(version, "shop")
    assert client.send(NAMED)[0].startswith(b"RECEIPT")
    return client


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_every_spelling_names_the_subscription_of_the_client(spelling: str) -> None:
    exchange = Exchange()
    client = exchange.client(client_id="shop")
    client.send(f"SUBSCRIBE\nid:1\ndestination:/topic/news\n{spelling}:all")
    assert queues(exchange) == {"dsub.shop.all": "news"}
    client.send(f"UNSUBSCRIBE\nid:1\n{spelling}:all")
    assert queues(exchange) == {}


def test_it_outlives_its_connection_and_gets_what_is_sent_meanwhile() -> None:
    exchange = Exchange()
    subscribed(exchange).send("DISCONNECT\nreceipt:d")
    exchange.client().send("SEND\ndestination:/topic/news", b"one")
    client = exchange.client(client_id="shop")
    receipt, message = sorted(client.send(NAMED), reverse=True)
    assert receipt.startswith(b"RECEIPT")
    assert message.endswith(b"\n\none")


def test_another_client_has_another_subscription_of_that_name() -> None:
    exchange = Exchange()
    subscribed(exchange)
    exchange.client(client_id="bank").send(NAMED)
    assert set(queues(exchange)) == {"dsub.shop.all", "dsub.bank.all"}


@pytest.mark.parametrize("version", ["1.0", "1.1", "1.2"])
def test_the_name_alone_ends_it(version: str) -> None:
    exchange = Exchange()
    client = subscribed(exchange, version)
    answer = client.send("UNSUBSCRIBE\nreceipt:u\ndurable-subscription-name:all")
    assert answer == [b"RECEIPT\nreceipt-id:u\n\n"]
    assert queues(exchange) == {}
    assert not exchange.broker.state.consumers


def test_the_id_alone_leaves_it() -> None:
    exchange = Exchange()
    subscribed(exchange).send("UNSUBSCRIBE\nid:1")
    assert queues(exchange) == {"dsub.shop.all": "news"}
    assert not exchange.broker.state.consumers


def test_one_that_nobody_consumes_from_can_be_ended_by_its_name() -> None:
    exchange = Exchange()
    subscribed(exchange).send("DISCONNECT\nreceipt:d")
    exchange.client(client_id="shop").send("UNSUBSCRIBE\ndurable-subscription-name:all")
    assert queues(exchange) == {}


def test_a_name_that_is_not_this_subscriptions_ends_both() -> None:
    exchange = Exchange()
    client = subscribed(exchange)
    client.send("SUBSCRIBE\nid:2\ndestination:/topic/news")
    client.send("UNSUBSCRIBE\nid:1")
    client.send("UNSUBSCRIBE\nid:2\ndurable-subscription-name:all")
    assert queues(exchange) == {}


@pytest.mark.parametrize(
    ("client_id", "headers", "what"),
    [
        ("", "durable-subscription-name:all", b"no client-id"),
        ("shop", "durable-subscription-name:", b"is empty"),
        ("shop", "durable-subscription-name:a\nsubscription-name:b", b"mean the same"),
        ("shop", "durable-subscription-name:a\npersistent:perhaps", b"persistent is"),
        ("shop", "durable-subscription-name:a?b", b"durable subscription"),
        ("s*p", "durable-subscription-name:a", b"durable subscription"),
    ],
)
def test_refused(client_id: str, headers: str, what: bytes) -> None:
    exchange = Exchange()
    answer = exchange.client(client_id=client_id).send(
        f"SUBSCRIBE\nid:1\ndestination:/topic/news\n{headers}"
    )
    assert answer[0].startswith(b"ERROR")
    assert what in answer[0]
    assert queues(exchange) == {}


def test_a_queue_has_no_durable_subscriptions() -> None:
    answer = Exchange().client(client_id="shop").send(NAMED.replace("/topic/", "/queue/"))
    assert b"which is not a topic" in answer[0]


def test_nothing_of_that_name_is_an_error() -> None:
    answer = (
        Exchange().client(client_id="shop").send("UNSUBSCRIBE\nid:1\ndurable-subscription-name:all")
    )
    assert b"no durable subscription 'shop.all'" in answer[0]
