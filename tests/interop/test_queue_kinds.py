"""Kinds of queues on a real broker: non-destructive, last value, ring, exclusive."""

import subprocess
import time
from typing import Any

import msgspec
import pytest

from tests.interop.wire import Closed, Frame, Wire
from tests.support.process import DAYBOOK, BrokerProcess

pytestmark = pytest.mark.interop

CONFIG = """
[broker]
message-expiry-scan-period = 200

[[address-setting]]
match = "#"
max-delivery-attempts = 2

[[address-setting]]
match = "read.#"
default-non-destructive = true

[[queue]]
name = "board"
non-destructive = true
"""


@pytest.fixture
def kinds(broker: BrokerProcess) -> BrokerProcess:
    """A broker with queues of all kinds."""
    broker.stop()
    broker.configure(CONFIG)
    return broker.start()


def send(wire: Wire, queue: str, *bodies: bytes, **headers: Any) -> None:
    for body in bodies:
        wire.send("SEND", body, destination=f"/queue/{queue}", receipt="r", **headers)
        wire.expect("RECEIPT")


def subscribe(wire: Wire, queue: str, **headers: str) -> None:
    wire.connect()
    wanted = {"ack": "client-individual", "destination": f"/queue/{queue}", **headers}
    wire.send("SUBSCRIBE", id="s", receipt="s", **wanted)
    wire.expect("RECEIPT")


def messages(wire: Wire, count: int) -> list[Frame]:
    return [wire.expect("MESSAGE") for _ in range(count)]


def bodies(wire: Wire, count: int) -> list[bytes]:
    return [each.body for each in messages(wire, count)]


def settle(wire: Wire, command: str, frame: Frame) -> None:
    wire.send(command, id=frame.headers["ack"], receipt="a")
    wire.expect("RECEIPT")


def nothing_comes(wire: Wire) -> None:
    """A round trip, so that whatever the broker had decided would be there."""
    wire.send("UNSUBSCRIBE", id="none-of-that-name", receipt="end")
    with pytest.raises((Closed, AssertionError)):
        wire.expect("MESSAGE")


def figures(broker: BrokerProcess, queue: str) -> dict[str, Any]:
    command = [DAYBOOK, "queue", "list", "--json", "--data", str(broker.data)]
    found = subprocess.run(command, capture_output=True, check=True).stdout
    return next(row for row in msgspec.json.decode(found, type=list[Any]) if row["queue"] == queue)


def audit_is_clean(broker: BrokerProcess) -> None:
    """The journal verifies, and the audit finds no fault."""
    broker.stop()
    for command in (["journal", "verify"], [DAYBOOK, "pipeline", "audit"]):
        run = [*command[:-1], command[-1], "--data", str(broker.data)]
        if command[0] == "journal":
            run[0] = str(DAYBOOK).replace("daybook", "journal")
        done = subprocess.run(run, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


# ---- non-destructive


@pytest.mark.parametrize("queue", ["board", "read.all"])
def test_everybody_reads_everything_and_removes_nothing(kinds: BrokerProcess, queue: str) -> None:
    with Wire(kinds.port) as first, Wire(kinds.port) as second, Wire(kinds.port) as producer:
        producer.connect()
        send(producer, queue, b"1", b"2")
        subscribe(first, queue)
        got = messages(first, 2)
        assert [each.body for each in got] == [b"1", b"2"]
        settle(first, "ACK", got[0])
        settle(first, "NACK", got[1])
        subscribe(second, queue)
        send(producer, queue, b"3")
        assert bodies(first, 1) == [b"3"]
        assert bodies(second, 3) == [b"1", b"2", b"3"]
        nothing_comes(first)
    row = figures(kinds, queue)
    assert (row["ready"], row["in_flight"], row["acknowledged"]) == (3, 0, 0)


def test_a_killed_broker_shows_all_of_it_again(kinds: BrokerProcess) -> None:
    with Wire(kinds.port) as wire:
        subscribe(wire, "board")
        send_and_read = [(b"%d" % number) for number in range(3)]
        for body in send_and_read:
            wire.send("SEND", body, destination="/queue/board")
        got = messages(wire, 3)
        settle(wire, "ACK", got[2])
    kinds.kill()
    kinds.start()
    with Wire(kinds.port) as wire:
        subscribe(wire, "board")
        again = messages(wire, 3)
        assert [each.body for each in again] == send_and_read
        assert not any("redelivered" in each.headers for each in again)
    audit_is_clean(kinds)


def test_expiry_and_purge_remove_from_it(kinds: BrokerProcess) -> None:
    with Wire(kinds.port) as first:
        subscribe(first, "board")
        send(first, "board", b"long")
        assert bodies(first, 1) == [b"long"]
        first.send("SEND", b"short", destination="/queue/board", ttl="300")
        assert bodies(first, 1) == [b"short"]
        while figures(kinds, "board")["ready"] == 2:
            time.sleep(0.1)
    with Wire(kinds.port) as second:
        subscribe(second, "board")
        assert bodies(second, 1) == [b"long"]
    command = [DAYBOOK, "queue", "purge", "board", "--data", str(kinds.data)]
    subprocess.run(command, capture_output=True, check=True)
    with Wire(kinds.port) as third:
        subscribe(third, "board")
        nothing_comes(third)


def test_a_transaction_and_a_selector_over_it(kinds: BrokerProcess) -> None:
    with Wire(kinds.port) as wire, Wire(kinds.port) as some:
        subscribe(wire, "board")
        send_headers = {"region": "eu"}
        wire.send("SEND", b"a", destination="/queue/board", **send_headers)
        wire.send("SEND", b"b", destination="/queue/board", region="us")
        got = messages(wire, 2)
        wire.send("BEGIN", transaction="t")
        wire.send("ACK", id=got[0].headers["ack"], transaction="t")
        wire.send("COMMIT", transaction="t", receipt="c")
        wire.expect("RECEIPT")
        subscribe(some, "board", selector="region = 'us'")
        assert bodies(some, 1) == [b"b"]
        nothing_comes(some)
