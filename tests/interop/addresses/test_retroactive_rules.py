"""Retroactive addresses on a real broker: the kept messages, their recipients, and their end."""

import time

import pytest

from tests.interop.addresses.test_retroactive import bodies, queues, subscribe
from tests.interop.using import connected, daybook, sent
from tests.support.process import BrokerProcess, wait_for

pytestmark = pytest.mark.interop

CONFIG = """
[broker]
message-expiry-scan-period = 500
address-queue-scan-period = 500
[[address-setting]]
match = "#"
expiry-address = "late"
dead-letter-address = "dead"
send-to-dla-on-no-route = true
max-size-messages = 4
address-full-policy = "FAIL"
[[address-setting]]
match = "dead"
max-size-messages = -1
[[address-setting]]
match = "last"
retroactive-message-count = 3
[[address-setting]]
match = "young"
retroactive-max-age = "3s"
send-to-dla-on-no-route = false
[[address-setting]]
match = "small"
retroactive-bytes = 600
"""


def publish(broker: BrokerProcess, destination: str, *texts: str, **headers: str) -> None:
    with connected(broker) as wire:
        for text in texts:
            sent(wire, destination, text.encode(), **{"persistent": "true", **headers})


def history(name: str, kind: str = "multicast") -> str:
    return f"$.artemis.internal.{name}.queue.{kind}.retro"


def got(broker: BrokerProcess, destination: str, count: int, **headers: str) -> list[int]:
    with connected(broker) as wire:
        subscribe(wire, destination, **headers)
        return bodies(wire, count)


def test_the_last_ones_whatever_their_priority(configured: BrokerProcess) -> None:
    for number, priority in enumerate("09415"):
        publish(configured, "/topic/last", str(number), priority=priority)
    assert got(configured, "/topic/last", 3) == [4, 2, 3]
    assert queues(configured)[history("last")]["messages"] == 3


def test_scheduled_messages_are_scheduled_for_whoever_comes(configured: BrokerProcess) -> None:
    publish(configured, "/topic/last", "1")
    publish(configured, "/topic/last", "2", AMQ_SCHEDULED_DELAY="2500")
    begun = time.monotonic()
    with connected(configured) as one, connected(configured) as two:
        for wire in (one, two):
            subscribe(wire, "/topic/last")
            assert bodies(wire, 1) == [1]
        assert bodies(one, 1) == bodies(two, 1) == [2]
    assert time.monotonic() - begun > 1.5
    assert got(configured, "/topic/last", 2) == [1, 2]


def test_expired_messages_are_for_nobody_and_copied_once(configured: BrokerProcess) -> None:
    make(configured, "early", "last")
    expires = str(int(time.time() * 1000) + 1500)
    publish(configured, "/topic/last", "1", expires=expires)
    publish(configured, "/topic/last", "2")
    wait_for(lambda: queues(configured)[history("last")]["messages"] == 1, "the scan")
    assert got(configured, "/topic/last", 1) == [2]
    wait_for(
        lambda: queues(configured).get("late", {}).get("messages") == 1, "the copy of the other"
    )
    assert queues(configured)[history("last")]["expired"] == 1


def make(broker: BrokerProcess, name: str, address: str, *options: str) -> None:
    daybook(
        broker, "queue", "create", name, "--address", address, "--routing-type", "multicast",
        *options,
    )  # fmt: skip


def test_age_and_bytes_and_the_end_of_an_address(configured: BrokerProcess) -> None:
    publish(configured, "/topic/small", *"123456")
    assert 0 < queues(configured)[history("small")]["messages"] < 5
    publish(configured, "/topic/young", *"12")
    assert got(configured, "/topic/young", 2) == [1, 2]
    found = daybook(configured, "address", "list")
    assert "young" in found, "it is in use while it keeps something"
    wait_for(lambda: history("young") not in queues(configured), "the end of what nobody uses")


def test_a_history_is_no_route_and_never_full(configured: BrokerProcess) -> None:
    publish(configured, "/topic/small", *"123456")
    assert queues(configured)["dead"]["messages"] == 6
    assert (
        queues(configured)[history("small")]["address"] == "$.artemis.internal.small.address.retro"
    )


def test_what_takes_nothing_gets_nothing(configured: BrokerProcess) -> None:
    publish(configured, "/topic/last", *"12")
    make(configured, "off", "last", "--not-enabled")
    make(configured, "served", "last", "--purge-on-no-consumers")
    make(configured, "usual", "last")
    found = queues(configured)
    assert [found[name]["messages"] for name in ("off", "served", "usual")] == [0, 0, 2]


def test_anycast_queues_types_and_a_restart(configured: BrokerProcess) -> None:
    daybook(
        configured,
        "address",
        "create",
        "last",
        "--routing-type",
        "anycast",
        "--routing-type",
        "multicast",
    )
    publish(configured, "/queue/last", *"12")
    publish(configured, "/topic/last", "3")
    publish(configured, "/topic/last", "4", persistent="false")
    daybook(configured, "queue", "create", "another", "--address", "last")
    found = queues(configured)
    assert found["another"]["messages"] == found[history("last", "anycast")]["messages"] == 2
    assert found[history("last")]["messages"] == 2
    configured.kill()
    configured.start()
    assert got(configured, "/topic/last", 1) == [3]
    daybook(configured, "address", "delete", "last", "--force")
    assert not any("last" in name for name in queues(configured))
