"""Floods, silence and giants: memory stays bounded and everybody else is served."""

import resource
import threading
from pathlib import Path

import pytest

from daybook.client.control import ask
from tests.interop.wire import Closed, Wire, frame
from tests.support.process import BrokerProcess, wait_for

pytestmark = pytest.mark.interop

MIB = 1 << 20


def round_trip(broker: BrokerProcess, name: str) -> None:
    """Another client is served as if nothing were."""
    with Wire(broker.port) as wire:
        wire.connect()
        wire.send("SUBSCRIBE", destination=f"/queue/{name}", id=1)
        wire.send("SEND", b"ping", destination=f"/queue/{name}", receipt="r")
        assert {wire.read().command, wire.read().command} == {"RECEIPT", "MESSAGE"}


def connections(broker: BrokerProcess) -> int:
    """How many connections the broker has let in."""
    answer = ask(broker.directory, {"do": "status"})
    assert answer is not None
    return int(answer["connections"])


def test_thousands_of_idle_connections(broker: BrokerProcess) -> None:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    count = min(2000, soft - 200)
    if count < 500:
        pytest.skip(f"only {soft} open files are allowed here")
    round_trip(broker, "warm")
    before = broker.rss_bytes()
    files = broker.open_files()
    wires: list[Wire] = []
    while len(wires) < count:
        # Fewer at a time than may be without a login.
        some = [Wire(broker.port) for _ in range(min(200, count - len(wires)))]
        wires += some
        for wire in some:
            wire.send("CONNECT", accept_version="1.2", host="h")
        for wire in some:
            wire.expect("CONNECTED")
            wire.send("SUBSCRIBE", destination="/topic/news", id=1)
    wait_for(lambda: connections(broker) == count, "all connections")
    each = (broker.rss_bytes() - before) / count
    assert each < 40_000, f"{each:.0f} bytes for an idle connection"
    round_trip(broker, "among-many")
    with Wire(broker.port) as producer:
        producer.connect()
        producer.send("SEND", b"news", destination="/topic/news", receipt=1)
        producer.expect("RECEIPT")
    for wire in wires:
        assert wire.expect("MESSAGE").body == b"news"
        wire.close()
    wait_for(lambda: connections(broker) == 0, "the end of all connections")
    wait_for(lambda: broker.open_files() <= files + 2, "the descriptors")


def test_a_peer_that_never_reads(broker: BrokerProcess) -> None:
    body = bytes(10_000)
    before = broker.rss_bytes()
    with Wire(broker.port, receive_buffer=4096) as deaf, Wire(broker.port) as producer:
        deaf.connect()
        deaf.send("SUBSCRIBE", destination="/topic/flood", id=1)
        deaf.send("SUBSCRIBE", destination="/queue/flood", id=2)
        producer.connect()
        wait_for(lambda: (ask(broker.directory, {"do": "status"}) or {})["consumers"] == 2, "it")
        sent = 0
        while sent < 30 * MIB:
            pieces = [frame("SEND", body, destination="/queue/flood") for _ in range(99)]
            producer.write(b"".join(pieces))
            producer.send("SEND", body, destination="/queue/flood", receipt=sent)
            producer.expect("RECEIPT")
            sent += 100 * len(body)
        round_trip(broker, "beside-the-deaf")
        answer = ask(broker.directory, {"do": "queues"})
        assert answer is not None
        ready = next(queue["ready"] for queue in answer["queues"] if queue["queue"] == "flood")
        # It got as much as its room and the kernel's buffers hold; the rest waits.
        assert ready * len(body) > 30 * MIB - 12 * MIB
        # The queue is in memory; beside it there is not a second copy of everything.
        assert broker.rss_bytes() - before < 2 * sent + 40 * MIB


def test_a_peer_that_asks_for_answers_and_never_reads(broker: BrokerProcess) -> None:
    """Receipts that nobody reads hold up their own producer alone."""
    before = broker.rss_bytes()
    wire = Wire(broker.port, receive_buffer=4096, seconds=3)
    wire.connect()
    receipt = "r" * 9000
    data = b"".join(frame("BEGIN", transaction=n, receipt=f"{receipt}{n}") for n in range(100))
    sent = 0
    while sent < 100 * MIB:
        try:
            wire.write(data.replace(b"transaction:", b"transaction:%d." % sent))
        except TimeoutError:
            break
        sent += len(data)
    assert sent < 40 * MIB, "the broker took all of it"
    round_trip(broker, "beside-the-talker")
    assert broker.rss_bytes() - before < 60 * MIB
    wire.close()
    wait_for(lambda: connections(broker) == 0, "the end")


def test_a_producer_faster_than_the_disk(tmp_path: Path) -> None:
    """Bytes that were read and are not yet durable are bounded, however much is sent."""
    settings = ["journal.max-pending-bytes=1MiB"]
    with BrokerProcess(tmp_path / "data", settings=settings) as broker:
        broker.start()
        before = broker.rss_bytes()
        # Dropped by the topic, for nobody subscribed: what grows is only what waits for the disk.
        data = b"".join(frame("SEND", bytes(1000), destination="/topic/void") for _ in range(1000))
        wires = [Wire(broker.port) for _ in range(4)]
        for wire in wires:
            wire.connect()
        threads = [
            threading.Thread(target=lambda w=wire: [w.write(data) for _ in range(40)])
            for wire in wires
        ]
        for thread in threads:
            thread.start()
        highest = 0
        while any(thread.is_alive() for thread in threads):
            highest = max(highest, broker.rss_bytes())
            threads[0].join(0.01)
        round_trip(broker, "after-the-flood")
        for wire in wires:
            wire.send("DISCONNECT", receipt="end")
            wire.expect("RECEIPT")
            wire.close()
        assert highest - before < 60 * MIB
        assert broker.stop() == 0


@pytest.mark.slow
def test_a_body_of_a_hundred_megabytes(broker: BrokerProcess) -> None:
    body = bytes(range(256)) * (100 * MIB // 256)
    before = broker.rss_bytes()
    with Wire(broker.port, seconds=300) as wire:
        wire.connect()
        wire.send("SEND", body, destination="/queue/giant", receipt="sent")
        wire.expect("RECEIPT")
        wire.send("SUBSCRIBE", destination="/queue/giant", id=1, ack="client-individual")
        message = wire.expect("MESSAGE")
        assert message.body == body
        wire.send("ACK", id=message.headers["ack"], receipt="acked")
        wire.expect("RECEIPT")
        # Only what is announced: the broker does not wait for what it does not want.
        wire.write(b"SEND\ndestination:/queue/giant\ncontent-length:%d\n\nx" % (len(body) + 1))
        error = wire.expect("ERROR")
        assert str(100 * MIB) in error.body.decode()
    assert broker.rss_bytes() - before < 1000 * MIB
    round_trip(broker, "after-the-giant")
    broker.kill()
    broker.start()
    round_trip(broker, "after-the-kill")


def test_too_many_connections_are_refused_and_the_others_served(tmp_path: Path) -> None:
    config = '[[acceptor]]\nlisten = "127.0.0.1:0"\nmax-connections = 3\n'
    with BrokerProcess(tmp_path / "data", config=config, listen=()) as broker:
        broker.start()
        wires = [Wire(broker.port) for _ in range(3)]
        for wire in wires:
            wire.connect()
        with Wire(broker.port) as fourth:
            assert "max-connections" in fourth.expect("ERROR").headers["message"]
            assert fourth.at_end()
        wires.pop().close()
        wait_for(lambda: connections(broker) == 2, "a free place")
        round_trip(broker, "again")
        for wire in wires:
            wire.close()


def test_a_flood_of_connects_does_not_hold_up_others(broker: BrokerProcess) -> None:
    """Each wrong passcode costs a slow hash; those who are in do not wait for it."""
    with Wire(broker.port) as inside:
        inside.connect()
        wires = [Wire(broker.port) for _ in range(60)]
        for wire in wires:
            wire.send("CONNECT", accept_version="1.2", host="h", login="joe", passcode="guess")
        for number in range(20):
            inside.send("SEND", b"x", destination="/queue/a", receipt=number)
            inside.expect("RECEIPT")
        # Half of them give up while their login is being checked.
        for wire in wires[::2]:
            wire.close()
        for wire in wires[1::2]:
            assert "joe" in wire.expect("ERROR").headers["message"]
            assert wire.at_end()
            wire.close()
    wait_for(lambda: connections(broker) == 0, "the end of all")
    round_trip(broker, "after-the-flood")
    assert "Traceback" not in broker.log_text()


@pytest.mark.parametrize(
    "garbage",
    [
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(200),
        b"AMQP\x00\x01\x00\x00",
        b"\x00" * 1000,
        b"\xff" * 5000,
        b"\n" * 100_000 + b"HELLO\n\n\0",
    ],
    ids=["http", "tls", "amqp", "zeros", "ones", "newlines"],
)
def test_garbage_on_the_port(shared_broker: BrokerProcess, garbage: bytes) -> None:
    with Wire(shared_broker.port, seconds=30) as wire:
        wire.write(garbage)
        try:
            wire.socket.shutdown(1)
            assert wire.read().command == "ERROR"
        except (Closed, OSError):
            # What breaks off in the middle may end without a word.
            assert not garbage.endswith(b"\n\n\0")
    round_trip(shared_broker, "beside-garbage")
    assert "Traceback" not in shared_broker.log_text()
