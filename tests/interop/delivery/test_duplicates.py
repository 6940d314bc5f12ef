"""Duplicates on a real broker: the answers to senders, and the ids known after a restart."""

from typing import Any

import msgspec
import pytest

from tests.interop.using import connected, journal, rows
from tests.interop.wire import Frame, Wire, frame
from tests.support.process import BrokerProcess

pytestmark = pytest.mark.interop


def sent(
    wire: Wire, duplicate_id: str, body: bytes, receipt: str = "", transaction: str = ""
) -> None:
    """SEND with an id, whose header no other frame has."""
    headers = {"destination": "/queue/jobs"}
    if receipt:
        headers["receipt"] = receipt
    if transaction:
        headers["transaction"] = transaction
    plain = frame("SEND", body, **headers)
    wire.write(plain.replace(b"SEND\n", b"SEND\n_AMQ_DUPL_ID:%b\n" % duplicate_id.encode(), 1))


def committed(wire: Wire, duplicate_id: str, bodies: list[bytes]) -> Frame:
    """Send a transaction whose first message has an id; return the answer to its COMMIT."""
    wire.send("BEGIN", transaction="t")
    sent(wire, duplicate_id, bodies[0], transaction="t")
    for body in bodies[1:]:
        wire.send("SEND", body, destination="/queue/jobs", transaction="t")
    wire.send("COMMIT", transaction="t", receipt="commit")
    return wire.read()


def listed(broker: BrokerProcess) -> dict[str, Any]:
    """Return the row of the address in `daybook address list`."""
    return rows(broker, "address")["jobs"]


def test_what_was_sent_before_a_kill_is_known_after_it(broker: BrokerProcess) -> None:
    with connected(broker) as wire:
        sent(wire, "job-1", b"one", receipt="r1")
        assert wire.expect("RECEIPT").headers["receipt-id"] == "r1"
        assert committed(wire, "job-2", [b"two", b"three"]).command == "RECEIPT"
    broker.kill()
    broker.start()
    with connected(broker) as wire:
        sent(wire, "job-1", b"one again", receipt="r2")
        assert wire.expect("RECEIPT").headers["receipt-id"] == "r2"
        error = committed(wire, "job-2", [b"two again", b"three again"])
        assert (error.command, error.headers["code"]) == ("ERROR", "duplicate-id")
        assert error.headers["receipt-id"] == "commit"
        assert wire.at_end()
    assert (listed(broker)["messages"], listed(broker)["remembered_ids"]) == (3, 2)
    broker.stop()
    assert (listed(broker)["messages"], listed(broker)["remembered_ids"]) == (3, 2)
    broker.start()
    with connected(broker) as wire:
        wire.send("SUBSCRIBE", destination="/queue/jobs", id=1)
        bodies = [wire.expect("MESSAGE").body for _ in range(3)]
        assert bodies == [b"one", b"two", b"three"]
        # All is acknowledged now, and still known.
        sent(wire, "job-1", b"one once more", receipt="r3")
        assert wire.expect("RECEIPT").headers["receipt-id"] == "r3"
        sent(wire, "job-3", b"new")
        assert wire.expect("MESSAGE").body == b"new"
    assert "dropped a message that it had before" in broker.log_text()


def test_a_large_message_that_comes_again_is_not_kept(broker: BrokerProcess) -> None:
    body = bytes(range(256)) * 4096
    with connected(broker) as wire:
        for number in range(3):
            sent(wire, "large", body, receipt=str(number))
            assert wire.expect("RECEIPT").headers["receipt-id"] == str(number)
        assert listed(broker)["messages"] == 1
        wire.send("SUBSCRIBE", destination="/queue/jobs", id=1)
        assert wire.expect("MESSAGE").body == body
    kinds = msgspec.json.decode(journal(broker, "stat", "--json"))["kinds"]
    assert kinds["ChunkReceived"] == 16
    assert kinds["Dropped"] == 2


def test_ids_in_memory_only_are_gone_with_the_broker(broker: BrokerProcess) -> None:
    broker.kill()
    broker.settings.append("persist-id-cache=false")
    broker.start()
    with connected(broker) as wire:
        for number in range(2):
            sent(wire, "job", b"x", receipt=str(number))
            wire.expect("RECEIPT")
    assert listed(broker)["messages"] == 1
    broker.kill()
    broker.start()
    with connected(broker) as wire:
        sent(wire, "job", b"x", receipt="after")
        wire.expect("RECEIPT")
    assert listed(broker)["messages"] == 2
