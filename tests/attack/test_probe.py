"""Strangers at the probe, beside a client of the broker and beside a supervisor."""

import contextlib
import resource
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from daybook.client.control import ask
from tests.attack.honest import Beside
from tests.interop.wire import Wire
from tests.support.process import BrokerProcess

LISTEN = ("stomp://127.0.0.1:0", "http://127.0.0.1:0")
QUEUES = 1500
REQUEST = b"GET /%b HTTP/1.1\r\nHost: localhost\r\n\r\n"
MIB = 1 << 20
READY_SECONDS = 5.0
"""Others get one step each before a newcomer does (test_onlookers): some 0.1 s of processor time of
the broker, which works on while a busy machine lets the supervisor wait."""


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    """A broker with a probe."""
    with BrokerProcess(tmp_path / "data", listen=LISTEN) as process:
        yield process.start()


SUPERVISOR: Final = """
import http.client, os, sys

def worked():
    with open(f"/proc/{sys.argv[1]}/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

begun = worked()
connection = http.client.HTTPConnection("127.0.0.1", int(sys.argv[2]), timeout=60)
connection.request("GET", "/ready")
assert connection.getresponse().read() == b"ready\\n"
print(worked() - begun)
"""


def ready_seconds(broker: BrokerProcess) -> float:
    """How long the broker works until a supervisor has its answer: its processor time, by a process
    of its own. Time on a clock would be that of a busy machine, and of the threads of a test."""
    asked = [sys.executable, "-S", "-c", SUPERVISOR, str(broker.process.pid), str(broker.ports[1])]
    return float(subprocess.run(asked, check=True, capture_output=True, timeout=90).stdout)


@contextlib.contextmanager
def attackers(count: int, work: Callable[[], None]) -> Iterator[None]:
    """Threads that repeat an action; its errors do not matter."""
    over = threading.Event()

    def again() -> None:
        while not over.is_set():
            with contextlib.suppress(OSError):
                work()

    threads = [threading.Thread(target=again, daemon=True) for _ in range(count)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join(20)


def test_sockets_that_say_nothing_keep_nobody_out(beside: Beside, scale: int) -> None:
    """10,000 of them, one after the other; as many stay as there may be."""
    broker = beside.broker
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 30_000), hard))
    strangers: list[socket.socket] = []
    try:
        with beside.attack(memory_bytes=32 * MIB):
            for number in range(10_000):
                strangers.append(socket.create_connection(("127.0.0.1", broker.ports[1])))
                if len(strangers) > 500:
                    strangers.pop(0).close()
                if number % 1000 == 0:
                    assert ready_seconds(broker) < READY_SECONDS
        status = ask(broker.directory, {"do": "status"})
        assert status is not None
        assert status["acceptors"][1]["connections"] <= 64
        assert status["open_files"] < 200
        with Wire(broker.port) as wire:
            wire.connect()
    finally:
        for stranger in strangers:
            stranger.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_byte_at_a_time_is_given_up(beside: Beside) -> None:
    broker = beside.broker
    with beside.attack(memory_bytes=32 * MIB), contextlib.ExitStack() as stack:
        slow = [
            stack.enter_context(socket.create_connection(("127.0.0.1", broker.ports[1])))
            for _ in range(64)
        ]
        begun = time.monotonic()
        for byte in (REQUEST % b"metrics")[:12]:
            for stranger in slow:
                with contextlib.suppress(OSError):
                    stranger.send(bytes([byte]))
            assert ready_seconds(broker) < READY_SECONDS
            time.sleep(1)
        assert time.monotonic() - begun > 10
        for stranger in slow:
            stranger.settimeout(5)
            with contextlib.suppress(ConnectionError):
                assert stranger.recv(4096)[:12] in (b"", b"HTTP/1.1 408")


def test_figures_of_many_queues_asked_for_in_a_loop(beside: Beside, scale: int) -> None:
    broker = beside.broker
    with Wire(broker.port) as wire:
        wire.connect()
        for number in range(QUEUES):
            wire.send("SEND", b"x", destination=f"/queue/q{number}", receipt=number)
        for _ in range(QUEUES):
            wire.expect("RECEIPT")

    def scrape() -> None:
        with socket.create_connection(("127.0.0.1", broker.ports[1])) as peer:
            peer.settimeout(5)
            peer.sendall(20 * (REQUEST % b"metrics"))
            while peer.recv(1 << 16):
                pass

    with beside.attack(memory_bytes=128 * MIB), attackers(8, scrape):
        for _ in range(5 * scale):
            time.sleep(1)
            assert ready_seconds(broker) < READY_SECONDS


def test_requests_in_a_row_whose_answers_nobody_reads(beside: Beside, scale: int) -> None:
    broker = beside.broker

    def flood() -> None:
        with socket.create_connection(("127.0.0.1", broker.ports[1])) as peer:
            peer.settimeout(1)
            for _ in range(200):
                peer.sendall(100 * (REQUEST % b"live") + 10 * (REQUEST % b"metrics"))

    with beside.attack(memory_bytes=64 * MIB), attackers(8, flood):
        for _ in range(5 * scale):
            time.sleep(1)
            assert ready_seconds(broker) < READY_SECONDS
