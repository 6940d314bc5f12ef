"""Floods of small things over WebSocket, beside a client without it."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

import pytest

from tests.attack.honest import Beside
from tests.interop.wire import frame

REQUEST = (
    b"GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)
MASK = b"\0\0\0\0"


def framed(first: int, data: bytes) -> bytes:
    """A short frame with a mask of zeros."""
    assert len(data) < 126
    return bytes([first, 0x80 | len(data)]) + MASK + data


@contextmanager
def opened(port: int) -> Iterator[socket.socket]:
    """A connection of WebSocket that has logged in."""
    with socket.create_connection(("127.0.0.1", port), timeout=30) as peer:
        peer.sendall(REQUEST)
        assert peer.recv(4096).startswith(b"HTTP/1.1 101 ")
        peer.sendall(framed(0x81, frame("CONNECT", accept_version="1.2", host="h")))
        assert b"CONNECTED" in peer.recv(4096)
        yield peer


@pytest.mark.parametrize(
    "flood",
    [
        framed(0x89, b""),
        framed(0x8A, b""),
        framed(0x82, b"\n"),
        framed(0x02, b"") + framed(0x00, b"") * 100 + framed(0x80, b""),
        framed(0x89, b"x" * 120),
    ],
    ids=["pings", "pongs", "heart-beats", "fragments", "pings of which no answer is read"],
)
def test_floods_of_small_frames(beside: Beside, flood: bytes, scale: int) -> None:
    """A read may hold 10,000 frames, each of them work for an interpreter."""
    data = flood * (200_000 // len(flood))
    until = time.monotonic() + 4 * scale

    def send() -> None:
        with opened(beside.broker.port) as peer, suppress(OSError):
            while time.monotonic() < until:
                peer.sendall(data)

    with beside.attack(memory_bytes=64 << 20):
        threads = [threading.Thread(target=send) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


def test_frames_that_never_end(beside: Beside, scale: int) -> None:
    """Long frames are memory before they are whole; strangers may hold little of it."""
    head = b"\x82\xff" + (1 << 20).to_bytes(8) + MASK
    with beside.attack(memory_bytes=64 << 20), ExitStack() as stack:
        for _ in range(200 * scale):
            peer = stack.enter_context(
                socket.create_connection(("127.0.0.1", beside.broker.port), timeout=30)
            )
            with suppress(OSError):
                peer.sendall(REQUEST + head + b"x" * 500_000)


def test_requests_without_end(beside: Beside, scale: int) -> None:
    with beside.attack(memory_bytes=64 << 20):
        for number in range(1_000 * scale):
            with (
                suppress(OSError),
                socket.create_connection(("127.0.0.1", beside.broker.port)) as peer,
            ):
                peer.sendall(REQUEST if number % 2 else b"GET / HTTP/1.1\r\na: b\r\n" * 50)
