"""Worked examples of the manuals on expiry and redelivery over STOMP, as the journal has them."""

import time
from typing import Any, Final

import pytest

from tests.interop import using
from tests.interop.wire import Wire
from tests.support.process import BrokerProcess, wait_for

pytestmark = pytest.mark.interop

DAY: Final = 86_400_000
CONFIG = """
[[address-setting]]
match = "slow"
redelivery-delay = 5000
redelivery-delay-multiplier = 2.0
max-redelivery-delay = 15000
max-delivery-attempts = 5

[[address-setting]]
match = "ten-times"
redelivery-delay = 5000
redelivery-delay-multiplier = 4.0
max-delivery-attempts = -1

[[address-setting]]
match = "both"
min-expiry-delay = "1d"
max-expiry-delay = "10d"

[[address-setting]]
match = "least"
min-expiry-delay = "1d"

[[address-setting]]
match = "beaten"
expiry-delay = "3d"
min-expiry-delay = "4d"
max-expiry-delay = "5d"

[[address-setting]]
match = "never"
no-expiry = true
expiry-delay = "3d"

[[address-setting]]
match = "my.*"
max-delivery-attempts = 3
dead-letter-address = "DLA"

[[address-setting]]
match = "my.queue"
max-delivery-attempts = 1
"""


def events(broker: BrokerProcess, kind: str, count: int) -> list[dict[str, Any]]:
    """The first so many events of a kind, once they are known to be durable."""

    def found() -> list[dict[str, Any]]:
        known = using.events(broker, kind)
        return known[:count] if len(known) >= count else []

    return wait_for(found, "the journal")


def send(wire: Wire, queue: str, **headers: Any) -> None:
    wire.send("SEND", b"x", destination=f"/queue/{queue}", receipt="r", **headers)
    wire.expect("RECEIPT")


def attempts(broker: BrokerProcess, queue: str, count: int) -> list[int]:
    """Fail so many deliveries, and return for each the delay of the next one, in milliseconds.

    An administrator delivers what is scheduled, so that nobody waits for it.
    """
    with Wire(broker.port) as wire:
        wire.connect()
        send(wire, queue)
        wire.send("SUBSCRIBE", id="s", destination=f"/queue/{queue}", ack="client-individual")
        for _ in range(count):
            message = wire.expect("MESSAGE")
            wire.send("NACK", id=message.headers["ack"], receipt="n")
            wire.expect("RECEIPT")
            using.daybook(broker, "queue", "deliver-scheduled", queue)
    return [
        round(event["detail"]["due"] - event["time"] / 1000)
        for event in events(broker, "Scheduled", count)
    ]


def test_delays_are_multiplied_up_to_the_longest(configured: BrokerProcess) -> None:
    delays = attempts(configured, "slow", 4)
    assert delays == pytest.approx([5_000, 10_000, 15_000, 15_000], abs=2)


def test_the_longest_delay_is_ten_times_the_first(configured: BrokerProcess) -> None:
    delays = attempts(configured, "ten-times", 4)
    assert delays == pytest.approx([5_000, 20_000, 50_000, 50_000], abs=2)


EXPIRIES: Final[tuple[tuple[str, int | None, int | None], ...]] = (
    ("both", None, 10 * DAY),
    ("both", 20 * DAY, 10 * DAY),
    ("both", DAY // 2, DAY),
    ("both", 5 * DAY, 5 * DAY),
    ("least", None, DAY),
    ("least", DAY // 2, DAY),
    ("least", 20 * DAY, 20 * DAY),
    ("beaten", None, 3 * DAY),
    ("beaten", 20 * DAY, 20 * DAY),
    ("never", None, None),
    ("never", DAY, None),
    ("other", DAY, DAY),
    ("other", None, None),
)
"""Queue, time to live that the sender gives, and the one that the message has; None: no end."""


def test_expiry(configured: BrokerProcess) -> None:
    now = time.time_ns() // 1_000_000
    with Wire(configured.port) as wire:
        wire.connect()
        for queue, given, _ in EXPIRIES:
            send(wire, queue, **({} if given is None else {"expires": now + given}))
    found = [
        event["detail"].get("expires", 0) for event in events(configured, "Routed", len(EXPIRIES))
    ]
    expected = [0 if live is None else now + live for _, _, live in EXPIRIES]
    assert found == pytest.approx(expected, rel=0, abs=60_000)


@pytest.mark.parametrize(("queue", "count"), [("my.queue", 1), ("my.other", 3)])
def test_settings_of_several_matches_are_merged(
    configured: BrokerProcess, queue: str, count: int
) -> None:
    """my.queue has its own number of attempts, and the dead letter address of my.*."""
    with Wire(configured.port) as wire:
        wire.connect()
        send(wire, queue)
        wire.send("SUBSCRIBE", id="s", destination=f"/queue/{queue}", ack="client-individual")
        for _ in range(count):
            message = wire.expect("MESSAGE")
            wire.send("NACK", id=message.headers["ack"], receipt="n")
            wire.expect("RECEIPT")
        wire.send("SUBSCRIBE", id="d", destination="/queue/DLA")
        dead = wire.expect("MESSAGE")
        assert dead.headers["_AMQ_ORIG_QUEUE"] == queue
