"""Full addresses and full disks with real clients: producers are blocked, memory is bounded."""

import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import stomp

from daybook.client.control import ask
from tests.interop.using import daybook
from tests.interop.wire import Wire
from tests.support.process import BrokerProcess, wait_for

pytestmark = pytest.mark.interop

LIMIT_BYTES = 200_000
CONFIG = f"""
[[address-setting]]
match = "#"
max-delivery-attempts = -1

[[address-setting]]
match = "held"
max-size-bytes = {LIMIT_BYTES}
address-full-policy = "BLOCK"

[[address-setting]]
match = "failing"
max-size-messages = 2
address-full-policy = "FAIL"

[[address-setting]]
match = "dropping"
max-size-messages = 2
address-full-policy = "DROP"

[[address-setting]]
match = "paging"
max-size-messages = 8

[[address-setting]]
match = "pointless"
address-full-policy = "FAIL"
"""


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path / "data", config=CONFIG) as process:
        yield process.start()
        assert process.stop() == 0, process.log_text()


def asked(broker: BrokerProcess, **request: Any) -> dict[str, Any]:
    answer = ask(broker.data, request)
    assert answer is not None
    return answer


def blocked(broker: BrokerProcess) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = asked(broker, do="status")["blocked"]
    return rows


def address(broker: BrokerProcess, name: str) -> dict[str, Any]:
    rows = asked(broker, do="addresses")["addresses"]
    found: dict[str, Any] = next(row for row in rows if row["address"] == name)
    return found


def messages_in(broker: BrokerProcess, name: str) -> int:
    rows = asked(broker, do="queues")["queues"]
    return next((int(row["messages"]) for row in rows if row["queue"] == name), 0)


def wait_until_blocked(broker: BrokerProcess, count: int = 1) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = wait_for(
        lambda: (found := blocked(broker)) and len(found) == count and found,
        f"{count} blocked producers",
    )
    return rows


def fill(wire: Wire, name: str = "held", size: int = 1000) -> None:
    """Send more than fits, in one go, without reading an answer."""
    for number in range(LIMIT_BYTES // size + 5):
        wire.send("SEND", bytes(size), destination=f"/queue/{name}", receipt=number)


class Counting(stomp.ConnectionListener):  # type: ignore[misc]
    """Counts receipts; remembers what was received."""

    def __init__(self) -> None:
        self.receipts = 0
        self.bodies: list[str] = []

    def on_receipt(self, frame: Any) -> None:
        self.receipts += 1

    def on_message(self, frame: Any) -> None:
        self.bodies.append(frame.body)


def connect(broker: BrokerProcess, **options: Any) -> tuple[stomp.Connection12, Counting]:
    connection = stomp.Connection12([("127.0.0.1", broker.port)], **options)
    listener = Counting()
    connection.set_listener("", listener)
    connection.connect("guest", "guest", wait=True)
    return connection, listener


def test_a_fast_producer_is_blocked_and_resumes(broker: BrokerProcess) -> None:
    """The size stays at its limit, however much is sent; the broker does not grow meanwhile."""
    count, body = 3_000, "x" * 10_000
    producer, receipts = connect(broker)

    def produce() -> None:
        for number in range(count):
            producer.send("/queue/held", f"{number}:{body}", receipt=str(number))

    thread = threading.Thread(target=produce, daemon=True)
    before = broker.rss_bytes()
    thread.start()
    [row] = wait_until_blocked(broker)
    assert (row["address"], "max-size-bytes" in row["why"]) == ("held", True)
    counts = address(broker, "held")
    assert LIMIT_BYTES <= counts["bytes"] < LIMIT_BYTES + 11_000
    assert counts["blocked_producers"] == 1
    assert receipts.receipts <= counts["messages"]
    consumer, taken = connect(broker)
    consumer.subscribe("/queue/held", "1", ack="auto")
    most = 0
    while len(taken.bodies) < count:
        with contextlib.suppress(TimeoutError):
            most = max(most, address(broker, "held")["bytes"])
    assert most < LIMIT_BYTES + 11_000
    thread.join(60)
    wait_for(lambda: receipts.receipts == count, "all receipts")
    assert [int(each.partition(":")[0]) for each in taken.bodies] == list(range(count))
    assert broker.rss_bytes() - before < 24 << 20
    assert blocked(broker) == []
    producer.disconnect()
    consumer.disconnect()


def test_a_heart_beating_producer_is_blocked_for_long(broker: BrokerProcess) -> None:
    """It is not given up for its silence, and it hears the broker."""
    with Wire(broker.port, seconds=30) as producer:
        producer.connect(heart_beat="200,200")
        fill(producer)
        wait_until_blocked(broker)
        wait_for(lambda: blocked(broker)[0]["seconds"] > 2.0, "two seconds of being blocked")
        shown = daybook(broker, "status")
        assert "max-size-bytes is" in shown
        assert "producers blocked" in shown
        assert "BLOCK" in daybook(broker, "address", "list")
        asked(broker, do="purge-queue", queue="held")
        producer.send("DISCONNECT", receipt="end")
        while (frame := producer.read()).headers["receipt-id"] != "end":
            assert frame.command == "RECEIPT"


def test_a_blocked_peer_that_dies_gives_back_at_once(broker: BrokerProcess) -> None:
    with Wire(broker.port) as other, Wire(broker.port) as dying:
        other.connect()
        other.send("SEND", b"mine", destination="/queue/work")
        other.send("SEND", b"", destination="/queue/work", receipt="sent")
        other.expect("RECEIPT")
        dying.connect()
        dying.send("SUBSCRIBE", destination="/queue/work", id=1, ack="client-individual")
        assert [dying.expect("MESSAGE").body for _ in range(2)] == [b"mine", b""]
        fill(dying)
        wait_until_blocked(broker)
        assert asked(broker, do="status")["messages_in_flight"] == 2
        dying.close()
        wait_for(lambda: not blocked(broker), "the end of a peer that nobody reads", every=0.05)
        other.send("SUBSCRIBE", destination="/queue/work", id=1, ack="client-individual")
        assert [other.expect("MESSAGE").body for _ in range(2)] == [b"mine", b""]


def test_acknowledgements_behind_a_blocked_send_wait_with_it(broker: BrokerProcess) -> None:
    with Wire(broker.port) as both:
        both.connect()
        both.send("SEND", b"work", destination="/queue/work")
        both.send("SUBSCRIBE", destination="/queue/work", id=1, ack="client-individual")
        message = both.expect("MESSAGE")
        fill(both)
        both.send("ACK", id=message.headers["ack"], receipt="acked")
        wait_until_blocked(broker)
        assert asked(broker, do="status")["messages_in_flight"] == 1
        asked(broker, do="purge-queue", queue="held")
        while both.expect("RECEIPT").headers["receipt-id"] != "acked":
            pass
        assert messages_in(broker, "work") == 0


def test_a_consumer_of_the_full_address_on_the_same_connection_gets_what_it_holds(
    broker: BrokerProcess,
) -> None:
    """Deliveries continue; without acknowledgements they make the room that the SEND waits for."""
    with Wire(broker.port) as both:
        both.connect()
        both.send("SUBSCRIBE", destination="/queue/held", id=1, ack="auto")
        for number in range(2 * LIMIT_BYTES // 1000):
            both.send("SEND", bytes(1000), destination="/queue/held", n=number)
        numbers = [both.expect("MESSAGE").headers["n"] for _ in range(2 * LIMIT_BYTES // 1000)]
        assert numbers == [str(number) for number in range(2 * LIMIT_BYTES // 1000)]


def test_a_transaction_is_blocked_as_a_whole(broker: BrokerProcess) -> None:
    with Wire(broker.port) as producer, Wire(broker.port) as filler:
        filler.connect()
        fill(filler)
        wait_until_blocked(broker)
        producer.connect()
        producer.send("BEGIN", transaction="t")
        producer.send("SEND", b"1", destination="/queue/free", transaction="t")
        producer.send("SEND", b"2", destination="/queue/held", transaction="t")
        producer.send("COMMIT", transaction="t", receipt="committed")
        wait_until_blocked(broker, 2)
        assert messages_in(broker, "free") == 0
        asked(broker, do="purge-queue", queue="held")
        assert producer.expect("RECEIPT").headers["receipt-id"] == "committed"
        assert messages_in(broker, "free") == 1


def test_failing_dropping_and_paging(broker: BrokerProcess) -> None:
    with Wire(broker.port) as wire:
        wire.connect()
        for name, count in (("dropping", 5), ("paging", 9)):
            for number in range(count):
                wire.send("SEND", b"x", destination=f"/queue/{name}", receipt=number)
                wire.expect("RECEIPT")
        assert messages_in(broker, "dropping") == 2
        assert broker.log_text().count("messages to address 'dropping' are dropped") == 1
        assert address(broker, "paging")["paging"] is True
        asked(broker, do="purge-queue", queue="paging")
        wait_for(lambda: not address(broker, "paging")["paging"], "the end of paging")
        for _ in range(3):
            wire.send("SEND", b"x", destination="/queue/failing", receipt="r")
        assert [wire.read().command for _ in range(2)] == ["RECEIPT", "RECEIPT"]
        error = wire.expect("ERROR")
        assert "max-size-messages is 2" in error.headers["message"]


def test_a_policy_without_a_limit_is_told_of(broker: BrokerProcess) -> None:
    said = "match 'pointless': address-full-policy is FAIL without max-size-bytes"
    assert said in broker.log_text()
    asked(broker, do="create-address", address="pointless")
    assert address(broker, "pointless")["full_policy"] == "FAIL"


def test_a_disk_that_is_too_full_holds_producers_until_a_reload(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data", settings=["disk-scan-period=100ms"]) as broker:
        broker.configure('min-disk-free = "1GiB"\nmax-disk-usage = 1\n')
        broker.start()
        with Wire(broker.port) as wire:
            wire.connect()
            wire.send("SEND", b"1", destination="/queue/a", receipt="1")
            wire.expect("RECEIPT")
            wire.send("SUBSCRIBE", destination="/queue/a", id=1, ack="client-individual")
            message = wire.expect("MESSAGE")
            broker.configure('min-disk-free = "1024GiB"\n')
            broker.send_signal(1)
            wait_for(lambda: asked(broker, do="status")["disk_full"], "a full disk")
            wire.send("ACK", id=message.headers["ack"], receipt="acked")
            wire.expect("RECEIPT")
            wire.send("SEND", b"2", destination="/queue/a", receipt="2")
            [row] = wait_until_blocked(broker)
            assert "min-disk-free is" in row["why"]
            broker.configure("")
            broker.send_signal(1)
            assert {wire.read().command for _ in range(2)} == {"RECEIPT", "MESSAGE"}
            assert not asked(broker, do="status")["disk_full"]
