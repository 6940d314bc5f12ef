"""Dead letters on a real broker: whatever clients do to their address, none is lost."""

import signal

import pytest

from tests.interop.using import connected, daybook, queues
from tests.interop.wire import Wire
from tests.support.process import BrokerProcess, wait_for

pytestmark = pytest.mark.interop

WITHOUT = """
[[address-setting]]
match = "#"
max-delivery-attempts = 1
dead-letter-policy = "DROP"
"""
WITH = """
[[address-setting]]
match = "#"
max-delivery-attempts = 1
dead-letter-address = "DLQ"
"""


def held_in(broker: BrokerProcess, name: str) -> int:
    return int(queues(broker)[name]["held"])


def reconfigured(broker: BrokerProcess, config: str) -> None:
    broker.configure(config)
    before = broker.log_text().count("reloaded")
    broker.send_signal(signal.SIGHUP)
    wait_for(lambda: broker.log_text().count("reloaded") > before, "the configuration")


def sent(wire: Wire, destination: str, body: bytes) -> str:
    wire.send("SEND", body, destination=destination, receipt="r")
    return wire.read().command


def rejected(wire: Wire, body: bytes) -> None:
    """A message whose last attempt fails, by the receipt of NACK."""
    assert sent(wire, "/queue/jobs", body) == "RECEIPT"
    message = wire.expect("MESSAGE")
    wire.send("NACK", id=message.headers["ack"], receipt="n")
    wire.expect("RECEIPT")


@pytest.mark.parametrize("released", [False, True])
def test_a_name_that_a_client_took_loses_nothing(broker: BrokerProcess, released: bool) -> None:
    reconfigured(broker, WITHOUT)
    with connected(broker) as wire:
        assert sent(wire, "/queue/x::DLQ", b"bait") == "RECEIPT"
        reconfigured(broker, WITH)
        wire.send("SUBSCRIBE", id="s", destination="/queue/jobs", ack="client-individual")
        for body in (b"one", b"two"):
            rejected(wire, body)
    assert held_in(broker, "jobs") == 2
    assert "cannot leave: queue 'DLQ' is on address 'x'" in broker.log_text()
    broker.kill()
    broker.start()
    assert held_in(broker, "jobs") == 2
    with connected(broker) as wire:
        if released:
            daybook(broker, "queue", "release", "jobs")
            wire.send("SUBSCRIBE", id="s", destination="/queue/jobs", ack="auto")
        else:
            daybook(broker, "queue", "delete", "DLQ", "--force")
            wire.send("SUBSCRIBE", id="s", destination="/queue/DLQ", ack="auto")
        assert [wire.expect("MESSAGE").body for _ in range(2)] == [b"one", b"two"]
    assert held_in(broker, "jobs") == 0


def test_no_client_takes_the_name_of_a_dead_letter_queue(broker: BrokerProcess) -> None:
    reconfigured(broker, WITH)
    with connected(broker) as wire:
        assert sent(wire, "/queue/x::DLQ", b"bait") == "ERROR"
    with connected(broker) as wire:
        wire.send("SUBSCRIBE", id="s", destination="/queue/jobs", ack="client-individual")
        rejected(wire, b"one")
        wire.send("SUBSCRIBE", id="d", destination="/queue/DLQ")
        assert wire.expect("MESSAGE").body == b"one"
