"""Headers that an acceptor adds (seed, "Stomp Protocol Options"), on a real broker."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.using import connected, sent
from tests.interop.wire import Wire
from tests.support.process import BrokerProcess

pytestmark = pytest.mark.interop

CONFIG = """
[[acceptor]]
listen = "127.0.0.1:0"
add-user-header = "user"
add-timestamp-header = "timestamp"
add-redeliveries-header = "redeliveries"
"""
MINE = {"user": "root", "timestamp": "7", "redeliveries": "7", "other": "mine"}


@pytest.fixture
def adding(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path / "adding", config=CONFIG, listen=[]) as broker:
        yield broker.start()


def subscribed(wire: Wire) -> None:
    wire.send("SUBSCRIBE", id="s", destination="/queue/a", ack="client-individual", receipt="s")
    wire.expect("RECEIPT")


@pytest.mark.parametrize("body", [b"small", bytes(300_000)])
@pytest.mark.parametrize("transaction", [False, True])
def test_user_and_timestamp_are_those_of_the_broker(
    adding: BrokerProcess, body: bytes, transaction: bool
) -> None:
    with connected(adding) as wire:
        before = int(time.time() * 1000)
        if transaction:
            wire.send("BEGIN", transaction="t")
            sent(wire, "/queue/a", body, transaction="t", **MINE)
            wire.send("COMMIT", transaction="t", receipt="c")
            wire.expect("RECEIPT")
        else:
            sent(wire, "/queue/a", body, **MINE)
        after = int(time.time() * 1000)
    adding.kill()
    adding.start()
    with connected(adding) as wire:
        subscribed(wire)
        message = wire.expect("MESSAGE")
        assert message.body == body
        assert message.headers["user"] == "guest"
        assert before <= int(message.headers["timestamp"]) <= after
        assert message.headers["other"] == "mine"


def test_redeliveries_are_counted(adding: BrokerProcess) -> None:
    with connected(adding) as wire:
        subscribed(wire)
        sent(wire, "/queue/a", b"again", **MINE)
        for count in (None, "1", "2"):
            message = wire.expect("MESSAGE")
            assert message.headers.get("redeliveries") == count
            wire.send("NACK", id=message.headers["ack"])


def test_each_part_of_a_composite_has_them(adding: BrokerProcess) -> None:
    with connected(adding) as wire:
        sent(wire, "/queue/b,/queue/a", b"both", **MINE)
        subscribed(wire)
        message = wire.expect("MESSAGE")
        assert (message.headers["user"], message.headers["destination"]) == ("guest", "/queue/a")
        assert int(message.headers["timestamp"]) > 7
