"""A sharded queue on two brokers: balanced, killed, stopped and back; nothing confirmed is lost.

Rules: Interconnect, chapter 12.1.4.1 and 12.1.4.2.
"""

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.interop.connectors.using import (
    QUICK,
    SECONDS,
    command,
    connector,
    east,
    listed,
    row,
    wait_for_link,
    wait_until,
    west,
)
from tests.support.process import BrokerProcess, wait_for

pytestmark = pytest.mark.interop

SHARDED: Final = '[[sharded-queue]]\nname = "orders"\nconnectors = ["east"]\n'


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[tuple[BrokerProcess, BrokerProcess]]:
    """A broker with a sharded queue, and the one with the other shard."""
    with east(tmp_path) as other, west(tmp_path, "") as broker:
        other.start()
        lines = (*QUICK, 'idle-time-out = "2s"')
        broker.configure(connector(other.port, *lines) + SHARDED)
        broker.start()
        ready(broker)
        yield broker, other


def ready(broker: BrokerProcess) -> None:
    wait_for_link(broker, "orders-out-east")
    wait_for_link(broker, "orders-in-east")


def send(broker: BrokerProcess, count: int) -> None:
    url = f"amqp://127.0.0.1:{broker.port}"
    said = command("send", "orders", "{n}", "--count", str(count), "--url", url)
    assert said.endswith("; accepted\n")


def receive(broker: BrokerProcess, count: int) -> int:
    url = f"amqp://127.0.0.1:{broker.port}"
    words = ("--count", str(count), "--timeout", "20")
    return len(command("receive", "orders", *words, "--url", url).splitlines())


def ready_in(broker: BrokerProcess) -> int:
    rows: list[dict[str, Any]] = listed(broker, "queue", "list")
    return sum(each["ready"] for each in rows if each["queue"] == "orders")


def test_messages_are_balanced_over_the_shards_and_consumers_get_all(
    pair: tuple[BrokerProcess, BrokerProcess],
) -> None:
    broker, other = pair
    send(broker, 20)
    assert (ready_in(broker), ready_in(other)) == (10, 10)
    assert receive(broker, 20) == 20
    wait_for(lambda: ready_in(broker) == ready_in(other) == 0, "empty shards")
    assert wait_for_link(broker, "orders-in-east")["messages"] >= 10


def test_a_shard_that_is_killed_comes_back_with_its_messages(
    pair: tuple[BrokerProcess, BrokerProcess], tmp_path: Path
) -> None:
    broker, other = pair
    port = other.port
    send(broker, 10)
    other.kill()
    wait_until(broker, "waiting")
    send(broker, 10)
    assert ready_in(broker) == 15
    with east(tmp_path, port=port) as again:
        again.start()
        ready(broker)
        assert receive(broker, 20) == 20
        wait_for(lambda: ready_in(broker) == ready_in(again) == 0, "empty shards")
        assert again.stop() == 0
    assert broker.stop() == 0


def test_a_shard_that_hangs_does_not_hold_up_the_others(
    pair: tuple[BrokerProcess, BrokerProcess],
) -> None:
    broker, other = pair
    send(broker, 4)
    other.send_signal(signal.SIGSTOP)
    # The kernel accepts connections for a process that is stopped, so it connects again and again.
    wait_for(lambda: row(broker)["state"] != "open", "the end of the connection", SECONDS)
    send(broker, 6)
    assert ready_in(broker) == 8
    other.send_signal(signal.SIGCONT)
    ready(broker)
    assert receive(broker, 10) == 10
    assert broker.stop() == 0
