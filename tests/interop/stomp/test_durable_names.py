"""Durable subscriptions named as at Artemis, on a real broker."""

import pytest

from tests.interop.wire import Wire
from tests.support.process import BrokerProcess

pytestmark = pytest.mark.interop

NAMED = {"id": "s", "destination": "/topic/news", "durable_subscription_name": "all"}


def test_a_named_subscription_survives_a_kill(broker: BrokerProcess) -> None:
    with Wire(broker.port) as wire:
        wire.connect(client_id="shop")
        wire.send("SUBSCRIBE", receipt="s", ack="client-individual", **NAMED)
        wire.expect("RECEIPT")
    with Wire(broker.port) as wire:
        wire.connect()
        wire.send("SEND", b"one", destination="/topic/news", receipt="r")
        wire.expect("RECEIPT")
    broker.kill()
    broker.start()
    with Wire(broker.port) as wire, Wire(broker.port) as other:
        other.connect(client_id="bank")
        other.send("SUBSCRIBE", receipt="s", **NAMED)
        other.expect("RECEIPT")
        wire.connect(client_id="shop")
        wire.send("SUBSCRIBE", ack="client-individual", **NAMED)
        message = wire.expect("MESSAGE")
        assert message.body == b"one"
        wire.send("UNSUBSCRIBE", receipt="u", durable_subscription_name="all")
        wire.expect("RECEIPT")
        wire.send("SEND", b"two", destination="/topic/news", receipt="r")
        wire.expect("RECEIPT")
        assert other.expect("MESSAGE").body == b"two"
