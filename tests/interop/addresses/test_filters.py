"""Filters on a real broker: subscriptions, durable ones over a kill, queues, and errors."""

import shlex
import subprocess

import pytest

from tests.interop.using import journal, run
from tests.interop.wire import Wire
from tests.meta import tree
from tests.support.brokers.console import commands_of
from tests.support.process import BrokerProcess

pytestmark = pytest.mark.interop

CARS = ((b"golf", "blue", "1200"), (b"truck", "red", "7500"), (b"van", "blue", "2600"))


def offer(wire: Wire, destination: str) -> None:
    for body, color, weight in CARS:
        wire.send(
            "SEND", body, destination=destination, type="car", color=color, weight=weight,
            receipt="r",
        )  # fmt: skip
        wire.expect("RECEIPT")


def subscribe(wire: Wire, destination: str, **headers: str) -> None:
    wire.send("SUBSCRIBE", destination=destination, receipt="s", **headers)
    wire.expect("RECEIPT")


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("type = 'car' AND color = 'blue' AND weight > 2500", [b"van"]),
        ("weight BETWEEN 1000 AND 3000", [b"golf", b"van"]),
        ("NOT color = 'blue'", [b"truck"]),
        ("color LIKE 'b%' OR weight = 7500", [b"golf", b"truck", b"van"]),
        ("AMQAddress = 'cars' AND AMQPriority = 4 AND weight % 1000 = 500", [b"truck"]),
    ],
)
@pytest.mark.parametrize(
    ("subscribed", "sent"),
    [("/topic/cars", "/topic/cars"), ("/queue/cars", "/queue/cars"), ("/topic/*", "/topic/cars")],
)
def test_a_subscription_gets_what_passes(
    broker: BrokerProcess, selector: str, expected: list[bytes], subscribed: str, sent: str
) -> None:
    with Wire(broker.port) as consumer, Wire(broker.port) as producer:
        consumer.connect()
        producer.connect()
        # Artemis calls the header `filter`.
        header = "filter" if subscribed == "/topic/*" else "selector"
        subscribe(consumer, subscribed, id="s", **{header: selector})
        offer(producer, sent)
        assert [consumer.expect("MESSAGE").body for _ in expected] == expected
        # Nothing else comes: this is the next frame.
        consumer.send("SEND", b"", destination="/queue/end", receipt="end")
        assert consumer.read().command == "RECEIPT"


def test_a_durable_subscription_keeps_its_filter_over_a_kill(broker: BrokerProcess) -> None:
    with Wire(broker.port) as wire:
        wire.connect()
        subscribe(wire, "/topic/cars", id="blue", persistent="true", selector="color = 'blue'")
    broker.kill()
    broker.start()
    with Wire(broker.port) as wire:
        wire.connect()
        offer(wire, "/topic/cars")
        subscribe(wire, "/dsub/blue", id="s")
        assert [wire.expect("MESSAGE").body for _ in range(2)] == [b"golf", b"van"]


def test_consumers_with_different_filters_share_a_queue(broker: BrokerProcess) -> None:
    with Wire(broker.port) as blue, Wire(broker.port) as heavy, Wire(broker.port) as producer:
        for wire in (blue, heavy, producer):
            wire.connect()
        subscribe(blue, "/queue/cars", id="b", selector="color = 'blue'")
        subscribe(heavy, "/queue/cars", id="h", selector="weight > 5000")
        offer(producer, "/queue/cars")
        assert heavy.expect("MESSAGE").body == b"truck"
        assert [blue.expect("MESSAGE").body for _ in range(2)] == [b"golf", b"van"]


def test_a_queue_made_by_command_has_a_filter(broker: BrokerProcess) -> None:
    def create(name: str, text: str) -> "subprocess.CompletedProcess[str]":
        words = ["queue", "create", name, "--address", "cars", "--filter", text]
        return run(broker, *words, "--routing-type", "multicast")

    wrong = create("light", "weight << 5000")
    assert wrong.returncode == 1
    assert "the filter is wrong: column 9: found '<' where a value must be" in wrong.stderr
    assert create("light", "weight < 5000").returncode == 0
    with Wire(broker.port) as wire:
        wire.connect()
        offer(wire, "/topic/cars")
        subscribe(wire, "cars::light", id="s")
        assert [wire.expect("MESSAGE").body for _ in range(2)] == [b"golf", b"van"]
    assert "every filter on the address refused it" in journal(broker, "inspect")


@pytest.mark.parametrize(
    ("headers", "part"),
    [
        ({"selector": "color == 'x'"}, "column 8: found '=' where a value must be"),
        ({"selector": "color = 'x"}, "column 9: the string that begins here does not end"),
        ({"selector": "a = 1", "filter": "a = 2"}, "selector and filter mean the same"),
    ],
)
def test_what_is_wrong_is_said(
    shared_broker: BrokerProcess, headers: dict[str, str], part: str
) -> None:
    with Wire(shared_broker.port) as wire:
        wire.connect()
        wire.send("SUBSCRIBE", id="s", destination="/topic/cars", **headers)
        frame = wire.expect("ERROR")
        assert part in frame.headers["message"] + frame.body.decode()


def test_a_wrong_filter_is_refused_as_the_page_says(shared_broker: BrokerProcess) -> None:
    page = (tree.ROOT / "docs" / "filters.md").read_text("utf-8")
    (shown,) = commands_of(page)
    done = run(shared_broker, *shlex.split(shown.command)[1:])
    assert done.returncode == 1
    assert done.stderr == shown.output
