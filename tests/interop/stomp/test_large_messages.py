"""Large messages through a real broker: both ways in little memory, through crashes and bad peers.

`make test` moves about 100 MB; LARGE_MB says how many megabytes it is to be.
"""

import hashlib
import os
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from daybook.engine.facts import events
from daybook.journal.disk import RealDisk
from daybook.journal.segments.reader import read_blocks
from daybook.paging.tables.layout import LAYOUT
from tests.interop.using import status
from tests.interop.wire import Wire
from tests.support.process import BrokerProcess, wait_for

pytestmark = pytest.mark.interop

MIB = 1 << 20
LARGE_BYTES = int(os.environ.get("LARGE_MB", "100")) * 1_000_000
RSS_BYTES_MAX = 90 * MIB
"""The memory of a broker that has only such a message: an idle broker takes half of it."""

SETTINGS = ("acceptor.max-data-length=4GiB", "acceptor.heart-beat-send=200")
PIECE = os.urandom(MIB)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path / "data", settings=SETTINGS) as process:
        yield process.start()


class Peak:
    """The most memory that any process of the broker took, looked at all the time."""

    def __init__(self, broker: BrokerProcess) -> None:
        self.bytes = 0
        self._broker = broker
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def _watch(self) -> None:
        page = os.sysconf("SC_PAGE_SIZE")
        pids = [self._broker.process.pid, *self._broker.children()]
        while not self._stop.wait(0.02):
            for pid in pids:
                with suppress(OSError):
                    pages = int(Path(f"/proc/{pid}/statm").read_text("ascii").split()[1])
                    self.bytes = max(self.bytes, pages * page)

    def __enter__(self) -> "Peak":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()


def pieces(size: int) -> Iterator[bytes]:
    """A body of this size."""
    while size > 0:
        yield PIECE[:size]
        size -= len(PIECE)


def digest_of(size: int) -> str:
    found = hashlib.sha256()
    for piece in pieces(size):
        found.update(piece)
    return found.hexdigest()


def begin_large(wire: Wire, size: int, **headers: str) -> None:
    """Write the head of a large SEND."""
    lines = "".join(f"{name}:{value}\n" for name, value in headers.items())
    wire.write(f"SEND\ndestination:/queue/big\ncontent-length:{size}\n{lines}\n".encode())


def send_large(port: int, size: int, **headers: str) -> None:
    """Send a body, and wait for its receipt."""
    with Wire(port) as producer:
        producer.connect()
        begin_large(producer, size, receipt="r", **headers)
        for piece in pieces(size):
            producer.write(piece)
        producer.write(b"\0")
        producer.expect("RECEIPT")


class Download:
    """A MESSAGE that is read piece by piece."""

    def __init__(self, wire: Wire) -> None:
        self.wire = wire
        buffer = b""
        while b"\n\n" not in buffer:
            buffer = (buffer + self._receive()).lstrip(b"\n")
        head, _, self.rest = buffer.partition(b"\n\n")
        command, *lines = head.decode().split("\n")
        assert command == "MESSAGE"
        self.headers = dict(line.split(":", 1) for line in reversed(lines))
        self.size = int(self.headers["content-length"])
        self.digest = hashlib.sha256()

    def _receive(self) -> bytes:
        data = self.wire.socket.recv(MIB)
        assert data, "the broker closed the connection"
        return data

    def read(self, limit: int) -> None:
        """Read about so many bytes of the body."""
        while limit > 0 and self.size > 0:
            self.rest = self.rest or self._receive()
            data = self.rest[: self.size]
            self.rest = self.rest[len(data) :]
            self.digest.update(data)
            self.size -= len(data)
            limit -= len(data)

    def finish(self) -> str:
        """Read all of it; answers the digest of the body."""
        self.read(self.size)
        self.rest = self.rest or self._receive()
        assert self.rest[:1] == b"\0"
        self.rest = self.rest[1:]
        return self.digest.hexdigest()


def subscribe(wire: Wire, **headers: str) -> None:
    wire.connect(**headers)
    wire.send("SUBSCRIBE", destination="/queue/big", id=1, ack="client-individual", credit="1,0")


def message_counts(broker: BrokerProcess) -> tuple[int, int]:
    """How many messages are ready and in flight."""
    told = status(broker)
    return told["messages_ready"], told["messages_in_flight"]


def kinds(broker: BrokerProcess) -> list[int]:
    disk = RealDisk(broker.data / "journal")
    return [row[0] for block in read_blocks(disk, LAYOUT, heaps=False) for row in block.rows()]


@pytest.mark.slow
@pytest.mark.usefixtures("own_interpreter")
def test_both_ways_in_little_memory(broker: BrokerProcess) -> None:
    with Peak(broker) as peak:
        send_large(broker.port, LARGE_BYTES)
        with Wire(broker.port) as consumer:
            subscribe(consumer)
            download = Download(consumer)
            assert download.finish() == digest_of(LARGE_BYTES)
            consumer.send("ACK", id=download.headers["ack"], receipt="a")
            consumer.expect("RECEIPT")
    assert message_counts(broker) == (0, 0)
    assert peak.bytes < RSS_BYTES_MAX, f"{peak.bytes / MIB:.0f} MiB"


@pytest.mark.slow
def test_killed_while_sending_and_while_receiving(broker: BrokerProcess) -> None:
    size = 20_000_000
    with Wire(broker.port) as producer:
        producer.connect()
        begin_large(producer, size)
        for piece in pieces(size // 2):
            producer.write(piece)
        broker.kill()
    broker.start()
    assert message_counts(broker) == (0, 0)
    assert events.CHUNK_RECEIVED in kinds(broker)
    send_large(broker.port, size)
    for attempt in (1, 2):
        with Wire(broker.port) as consumer:
            subscribe(consumer)
            download = Download(consumer)
            assert download.headers.get("delivery-count", "1") == str(attempt)
            download.read(size // 2)
            broker.kill()
        broker.start()
    with Wire(broker.port) as consumer:
        subscribe(consumer)
        download = Download(consumer)
        assert download.finish() == digest_of(size)
        assert download.headers["redelivered"] == "true"


def test_peers_that_go_half_way(broker: BrokerProcess) -> None:
    size = 3_000_000
    with Wire(broker.port) as producer:
        producer.connect()
        begin_large(producer, size)
        for piece in pieces(size // 2):
            producer.write(piece)
    wait_for(lambda: status(broker)["connections"] == 0, "the end of it")
    assert message_counts(broker) == (0, 0)
    send_large(broker.port, size)
    with Wire(broker.port) as consumer:
        subscribe(consumer)
        Download(consumer).read(size // 3)
    wait_for(lambda: message_counts(broker) == (1, 0), "the message to come back")
    with Wire(broker.port) as consumer:
        subscribe(consumer)
        assert Download(consumer).finish() == digest_of(size)


@pytest.mark.usefixtures("own_interpreter")
def test_others_are_served_beside_a_peer_that_takes_nothing(broker: BrokerProcess) -> None:
    size = 30_000_000
    send_large(broker.port, size)
    with Wire(broker.port, receive_buffer=4096) as slow, Wire(broker.port) as other:
        subscribe(slow)
        download = Download(slow)
        other.connect()
        for number in range(20):
            other.send("SEND", b"x", destination="/queue/small", receipt=number)
            other.expect("RECEIPT")
        download.read(100_000)
        assert message_counts(broker) == (20, 1)
        assert broker.rss_bytes() < RSS_BYTES_MAX


def test_heart_beats_do_not_get_into_a_body(broker: BrokerProcess) -> None:
    size = 10_000_000
    send_large(broker.port, size)
    with Wire(broker.port, receive_buffer=4096) as consumer:
        subscribe(consumer, heart_beat="0,200")
        download = Download(consumer)
        for _ in range(5):
            download.read(size // 10)
            # Heart-beats would be due meanwhile.
            time.sleep(0.25)
        assert download.finish() == digest_of(size)


def test_several_on_several_subscriptions_with_small_ones(broker: BrokerProcess) -> None:
    sizes = [200_000, 5, 300_001, 65_536 * 3, 102_400, 102_401]
    with Wire(broker.port) as producer, Wire(broker.port) as consumer:
        producer.connect()
        consumer.connect()
        for name in ("a", "b"):
            consumer.send("SUBSCRIBE", destination=f"/topic/{name}", id=name, ack="auto", receipt=1)
            consumer.expect("RECEIPT")
        for size in sizes:
            for name in ("a", "b"):
                producer.send("SEND", PIECE[:size], destination=f"/topic/{name}", receipt=1)
                producer.expect("RECEIPT")
        got: dict[str, list[bytes]] = {"a": [], "b": []}
        for frame in consumer.frames(2 * len(sizes)):
            got[frame.headers["subscription"]].append(frame.body)
    assert got["a"] == got["b"] == [PIECE[:size] for size in sizes]


PAGING = """
[[address-setting]]
match = "paged"
max-size-messages = 5
address-full-policy = "PAGE"
max-delivery-attempts = -1
"""


@pytest.mark.parametrize("restarts", [False, True])
def test_what_was_paged_out_comes_back_whole(tmp_path: Path, restarts: bool) -> None:
    bodies = [PIECE[number : number + (250_000 if number % 3 else 10)] for number in range(60)]
    with BrokerProcess(tmp_path / "data", config=PAGING) as broker:
        broker.start()
        with Wire(broker.port) as producer:
            producer.connect()
            for number, body in enumerate(bodies):
                producer.send("SEND", body, destination="/queue/paged", receipt=number)
                producer.expect("RECEIPT")
        wait_for(lambda: status(broker)["addresses_paging"] == 1, "the address to page")
        if restarts:
            broker.kill()
            broker.start()
        with Wire(broker.port) as consumer:
            consumer.connect()
            consumer.send("SUBSCRIBE", destination="/queue/paged", id=1, ack="client")
            for body, frame in zip(bodies, consumer.frames(len(bodies)), strict=True):
                assert frame.body == body
                consumer.send("ACK", id=frame.headers["ack"])
            wait_for(lambda: message_counts(broker) == (0, 0), "all to be acknowledged")


@pytest.mark.parametrize("version", ["1.0", "1.1", "1.2"])
def test_in_a_transaction_and_without_a_content_length(broker: BrokerProcess, version: str) -> None:
    text = b"text " * 100_000
    with Wire(broker.port) as wire:
        wire.connect(version)
        wire.send("BEGIN", transaction="t")
        wire.write(b"SEND\ndestination:/queue/t\ntransaction:t\n\n" + text + b"\0")
        wire.send("SEND", PIECE, destination="/queue/t", transaction="t")
        wire.send("COMMIT", transaction="t", receipt="c")
        wire.expect("RECEIPT")
        wire.send("SUBSCRIBE", destination="/queue/t", id="s", ack="auto")
        first, second = wire.frames(2)
    assert "content-length" not in first.headers
    assert (first.body, second.body) == (text, PIECE)
