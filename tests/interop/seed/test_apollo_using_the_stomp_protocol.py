"""The seed's section "Using the STOMP Protocol", sentence by sentence, over a raw socket.

"allows any STOMP clients": `test_clients.py` and `test_stompman.py` run client libraries.
"""

import pytest

from tests.interop.wire import Wire
from tests.support.process import BrokerProcess

pytestmark = pytest.mark.interop


@pytest.mark.parametrize("command", ["CONNECT", "STOMP"])
@pytest.mark.parametrize(
    ("accepted", "chosen"),
    [
        (None, "1.0"),
        ("1.0", "1.0"),
        ("1.1", "1.1"),
        ("1.2", "1.2"),
        ("1.0,1.1", "1.1"),
        ("1.2,1.1,1.0", "1.2"),
        ("1.1,2.0", "1.1"),
    ],
)
def test_all_three_versions_are_supported(
    shared_broker: BrokerProcess, command: str, accepted: str | None, chosen: str
) -> None:
    """Seed: "Apollo supports the following versions ...: STOMP 1.0, STOMP 1.1, STOMP 1.2"."""
    with Wire(shared_broker.port) as client:
        headers = {"accept-version": accepted, "host": "h"} if accepted else {}
        client.send(command, **headers)
        assert client.expect("CONNECTED").headers["version"] == chosen


@pytest.mark.parametrize("accepted", ["2.0", "1.3", "x", "0.9,9"])
def test_a_version_that_is_not_spoken_is_refused(
    shared_broker: BrokerProcess, accepted: str
) -> None:
    """The ERROR lists the versions that are spoken."""
    with Wire(shared_broker.port) as client:
        client.send("CONNECT", accept_version=accepted, host="h")
        assert client.expect("ERROR").headers["version"] == "1.0,1.1,1.2"
        assert client.at_end()


@pytest.mark.parametrize("sends", ["1.0", "1.1", "1.2"])
@pytest.mark.parametrize("receives", ["1.0", "1.1", "1.2"])
def test_clients_of_all_versions_understand_each_other(
    shared_broker: BrokerProcess, sends: str, receives: str
) -> None:
    """Seed: "easy and widespread messaging interoperability"."""
    queue = f"/queue/{sends}-to-{receives}"
    with Wire(shared_broker.port) as sender, Wire(shared_broker.port) as receiver:
        sender.connect(sends)
        receiver.connect(receives)
        sender.send("SEND", b"a\0b", destination=queue, receipt="r", **{"x-y": "z"})
        sender.expect("RECEIPT")
        receiver.send("SUBSCRIBE", id="s", destination=queue, ack="client")
        message = receiver.expect("MESSAGE")
        assert message.body == b"a\0b"
        assert message.headers["x-y"] == "z"
        named = {
            "1.0": {"message-id": message.headers["message-id"]},
            "1.1": {"message-id": message.headers["message-id"], "subscription": "s"},
            "1.2": {"id": message.headers.get("ack", "")},
        }
        receiver.send("ACK", receipt="a", **named[receives])
        assert receiver.expect("RECEIPT").headers["receipt-id"] == "a"
