"""`redelivered` on a real broker, for the next consumer after a clean end of the last."""

import pytest

from tests.interop.using import connected
from tests.interop.wire import Frame, Wire
from tests.support.process import BrokerProcess

pytestmark = pytest.mark.interop


def taking(wire: Wire) -> None:
    wire.send("SUBSCRIBE", id="s", destination="/queue/jobs", ack="client-individual")


def left(wire: Wire, how: str) -> None:
    """End cleanly, and wait until the broker has said so."""
    if how == "DISCONNECT":
        wire.send(how, receipt="left")
    else:
        wire.send(how, id="s", receipt="left")
    assert wire.expect("RECEIPT").headers["receipt-id"] == "left"


def told(message: Frame) -> tuple[bytes, str, str]:
    headers = message.headers
    return message.body, headers.get("redelivered", ""), headers.get("delivery-count", "")


@pytest.mark.parametrize("how", ["DISCONNECT", "UNSUBSCRIBE"])
@pytest.mark.parametrize("killed", [False, True])
def test_the_next_consumer_is_told_after_a_clean_end(
    broker: BrokerProcess, how: str, killed: bool
) -> None:
    with connected(broker) as wire:
        for body in (b"aborted", b"held"):
            wire.send("SEND", body, destination="/queue/jobs", receipt="sent")
            wire.expect("RECEIPT")
        taking(wire)
        first, second = wire.frames(2)
        assert told(first) == (b"aborted", "", "")
        assert told(second) == (b"held", "", "")
        wire.send("BEGIN", transaction="t")
        wire.send("ACK", id=first.headers["ack"], transaction="t")
        wire.send("ABORT", transaction="t")
        left(wire, how)
    if killed:
        broker.kill()
        broker.start()
    with connected(broker) as wire:
        taking(wire)
        assert told(wire.expect("MESSAGE")) == (b"aborted", "true", "2")
        assert told(wire.expect("MESSAGE")) == (b"held", "true", "")
