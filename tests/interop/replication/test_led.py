"""The broker of a cluster confirms what its node says is durable, while the lease holds."""

import os
import select
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from daybook.replication.leading import LeadLost, NodeEnd, Opened, Wrote, boot_time_us
from tests.interop.wire import Frame, Wire
from tests.support.process import JOURNAL, wait_for

BROKER: Final = """
import os, sys
from daybook.replication.leading import BrokerEnd
from daybook.server.configuration.config import load
from daybook.server.standbys.led import Led
from daybook.server.service import run

config = load(None, [f"data-directory={sys.argv[1]}"], ("stomp://127.0.0.1:0",))
led = Led(BrokerEnd.inherited(os.environ))
led.wait()
sys.exit(run(config, cluster=led))
"""
EPOCH: Final = 7
MINUTE_US: Final = 60_000_000


class ANode:
    """A node that leads, and the broker that it started."""

    def __init__(self, data: Path) -> None:
        self.data: Final = data
        self.end: Final = NodeEnd("a")
        self.output: Final = data.with_suffix(".out")
        with self.output.open("wb") as output, data.with_suffix(".log").open("wb") as log:
            self.broker: Final = subprocess.Popen(
                [sys.executable, "-c", BROKER, str(data)], env=os.environ | self.end.environment,
                pass_fds=self.end.descriptors, stdout=output, stderr=log,
            )  # fmt: skip
        self.end.started()
        self.end.lead(EPOCH)
        self.written = 0
        self.confirms = True
        self.opened: Opened | None = None

    def listen(self) -> None:
        """Take what the broker says, and confirm it unless that is off."""
        if not select.select([self.end], [], [], 0.01)[0]:
            return
        try:
            told = self.end.receive()
        except LeadLost:
            return
        for each in told:
            if isinstance(each, Opened):
                self.opened = each
            elif isinstance(each, Wrote):
                self.written = each.lsn
                if self.confirms:
                    self.end.durable(each.lsn)

    def wait(self, condition: object, what: str) -> object:
        """Wait for a condition, and listen meanwhile."""
        assert callable(condition)
        return wait_for(lambda: (self.listen(), condition())[1], what)

    def lead(self) -> None:
        """Let the broker begin, and wait until it is ready."""
        self.wait(lambda: self.opened, "the journal")
        self.end.hold(boot_time_us() + MINUTE_US)
        self.end.leads()
        self.wait(lambda: self.output.read_text().endswith("\n"), "the broker")

    def client(self) -> Wire:
        """Return a client that is connected."""
        wire = Wire(int(self.output.read_text().rpartition(":")[2]))
        wire.send("CONNECT", accept_version="1.2", host="h")
        assert self.read(wire).command == "CONNECTED"
        return wire

    def has_said(self, wire: Wire) -> bool:
        """Whether the broker has said something to a client."""
        return bool(select.select([wire.socket], [], [], 0)[0])

    def read(self, wire: Wire) -> Frame:
        """Return the next frame."""
        self.wait(lambda: self.has_said(wire), "a frame")
        return wire.read()

    def send_unconfirmed(self, wire: Wire, name: str) -> None:
        """Send a message that is only on this disk."""
        self.confirms = False
        before = self.written
        wire.send("SEND", b"hello", destination="/queue/q", receipt=name)
        self.wait(lambda: self.written > before, "the message on the disk")


@pytest.fixture
def node(tmp_path: Path) -> Iterator[ANode]:
    started = ANode(tmp_path / "data")
    yield started
    started.broker.kill()
    started.broker.wait()
    started.end.close()


def test_a_receipt_waits_for_the_node(node: ANode) -> None:
    node.lead()
    with node.client() as wire:
        node.send_unconfirmed(wire, "one")
        for _ in range(20):
            node.listen()
            assert not node.has_said(wire)
        node.end.durable(node.written)
        assert node.read(wire).headers["receipt-id"] == "one"


def test_nothing_is_confirmed_when_the_lease_is_over(node: ANode) -> None:
    node.lead()
    with node.client() as wire:
        node.send_unconfirmed(wire, "late")
        node.end.hold(boot_time_us() - 1)
        node.end.durable(node.written)
        for _ in range(20):
            node.listen()
            assert not node.has_said(wire)


def test_no_block_is_written_before_the_epoch_is_noted(node: ANode) -> None:
    node.wait(lambda: node.opened, "the journal")
    for _ in range(20):
        node.listen()
    assert not node.written
    assert node.opened is not None
    newest = max((node.data / "journal").glob("*.seg"))
    block = newest.read_bytes()[node.opened.place.offset :][:100]
    assert block == bytes(len(block))


def test_the_start_says_who_leads_and_in_which_epoch(node: ANode) -> None:
    node.lead()
    node.broker.terminate()
    node.wait(lambda: node.broker.poll() is not None, "the end")
    assert node.broker.returncode == 0
    said = subprocess.run([JOURNAL, "inspect", str(node.data)], capture_output=True, text=True)
    assert "epoch" in said.stdout
    assert "BrokerStopped" in said.stdout


def test_a_broker_ends_with_its_node(node: ANode) -> None:
    node.lead()
    node.end.close()
    wait_for(lambda: node.broker.poll() is not None, "the end")
    assert "leads no more" in node.data.with_suffix(".log").read_text()
