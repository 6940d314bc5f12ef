"""Processes and disks that do not answer: the broker goes on, says so, and ends when it is told to.

A stopped process (SIGSTOP) is one whose disk hangs, as others see it.
"""

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from daybook.server.health import problems
from tests.interop.test_index_damage import status
from tests.interop.wire import Wire
from tests.support.process import BrokerProcess, wait_for

SETTINGS = (
    "broker.max-unindexed-bytes=1MiB",
    "broker.indexer-timeout=60s",
    "broker.stop-timeout=4s",
    "journal.checkpoint-period=500",
)
COUNT = 1_000
STOP_SECONDS = 8.0
"""How long a stop may be seen to take whose limit is 4 s: the machine has other things to do."""


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path / "data", settings=SETTINGS) as process:
        yield process.start()


@contextmanager
def stopped(pid: int) -> Iterator[None]:
    """A process stands still."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


class Flood(threading.Thread):
    """Sends numbered messages over a connection, however long it is not read."""

    def __init__(self, producer: Wire) -> None:
        super().__init__(daemon=True)
        self._producer = producer
        self.start()

    def run(self) -> None:
        headers = {"destination": "/queue/work", "persistent": "true"}
        for number in range(COUNT):
            self._producer.send("SEND", bytes(10_000), number=number, **headers)


def indexer_of(broker: BrokerProcess) -> int:
    [indexer] = wait_for(broker.indexers, "an indexer")
    return int(indexer)


def test_consumers_go_on_while_the_indexer_hangs(broker: BrokerProcess) -> None:
    """Who sends is held at its message; ACKs, on whatever connection, are taken and receipted."""
    with Wire(broker.port) as producer, Wire(broker.port) as consumer:
        producer.connect()
        consumer.connect()
        consumer.send("SUBSCRIBE", id=1, destination="/queue/work", ack="client-individual")
        indexer = indexer_of(broker)
        with stopped(indexer):
            flood = Flood(producer)
            wait_for(lambda: status(broker)["producers_blocked"], "a sender that is held")
            (held,) = status(broker)["blocked"]
            assert "max-unindexed-bytes" in held["why"]
            taken = status(broker)["messages_in_flight"]
            assert taken > 50
            for number, message in enumerate(consumer.frames(taken)):
                assert message.headers["number"] == str(number)
                consumer.send("ACK", id=message.headers["ack"], receipt=number)
            for number, receipt in enumerate(consumer.frames(taken)):
                assert receipt == ("RECEIPT", {"receipt-id": str(number)}, b"")
            assert status(broker)["producers_blocked"] == 1
        for number, message in enumerate(consumer.frames(COUNT - taken), taken):
            assert message.headers["number"] == str(number)
            consumer.send("ACK", id=message.headers["ack"])
        flood.join()
    assert broker.indexers() == [indexer]
    assert broker.stop() == 0


def test_an_indexer_that_hangs_is_told_of_killed_and_replaced(broker: BrokerProcess) -> None:
    broker.configure("[broker]\nindexer-timeout = '12s'\n")
    broker.settings[:] = [each for each in broker.settings if "indexer-timeout" not in each]
    assert broker.stop() == 0
    broker.start()
    with Wire(broker.port) as producer, stopped(indexer_of(broker)):
        producer.connect()
        producer.send("SEND", b"x", destination="/queue/a", persistent="true", receipt="there")
        producer.expect("RECEIPT")
        wait_for(lambda: "does not answer" in broker.log_text(), "a word about it")
        wait_for(lambda: status(broker)["indexer_restarts"], "another indexer", every=0.2)
        wait_for(
            lambda: status(broker)["indexed_lsn"] == status(broker)["durable_lsn"], "the index",
            every=0.2,
        )  # fmt: skip
    assert broker.stop() == 0


def test_a_stop_does_not_wait_for_an_indexer_that_hangs(broker: BrokerProcess) -> None:
    with Wire(broker.port) as producer, stopped(indexer_of(broker)):
        producer.connect()
        producer.send("SEND", b"x", destination="/queue/a", persistent="true", receipt="there")
        producer.expect("RECEIPT")
        begun = time.monotonic()
        assert broker.stop() == 0
        assert time.monotonic() - begun < STOP_SECONDS
    assert "stopped" in broker.log_text()


def test_a_writer_that_hangs_holds_up_neither_status_nor_the_stop(broker: BrokerProcess) -> None:
    """What is not durable is given up, which is said, and nobody was told of it."""
    (writer,) = broker.writers()
    with Wire(broker.port) as producer:
        producer.connect()
        os.kill(writer, signal.SIGSTOP)
        for number in range(50):
            producer.send(
                "SEND", bytes(20_000), destination="/queue/a", persistent="true", receipt=number
            )
        wait_for(
            lambda: any(
                "nothing becomes durable" in each.text for each in problems(status(broker))
            ),
            "a problem for `daybook health`",
            every=0.2,
        )
        assert status(broker)["sync_ms_running"] > 1000
        assert status(broker)["durable_lsn"] < status(broker)["lsn"]
        begun = time.monotonic()
        assert broker.stop() == 1
        assert time.monotonic() - begun < STOP_SECONDS
        assert producer.at_end()
    assert "are not durable, and were not confirmed to any client" in broker.log_text()
    broker.start()
    assert status(broker)["messages_ready"] == 0
    assert broker.stop() == 0


def test_a_stop_ends_a_broker_whose_loop_stands_still(broker: BrokerProcess) -> None:
    """A file on a disk that does not answer, as whoever opens it sees it: a pipe without a writer.

    Nothing that runs in the event loop could hear of SIGTERM.
    """
    users = broker.directory / "users.toml"
    users.unlink(missing_ok=True)
    os.mkfifo(users)
    broker.send_signal(signal.SIGHUP)
    wait_for(lambda: "the broker stands still" in broker.log_text(), "a word about it")
    begun = time.monotonic()
    assert broker.stop() == 1
    assert time.monotonic() - begun < STOP_SECONDS
    assert "stop-timeout" in broker.log_text()
    users.unlink()
    broker.start()
    assert broker.stop() == 0
