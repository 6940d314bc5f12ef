"""Starting, stopping, reloading, and what is refused, on the real process."""

import os
import random
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from crc32c import crc32c

from daybook.client.control import ControlError, ask
from daybook.engine.facts.events import BY_NUMBER
from daybook.history.verification.verification import verify_data
from daybook.journal.blocks.format import (
    FORMAT_VERSION,
    SEGMENT_CRC_OFFSET,
    peek_segment_header_bytes,
)
from daybook.journal.data_directory import CONTROL_SOCKET, JOURNAL
from daybook.journal.disk import RealDisk
from daybook.journal.segments.reader import read_blocks
from daybook.paging.tables.layout import LAYOUT
from tests.interop.conftest import NO_LIMIT
from tests.interop.using import status
from tests.interop.wire import Closed, Wire, frame
from tests.support.process import DAYBOOK, BrokerProcess, wait_for
from tests.support.stored.folded import folded_state

pytestmark = pytest.mark.interop

SMALL_SEGMENTS = ("journal.segment-bytes=64KiB",)


def last_event(directory: Path) -> str:
    """Name of the last event of the journal."""
    *_, last = (
        event for block in read_blocks(RealDisk(directory / JOURNAL), LAYOUT) if block.count
        for event in block.events()
    )  # fmt: skip
    return BY_NUMBER[last[1][0]].name


def bodies_in(directory: Path) -> set[bytes]:
    """Bodies of all messages in all queues, as the journal says."""
    state, _ = folded_state(directory)
    queues = state.queues.values()
    return {entry.message.body for queue in queues for entry in queue.entries.values()}


class Sender:
    """Sends as fast as it can, and notes which receipts came, until the connection ends."""

    def __init__(self, port: int, size: int = 200) -> None:
        self.wire = Wire(port)
        self.wire.connect()
        self.size = size
        self.receipted: set[bytes] = set()
        self.errors: list[str] = []
        self.sending = threading.Thread(target=self._send, daemon=True)
        self.reading = threading.Thread(target=self._read, daemon=True)
        self.reading.start()
        self.sending.start()

    def _send(self) -> None:
        number = 0
        try:
            while True:
                body = b"%d-" % number + b"x" * self.size
                self.wire.send("SEND", body, destination="/queue/load", receipt=body[:9].decode())
                number += 1
        except OSError:
            return

    def _read(self) -> None:
        try:
            while True:
                frame = self.wire.read()
                if frame.command == "ERROR":
                    self.errors.append(frame.headers["message"])
                else:
                    self.receipted.add(frame.headers["receipt-id"].partition("-")[0].encode())
        except (Closed, OSError):
            return

    def join(self) -> None:
        """Wait for the end of the connection."""
        self.sending.join(60)
        self.reading.join(60)
        assert not self.reading.is_alive()
        self.wire.close()

    def missing_in(self, directory: Path) -> set[bytes]:
        """Receipted messages that the journal does not have."""
        return self.receipted - {body.partition(b"-")[0] for body in bodies_in(directory)}


@pytest.mark.usefixtures("own_interpreter")
def test_a_clean_stop_ends_with_broker_stopped(broker: BrokerProcess) -> None:
    with Wire(broker.port) as wire:
        wire.connect()
        wire.send("SEND", b"x", destination="/queue/a", receipt=1)
        wire.expect("RECEIPT")
        assert broker.stop() == 0
        assert wire.at_end()
    assert last_event(broker.directory) == "BrokerStopped"
    verdict = verify_data(RealDisk(broker.directory / JOURNAL), lambda done: None)
    assert verdict.ok, verdict
    assert verdict.digests_compared == 1
    assert broker.lines()[-1]["event"] == "stopped"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_under_load_keeps_what_was_receipted(
    broker: BrokerProcess, number: signal.Signals
) -> None:
    senders = [Sender(broker.port) for _ in range(3)]
    wait_for(lambda: all(len(sender.receipted) > 100 for sender in senders), "load")
    broker.send_signal(number)
    assert broker.wait() == 0, broker.log_text()
    for sender in senders:
        sender.join()
        assert not sender.missing_in(broker.directory)
    assert last_event(broker.directory) == "BrokerStopped"
    assert "Traceback" not in broker.log_text()


def test_a_second_broker_on_the_directory_is_refused(broker: BrokerProcess) -> None:
    second = BrokerProcess(broker.directory, listen=["stomp://127.0.0.1:0"])
    before = len(broker.log_text())
    second.launch()
    assert second.wait() == 1
    said = broker.log_text()[before:]
    assert str(broker.directory) in said
    assert str(broker.process.pid) in said
    assert "Traceback" not in said
    with Wire(broker.port) as wire:
        wire.connect()
        wire.send("SEND", b"x", destination="/queue/a", receipt=1)
        wire.expect("RECEIPT")


def test_a_busy_port_is_refused(broker: BrokerProcess, tmp_path: Path) -> None:
    other = BrokerProcess(tmp_path / "other", listen=[f"stomp://127.0.0.1:{broker.port}"])
    said = other.refuse()
    assert f"127.0.0.1:{broker.port}" in said
    assert "--listen" in said
    # All files were closed again: the directory can be used at once.
    again = BrokerProcess(tmp_path / "other")
    with again:
        again.start()
        assert again.stop() == 0


def test_a_newer_format_is_refused(broker: BrokerProcess) -> None:
    assert broker.stop() == 0
    segment = sorted((broker.directory / JOURNAL).glob("*.seg"))[0]
    content = bytearray(segment.read_bytes())
    assert content[8:10] == b"\1\0"
    content[8] = FORMAT_VERSION + 1
    size = peek_segment_header_bytes(bytes(content))
    content[SEGMENT_CRC_OFFSET : SEGMENT_CRC_OFFSET + 4] = bytes(4)
    crc = crc32c(bytes(content[:size]))
    content[SEGMENT_CRC_OFFSET : SEGMENT_CRC_OFFSET + 4] = crc.to_bytes(4, "little")
    segment.write_bytes(content)
    said = broker.refuse()
    assert "format" in said
    assert f"{FORMAT_VERSION + 1}" in said
    assert segment.read_bytes() == content


def test_a_corrupt_middle_is_refused_with_its_place(broker: BrokerProcess) -> None:
    for name in ("a", "b", "c"):
        with Wire(broker.port) as wire:
            wire.connect()
            wire.send("SEND", b"y" * 1000, destination=f"/queue/{name}", receipt=1)
            wire.expect("RECEIPT")
    broker.kill()
    disk = RealDisk(broker.directory / JOURNAL)
    block = [block for block in read_blocks(disk, LAYOUT) if block.count][3]
    path = broker.directory / JOURNAL / block.segment
    content = bytearray(path.read_bytes())
    content[block.offset + 90] ^= 1
    path.write_bytes(content)
    said = broker.refuse()
    assert block.segment in said
    assert str(block.offset) in said
    assert path.read_bytes() == content
    # The lock is not held by the one that was refused.
    assert block.segment in broker.refuse()


def test_hang_up_reloads_settings_and_users(broker: BrokerProcess) -> None:
    broker.configure('[[address-setting]]\nmatch = "#"\ndead-letter-address = "morgue"\n')
    broker.send_signal(signal.SIGHUP)
    wait_for(lambda: "configuration reloaded" in broker.log_text(), "the reload")

    def dead_letter_address() -> bool:
        answer = ask(broker.directory, {"do": "settings", "address": "a"})
        return "morgue" in str(answer)

    wait_for(dead_letter_address, "the new setting")
    # A damaged file has no effect.
    broker.configure("nonsense = 1\n")
    broker.send_signal(signal.SIGHUP)
    wait_for(lambda: "was not reloaded" in broker.log_text(), "the refusal")
    assert dead_letter_address()
    broker.configure(NO_LIMIT)
    assert broker.stop() == 0


@pytest.fixture(params=["full", "broken"])
def fault(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """The file that makes the disk so while it exists."""
    return tmp_path / str(request.param)


@pytest.fixture
def faulty_broker(tmp_path: Path, library: Path, fault: Path) -> Iterator[BrokerProcess]:
    """A broker whose disk becomes full, broken or slow when the file `fault` exists."""
    environment = {
        "LD_PRELOAD": str(library),
        "BLACKBOX_FOLDER": str(tmp_path / "data" / JOURNAL),
        "BLACKBOX_LOG": str(tmp_path / "blackbox.log"),
        "BLACKBOX_FAULT": str(fault),
    }
    with BrokerProcess(
        tmp_path / "data", settings=SMALL_SEGMENTS, config=NO_LIMIT, environment=environment
    ) as process:
        yield process.start()


@pytest.mark.parametrize("fault", ["broken"], indirect=True)
def test_after_a_failed_sync_nothing_is_said(faulty_broker: BrokerProcess, fault: Path) -> None:
    broker = faulty_broker
    sender = Sender(broker.port)
    wait_for(lambda: len(sender.receipted) > 100, "load")
    fault.touch()
    assert broker.wait() == 1, broker.log_text()
    sender.join()
    assert not sender.missing_in(broker.directory)
    assert "Traceback" not in broker.log_text()
    assert "Input/output error" in broker.log_text()
    fault.unlink()
    broker.start()
    assert not sender.missing_in(broker.directory)
    assert broker.stop() == 0


@pytest.mark.parametrize("fault", ["full"], indirect=True)
@pytest.mark.parametrize("policy", ["BLOCK", "FAIL"])
def test_a_full_disk_takes_nothing_and_lets_consumers_drain(
    faulty_broker: BrokerProcess, fault: Path, policy: str
) -> None:
    broker = faulty_broker
    broker.configure(f'disk-full-policy = "{policy}"\n{NO_LIMIT}')
    broker.send_signal(signal.SIGHUP)
    wait_for(lambda: "configuration reloaded" in broker.log_text(), "the policy")
    with Wire(broker.port) as first:
        first.connect()
        first.send("SEND", b"early", destination="/queue/early", receipt=1)
        first.expect("RECEIPT")
    fault.touch()
    sender = Sender(broker.port, size=3000)
    if policy == "FAIL":
        wait_for(lambda: sender.errors, "the refusal of a producer")
        assert "disk is full" in sender.errors[0]
        sender.join()
    else:
        wait_for(lambda: status(broker)["blocked"], "a blocked producer")
        assert "disk is full" in status(broker)["blocked"][0]["why"]
    with Wire(broker.port) as consumer:
        consumer.connect()
        consumer.send("SUBSCRIBE", destination="/queue/early", id=1, ack="client-individual")
        consumer.send("ACK", id=consumer.expect("MESSAGE").headers["ack"], receipt=2)
        assert consumer.expect("RECEIPT").headers["receipt-id"] == "2"
    fault.unlink()
    wait_for(lambda: "there is room on the disk again" in broker.log_text(), "room")
    with Wire(broker.port) as producer:
        producer.connect()
        producer.send("SEND", b"late", destination="/queue/late", receipt=3)
        producer.expect("RECEIPT")
    if policy == "BLOCK":
        before = len(sender.receipted)
        wait_for(lambda: len(sender.receipted) > before + 100, "the producer that was blocked")
    assert broker.stop() == 0
    sender.join()
    assert not sender.missing_in(broker.directory)


@pytest.mark.parametrize("is_full", [True, False])
def test_it_serves_though_nobody_gets_to_know_that_it_is_ready(
    tmp_path: Path, *, is_full: bool
) -> None:
    """Its output is a file on a full disk, or a pipe whose reader has ended."""
    (file := tmp_path / "broker.toml").write_text('[[acceptor]]\nlisten = "127.0.0.1:0"\n')
    data = tmp_path / "data"
    reader, writer = os.pipe()
    os.close(reader)
    full = os.open("/dev/full", os.O_WRONLY)
    process = subprocess.Popen(
        [DAYBOOK, "serve", "--config", file, "--data", data], stdout=full if is_full else writer,
        stderr=subprocess.PIPE,
    )  # fmt: skip
    os.close(full)
    os.close(writer)
    try:

        def serves() -> bool:
            with suppress(ControlError, OSError):
                return ask(data, {"do": "status"}, 10.0) is not None
            return False

        wait_for(lambda: serves() or process.poll() is not None, "the broker")
        process.terminate()
        _, said = process.communicate(timeout=60)
        assert process.returncode == 0, said
        assert b"Traceback" not in said
        assert b'"ready"' in said
    finally:
        process.kill()


@pytest.mark.parametrize("fault", ["slow"], indirect=True)
def test_a_slow_disk_slows_producers_and_costs_no_memory(
    faulty_broker: BrokerProcess, fault: Path
) -> None:
    broker = faulty_broker
    senders = [Sender(broker.port, size=20_000) for _ in range(4)]
    wait_for(lambda: len(senders[0].receipted) > 50, "load")
    fault.touch()
    wait_for(lambda: status(broker)["producers_slowed_ms"] > 0, "producers that are slowed")
    wait_for(lambda: status(broker)["sync_ms_running"] > 50, "a sync that runs for long")
    before = broker.rss_bytes()

    def bounded() -> dict[str, Any]:
        found = status(broker)
        assert found["pending_bytes"] < 1 << 20
        return found

    wait_for(lambda: bounded()["peers_paused"], "producers that are paused")
    wait_for(lambda: bounded()["sync_ms_last"] > 190, "a slow sync that ended")
    for _ in range(20):
        bounded()
        time.sleep(0.05)
    # Queued messages are in memory while nothing pages; no more of them wait for the disk.
    assert broker.rss_bytes() - before < 8 << 20
    fault.unlink()
    wait_for(lambda: status(broker)["sync_ms_last"] < 150, "a disk that is fast again")
    assert broker.stop() == 0
    for sender in senders:
        sender.join()
        assert not sender.missing_in(broker.directory)
        assert not sender.errors


@pytest.mark.parametrize("fault", ["full"], indirect=True)
@pytest.mark.parametrize("size", [100, 30_000], ids=["room-for-the-stop", "no-room"])
def test_a_stop_on_a_full_disk_comes_to_an_end(
    faulty_broker: BrokerProcess, fault: Path, size: int
) -> None:
    """Whether there is room for the stop or not, the process ends and says how it was."""
    broker = faulty_broker
    with Wire(broker.port) as idle:
        idle.connect()
        fault.touch()
        # More in one piece than a segment and what is reserved take, or much less.
        idle.write(b"".join(_burst(size, number) for number in range(60)))
        if size > 1000:
            wait_for(lambda: "the disk is full" in broker.log_text(), "the full disk")
        code = broker.stop()
        receipts = set(_receipts(idle))
    found = bodies_in(broker.directory)
    assert all(random.Random(number).randbytes(size) in found for number in receipts)
    assert code == (0 if last_event(broker.directory) == "BrokerStopped" else 1)
    assert (code == 0) == (size == 100)
    assert "Traceback" not in broker.log_text()
    fault.unlink()
    broker.start()
    assert broker.stop() == 0


def _burst(size: int, number: int) -> bytes:
    """A message with its receipt; random, so that nothing compresses it."""
    body = random.Random(number).randbytes(size)
    return frame("SEND", body, destination="/queue/a", receipt=number)


def _receipts(wire: Wire) -> Iterator[int]:
    """Numbers of what was receipted, until the end of the connection."""
    while True:
        try:
            answer = wire.read()
        except (Closed, ConnectionResetError):
            return
        if answer.command == "RECEIPT":
            yield int(answer.headers["receipt-id"])


def test_a_writer_that_is_killed_ends_the_broker(broker: BrokerProcess) -> None:
    """Nothing is said that was not written, whichever process dies."""
    sender = Sender(broker.port)
    wait_for(lambda: len(sender.receipted) > 100, "load")
    (writer,) = broker.writers()
    os.kill(writer, signal.SIGKILL)
    assert broker.wait() == 1
    sender.join()
    assert "Traceback" not in broker.log_text()
    assert not sender.missing_in(broker.directory)
    broker.start()
    assert broker.stop() == 0


def test_background_work_shows_in_the_status(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data") as broker:
        broker.start()
        status = ask(broker.data, {"do": "status"}) or {}
        found = {each["name"]: each["trouble"] for each in status["background"]}
        names = {
            "ticks", "indexing", "disk scan", "control socket", "retention", "lock", "signing",
            "oldest message",
        }  # fmt: skip
        assert found == dict.fromkeys(names, "")
        # Somebody cleaned up: without its socket nobody could ask how the broker is doing.
        (broker.data / CONTROL_SOCKET).unlink()
        wait_for((broker.data / CONTROL_SOCKET).is_socket, "the socket")
        assert ask(broker.data, {"do": "status"})
        assert broker.stop() == 0
        assert "the control socket is gone" in broker.log_text()


@pytest.mark.usefixtures("own_interpreter")
def test_files_are_the_owners_alone_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        with BrokerProcess(tmp_path / "data", settings=["journal.segment-bytes=64KiB"]) as broker:
            broker.start()
            with Wire(broker.port) as wire:
                wire.connect()
                for number in range(20):
                    body = os.urandom(10_000)
                    wire.send("SEND", body, destination="/queue/a", receipt=number)
                    wire.expect("RECEIPT")
            wait_for(lambda: (broker.data / "index" / "data.mdb").exists(), "an index")
            assert broker.stop() == 0
    finally:
        os.umask(before)
    modes = {path: path.stat().st_mode & 0o777 for path in (broker.data, *broker.data.rglob("*"))}
    wide = {
        path: oct(mode)
        for path, mode in modes.items()
        if mode != (0o700 if path.is_dir() else 0o600)
    }
    assert wide == {}
    assert len([path for path in modes if path.suffix == ".seg"]) > 1
