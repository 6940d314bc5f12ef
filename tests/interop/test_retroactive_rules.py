"""What retroactive addresses keep, what they give to whom, and how that ends; on a real broker."""

import time

import pytest

from tests.interop.test_retroactive import bodies, queues, subscribe
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


@pytest.fixture
def kept(broker: BrokerProcess) -> BrokerProcess:
    broker.stop()
    broker.configure(CONFIG)
    broker.start()
    return broker


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


def test_the_last_ones_whatever_their_priority(kept: BrokerProcess) -> None:
    for number, priority in enumerate("09415"):
        publish(kept, "/topic/last", str(number), priority=priority)
    assert got(kept, "/topic/last", 3) == [4, 2, 3]
    assert queues(kept)[history("last")]["messages"] == 3


def test_scheduled_messages_are_scheduled_for_whoever_comes(kept: BrokerProcess) -> None:
    publish(kept, "/topic/last", "1")
    publish(kept, "/topic/last", "2", AMQ_SCHEDULED_DELAY="2500")
    begun = time.monotonic()
    with connected(kept) as one, connected(kept) as two:
        for wire in (one, two):
            subscribe(wire, "/topic/last")
            assert bodies(wire, 1) == [1]
        assert bodies(one, 1) == bodies(two, 1) == [2]
    assert time.monotonic() - begun > 1.5
    assert got(kept, "/topic/last", 2) == [1, 2]


def test_expired_messages_are_for_nobody_and_copied_once(kept: BrokerProcess) -> None:
    make(kept, "early", "last")
    expires = str(int(time.time() * 1000) + 1500)
    publish(kept, "/topic/last", "1", expires=expires)
    publish(kept, "/topic/last", "2")
    wait_for(lambda: queues(kept)[history("last")]["messages"] == 1, "the scan")
    assert got(kept, "/topic/last", 1) == [2]
    wait_for(lambda: queues(kept).get("late", {}).get("messages") == 1, "the copy of the other")
    assert queues(kept)[history("last")]["expired"] == 1


def make(broker: BrokerProcess, name: str, address: str, *options: str) -> None:
    daybook(
        broker, "queue", "create", name, "--address", address, "--routing-type", "multicast",
        *options,
    )  # fmt: skip


def test_age_and_bytes_and_the_end_of_an_address(kept: BrokerProcess) -> None:
    publish(kept, "/topic/small", *"123456")
    assert 0 < queues(kept)[history("small")]["messages"] < 5
    publish(kept, "/topic/young", *"12")
    assert got(kept, "/topic/young", 2) == [1, 2]
    found = daybook(kept, "address", "list")
    assert "young" in found, "it is in use while it keeps something"
    wait_for(lambda: history("young") not in queues(kept), "the end of what nobody uses")


def test_a_history_is_no_route_and_never_full(kept: BrokerProcess) -> None:
    publish(kept, "/topic/small", *"123456")
    assert queues(kept)["dead"]["messages"] == 6
    assert queues(kept)[history("small")]["address"] == "$.artemis.internal.small.address.retro"


def test_what_takes_nothing_gets_nothing(kept: BrokerProcess) -> None:
    publish(kept, "/topic/last", *"12")
    make(kept, "off", "last", "--not-enabled")
    make(kept, "served", "last", "--purge-on-no-consumers")
    make(kept, "usual", "last")
    found = queues(kept)
    assert [found[name]["messages"] for name in ("off", "served", "usual")] == [0, 0, 2]


def test_anycast_queues_types_and_a_restart(kept: BrokerProcess) -> None:
    daybook(
        kept,
        "address",
        "create",
        "last",
        "--routing-type",
        "anycast",
        "--routing-type",
        "multicast",
    )
    publish(kept, "/queue/last", *"12")
    publish(kept, "/topic/last", "3")
    publish(kept, "/topic/last", "4", persistent="false")
    daybook(kept, "queue", "create", "another", "--address", "last")
    found = queues(kept)
    assert found["another"]["messages"] == found[history("last", "anycast")]["messages"] == 2
    assert found[history("last")]["messages"] == 2
    kept.kill()
    kept.start()
    assert got(kept, "/topic/last", 1) == [3]
    daybook(kept, "address", "delete", "last", "--force")
    assert not any("last" in name for name in queues(kept))
