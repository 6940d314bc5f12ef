"""Messages to systemd: ready, signs of life, the end; and none where nobody listens."""

import os
import socket
from pathlib import Path

import pytest

from daybook.server.process.service_manager import READY, Notifier


@pytest.fixture
def listener(tmp_path: Path) -> socket.socket:
    found = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
    found.bind(str(tmp_path / "notify"))
    return found


def heard(listener: socket.socket) -> list[str]:
    found = []
    try:
        while True:
            found.append(listener.recv(4096).decode())
    except BlockingIOError:
        return found


def test_it_says_what_it_is_told(listener: socket.socket) -> None:
    notifier = Notifier({"NOTIFY_SOCKET": listener.getsockname()})
    notifier.say(READY, "STATUS=listening")
    notifier.tick(0)
    assert heard(listener) == ["READY=1\nSTATUS=listening"]
    listener.close()


def test_signs_of_life_come_twice_within_the_time(listener: socket.socket) -> None:
    environment = {"NOTIFY_SOCKET": listener.getsockname(), "WATCHDOG_USEC": "1000000"}
    notifier = Notifier(environment)
    for now in range(10_000_000, 12_000_000, 100_000):
        notifier.tick(now)
    assert heard(listener) == ["WATCHDOG=1"] * 4
    other = Notifier(environment | {"WATCHDOG_PID": str(os.getpid() + 1)})
    other.tick(20_000_000)
    assert heard(listener) == []
    listener.close()


def test_an_abstract_name() -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as listener:
        listener.bind("\0daybook-test-notify")
        Notifier({"NOTIFY_SOCKET": "@daybook-test-notify"}).say(READY)
        assert heard(listener) == [READY]


@pytest.mark.parametrize("address", ["", "/nowhere/notify", "vsock:2:1234", "@nobody-listens-here"])
def test_nobody_listens(address: str) -> None:
    Notifier({"NOTIFY_SOCKET": address}).say(READY)
