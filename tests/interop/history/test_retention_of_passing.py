"""The body of a large message to a direct address stays in history until its receiver has it."""

import os
from pathlib import Path
from typing import Final

import pytest
from proton import Delivery, Message
from proton.utils import BlockingConnection

from tests.crash.retention import first_lsn
from tests.interop.using import status
from tests.interop.wire import Wire
from tests.support.process import BrokerProcess, wait_for

pytestmark = pytest.mark.interop

SECONDS: Final = 30
CONFIG: Final = """
[journal]
retention-max-bytes = "200KiB"

[[address]]
prefix = "work"
"""
SETTINGS: Final = ("journal.segment-bytes=64KiB", "journal.retention-scan-period=100")
BODY: Final = bytes(range(256)) * 2_000
HISTORY: Final = 150


def make_history(port: int) -> None:
    """Send messages to a queue, and take them: many segments with nothing that is needed."""
    with Wire(port) as wire:
        wire.connect()
        wire.send("SUBSCRIBE", destination="/queue/gone", id="1", ack="client-individual")
        for number in range(HISTORY):
            wire.send("SEND", os.urandom(4_000).hex().encode(), destination="/queue/gone")
            receipt = {"receipt": "all"} if number == HISTORY - 1 else {}
            wire.send("ACK", id=wire.expect("MESSAGE").headers["ack"], **receipt)
        wire.expect("RECEIPT")


def leave(peer: BlockingConnection) -> None:
    """Write all that a client has to say."""
    peer.container.process()
    peer.wait(lambda: not peer.conn.transport.pending(), msg="the output to leave")


def test_a_body_that_waits_for_its_receiver_stays(tmp_path: Path) -> None:
    with BrokerProcess(
        tmp_path / "data", settings=SETTINGS, config=CONFIG,
        listen=("amqp://127.0.0.1:0", "stomp://127.0.0.1:0"),
    ) as broker:  # fmt: skip
        broker.start()
        peers = [
            BlockingConnection(
                f"127.0.0.1:{broker.port}", timeout=SECONDS, allowed_mechs="ANONYMOUS"
            )
            for _ in range(2)
        ]
        receiver = peers[0].create_receiver("work.large", credit=0)
        sender = peers[1].create_sender("work.large")
        peers[1].wait(lambda: sender.link.credit > 0, msg="credit")
        delivery = sender.link.send(Message(body=BODY, inferred=True))
        leave(peers[1])
        make_history(broker.ports[1])
        held = "is part of a large message on its way"
        wait_for(lambda: held in status(broker)["retention_held_back"], "the body to be held")
        first = first_lsn(broker.data)
        receiver.flow(1)
        assert bytes(receiver.receive(timeout=SECONDS).body) == BODY
        receiver.settle(Delivery.ACCEPTED)
        leave(peers[0])
        peers[1].wait(lambda: delivery.remote_state, msg="the outcome")
        assert delivery.remote_state == Delivery.ACCEPTED
        wait_for(lambda: first_lsn(broker.data) > first, "history to leave")
        for peer in peers:
            peer.close()
