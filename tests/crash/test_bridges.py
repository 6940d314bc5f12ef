"""Exactly once from broker to broker on real processes: SIGKILL of either, at any time.

A bridge takes messages from a queue of one broker to another, and one that the other opened takes
messages back. A message that its broker has confirmed is in the end at the other one, once,
whichever of them was killed when; and the journals of both say so.
"""

import random
import subprocess
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest

from bench.brokers.ports import free_port
from tests.crash.campaign import SETTINGS
from tests.interop.wire import Closed, Wire
from tests.support.process import JOURNAL, BrokerProcess

pytestmark = pytest.mark.crash

WINDOW: Final = 20
ROUND_SECONDS: Final = 0.6
SECONDS: Final = 60.0
CONFIG: Final = """
[[connector]]
name = "east"
url = "amqp://127.0.0.1:{port}"
reconnect-delay = "100ms"
reconnect-delay-max = "200ms"

[[auto-link]]
address = "orders"
direction = "out"
connector = "east"

[[auto-link]]
address = "bills"
direction = "in"
connector = "east"
"""


class Producer:
    """Sends numbers to a queue, and knows which of them were confirmed. Nothing is sent again."""

    def __init__(self, queue: str, first: int) -> None:
        self.queue: Final = queue
        self.confirmed: Final[set[int]] = set()
        self.number = first
        self.is_done = False

    def run(self, port: int) -> None:
        """Send until the broker is gone, or until it is enough."""
        waiting: list[int] = []
        with suppress(Closed, OSError), Wire(port) as wire:
            wire.connect()
            while not self.is_done or waiting:
                while len(waiting) < WINDOW and not self.is_done:
                    self.number += 1
                    waiting.append(self.number)
                    wire.send(
                        "SEND", b"%d" % self.number, destination=self.queue, persistent="true",
                        receipt=self.number,
                    )  # fmt: skip
                assert wire.expect("RECEIPT").headers["receipt-id"] == str(waiting[0])
                self.confirmed.add(waiting.pop(0))


def received(broker: BrokerProcess, queue: str, expected: set[int]) -> list[int]:
    """Take messages until all that are expected came, and none has come for a second."""
    found: list[int] = []
    with Wire(broker.ports[1], seconds=SECONDS) as wire:
        wire.connect()
        wire.send("SUBSCRIBE", destination=queue, id=1, ack="auto")
        while not expected <= set(found):
            found.append(int(wire.expect("MESSAGE").body))
        time.sleep(1)
        wire.send("UNSUBSCRIBE", id=1, receipt="end")
        while (frame := wire.read()).command == "MESSAGE":
            found.append(int(frame.body))
    return found


def test_a_bridge_delivers_each_message_once(tmp_path: Path, kills: int, seed: int) -> None:
    chance = random.Random(seed)
    port = free_port()
    listen = f"amqp://127.0.0.1:{port}", "stomp://127.0.0.1:0"
    orders, bills = Producer("/queue/orders", 0), Producer("/queue/bills", 0)
    with (
        BrokerProcess(tmp_path / "east", listen=listen, settings=SETTINGS) as east,
        BrokerProcess(
            tmp_path / "west", listen=("amqp://127.0.0.1:0", listen[1]), settings=SETTINGS,
            config=CONFIG.format(port=port),
        ) as west,
    ):  # fmt: skip
        threads: list[threading.Thread] = []
        for _ in range(kills):
            for broker, producer in ((east, bills), (west, orders)):
                if not broker.is_running:
                    broker.start()
                    threads.append(
                        threading.Thread(target=producer.run, args=(broker.ports[1],), daemon=True)
                    )
                    threads[-1].start()
            time.sleep(ROUND_SECONDS * (0.5 + chance.random()))
            for broker in chance.choice(((east,), (west,), (east, west))):
                assert broker.is_running, broker.log_text()
                broker.kill()
        for producer in (orders, bills):
            producer.is_done = True
        for broker in (east, west):
            if not broker.is_running:
                broker.start()
        for thread in threads:
            thread.join(SECONDS)
            assert not thread.is_alive()
        for broker, producer in ((east, orders), (west, bills)):
            found = received(broker, producer.queue, producer.confirmed)
            assert len(found) == len(set(found)), "a message came twice"
            assert len(producer.confirmed) > WINDOW, "nothing was proven"
        assert (east.stop(), west.stop()) == (0, 0)
        words = (JOURNAL, "audit", str(west.data), "--data", str(east.data))
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "came from one to another, each of them once" in done.stdout
