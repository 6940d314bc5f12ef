"""The seed's section "Temporary Destinations", sentence by sentence, over a raw socket.

Shown elsewhere already:

| sentence | test in `test_temporary.py` |
|---|---|
| "can only be consumed by a subscription created on the connection" | `test_only_the_connection_that_created_it_may_subscribe` |
| "/temp-queue/ ... same delivery semantics as queues" | `test_a_temporary_queue_keeps_its_messages_without_a_subscription` |
| "/temp-topic/ ... same delivery semantics of topics" | `test_a_temporary_topic_replicates_and_drops` |
| "Once the connection is closed, all ... are removed" | `test_temporary_destinations_end_with_their_connection` |
"""  # noqa: E501

import pytest

from tests.interop.using import arrived, connected, rows, sent
from tests.interop.wire import Wire
from tests.support.process import BrokerProcess

pytestmark = pytest.mark.interop


def subscribe(wire: Wire, id: str, destination: str) -> None:
    wire.send("SUBSCRIBE", id=id, destination=destination, receipt="s")
    wire.expect("RECEIPT")


def test_the_request_and_response_of_the_manual(shared_broker: BrokerProcess) -> None:
    """Seed: "you would first subscribe", "Then you would send a request with the reply-to header",
    "the reply-to header value is updated", "should respond to the updated destination value"."""
    with connected(shared_broker) as client, connected(shared_broker) as service:
        subscribe(service, "foo", "/queue/PO.REQUEST")
        subscribe(client, "mysub", "/temp-queue/example")
        reply_to = {"reply-to": "/temp-queue/example"}
        client.send("SEND", b"PO145", destination="/queue/PO.REQUEST", **reply_to)
        request = service.expect("MESSAGE")
        assert request.body == b"PO145"
        assert request.headers["subscription"] == "foo"
        sent(service, request.headers["reply-to"], b"PO145 accepted")
        answer = client.expect("MESSAGE")
        assert answer.body == b"PO145 accepted"
        assert answer.headers["subscription"] == "mysub"


@pytest.mark.parametrize(("own", "normal"), [("temp-queue", "queue"), ("temp-topic", "topic")])
def test_the_name_maps_to_a_normal_one_with_broker_and_connection(
    shared_broker: BrokerProcess, own: str, normal: str
) -> None:
    """Seed: "They just have a temp.<broker_id>.<connection_id>. prefix", in `reply-to` of MESSAGE.

    The seed's example has both the old and the new `reply-to`; here there is only the new one.
    """
    with Wire(shared_broker.port) as client, connected(shared_broker) as service:
        session = client.connect().headers["session"]
        queue = f"/queue/{own}"
        subscribe(service, "foo", queue)
        sent(client, queue, b"", **{"reply-to": f"/{own}/example"})
        request = service.expect("MESSAGE")
        assert request.headers["reply-to"] == f"/{normal}/temp.default.{session}.example"


def test_two_connections_with_the_same_name_have_two_destinations(
    shared_broker: BrokerProcess,
) -> None:
    """Seed: "the connection which is associated with the temporary destination"."""
    with connected(shared_broker) as one, connected(shared_broker) as other:
        for wire in (one, other):
            subscribe(wire, "mysub", "/temp-queue/example")
        sent(one, "/temp-queue/example", b"one")
        sent(other, "/temp-queue/example", b"other")
        assert [frame.body for frame in arrived(one)] == [b"one"]
        assert [frame.body for frame in arrived(other)] == [b"other"]


def test_any_destination_that_starts_with_temp_is_guarded(shared_broker: BrokerProcess) -> None:
    """Seed: "Any destination which starts with temp. has a security policy"."""
    for destination in ("/queue/temp.mine", "/topic/temp.default.1.x", "/queue/temp.default.0.x"):
        with connected(shared_broker) as client:
            client.send("SUBSCRIBE", id="s", destination=destination)
            assert "temporary destination" in client.expect("ERROR").headers["message"]


def test_they_are_deleted_once_the_connection_is_closed(broker: BrokerProcess) -> None:
    """Seed: "These destinations are also auto deleted once the connection is closed"."""
    with connected(broker) as client:
        for number in range(5):
            sent(client, f"/temp-queue/{number}", b"with a message")
            subscribe(client, str(number), f"/temp-topic/{number}")
        client.send("DISCONNECT", receipt="bye")
        while client.read().headers.get("receipt-id") != "bye":
            pass
        assert client.at_end()
    assert [name for name in rows(broker, "address") if name.startswith("temp.")] == []
