"""Processes and disks that do not answer: the broker continues, reports it, and stops on request.

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

from daybook.client.control import ask
from daybook.journal.data_directory import JOURNAL
from daybook.server.monitoring.health import problems
from tests.interop.hardships.test_index_damage import status
from tests.interop.wire import Wire
from tests.support.process import BrokerProcess, wait_for

SETTINGS = (
    "broker.max-unindexed-bytes=1MiB",
    "broker.indexer-timeout=60s",
    "broker.stop-timeout=4s",
    "journal.checkpoint-period=500",
)
COUNT = 1_000
STOP_SECONDS = 20.0
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
    """Senders are blocked at their messages; ACKs are accepted and receipted on any connection."""
    with Wire(broker.port) as producer, Wire(broker.port) as consumer:
        producer.connect()
        consumer.connect()
        consumer.send("SUBSCRIBE", id=1, destination="/queue/work", ack="client-individual")
        indexer = indexer_of(broker)
        with stopped(indexer):
            flood = Flood(producer)
            wait_for(lambda: status(broker)["producers_blocked"], "a blocked sender")
            (row,) = status(broker)["blocked"]
            assert "max-unindexed-bytes" in row["why"]
            taken = status(broker)["messages_in_flight"]
            assert taken > 50
            acknowledged = receipted = 0
            # Some of what was sent before may still have been on its way to the consumer.
            while receipted < max(taken, acknowledged):
                frame = consumer.read()
                if frame.command == "MESSAGE":
                    assert frame.headers["number"] == str(acknowledged)
                    consumer.send("ACK", id=frame.headers["ack"], receipt=acknowledged)
                    acknowledged += 1
                else:
                    assert frame == ("RECEIPT", {"receipt-id": str(receipted)}, b"")
                    receipted += 1
            assert status(broker)["producers_blocked"] == 1
        for number, message in enumerate(consumer.frames(COUNT - acknowledged), acknowledged):
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
    """The broker gives up unconfirmed events that are not durable, and logs that."""
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
                "events do not become durable" in each.text for each in problems(status(broker))
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


@pytest.fixture
def stuck(tmp_path: Path) -> Path:
    """The file that lets every sync of the journal hang while it exists."""
    return tmp_path / "stuck"


@pytest.fixture
def broker_on_a_bad_disk(tmp_path: Path, library: Path, stuck: Path) -> Iterator[BrokerProcess]:
    environment = {
        "LD_PRELOAD": str(library),
        "BLACKBOX_FOLDER": str(tmp_path / "data" / JOURNAL),
        "BLACKBOX_LOG": str(tmp_path / "blackbox.log"),
        "BLACKBOX_FAULT": str(stuck),
    }
    data = tmp_path / "data"
    with BrokerProcess(data, settings=SETTINGS, environment=environment) as process:
        yield process.start()


SMALL, LARGE = 100, 100_000
"""Sizes of messages that are written by the broker's process, and by the writer's (ADR 41)."""


def send_one(producer: Wire, size: int, receipt: str) -> None:
    producer.send("SEND", bytes(size), destination="/queue/a", persistent="true", receipt=receipt)


def written_near(broker: BrokerProcess) -> int:
    answer = ask(broker.data, {"do": "status"})
    assert answer is not None
    return int(answer["blocks_written_near"])


def let_a_sync_hang(broker: BrokerProcess, producer: Wire, size: int, stuck: Path) -> int:
    """Send messages until all is by the way of this size, then one whose sync hangs.

    Return how many were sent. How soon small messages are written by the broker's process depends
    on how quickly this disk syncs.
    """
    producer.connect()
    count = 0

    def is_by_its_way() -> bool:
        nonlocal count
        before = written_near(broker)
        for _ in range(20):
            send_one(producer, size, str(count))
            assert producer.read().headers == {"receipt-id": str(count)}
            count += 1
        near = written_near(broker) - before
        return near >= 10 if size == SMALL else near <= 10

    wait_for(is_by_its_way, "blocks that are written by the way of this size", 240)
    stuck.touch()
    send_one(producer, size, "late")
    wait_for(
        lambda: any(
            "events do not become durable" in each.text for each in problems(status(broker))
        ),
        "a problem for `daybook health`",
        every=0.2,
    )
    assert status(broker)["sync_ms_running"] > 1000
    # Others are served meanwhile, as far as nothing needs the disk.
    with Wire(broker.port) as another:
        assert another.connect("9.9").command == "ERROR"
    return count + 1


@pytest.mark.parametrize("size", [SMALL, LARGE])
def test_a_sync_that_hangs_for_a_while_loses_nothing(
    broker_on_a_bad_disk: BrokerProcess, stuck: Path, size: int
) -> None:
    broker = broker_on_a_bad_disk
    with Wire(broker.port) as producer:
        count = let_a_sync_hang(broker, producer, size, stuck)
        send_one(producer, size, "behind it")
        stuck.unlink()
        assert producer.read().headers == {"receipt-id": "late"}
        assert producer.read().headers == {"receipt-id": "behind it"}
        wait_for(lambda: "blocks become durable again" in broker.log_text(), "a word about it")
        for number in range(20):
            send_one(producer, SMALL, str(number))
            assert producer.read().headers == {"receipt-id": str(number)}
    assert broker.stop() == 0
    broker.start()
    assert status(broker)["messages_ready"] == count + 1 + 20


def test_heart_beats_do_not_wait_for_a_sync_that_hangs(
    broker_on_a_bad_disk: BrokerProcess, stuck: Path
) -> None:
    """A producer that waits for a receipt would give the broker up, and send again elsewhere."""
    with Wire(broker_on_a_bad_disk.port) as producer:
        producer.connect(heart_beat="0,1000")
        stuck.touch()
        send_one(producer, SMALL, "late")
        beats = b""
        while len(beats) < 4:
            beats += producer.socket.recv(100)
        assert set(beats) == set(b"\n")
        # The receipts that the frames ask for are output that waits, and no sign of life.
        for number in range(20):
            send_one(producer, SMALL, str(number))
            assert producer.socket.recv(100).strip(b"\n") == b""
        stuck.unlink()
        assert producer.read().headers == {"receipt-id": "late"}
        for number in range(20):
            assert producer.read().headers == {"receipt-id": str(number)}


@pytest.mark.parametrize("size", [SMALL, LARGE])
def test_a_stop_does_not_wait_for_a_sync_that_hangs(
    broker_on_a_bad_disk: BrokerProcess, stuck: Path, size: int
) -> None:
    broker = broker_on_a_bad_disk
    with Wire(broker.port) as producer:
        count = let_a_sync_hang(broker, producer, size, stuck)
        begun = time.monotonic()
        assert broker.stop() == 1
        assert time.monotonic() - begun < STOP_SECONDS
    assert "are not durable, and were not confirmed to any client" in broker.log_text()
    stuck.unlink()
    broker.start()
    assert status(broker)["messages_ready"] >= count - 1
    assert broker.stop() == 0


def test_a_stop_ends_a_broker_whose_loop_stands_still(broker: BrokerProcess) -> None:
    """A file on a disk that does not answer, as a reader sees it: a pipe without a writer.

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
