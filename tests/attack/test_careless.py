"""Clients that are logged in and never finish, never speak, or speak of nothing, beside another."""

import socket
import time
from contextlib import ExitStack
from pathlib import Path

from tests.attack.honest import Beside
from tests.interop.using import status
from tests.interop.wire import Wire
from tests.support.process import BrokerProcess, wait_for

FAR = "999999999999,999999999999"


def come_and_go(broker: BrokerProcess, count: int) -> None:
    """Connections that ask for heart-beats once in a lifetime, and leave."""
    for _ in range(count):
        with Wire(broker.port) as wire:
            assert wire.connect(heart_beat=FAR).command == "CONNECTED"


def test_far_heart_beats_leave_no_memory_behind(beside: Beside, scale: int) -> None:
    broker = beside.broker
    come_and_go(broker, 300)
    wait_for(lambda: status(broker)["connections"] == 1, "their ends")
    count = 600 * scale

    def bytes_for_each() -> float:
        before = broker.rss_bytes()
        with beside.attack():
            come_and_go(broker, count)
            wait_for(lambda: status(broker)["connections"] == 1, "their ends")
        return (broker.rss_bytes() - before) / count

    # The remains of a connection grow each time; all else that takes memory does not.
    assert any(bytes_for_each() < 1800 for _ in range(3))


def test_half_a_body_does_not_stay_for_ever(tmp_path: Path) -> None:
    config = '[[acceptor]]\nlisten = "127.0.0.1:0"\nbody-timeout = "2s"\n'
    with BrokerProcess(tmp_path / "data", config=config, listen=()) as broker, ExitStack() as stack:
        broker.start()
        large, small = (stack.enter_context(Wire(broker.port)) for _ in range(2))
        for wire, size in ((large, 1 << 20), (small, 50_000)):
            wire.connect()
            wire.write(b"SEND\ndestination:/queue/half\ncontent-length:%d\n\n" % size)
            wire.write(bytes(size * 2 // 3))
        for wire in (large, small):
            error = wire.expect("ERROR")
            assert "did not arrive" in error.headers["message"]
            assert "body-timeout" in error.body.decode()
        assert status(broker)["stalled_bodies"] == 2
        # The broker waits for a client that continues slowly.
        with Wire(broker.port) as slow:
            slow.connect()
            slow.write(
                b"SEND\ndestination:/queue/half\nreceipt:1\ncontent-length:%d\n\n" % (5 << 16)
            )
            for _ in range(5):
                slow.write(bytes(1 << 16))
                time.sleep(0.45)
            slow.write(b"\0")
            slow.expect("RECEIPT")
            assert status(broker)["stalled_bodies"] == 2


def test_line_feeds_take_no_time_from_others(beside: Beside, scale: int) -> None:
    broker = beside.broker
    with beside.attack(memory_bytes=32 << 20), Wire(broker.port) as wire:
        wire.connect()
        for _ in range(64 * scale):
            wire.write(b"\n" * (1 << 20))
        wire.send("SEND", b"x", destination="/queue/after", receipt=1)
        wire.expect("RECEIPT")


def test_the_kernel_looks_after_silent_peers(broker: BrokerProcess) -> None:
    with socket.create_connection(("127.0.0.1", broker.port)) as client:
        ours = f":{broker.port:04X}"
        theirs = f":{client.getsockname()[1]:04X}"

        def is_kept_alive() -> bool:
            rows = [line.split() for line in Path("/proc/net/tcp").read_text("ascii").splitlines()]
            [timer] = [
                row[5] for row in rows if row[1].endswith(ours) and row[2].endswith(theirs)
            ] or [""]
            # The timer of kind 2 is that of keep-alive.
            return timer.startswith("02:")

        wait_for(is_kept_alive, "a timer of the kernel")
