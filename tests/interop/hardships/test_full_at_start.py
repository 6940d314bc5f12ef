"""A start on a disk without room: the broker starts, or says what to do, and never hangs."""

import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.interop.wire import Wire
from tests.support import nursery
from tests.support.process import BrokerProcess, wait_for

MIB = 1 << 20
SETTINGS = ("journal.segment-bytes=64KiB", "broker.min-disk-free=-1")


@pytest.fixture
def broker(disk: Path, tmp_path: Path) -> Iterator[BrokerProcess]:
    process = BrokerProcess(tmp_path / "files", data=disk / "data", settings=SETTINGS)
    process.settings.append(f"users-file={tmp_path}/users.toml")
    with process:
        yield process


def fill_up(disk: Path) -> Path:
    """Leave no byte."""
    file = disk / "fills"
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT)
    for size in (MIB, 512):
        with suppress(OSError):
            while os.write(descriptor, bytes(size)):
                pass
    os.close(descriptor)
    return file


def status_of(broker: BrokerProcess) -> dict[str, Any]:
    """Return the output of `daybook status`, whatever its exit code."""
    command = [
        sys.executable,
        "-m",
        "daybook",
        "status",
        "--json",
        "--data",
        str(broker.data),
    ]
    said = nursery.run(command, capture_output=True, check=False).stdout
    return msgspec.json.decode(said, type=dict[str, Any])


def queue_some(broker: BrokerProcess, count: int = 200) -> None:
    with Wire(broker.port) as producer:
        producer.connect()
        for _ in range(count):
            producer.send("SEND", bytes(500), destination="/queue/a", persistent="true")
        producer.send("SEND", b"x", destination="/queue/a", persistent="true", receipt=1)
        producer.expect("RECEIPT")


@pytest.mark.parametrize("without", ["nothing", "index"])
def test_it_starts_and_consumers_go_on(broker: BrokerProcess, disk: Path, without: str) -> None:
    broker.start()
    queue_some(broker)
    broker.cut_power()
    if without == "index":
        for file in (broker.data / "index").rglob("*"):
            if file.is_file():
                file.unlink()
    fills = fill_up(disk)
    broker.start()
    assert status_of(broker)["messages_ready"] == 201
    with Wire(broker.port) as consumer:
        consumer.connect()
        consumer.send("SUBSCRIBE", id=1, destination="/queue/a", ack="client-individual")
        for _ in range(20):
            message = consumer.expect("MESSAGE")
            consumer.send("ACK", id=message.headers["ack"])
    os.truncate(fills, 0)
    wait_for(
        lambda: status_of(broker)["indexed_lsn"] == status_of(broker)["durable_lsn"],
        "the index", every=0.2,
    )  # fmt: skip
    assert broker.stop() == 0
    assert "Traceback" not in broker.log_text()
