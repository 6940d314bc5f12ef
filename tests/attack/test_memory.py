"""Clients that make the broker hold memory: each is bounded, and nobody else notices."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

from bench.load.amqp_peer import AmqpPeer, sender
from daybook.protocols.amqp.wire.frames import frame as frame_of
from daybook.protocols.amqp.wire.performatives import Flow, Transfer
from tests.attack.honest import Beside
from tests.interop.using import status
from tests.interop.wire import Closed, Frame, Wire, frame
from tests.support.process import BrokerProcess, wait_for

MIB = 1 << 20
LIMITS = (
    "max-memory=128MiB",
    "max-unacknowledged-bytes=8MiB",
    "stalled-timeout=1s",
    "max-queues-per-user=100",
    "max-connections-per-user=500",
)
SHARE = 32 * MIB
"""The share of one kind: a quarter."""


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    """A broker that may hold little. Its port is for both protocols."""
    listen = ("amqp+stomp://127.0.0.1:0",)
    with BrokerProcess(tmp_path / "data", settings=LIMITS, listen=listen) as process:
        yield process.start()


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as found:
        yield found


def wired(broker: BrokerProcess, stack: ExitStack, **options: Any) -> Wire:
    """A connection that is closed at the end of the test."""
    wire = Wire(broker.port, **options)
    stack.callback(wire.close)
    assert wire.connect().command == "CONNECTED"
    return wire


def fed(wire: Wire, data: bytes, times: int) -> Frame | None:
    """Send the same bytes so often; the ERROR frame if the broker did not want them all."""
    try:
        for _ in range(times):
            wire.write(data)
    except OSError:
        pass
    else:
        return None
    try:
        return next(found for found in wire.frames(1000) if found.command == "ERROR")
    except (OSError, Closed):
        return None


def test_open_transactions(beside: Beside, stack: ExitStack, scale: int) -> None:
    # Six of these took 568 MiB.
    wires = [wired(beside.broker, stack) for _ in range(6 * scale)]
    modest = wired(beside.broker, stack)
    modest.send("BEGIN", transaction="modest")
    modest.send("SEND", b"x", destination="/queue/modest", transaction="modest", receipt=1)
    modest.expect("RECEIPT")
    message = frame("SEND", bytes(50_000), destination="/queue/t", transaction="t")
    with beside.attack(memory_bytes=3 * SHARE):
        for wire in wires:
            wire.send("BEGIN", transaction="t")
        for _ in range(10):
            for wire in wires:
                fed(wire, message, 90)
        account = status(beside.broker)
    assert account["memory"]["transactions"] <= SHARE
    assert "max-transactions-memory" in beside.broker.log_text()
    # A light client may finish.
    modest.send("COMMIT", transaction="modest", receipt=2)
    modest.expect("RECEIPT")


def test_a_transaction_that_is_too_much_gets_an_error(
    broker: BrokerProcess, stack: ExitStack
) -> None:
    wire = wired(broker, stack)
    wire.send("BEGIN", transaction="t")
    message = frame("SEND", bytes(50_000), destination="/queue/t", transaction="t")
    # The broker closes the connection while there is more, or after that.
    answer = fed(wire, message, 600) or wire.read()
    assert answer.command == "ERROR"
    assert "max-transactions-memory" in answer.headers["message"]


def test_subscribers_that_never_read(beside: Beside, stack: ExitStack, scale: int) -> None:
    # A thousand of these took 1.8 GB.
    deaf = [wired(beside.broker, stack, receive_buffer=4096) for _ in range(200)]
    for wire in deaf:
        wire.send("SUBSCRIBE", destination="/topic/flood", id=1, receipt=1)
        wire.expect("RECEIPT")
    producer = wired(beside.broker, stack)
    with beside.attack(memory_bytes=5 * SHARE):
        for _ in range(40 * scale):
            fed(producer, frame("SEND", bytes(20_000), destination="/topic/flood"), 5)
            producer.send("SEND", b"", destination="/queue/x", receipt=1)
            producer.expect("RECEIPT")
        # They keep what is too much, so they must go.
        wait_for(lambda: "stalled-timeout" in beside.broker.log_text(), "the first to go")
    wait_for(lambda: status(beside.broker)["memory_short_of"] == "", "memory to be free")


def test_what_was_freed_goes_back_to_the_system(tmp_path: Path, stack: ExitStack) -> None:
    with BrokerProcess(tmp_path / "data") as broker:
        broker.start()
        deaf = [wired(broker, stack, receive_buffer=4096) for _ in range(100)]
        for wire in deaf:
            wire.send("SUBSCRIBE", destination="/topic/flood", id=1, receipt=1)
            wire.expect("RECEIPT")
        before = broker.rss_bytes()
        producer = wired(broker, stack)
        for _ in range(400):
            producer.send("SEND", bytes(20_000), destination="/topic/flood", receipt=1)
            producer.expect("RECEIPT")
        assert broker.rss_bytes() - before > 50 * MIB
        for wire in deaf:
            wire.close()
        wait_for(lambda: status(broker)["memory_given_back_times"], "memory to be given back")
        wait_for(lambda: broker.rss_bytes() - before < 30 * MIB, "the process to be small again")


def test_one_user_holds_a_part_and_others_notice_nothing(tmp_path: Path, stack: ExitStack) -> None:
    settings = ("max-memory=128MiB", "max-memory-per-user=16MiB", "stalled-timeout=1s")
    with BrokerProcess(tmp_path / "data", settings=settings) as broker:
        broker.start()
        deaf = [wired(broker, stack, receive_buffer=4096) for _ in range(20)]
        for wire in deaf:
            wire.send("SUBSCRIBE", destination="/topic/flood", id=1, receipt=1)
            wire.expect("RECEIPT")
        producer = wired(broker, stack)
        for _ in range(400):
            producer.send("SEND", bytes(20_000), destination="/topic/flood", receipt=1)
            producer.expect("RECEIPT")
        wait_for(lambda: "max-memory-per-user" in broker.log_text(), "the share to be used up")
        users: Any = status(broker)["memory_users"]
        assert users[0]["user"] == "guest"
        # All together have enough, so nobody but this user is limited.
        assert status(broker)["memory_short_of"] == ""
        wait_for(lambda: "is closed" in broker.log_text(), "the first to go")


def test_senders_that_read_no_receipts(beside: Beside, stack: ExitStack) -> None:
    # Each of these took 7 MiB.
    wires = [wired(beside.broker, stack, receive_buffer=4096) for _ in range(10)]
    many = b"".join(frame("SEND", destination="/topic/n", receipt="r" * 500) for _ in range(100))
    with beside.attack(memory_bytes=len(wires) * 3 * MIB):
        for wire in wires:
            wire.socket.settimeout(0.5)
            for _ in range(400):
                try:
                    wire.write(many)
                except TimeoutError:
                    break
            else:
                pytest.fail("the broker read all of it")


def test_deliveries_that_are_never_acknowledged(beside: Beside, stack: ExitStack) -> None:
    producer = wired(beside.broker, stack)
    message = frame("SEND", bytes(50_000), destination="/queue/u")
    for _ in range(40):
        assert fed(producer, message, 49) is None
        producer.send("SEND", bytes(50_000), destination="/queue/u", receipt=1)
        producer.expect("RECEIPT")
    takers = [wired(beside.broker, stack) for _ in range(8)]
    with beside.attack(memory_bytes=3 * SHARE):
        for wire in takers:
            wire.send("SUBSCRIBE", destination="/queue/u", id=1, ack="client", credit=100000)
        taken = sum(_drain(wire) for wire in takers)
        account = status(beside.broker)
    assert account["memory"]["unacknowledged"] <= SHARE + 8 * MIB
    # One user has half of it.
    assert 250 < taken < 1300
    # They settle nothing and keep others from having any: the largest go, and theirs comes back.
    wait_for(lambda: "stalled-timeout" in beside.broker.log_text(), "the first to go")
    honest = wired(beside.broker, stack)
    honest.send("SUBSCRIBE", destination="/queue/u", id=1, ack="client")
    assert len(honest.expect("MESSAGE").body) == 50_000


def _drain(wire: Wire) -> int:
    """Read until nothing comes for a while, or the end; how many messages came."""
    wire.socket.settimeout(0.3)
    count = 0
    with suppress(TimeoutError, Closed, ConnectionResetError):
        while wire.read().command == "MESSAGE":
            count += 1
    return count


def test_frames_that_never_end(beside: Beside, stack: ExitStack) -> None:
    wires = [wired(beside.broker, stack) for _ in range(100)]
    begun = b"SEND\ndestination:/queue/x\n" + b"".join(
        b"h%d:%s\n" % (n, b"x" * 9_000) for n in range(95)
    )
    with beside.attack(memory_bytes=3 * SHARE):
        for wire in wires:
            fed(wire, begun, 1)
        wait_for(lambda: "did not finish" in beside.broker.log_text(), "the first to go")
    assert status(beside.broker)["memory"]["input"] <= SHARE


def test_messages_of_amqp_that_never_end(beside: Beside, stack: ExitStack) -> None:
    # A hundred connections of one user, each with ten links, and on each link the beginning of a
    # message whose properties do not end: 600 MiB.
    peers = [AmqpPeer(beside.broker.port) for _ in range(100)]
    for peer in peers:
        stack.callback(peer.close)
        peer.ask(b"".join(sender(each, "begun") for each in range(10)), Flow, 10)
    begun = b"\0\x53\x74\xd1" + (900_000).to_bytes(4, "big") + (2).to_bytes(4, "big")
    begun += b"\xa1\x01x\xb1" + (890_000).to_bytes(4, "big")
    # What was freed is not all given back at once; the rest of the 600 MiB never was in memory.
    with beside.attack(memory_bytes=8 * SHARE):
        for part in range(10):
            for peer in peers:
                with suppress(OSError):
                    for each in range(10):
                        data = bytes(60_000) if part else begun
                        said = Transfer(each, None if part else each, b"t", 0, more=True)
                        peer.put(frame_of(0, said, data))
        wait_for(lambda: "did not finish" in beside.broker.log_text(), "the first to go")
    assert status(beside.broker)["memory"]["input"] <= SHARE


def test_queues_connections_and_ids_of_one_user(broker: BrokerProcess, stack: ExitStack) -> None:
    wire = wired(broker, stack)
    for number in range(100):
        wire.send("SEND", b"x", destination=f"/queue/{number}", receipt=number)
        wire.expect("RECEIPT")
    wire.send("SEND", b"x", destination="/queue/100", receipt=1)
    assert "max-queues-per-user" in wire.expect("ERROR").headers["message"]
    # The count outlives a kill, and queues that exist are used as before.
    broker.kill()
    broker.start()
    again = wired(broker, stack)
    again.send("SEND", b"x", destination="/queue/7", receipt=1)
    again.expect("RECEIPT")
    again.send("SUBSCRIBE", destination="/topic/t", id="d", persistent="true")
    assert "max-queues-per-user" in again.expect("ERROR").headers["message"]
    for _ in range(500):
        wired(broker, stack)
    late = Wire(broker.port)
    stack.callback(late.close)
    assert "max-connections-per-user" in late.connect().headers["message"]


def test_a_transaction_that_stays_open(tmp_path: Path, stack: ExitStack) -> None:
    settings = ("transaction-timeout=500ms", "transaction-timeout-scan-period=100ms")
    with BrokerProcess(tmp_path / "data", settings=settings) as broker:
        wire = wired(broker.start(), stack)
        wire.send("BEGIN", transaction="t")
        wire.send("SEND", b"x", destination="/queue/t", transaction="t")
        wait_for(lambda: "transaction-timeout" in broker.log_text(), "the timeout")
        wire.send("COMMIT", transaction="t")
        assert "transaction-timeout" in wire.expect("ERROR").headers["message"]


def test_producers_are_blocked_when_all_is_full_and_resume(
    tmp_path: Path, stack: ExitStack
) -> None:
    """Each kind is below its quarter, but all together are not below the limit."""
    settings = (
        "max-memory=20MiB", "max-transactions-memory=1GiB", "stalled-timeout=0",
        "max-memory-per-user=0",
    )  # fmt: skip
    with BrokerProcess(tmp_path / "data", settings=settings) as broker:
        greedy = wired(broker.start(), stack)
        producer = wired(broker, stack)
        greedy.send("BEGIN", transaction="t")
        big = frame("SEND", bytes(50_000), destination="/queue/t", transaction="t")
        assert fed(greedy, big, 500) is None
        greedy.send("SEND", b"", destination="/queue/y", transaction="t", receipt=1)
        greedy.expect("RECEIPT")
        wait_for(lambda: status(broker)["memory_short_of"] == "all", "memory to be full")
        producer.send("SEND", b"x", destination="/queue/p", receipt=1)
        blocked = wait_for(lambda: status(broker)["blocked"], "the producer to be blocked")
        assert "max-memory" in blocked[0]["why"]
        began = time.monotonic()
        producer.expect("RECEIPT")
        assert time.monotonic() - began < 60
        assert "holds the most" in greedy.expect("ERROR").headers["message"]


def test_a_consumer_that_is_too_slow(tmp_path: Path, stack: ExitStack) -> None:
    config = """
[[address-setting]]
match = "#"
slow-consumer-threshold = 10
slow-consumer-policy = "KILL"
slow-consumer-check-period = 1
"""
    with BrokerProcess(tmp_path / "data", config=config) as broker:
        slow = wired(broker.start(), stack)
        quick = wired(broker, stack)
        for number in range(200):
            quick.send("SEND", b"x", destination="/queue/s", receipt=number)
            quick.expect("RECEIPT")
        slow.send("SUBSCRIBE", destination="/queue/s", id=1, ack="client", credit=10)
        told = next(found for found in slow.frames(300) if found.command == "ERROR")
        assert "slow-consumer-threshold" in told.headers["message"]
        quick.send("SUBSCRIBE", destination="/queue/s", id=1)
        assert quick.expect("MESSAGE").headers["redelivered"] == "true"


LEAST, MOST = 0.5, 3.0
"""The bytes that the account may count for a byte that the process really allocated."""


def test_the_account_is_about_right(tmp_path: Path, stack: ExitStack) -> None:
    """For each kind that clients make grow: the counted bytes beside the growth of the process."""
    with BrokerProcess(
        tmp_path / "data", settings=("global-max-size=1GiB", "max-transaction-entries=100000")
    ) as broker:
        wire = wired(broker.start(), stack)
        _ask_and_wait(wire, 1000, destination="/queue/warm")

        def compare(kind: str, grow: Callable[[], None]) -> None:
            wait_for(lambda: status(broker)["memory"]["journal"] == 0, "the disk")
            counted, had = _memory_held(broker), broker.rss_bytes()
            grow()
            grown = broker.rss_bytes() - had
            ratio = (_memory_held(broker) - counted) / max(1, grown)
            assert grown > 4 * MIB, kind
            assert LEAST <= ratio <= MOST, f"{kind}: counted {ratio:.2f} of {grown >> 20} MiB"

        def transactions() -> None:
            wire.send("BEGIN", transaction="t")
            _ask_and_wait(wire, 40_000, destination="/queue/m", transaction="t")

        def queues() -> None:
            for number in range(3000):
                wire.send("SEND", destination=f"/queue/of-many-{number}")
            _ask_and_wait(wire, 1, destination="/queue/warm")

        def in_flight() -> None:
            taker = wired(broker, stack)
            taker.send("SUBSCRIBE", destination="/queue/m", id=1, ack="client", credit=1000000)
            assert _drain(taker) == 40_000

        compare("transactions", transactions)
        compare("messages", lambda: _ask_and_wait(wire, 40_000, destination="/queue/m"))
        compare("objects", queues)
        before = _memory_held(broker)
        in_flight()
        # They are the same messages, counted as another kind.
        kinds = status(broker)["memory"]
        assert kinds["messages"] < 8 * MIB < kinds["unacknowledged"]
        assert _memory_held(broker) - before < 8 * MIB


def _memory_held(broker: BrokerProcess) -> int:
    return int(str(status(broker)["memory_held"]))


def _ask_and_wait(wire: Wire, count: int, **headers: str) -> None:
    """Send so many messages of 200 bytes, and wait until all are safe."""
    message = frame("SEND", bytes(200), **headers)
    for _ in range(0, count, 1000):
        wire.write(message * (min(1000, count) - 1))
        wire.send("SEND", bytes(200), receipt="r", **headers)
        wire.expect("RECEIPT")
