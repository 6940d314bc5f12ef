"""The seed's section "Topic Durable Subscriptions", sentence by sentence, over a raw socket.

Shown elsewhere already:

| sentence | test |
|---|---|
| it outlives the broker, too | `test_clients.py::test_a_durable_subscription_outlives_connections_and_brokers` |
| its selector outlives the broker | `test_filters.py::test_a_durable_subscription_keeps_its_filter_over_a_kill` |
| browsing one | `test_browsing.py`, "durable subscriptions" |
"""  # noqa: E501

from collections.abc import Iterator

import pytest

from tests.interop.delivery.test_browsing import of
from tests.interop.using import arrived, connected, sent
from tests.interop.wire import Wire
from tests.support.process import BrokerProcess, wait_for

pytestmark = pytest.mark.interop


@pytest.fixture
def sender(shared_broker: BrokerProcess) -> Iterator[Wire]:
    with connected(shared_broker) as wire:
        yield wire


def subscribe(wire: Wire, name: str, topic: str, **headers: str) -> None:
    headers = {"persistent": "true", **headers}
    wire.send("SUBSCRIBE", id=name, destination=f"/topic/{topic}", receipt="s", **headers)
    wire.expect("RECEIPT")


def unsubscribe(wire: Wire, name: str, **headers: str) -> None:
    wire.send("UNSUBSCRIBE", id=name, receipt="u", **headers)
    wire.expect("RECEIPT")


def bodies(wire: Wire) -> list[bytes]:
    return [frame.body for frame in arrived(wire)]


def test_it_gets_a_copy_of_all_while_the_client_is_offline(
    shared_broker: BrokerProcess, sender: Wire
) -> None:
    """Seed: "he can still get a copy of all the messages sent to the topic when he comes back"."""
    for how in ("lost", "DISCONNECT"):
        with connected(shared_broker) as client:
            subscribe(client, "offline", "offline")
            if how == "DISCONNECT":
                client.send("DISCONNECT", receipt="d")
                client.expect("RECEIPT")
        # Until the broker notices, it delivers to a client that is gone.
        wait_for(lambda: not of(shared_broker, "dsub.offline")["consumers"], "its end")
        for body in (b"1", b"2", b"3"):
            sent(sender, "/topic/offline", body)
        with connected(shared_broker) as client:
            subscribe(client, "offline", "offline")
            assert bodies(client) == [b"1", b"2", b"3"]


def test_several_clients_share_its_messages(shared_broker: BrokerProcess, sender: Wire) -> None:
    """Seed: "those subscribers will have the topic's messages load balanced across them", and "the
    durable subscription id's are global across a virtual host"."""
    with connected(shared_broker) as one, connected(shared_broker) as other:
        for wire in (one, other):
            subscribe(wire, "shared", "shared")
        for body in (b"1", b"2", b"3", b"4"):
            sent(sender, "/topic/shared", body)
        assert (bodies(one), bodies(other)) == ([b"1", b"3"], [b"2", b"4"])


def test_typical_ids_are_local_to_the_connection(
    shared_broker: BrokerProcess, sender: Wire
) -> None:
    """Seed: "Unlike typical STOMP subscriptions id's which are local to ... connection"."""
    with connected(shared_broker) as one, connected(shared_broker) as other:
        for wire in (one, other):
            subscribe(wire, "local", "local", persistent="false")
        sent(sender, "/topic/local", b"both")
        assert (bodies(one), bodies(other)) == ([b"both"], [b"both"])


def test_a_standard_unsubscribe_only_disconnects_the_client(
    shared_broker: BrokerProcess, sender: Wire
) -> None:
    """Seed: "A standard UNSUBSCRIBE frame does not destroy the durable subscription"."""
    with connected(shared_broker) as client:
        subscribe(client, "stays", "stays")
        unsubscribe(client, "stays")
        sent(sender, "/topic/stays", b"kept")
        assert bodies(client) == []
        subscribe(client, "stays", "stays")
        assert bodies(client) == [b"kept"]


@pytest.mark.parametrize("by", ["its own connection", "another one"])
def test_unsubscribe_with_persistent_destroys_it(
    shared_broker: BrokerProcess, sender: Wire, by: str
) -> None:
    """Seed: "To destroy a durable subscription, you must once again add persistent:true"."""
    with connected(shared_broker) as client:
        subscribe(client, "ends", "ends")
        if by == "another one":
            unsubscribe(client, "ends")
            with connected(shared_broker) as other:
                unsubscribe(other, "ends", persistent="true")
        else:
            unsubscribe(client, "ends", persistent="true")
        sent(sender, "/topic/ends", b"for nobody")
        subscribe(client, "ends", "ends")
        assert bodies(client) == []
        unsubscribe(client, "ends", persistent="true")


def test_it_is_addressed_directly_by_dsub(shared_broker: BrokerProcess, sender: Wire) -> None:
    """Seed: "you can address it directly using /dsub/ prefix", to send and to subscribe."""
    with connected(shared_broker) as client:
        subscribe(client, "direct", "direct")
        unsubscribe(client, "direct")
        sent(sender, "/dsub/direct", b"hello durable sub!")
        sent(sender, "/topic/direct", b"hello topic")
        client.send("SUBSCRIBE", id="0", destination="/dsub/direct", receipt="s")
        client.expect("RECEIPT")
        assert bodies(client) == [b"hello durable sub!", b"hello topic"]


@pytest.mark.parametrize("what", ["SEND", "SUBSCRIBE"])
def test_dsub_makes_none(shared_broker: BrokerProcess, what: str) -> None:
    """Seed: "If the durable subscription already exists": otherwise there is no topic to name."""
    with connected(shared_broker) as client:
        headers = {"id": "0"} if what == "SUBSCRIBE" else {}
        client.send(what, destination="/dsub/none", receipt="r", **headers)
        assert "none" in client.expect("ERROR").headers["message"]


def test_another_destination_updates_it_for_both_connections(
    shared_broker: BrokerProcess, sender: Wire
) -> None:
    """Seed: "If the second connection uses a different destination ... updates the original"."""
    with connected(shared_broker) as one, connected(shared_broker) as other:
        subscribe(one, "moved", "first")
        subscribe(other, "moved", "second")
        for _ in "12":
            sent(sender, "/topic/first", b"not for them")
            sent(sender, "/topic/second", b"for both")
        assert (bodies(one), bodies(other)) == ([b"for both"], [b"for both"])


def test_another_selector_updates_it_for_both_connections(
    shared_broker: BrokerProcess, sender: Wire
) -> None:
    """Seed: "the original connection will subsequently only receive messages matching the updated
    destination or selector"."""
    with connected(shared_broker) as one, connected(shared_broker) as other:
        subscribe(one, "selected", "selected", selector="color = 'red'")
        subscribe(other, "selected", "selected", selector="color = 'blue'")
        for _ in "12":
            sent(sender, "/topic/selected", b"red", color="red")
            sent(sender, "/topic/selected", b"blue", color="blue")
        assert (bodies(one), bodies(other)) == ([b"blue"], [b"blue"])


def test_what_it_holds_already_stays_when_it_is_updated(
    shared_broker: BrokerProcess, sender: Wire
) -> None:
    """The update is for messages to come: those in the queue were accepted for its subscribers, and
    are delivered."""
    with connected(shared_broker) as client:
        subscribe(client, "held", "held", selector="color = 'red'")
        unsubscribe(client, "held")
        sent(sender, "/topic/held", b"red", color="red")
        subscribe(client, "held", "held", selector="color = 'blue'")
        sent(sender, "/topic/held", b"red again", color="red")
        assert bodies(client) == [b"red"]
