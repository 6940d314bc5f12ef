"""`_AMQ_VALIDATED_USER`: the broker alone says who sent a message, and the journal keeps it."""

import signal
from pathlib import Path

import pytest

from tests.interop.security.test_permissions import login, reload, running
from tests.interop.using import daybook, sent
from tests.interop.wire import Frame
from tests.support import nursery
from tests.support.process import JOURNAL, BrokerProcess

pytestmark = pytest.mark.interop

SAYS = "[broker]\npopulate-validated-user = true\n"


def received(broker: BrokerProcess, name: str, destination: str) -> Frame:
    with login(broker, name) as wire:
        wire.send("SUBSCRIBE", id="s", destination=destination, ack="auto")
        return wire.expect("MESSAGE")


def test_a_delivery_says_who_sent_it_also_after_a_kill(tmp_path: Path) -> None:
    with running(tmp_path / "one", SAYS) as broker:
        with login(broker, "sam") as sam:
            sent(sam, "/queue/a", b"one", **{"_AMQ_VALIDATED_USER": "root"})
            sent(sam, "/queue/a", bytes(300_000))
        broker.kill()
        broker.start()
        with login(broker, "will") as will:
            will.send("SUBSCRIBE", id="s", destination="/queue/a", ack="auto")
            first, second = will.frames(2)
        assert first.headers["_AMQ_VALIDATED_USER"] == "sam"
        assert second.headers["_AMQ_VALIDATED_USER"] == "sam"
        trail = nursery.run(
            [JOURNAL, "trail", str(broker.data), first.headers["message-id"]],
            capture_output=True, check=True, text=True,
        ).stdout  # fmt: skip
        assert "sam" in trail


def test_without_the_setting_nothing_is_said_and_nothing_is_believed(tmp_path: Path) -> None:
    with running(tmp_path / "one", "") as broker:
        with login(broker, "sam") as sam:
            sent(sam, "/queue/a", b"one", **{"_AMQ_VALIDATED_USER": "root"})
            assert "_AMQ_VALIDATED_USER" not in received(broker, "will", "/queue/a").headers
            reload(broker, SAYS)
            # A connection says it from its beginning on.
            sent(sam, "/queue/a", b"two")
            assert "_AMQ_VALIDATED_USER" not in received(broker, "will", "/queue/a").headers
        with login(broker, "sam") as sam:
            sent(sam, "/queue/a", b"three")
        assert received(broker, "will", "/queue/a").headers["_AMQ_VALIDATED_USER"] == "sam"


def test_copies_and_dead_letters_keep_it(tmp_path: Path) -> None:
    config = SAYS + '[[address-setting]]\nmatch = "#"\ndead-letter-address = "dead"\n'
    config += "max-delivery-attempts = 1\n"
    with running(tmp_path / "one", config) as broker:
        daybook(broker, "divert", "create", "d", "--address", "a", "--forwarding-addresses", "b")
        with login(broker, "sam") as sam:
            sent(sam, "/queue/a", b"one")
        assert received(broker, "will", "/queue/b").headers["_AMQ_VALIDATED_USER"] == "sam"
        with login(broker, "will") as will:
            will.send("SUBSCRIBE", id="s", destination="/queue/a", ack="client-individual")
            will.send("NACK", id=will.expect("MESSAGE").headers["ack"], receipt="n")
            will.expect("RECEIPT")
        assert received(broker, "will", "/queue/dead").headers["_AMQ_VALIDATED_USER"] == "sam"
        broker.send_signal(signal.SIGTERM)
