"""A fork of a running broker: another broker starts on it and drains exactly what was there."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.interop.using import arrived, connected, daybook, sent
from tests.interop.wire import Wire
from tests.support import nursery
from tests.support.process import JOURNAL, BrokerProcess

pytestmark = pytest.mark.interop


def journal(*words: str) -> dict[str, Any]:
    done = nursery.run([JOURNAL, *words, "--json"], capture_output=True, text=True, check=True)
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def drain(wire: Wire, queue: str) -> list[tuple[bytes, bool]]:
    """Take all messages of a queue: the bodies, and whether each may have been delivered before."""
    wire.send("SUBSCRIBE", id=queue, destination=f"/queue/{queue}", ack="client-individual")
    found = arrived(wire)
    for frame in found:
        wire.send("ACK", id=frame.headers["ack"])
    return [(frame.body, "redelivered" in frame.headers) for frame in found]


def test_a_fork_of_a_running_broker_drains_what_was_there(tmp_path: Path) -> None:
    large = b"chunk " * 60_000
    with BrokerProcess(tmp_path / "data") as broker:
        broker.start()
        with connected(broker) as producer, connected(broker) as holder:
            for number in range(30):
                sent(producer, "/queue/orders", b"order %d" % number)
            sent(producer, "/queue/large", large)
            holder.send("SUBSCRIBE", id="h", destination="/queue/orders", ack="client-individual")
            frames = [holder.expect("MESSAGE") for _ in range(30)]
            for frame in frames[:10]:
                holder.send("ACK", id=frame.headers["ack"], receipt="a")
                holder.expect("RECEIPT")
            lsn = int(json.loads(daybook(broker, "status", "--json"))["durable_lsn"])
            now = journal("fork", str(broker.data), str(tmp_path / "now"))
            assert now["lsn"] >= lsn
            # The broker is not disturbed, and what happens next is not in the fork.
            for frame in frames[10:]:
                holder.send("ACK", id=frame.headers["ack"], receipt="a")
                holder.expect("RECEIPT")
            holder.send("UNSUBSCRIBE", id="h", receipt="u")
            holder.expect("RECEIPT")
            sent(producer, "/queue/orders", b"too late")
            again = journal("fork", str(broker.data), str(tmp_path / "then"), "--at", str(lsn))
            assert again["lsn"] <= lsn
        with BrokerProcess(tmp_path / "now") as copy:
            copy.start()
            with connected(copy) as wire:
                assert drain(wire, "orders") == [
                    (b"order %d" % number, True) for number in range(10, 30)
                ]
                assert drain(wire, "large") == [(large, False)]
                # Both brokers continue by themselves.
                sent(wire, "/queue/orders", b"of the fork")
                assert [frame.body for frame in arrived(wire)] == [b"of the fork"]
            assert copy.stop() == 0
        with connected(broker) as wire:
            assert drain(wire, "orders") == [(b"too late", False)]
        assert broker.stop() == 0
    with BrokerProcess(tmp_path / "then") as copy:
        copy.start()
        with connected(copy) as wire:
            assert drain(wire, "orders") == [
                (b"order %d" % number, True) for number in range(10, 30)
            ]
        assert copy.stop() == 0
    for name in ("data", "now", "then"):
        verified = nursery.run([JOURNAL, "verify", "--index", str(tmp_path / name)], check=False)
        assert verified.returncode == 0
