"""redelivery-delay on a real broker: failed messages wait, also over a kill; others continue."""

import time
from typing import Any

import pytest

from tests.interop.using import journal, queues
from tests.interop.wire import Wire
from tests.support.process import BrokerProcess

pytestmark = pytest.mark.interop

DELAY_MS = 2_500
CONFIG = f"""
[[address-setting]]
match = "#"
redelivery-delay = {DELAY_MS}
"""


def figures(broker: BrokerProcess) -> dict[str, Any]:
    (row,) = queues(broker).values()
    return row


def failed(wire: Wire) -> None:
    """A message whose first delivery fails, and one behind it that is acknowledged."""
    wire.connect()
    for body in (b"sick", b"well"):
        wire.send("SEND", body, destination="/queue/jobs", receipt="r")
        wire.expect("RECEIPT")
    wire.send("SUBSCRIBE", id="s", destination="/queue/jobs", ack="client-individual")
    first = wire.expect("MESSAGE")
    assert first.body == b"sick"
    wire.send("NACK", id=first.headers["ack"], receipt="n")
    frames = [wire.read() for _ in range(2)]
    (second,) = [frame for frame in frames if frame.command == "MESSAGE"]
    assert second.body == b"well"
    wire.send("ACK", id=second.headers["ack"], receipt="a")
    wire.expect("RECEIPT")


def comes_again(wire: Wire) -> None:
    """The message that failed; it is acknowledged."""
    again = wire.expect("MESSAGE")
    assert (again.body, again.headers["redelivered"]) == (b"sick", "true")
    wire.send("ACK", id=again.headers["ack"], receipt="a")
    wire.expect("RECEIPT")


@pytest.mark.parametrize("is_killed", [False, True])
def test_what_failed_comes_later(configured: BrokerProcess, is_killed: bool) -> None:
    begun = time.monotonic()
    with Wire(configured.port) as wire:
        failed(wire)
        row = figures(configured)
        assert (row["scheduled"], row["ready"], row["in_flight"]) == (1, 0, 0)
        if not is_killed:
            comes_again(wire)
    if is_killed:
        configured.kill()
        configured.start()
        with Wire(configured.port) as wire:
            wire.connect()
            wire.send("SUBSCRIBE", id="s", destination="/queue/jobs", ack="client-individual")
            comes_again(wire)
    # Never earlier; how much later is a question of how busy the machine is.
    assert time.monotonic() - begun >= DELAY_MS / 1000
    assert figures(configured)["messages"] == 0
    story = journal(configured, "inspect")
    assert story.index("Returned") < story.index("Scheduled") < story.index("Due")
