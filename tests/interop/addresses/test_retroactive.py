"""Retroactive addresses on a real broker: later subscribers begin with earlier messages."""

import subprocess
import threading
from typing import Any

import msgspec
import pytest

from tests.interop.using import connected, daybook, journal, queues, sent
from tests.interop.wire import Wire
from tests.support.process import BrokerProcess, wait_for

pytestmark = pytest.mark.interop

HISTORY = "$.artemis.internal.orders.queue.multicast.retro"
TOPIC = "/topic/orders"


@pytest.fixture
def ten(broker: BrokerProcess) -> BrokerProcess:
    return configured(broker, "retroactive-message-count = 10\n")


def configured(broker: BrokerProcess, settings: str, others: str = "") -> BrokerProcess:
    broker.stop()
    broker.configure(f'{others}[[address-setting]]\nmatch = "orders"\n{settings}')
    broker.start()
    return broker


def subscribe(wire: Wire, destination: str = TOPIC, **headers: str) -> None:
    wire.send("SUBSCRIBE", id="s", destination=destination, receipt="s", **headers)
    wire.expect("RECEIPT")


def bodies(wire: Wire, count: int) -> list[int]:
    return [int(wire.expect("MESSAGE").body) for _ in range(count)]


def publish(broker: BrokerProcess, first: int, last: int, **headers: str) -> None:
    with connected(broker) as wire:
        for number in range(first, last + 1):
            sent(wire, TOPIC, b"%d" % number, **{"persistent": "true", **headers})


def gets(broker: BrokerProcess, expected: list[int], **headers: str) -> None:
    """A new subscriber gets exactly these, and then what is sent next."""
    with connected(broker) as wire:
        subscribe(wire, **headers)
        assert bodies(wire, len(expected)) == expected
        # Not into the history: that is only for this one.
        wire.send("SEND", b"-1", destination=f"{TOPIC}::{temporary(broker)}")
        assert bodies(wire, 1) == [-1]


def temporary(broker: BrokerProcess) -> str:
    """The queue of the only subscription that ends with its connection."""
    (name,) = [name for name, row in queues(broker).items() if row["temporary"]]
    return name


def test_the_worked_example(ten: BrokerProcess) -> None:
    publish(ten, 1, 12)
    with connected(ten) as one, connected(ten) as two:
        subscribe(one)
        assert bodies(one, 10) == list(range(3, 13))
        subscribe(two)
        frames = [two.expect("MESSAGE") for _ in range(10)]
        assert [int(frame.body) for frame in frames] == list(range(3, 13))
        assert {frame.headers["destination"] for frame in frames} == {TOPIC}
        assert {frame.headers.get("redelivered") for frame in frames} == {None}
        assert queues(ten)[HISTORY]["messages"] == 10
        sent(one, TOPIC, b"13")
        assert bodies(one, 1) == bodies(two, 1) == [13]
    row = queues(ten)[HISTORY]
    assert (row["messages"], row["evicted"], row["keeps"]) == (10, 3, "orders")


def test_filters_and_starts(ten: BrokerProcess) -> None:
    publish(ten, 1, 3, kind="small")
    publish(ten, 4, 6, kind="big")
    lsn = int(oldest(ten)["message"])
    gets(ten, [4, 5, 6], selector="kind <> 'small'")
    publish(ten, 7, 8)
    gets(ten, [], retroactive="false")
    with connected(ten) as wire:
        subscribe(wire, **{"retroactive-after": str(lsn)})
        assert bodies(wire, 4)[0] == 2
    with connected(ten) as wire:
        wire.send("SUBSCRIBE", id="s", destination=TOPIC, **{"retroactive-since": "now"})
        assert "retroactive-since" in wire.expect("ERROR").headers["message"]


def oldest(broker: BrokerProcess) -> dict[str, Any]:
    told = msgspec.json.decode(daybook(broker, "browse", HISTORY, "--json"), type=dict[str, Any])
    first: dict[str, Any] = told["messages"][0]
    return first


def test_administration_lists_browses_and_purges(ten: BrokerProcess) -> None:
    publish(ten, 1, 4)
    assert oldest(ten)["message"]
    daybook(ten, "queue", "create", "archive", "--address", "orders", "--routing-type", "multicast")
    daybook(
        ten, "queue", "create", "nothing", "--address", "orders", "--routing-type", "multicast",
        "--not-retroactive",
    )  # fmt: skip
    daybook(ten, "queue", "purge", HISTORY)
    found = queues(ten)
    assert found["archive"]["messages"] == found["archive"]["recalled"] == 4
    assert found["nothing"]["messages"] == found[HISTORY]["messages"] == 0
    with pytest.raises(subprocess.CalledProcessError):
        daybook(ten, "queue", "delete", HISTORY)
    with connected(ten) as wire:
        wire.send("SUBSCRIBE", id="s", destination=f"{TOPIC}::{HISTORY}")
        wire.expect("ERROR")
    gets(ten, [])


def test_settings_at_run_time(broker: BrokerProcess) -> None:
    publish(broker, 1, 2)
    daybook(broker, "settings", "set", "orders", "retroactive-message-count=5")
    publish(broker, 3, 9)
    daybook(broker, "settings", "set", "orders", "retroactive-message-count=3")
    assert queues(broker)[HISTORY]["messages"] == 3
    gets(broker, [7, 8, 9])
    daybook(broker, "settings", "remove", "orders")
    wait_for(lambda: HISTORY not in queues(broker), "the end of the history")
    gets(broker, [])


def test_wildcards_and_durable_subscriptions_over_a_kill(broker: BrokerProcess) -> None:
    configured(broker, "retroactive-message-count = 5\n")
    publish(broker, 1, 7)
    broker.kill()
    broker.start()
    with connected(broker) as wire:
        subscribe(wire, "/topic/*")
        assert bodies(wire, 5) == [3, 4, 5, 6, 7]
    with connected(broker) as wire:
        wire.send(
            "SUBSCRIBE", id="mine", destination=TOPIC, persistent="true", ack="client", receipt="s"
        )
        wire.expect("RECEIPT")
        assert bodies(wire, 5) == [3, 4, 5, 6, 7]
        broker.kill()
    broker.start()
    with connected(broker) as wire:
        wire.send("SUBSCRIBE", id="mine", destination=TOPIC, persistent="true", receipt="s")
        frames = [wire.read() for _ in range(6)]
        assert [int(f.body) for f in frames if f.command == "MESSAGE"] == [3, 4, 5, 6, 7]
        sent(wire, TOPIC, b"8")
        assert bodies(wire, 1) == [8]


class Producer(threading.Thread):
    """Sends numbers until the test stops it or the broker is gone; `last` has a receipt."""

    def __init__(self, broker: BrokerProcess, first: int) -> None:
        super().__init__(daemon=True)
        self.broker = broker
        self.last = first - 1
        self.ends = threading.Event()

    def run(self) -> None:
        try:
            with connected(self.broker) as wire:
                while not self.ends.is_set():
                    for ahead in range(1, 21):
                        wire.send(
                            "SEND", b"%d" % (self.last + ahead), destination=TOPIC,
                            persistent="true", **({"receipt": "r"} if ahead == 20 else {}),
                        )  # fmt: skip
                    wire.expect("RECEIPT")
                    self.last += 20
        except (OSError, AssertionError):
            pass


@pytest.mark.parametrize("paged", [False, True])
def test_the_seam_under_a_running_producer_and_a_kill(broker: BrokerProcess, paged: bool) -> None:
    """Durable subscribers come while a producer sends; one is killed with the broker."""
    others = '[[address-setting]]\nmatch = "#"\nmax-size-messages = 10\n' if paged else ""
    configured(broker, "retroactive-message-count = 3000\n", others)
    producer = Producer(broker, 1)
    producer.start()
    wait_for(lambda: producer.last > 3500, "some history")
    for name in ("a", "b"):
        with connected(broker) as wire:
            wire.send(
                "SUBSCRIBE", id=name, destination=TOPIC, persistent="true", ack="client",
                receipt="s", credit="1,0",
            )  # fmt: skip
            wire.expect("RECEIPT")
            if name == "b":
                broker.kill()
    producer.join(20)
    broker.start()
    for name in ("a", "b"):
        with connected(broker) as wire:
            sent(wire, TOPIC, b"-1", persistent="true")
            wire.send("SUBSCRIBE", id=name, destination=TOPIC, persistent="true", receipt="s")
            got = []
            while not got or got[-1] != -1:
                found = wire.read()
                if found.command == "MESSAGE":
                    got.append(int(found.body))
        marks = got.count(-1)
        numbers = [number for number in got if number >= 0]
        assert marks >= 1
        assert numbers == list(range(numbers[0], numbers[-1] + 1)), "no gap, no duplicate"
        assert numbers[-1] >= producer.last
        assert len(numbers) >= 3000
    broker.stop()
    journal(broker, "verify")
