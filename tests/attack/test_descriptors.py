"""Sockets that use up descriptors, beside a consumer whose backlog lies in files."""

import resource
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from random import Random

import pytest

from daybook.server.process.descriptors import RESERVE
from tests.attack.honest import Beside
from tests.interop.using import status
from tests.interop.wire import Wire
from tests.support.process import BrokerProcess, wait_for

LIMIT = RESERVE + 60
COUNT = 400
PAGING = """
[[address-setting]]
match = "#"
address-full-policy = "PAGE"
max-size-bytes = "100KiB"
max-read-page-bytes = "100KiB"

[journal]
segment-bytes = "256KiB"
"""


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    """A broker that may have few descriptors, soft and hard."""
    config = PAGING
    with BrokerProcess(tmp_path / "data", config=config, open_files=(LIMIT, LIMIT)) as process:
        yield process.start()


def body(number: int) -> bytes:
    """A body that does not compress, so that the backlog lies in many segments."""
    return Random(number).randbytes(20_000)


def spares(broker: BrokerProcess) -> list[int]:
    """The descriptors that the broker keeps in reserve."""
    folder = Path(f"/proc/{broker.process.pid}/fd")
    return [int(one.name) for one in folder.iterdir() if str(one.readlink()) == "/dev/null"]


def send_backlog(broker: BrokerProcess) -> None:
    """Fill a queue far beyond what stays in memory, over many segments."""
    with Wire(broker.port) as producer:
        producer.connect()
        for number in range(COUNT):
            producer.send("SEND", body(number), destination="/queue/backlog", receipt=1)
        for _ in range(COUNT):
            producer.expect("RECEIPT")
    wait_for(lambda: status(broker)["addresses_paging"] == 1, "an address that pages")


def read_backlog(consumer: Wire) -> None:
    """Everything that is queued, in order."""
    consumer.send("SUBSCRIBE", destination="/queue/backlog", id=1, ack="auto")
    for number in range(COUNT):
        assert consumer.expect("MESSAGE").body == body(number)


def test_idle_sockets_leave_descriptors_for_files(beside: Beside) -> None:
    broker = beside.broker
    send_backlog(broker)
    most = LIMIT - RESERVE
    with ExitStack() as stack:
        consumer = stack.enter_context(Wire(broker.port))
        consumer.connect()
        with beside.attack():
            for _ in range(3 * LIMIT):
                idle = socket.create_connection(("127.0.0.1", broker.port))
                stack.callback(idle.close)
            wait_for(lambda: status(broker)["connections_dismissed"] > LIMIT, "what made room")
            read_backlog(consumer)
        found = status(broker)
        assert found["max_connections"] == most
        assert found["open_files_max"] == LIMIT
        assert found["open_files"] < LIMIT
    [ready] = [line for line in broker.lines() if line["event"] == "ready"]
    assert ready["max_connections"] == most
    assert "raise the hard limit" in broker.log_text()
    wait_for(lambda: status(broker)["open_files"] < LIMIT - most, "the descriptors")
    with Wire(broker.port) as later:
        assert later.connect().command == "CONNECTED"
    assert broker.stop() == 0, broker.log_text()


def test_running_out_is_pressure_and_no_failure(beside: Beside) -> None:
    """Something else takes every descriptor: the broker reads its files, and accepts later."""
    broker = beside.broker
    send_backlog(broker)
    with Wire(broker.port) as consumer:
        consumer.connect()
        # Every descriptor that is free is above the limit now, but those kept in reserve are not.
        most = max(spares(broker)) + 1
        resource.prlimit(broker.process.pid, resource.RLIMIT_NOFILE, (most, LIMIT))
        read_backlog(consumer)
        with socket.create_connection(("127.0.0.1", broker.port)) as later:
            later.sendall(b"CONNECT\naccept-version:1.2\nhost:h\n\n\0")
            wait_for(lambda: "no descriptors are left" in broker.log_text(), "the pressure")
            resource.prlimit(broker.process.pid, resource.RLIMIT_NOFILE, (LIMIT, LIMIT))
            assert later.recv(9) == b"CONNECTED"
    assert "connections are accepted again" in broker.log_text()
    assert broker.stop() == 0, broker.log_text()


def test_the_soft_limit_is_raised(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data", open_files=(RESERVE, 2000)) as broker:
        broker.start()
        assert status(broker)["open_files_max"] == 2000
        assert status(broker)["max_connections"] == 2000 - RESERVE


def test_too_low_a_limit_is_refused(tmp_path: Path) -> None:
    said = BrokerProcess(tmp_path / "data", open_files=(RESERVE, RESERVE)).refuse()
    assert f"the process may have {RESERVE} open files and needs" in said
    assert "LimitNOFILE" in said
