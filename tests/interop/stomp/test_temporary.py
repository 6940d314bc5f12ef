"""Temporary destinations on a real broker (seed, "Temporary Destinations"; ADR 57)."""

import pytest

from tests.interop.delivery.test_flow import status
from tests.interop.using import audited, connected, rows, sent, subscribed
from tests.interop.wire import Wire
from tests.support.process import BrokerProcess, wait_for

pytestmark = pytest.mark.interop

REPLIES = "/temp-queue/replies"


def listed(broker: BrokerProcess, what: str) -> list[str]:
    return [name for name in rows(broker, what) if name.startswith("temp.")]


def reply_name(broker: BrokerProcess, client: Wire, own: str = REPLIES) -> str:
    """Return the name that other clients use for a temporary destination of a client."""
    with connected(broker) as server:
        subscribed(server, "/queue/PO.REQUEST")
        sent(client, "/queue/PO.REQUEST", b"PO145", **{"reply-to": own})
        return server.expect("MESSAGE").headers["reply-to"]


def test_a_request_is_answered_on_a_temporary_queue(broker: BrokerProcess) -> None:
    with connected(broker) as client, connected(broker) as server:
        subscribed(client, REPLIES)
        subscribed(server, "/queue/PO.REQUEST")
        for number in range(3):
            request = b"PO%d" % number
            headers = {"reply-to": REPLIES, "correlation-id": f"c{number}"}
            client.send("SEND", request, destination="/queue/PO.REQUEST", **headers)
            asked = server.expect("MESSAGE")
            assert asked.body == request
            assert asked.headers["correlation-id"] == f"c{number}"
            assert asked.headers["reply-to"].startswith("/queue/temp.default.")
            assert asked.headers["reply-to"].endswith(".replies")
            sent(server, asked.headers["reply-to"], b"answer to " + request)
            assert client.expect("MESSAGE").body == b"answer to " + request


def test_a_temporary_topic_replicates_and_drops(broker: BrokerProcess) -> None:
    with connected(broker) as client:
        subscribed(client, "/temp-topic/news", "one")
        subscribed(client, "/temp-topic/news", "two")
        name = reply_name(broker, client, "/temp-topic/news")
        assert name.startswith("/topic/temp.default.")
        with connected(broker) as server:
            sent(server, name, b"to both")
        assert {client.expect("MESSAGE").headers["subscription"] for _ in "12"} == {"one", "two"}
        for id in ("one", "two"):
            client.send("UNSUBSCRIBE", id=id, receipt="u")
            client.expect("RECEIPT")
        with connected(broker) as server:
            server.send(
                "SEND", b"to nobody", destination=name, receipt="r", **{"receipt-outcome": "true"}
            )
            assert server.expect("RECEIPT").headers["dropped"] == "no-binding"


def test_a_temporary_queue_keeps_its_messages_without_a_subscription(broker: BrokerProcess) -> None:
    with connected(broker) as client:
        sent(client, REPLIES, b"to myself")
        sent(client, REPLIES, b"and again")
        subscribed(client, REPLIES)
        assert client.expect("MESSAGE").body == b"to myself"
        client.send("UNSUBSCRIBE", id="s", receipt="u")
        assert client.expect("MESSAGE").body == b"and again"
        client.expect("RECEIPT")
        sent(client, REPLIES, b"later")
        subscribed(client, REPLIES)
        assert client.expect("MESSAGE").body == b"later"


@pytest.mark.parametrize("own", [REPLIES, "/temp-topic/replies"])
def test_only_the_connection_that_created_it_may_subscribe(broker: BrokerProcess, own: str) -> None:
    with connected(broker) as client:
        subscribed(client, own)
        name = reply_name(broker, client, own)
        for headers in ({}, {"persistent": "true"}):
            with connected(broker) as thief:
                thief.send("SUBSCRIBE", id="t", destination=name, **headers)
                refused = thief.expect("ERROR")
                assert "temporary" in refused.headers["message"] or headers
        with connected(broker) as thief:
            address = name.split("/")[2]
            thief.send("SUBSCRIBE", id="t", destination=f"/queue/{address}::{address}")
            thief.expect("ERROR")
        with connected(broker) as thief:
            subscribed(thief, "/topic/#")
            with connected(broker) as server:
                sent(server, name, b"for its owner")
                sent(server, "/topic/other", b"for all")
            assert client.expect("MESSAGE").body == b"for its owner"
            assert thief.expect("MESSAGE").body == b"for all"


def test_temporary_destinations_end_with_their_connection(broker: BrokerProcess) -> None:
    with connected(broker) as client:
        subscribed(client, REPLIES)
        subscribed(client, "/temp-topic/news", "two")
        sent(client, "/temp-queue/kept", b"nobody takes it")
        name = reply_name(broker, client)
        assert len(listed(broker, "queue")) == 3
        assert len(listed(broker, "address")) == 3
    wait_for(lambda: not listed(broker, "address"), "the destinations are gone")
    assert listed(broker, "queue") == []
    with connected(broker) as server:
        outcome = {"receipt-outcome": "true"}
        server.send("SEND", b"too late", destination=name, receipt="r", **outcome)
        assert server.expect("RECEIPT").headers["dropped"] == "gone"
        # The server continues: it made no mistake.
        sent(server, "/queue/other", b"next")


def test_nothing_temporary_is_left_after_a_kill(broker: BrokerProcess) -> None:
    with connected(broker) as client:
        subscribed(client, REPLIES)
        sent(client, "/temp-queue/kept", b"nobody takes it")
        subscribed(client, "/temp-topic/news", "two")
        broker.kill()
    broker.start()
    assert listed(broker, "queue") == []
    assert listed(broker, "address") == []


def test_what_is_sent_in_a_transaction_to_one_that_ended_is_dropped(broker: BrokerProcess) -> None:
    with connected(broker) as server:
        with connected(broker) as client:
            subscribed(client, REPLIES)
            name = reply_name(broker, client)
            server.send("BEGIN", transaction="t")
            sent(server, name, b"answer", transaction="t")
            sent(server, "/queue/log", b"logged", transaction="t")
        wait_for(lambda: not listed(broker, "address"), "the destinations are gone")
        sent(server, name, b"another", transaction="t")
        server.send("COMMIT", transaction="t", receipt="c")
        server.expect("RECEIPT")
        subscribed(server, "/queue/log")
        assert server.expect("MESSAGE").body == b"logged"


@pytest.mark.parametrize(
    ("destination", "said"),
    [
        ("/temp-queue/", "names nothing"),
        ("/temp-queue/a::b", "has one queue"),
        ("/temp-queue/temp.x", "begins with temp."),
        ("/temp-queue/a*", "wildcards"),
        ("/queue/temp.x", "temp.default.CONNECTION.NAME"),
        ("/queue/temp.default.07.x", "temp.default.CONNECTION.NAME"),
        ("/topic/temp.default.7.#", "belong to temporary destinations"),
    ],
)
def test_wrong_names_are_refused(shared_broker: BrokerProcess, destination: str, said: str) -> None:
    with connected(shared_broker) as client:
        client.send("SUBSCRIBE", id="s", destination=destination)
        refused = client.expect("ERROR")
        assert said in refused.headers["message"] + refused.body.decode()
    assert listed(shared_broker, "address") == []


@pytest.mark.parametrize("destination", ["/topic/news", "/temp-queue/t"])
def test_what_a_connection_leaves_may_be_removed_after_its_end(
    broker: BrokerProcess, destination: str
) -> None:
    """A long queue is emptied in parts: its deletion names a connection that is closed by then."""
    with connected(broker) as client:
        subscribed(client, destination, ack="client-individual", credit="1,0")
        with connected(broker) as other:
            name = destination
            if destination.startswith("/temp"):
                name = f"/queue/{listed(broker, 'queue')[0]}"
            for _ in range(2000):
                other.send("SEND", b"x", destination=name)
            sent(other, "/queue/last", b"x")
    wait_for(lambda: status(broker)["queues"] == 1, "the end of its queue")
    audited(broker)
