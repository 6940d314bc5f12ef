"""A sharded queue over two brokers that are processes, and one of them dies (12.1.4.1)."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest
from proton import Message
from proton.utils import BlockingConnection, SendException

from tests.interop.using import audited, daybook, events, queues, run
from tests.support.process import BrokerProcess, wait_for

pytestmark = pytest.mark.interop

SECONDS: Final = 60
EAST: Final = '[[queue]]\nname = "orders"\naddress = "orders"\n'
WEST: Final = """
[[connector]]
name = "east"
url = "amqp://127.0.0.1:{port}"

[[sharded-queue]]
name = "orders"
connectors = ["east"]
"""


class Brokers:
    """The broker in the west, which has the sharded queue, and the one in the east."""

    def __init__(self, folder: Path) -> None:
        listen = ("amqp://127.0.0.1:0",)
        self.east = BrokerProcess(folder / "east", config=EAST, listen=listen)
        self.west = BrokerProcess(folder / "west", listen=listen)
        self.sent: list[int] = []

    def start(self) -> None:
        self.east.start()
        # Where it is found again.
        self.east.listen[:] = [f"amqp://127.0.0.1:{self.east.port}"]
        self.west.configure(WEST.format(port=self.east.port))
        self.west.start()

    def connect(self) -> BlockingConnection:
        return BlockingConnection(
            f"127.0.0.1:{self.west.port}", timeout=SECONDS, allowed_mechs="ANONYMOUS"
        )

    def send(self, sender: Any, count: int) -> None:
        """Send messages, each until it is confirmed."""
        for number in range(len(self.sent), len(self.sent) + count):
            self.sent.append(number)
            while True:
                try:
                    sender.send(Message(body=number, durable=True), timeout=SECONDS)
                    break
                except SendException:
                    # Its shard is gone, and may have the message or not.
                    continue

    def stored(self) -> list[int]:
        """Return how many messages each of the shards has, the one in the west first."""
        found = [queues(each).get("orders", {}) for each in (self.west, self.east)]
        return [int(each.get("messages", 0)) for each in found]

    def shards(self) -> dict[str, dict[str, Any]]:
        """Return the shards as the broker in the west knows them, by name."""
        found = msgspec.json.decode(daybook(self.west, "queue", "shards", "orders", "--json"))
        return {each["shard"]: each for each in found}


@pytest.fixture
def brokers(tmp_path: Path) -> Iterator[Brokers]:
    found = Brokers(tmp_path)
    with found.east, found.west:
        found.start()
        yield found


def test_a_broker_that_dies_loses_nothing_and_gives_back_what_it_has(brokers: Brokers) -> None:
    """The others continue meanwhile, and consumers get from all."""
    connection = brokers.connect()
    sender = connection.create_sender("orders")
    # Until the link to the other broker is there, only one shard is.
    wait_for(lambda: brokers.send(sender, 2) or brokers.stored()[1], "messages in the east")
    brokers.send(sender, 40)
    west, east = brokers.stored()
    assert west + east == len(brokers.sent)
    assert east > 10 < west
    wait_for(lambda: brokers.shards()["east"]["waiting"] == east, "the count of the shard there")
    shards = brokers.shards()
    assert (shards["east"]["sent"], shards["east"]["unconfirmed"]) == (east, 0)
    assert (shards["local"]["state"], shards["local"]["waiting"]) == ("active", west)
    brokers.east.kill()
    wait_for(lambda: brokers.shards()["east"]["state"] != "active", "the shard there to be down")
    assert brokers.shards()["east"]["why"]
    brokers.send(sender, 40)
    brokers.east.start()
    receiver = brokers.connect().create_receiver("orders", credit=20)
    got: list[int] = []
    while len(set(got)) < len(brokers.sent):
        got.append(receiver.receive(timeout=SECONDS).body)
        receiver.accept()
    assert set(got) == set(brokers.sent)
    connection.close()
    for each in (brokers.west, brokers.east):
        audited(each)


def test_the_backlog_of_a_shard_is_moved_to_another_one(brokers: Brokers) -> None:
    connection = brokers.connect()
    sender = connection.create_sender("orders")
    wait_for(lambda: brokers.send(sender, 2) or brokers.stored()[1], "messages in the east")
    brokers.send(sender, 30)
    connection.close()
    west, east = brokers.stored()
    assert west > 10
    refused = run(brokers.west, "queue", "drain", "orders", "--to", "north")
    assert refused.returncode == 1
    assert "it has no shard 'north' on another broker; those are east" in refused.stderr
    said = daybook(brokers.west, "queue", "drain", "orders", "--to", "east")
    assert said == f"moving {west} messages of queue 'orders' to shard 'east'\n"
    wait_for(lambda: brokers.stored() == [0, west + east], "the messages in the east")
    wait_for(lambda: "drain" not in daybook(brokers.west, "auto-link", "list"), "the end of it")
    again = daybook(brokers.west, "queue", "drain", "orders", "--to", "east")
    assert again == "moving 0 messages of queue 'orders' to shard 'east'\n"
    attached = [each for each in events(brokers.west, "ConsumerAttached") if "drain" in str(each)]
    assert "by " in str(attached)
    for each in (brokers.west, brokers.east):
        audited(each)


def test_shards_of_another_queue_are_not_listed(brokers: Brokers) -> None:
    found = run(brokers.west, "queue", "shards", "bills")
    assert found.returncode == 1
    assert (
        "'bills' is not a sharded queue; write a [[sharded-queue]] with this name" in found.stderr
    )
