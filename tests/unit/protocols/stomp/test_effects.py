"""The reaction of subscriptions to effects other than deliveries."""

import pytest

from daybook.engine.commands import ChangeSettings, CreateQueue, DropUnlisted
from daybook.engine.facts.definitions import QueueDefinition
from daybook.engine.facts.reasons import ADMINISTRATION, LEFT_OUT
from daybook.protocols.stomp.output import Output
from daybook.protocols.stomp.wire.options import StompOptions
from tests.unit.protocols.stomp.exchange import Client, Exchange
from tests.unit.protocols.stomp.fakes import NOW

SUBSCRIBE = "SUBSCRIBE\nid:s\ndestination:/queue/orders"


def listed() -> Exchange:
    """A broker whose configuration lists the queue `orders`."""
    exchange = Exchange()
    force = {"#": {"config-delete-queues": "FORCE"}}
    exchange.broker.handle(ChangeSettings(force), NOW)
    queue = QueueDefinition(name="orders")
    exchange.broker.handle(CreateQueue("orders", queue, configured=True), NOW)
    return exchange


def drop(exchange: Exchange) -> None:
    """Let the configuration list it no more."""
    nothing: frozenset[str] = frozenset()
    exchange.broker.handle(DropUnlisted(nothing, nothing, nothing), NOW)


@pytest.mark.parametrize("more", ["", "\ninclude-seq:seq"])
def test_the_end_of_its_queue_is_the_end_of_the_connection(more: str) -> None:
    exchange = listed()
    client = exchange.client()
    client.send("SUBSCRIBE\nid:other\ndestination:/queue/other")
    client.send(SUBSCRIBE + more)
    before = exchange.broker.lsn
    drop(exchange)
    assert "orders" not in exchange.broker.state.queue_by_name
    (error,) = client.read()
    assert error.startswith(b"ERROR\n")
    what = b"queue 'orders' was deleted: the configuration lists it no more"
    assert what in error
    assert b"subscribe to another queue" in error
    # That the queue goes and that its consumer went; the last event removes what is left of it.
    assert client.gate == before + 2 < exchange.broker.lsn
    assert client.session.closing
    assert exchange.broker.state.connections == {}


def test_of_several_lost_queues_one_is_told() -> None:
    exchange = listed()
    queue = QueueDefinition(name="mails")
    exchange.broker.handle(CreateQueue("mails", queue, configured=True), NOW)
    client = exchange.client()
    client.send(SUBSCRIBE)
    client.send("SUBSCRIBE\nid:t\ndestination:/queue/mails")
    drop(exchange)
    assert len(client.read()) == 1


def test_a_subscription_that_ended_before_tells_nothing() -> None:
    exchange = listed()
    client = exchange.client()
    client.send(SUBSCRIBE)
    subscription = client.session.by_key["id", "s"]
    client.send("UNSUBSCRIBE\nid:s")
    subscription.detached(ADMINISTRATION, "late", 0, NOW)
    assert client.read() == []
    assert not client.session.closing


def browser(exchange: Exchange) -> Client:
    client = exchange.client()
    client.send(SUBSCRIBE + "\nbrowser:true\nbrowser-end:false")
    return client


def test_a_browser_sees_the_end_of_its_browse_when_that_is_durable() -> None:
    exchange = listed()
    client = browser(exchange)
    drop(exchange)
    deleted = exchange.broker.lsn
    (end,) = client.read()
    assert b"browser:end" in end
    assert not client.session.closing
    assert 0 < client.gate <= deleted


def test_a_browser_that_is_over_is_told_no_second_time() -> None:
    exchange = listed()
    client = browser(exchange)
    reader = client.session.by_key["id", "s"]
    drop(exchange)
    assert len(client.read()) == 1
    reader.detached(ADMINISTRATION, "again", 0, NOW)
    assert client.read() == []


def test_a_browser_without_a_session_writes_nothing() -> None:
    exchange = listed()
    client = browser(exchange)
    reader = client.session.by_key["id", "s"]
    client.send("DISCONNECT")
    reader.detached(ADMINISTRATION, "late", exchange.broker.lsn, NOW)
    assert client.read() == []


def test_what_stomp_has_no_frame_for_is_ignored() -> None:
    client = listed().client()
    client.send(SUBSCRIBE)
    subscription = client.session.by_key["id", "s"]
    subscription.drained(3, 5)
    subscription.settled((7,), LEFT_OUT, 9)
    subscription.browsed()
    assert client.read() == []
    assert client.session.gate == 0


def test_only_a_session_can_be_ended() -> None:
    with pytest.raises(NotImplementedError):
        Output(StompOptions()).dismiss("x", "y", NOW)
