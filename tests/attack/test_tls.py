"""Floods at a port with TLS, beside a client that has logged in without."""

import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from tests.attack.honest import Beside
from tests.interop.wire import Wire
from tests.support.brokers.certificates import Authority
from tests.support.process import BrokerProcess, wait_for


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "certificates")


@pytest.fixture
def broker(tmp_path: Path, authority: Authority) -> Iterator[BrokerProcess]:
    """A broker whose first port is without TLS, and whose second one is with it."""
    listen = (
        "stomp://127.0.0.1:0",
        f"stomps://127.0.0.1:0?certificate={authority.issue('localhost')}",
    )
    with BrokerProcess(tmp_path / "data", listen=listen) as process:
        yield process.start()


def hello(authority: Authority) -> bytes:
    """The first bytes of a client of TLS."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = authority.trusting().wrap_bio(incoming, outgoing, server_hostname="localhost")
    with suppress(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()


def test_handshakes_that_never_end(beside: Beside, authority: Authority, scale: int) -> None:
    """Signing costs the broker a millisecond for each; the peers do nothing but ask for it."""
    broker, first = beside.broker, hello(authority)
    with beside.attack(memory_bytes=64 << 20), ExitStack() as stack:
        for _ in range(1_500 * scale):
            peer = stack.enter_context(socket.create_connection(("127.0.0.1", broker.ports[1])))
            with suppress(OSError):
                peer.sendall(first)
        # One address never has more strangers than the limit.
        assert broker.open_files() < 450
        with Wire(broker.ports[1], tls=authority.trusting()) as wire:
            assert wire.connect().command == "CONNECTED"
    wait_for(lambda: broker.open_files() < 150, "the strangers to go")


def test_reconnecting_without_end(beside: Beside, authority: Authority, scale: int) -> None:
    broker, context = beside.broker, authority.trusting()
    until = time.monotonic() + 5 * scale

    def reconnect() -> None:
        while time.monotonic() < until:
            with suppress(OSError), Wire(broker.ports[1], tls=context) as wire:
                wire.connect()

    with beside.attack(memory_bytes=64 << 20):
        threads = [threading.Thread(target=reconnect) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


@pytest.mark.parametrize(
    "said",
    [b"\x16" * 100_000, b"\x16\x03\x01\xff\xff" + b"x" * 80_000, b"\x16\x03\x01\x00\x01\x01" * 900],
)
def test_what_is_no_handshake_is_ended(
    broker: BrokerProcess, authority: Authority, said: bytes
) -> None:
    with socket.create_connection(("127.0.0.1", broker.ports[1])) as peer:
        peer.settimeout(30)
        with suppress(OSError):
            peer.sendall(said)
            while peer.recv(65536):
                pass
    with Wire(broker.ports[1], tls=authority.trusting()) as wire:
        assert wire.connect().command == "CONNECTED"


def test_a_reader_that_does_not_read(beside: Beside, authority: Authority) -> None:
    """Back-pressure holds through TLS: output waits in the broker within its limits."""
    port = beside.broker.ports[1]
    with (
        beside.attack(memory_bytes=64 << 20),
        Wire(port, tls=authority.trusting(), receive_buffer=4096) as stalled,
        Wire(port, tls=authority.trusting()) as sender,
    ):
        stalled.connect()
        stalled.send("SUBSCRIBE", destination="/topic/flood", id="1", ack="auto", receipt="s")
        stalled.expect("RECEIPT")
        sender.connect()
        for number in range(60):
            sender.send("SEND", b"x" * 90_000, destination="/topic/flood")
            if number % 10 == 9:
                sender.send("SEND", b"", destination="/queue/other", receipt="r")
                sender.expect("RECEIPT")
