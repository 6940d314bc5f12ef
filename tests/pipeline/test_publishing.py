"""Publishing exactly once: repeated chunks, brokers that vanish, refuse, wait, or forget."""

import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import zip_longest
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daybook.client.amqp.arriving import Arrived
from daybook.client.amqp.client import AmqpClient
from daybook.client.amqp.leaving import place_of
from daybook.client.bodies import Content
from daybook.client.endpoint import AMQP, STOMP, Endpoint
from daybook.client.stomp import Frame, Refused, StompClient, StompError
from daybook.pipeline.publishing import (
    OVERHEAD_BYTES,
    Message,
    Publisher,
    PublishError,
    check_remembers,
    cut,
    remembers_ids,
)
from daybook.protocols.amqp.wire.termini import Accepted
from tests.support.process import BrokerProcess, wait_for

CONFIG = """
[[address-setting]]
match = "#"
max-delivery-attempts = -1

[[address-setting]]
match = "forgetful"
id-cache-size = 0

[[address-setting]]
match = "small"
max-size-messages = 2
address-full-policy = "BLOCK"

[[address-setting]]
match = "closed"
auto-create-addresses = false
auto-create-queues = false
"""


@pytest.fixture(scope="module", params=[STOMP, AMQP])
def broker(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[BrokerProcess]:
    """A broker for all tests that do not end it; each uses destinations of its own."""
    directory = tmp_path_factory.mktemp("publishing") / "data"
    listen = (f"{request.param}://127.0.0.1:0",)
    with BrokerProcess(directory, config=CONFIG, listen=listen) as process:
        yield process.start()


def endpoint_of(broker: BrokerProcess) -> Endpoint:
    protocol = broker.listen[0].partition(":")[0]
    return Endpoint("127.0.0.1", broker.port, "guest", "guest", protocol=protocol)


def messages(destination: str, *bodies: bytes) -> list[Message]:
    return [Message(destination, body) for body in bodies]


def received(client: AmqpClient, destination: str, count: int) -> list[Arrived]:
    """So many messages of a queue over AMQP, which are acknowledged."""
    client.receiver(place_of(destination))
    found = []
    for number in range(count):
        message = client.message(30)
        assert message is not None, f"{number} of {count} came"
        found.append(message[1])
        client.settle(message[1], Accepted())
        client.confirm(message[1].delivery)
    return found


def drained(endpoint: Endpoint, destination: str, count: int) -> list[bytes]:
    """The bodies in a queue, which must be so many and no more."""
    if endpoint.protocol == AMQP:
        with AmqpClient(endpoint) as client:
            found = received(client, destination, count)
            assert client.message(0.2) is None, "there were more"
            client.disconnect()
            return [each.body for each in found]
    with StompClient(endpoint) as client:
        client.send("SUBSCRIBE", [("destination", destination), ("id", "1")])
        bodies = []
        for _ in range(count):
            frame = client.message(30)
            assert frame is not None, f"{len(bodies)} of {count} came"
            bodies.append(frame.body)
        client.wait_for(client.request_receipt("UNSUBSCRIBE", [("id", "1")]))
        assert client.message(0) is None, "there were more"
    return bodies


# ---- on a real broker


def test_a_chunk_that_is_repeated_is_there_once(broker: BrokerProcess) -> None:
    endpoint = endpoint_of(broker)
    chunk = messages("/queue/repeated", b"one", b"two", b"three")
    with Publisher(endpoint) as publisher:
        assert publisher.publish("job:1", chunk)
        assert not publisher.publish("job:1", chunk)
        assert publisher.publish("job:2", chunk[:1])
    with Publisher(endpoint) as publisher:
        assert not publisher.publish("job:2", chunk[:1])
    assert drained(endpoint, "/queue/repeated", 4) == [b"one", b"two", b"three", b"one"]


def test_what_no_queue_took_is_no_reason_to_publish_the_rest_again(broker: BrokerProcess) -> None:
    endpoint = endpoint_of(broker)
    chunk = messages("/topic/nobody", b"lost") + messages("/queue/somebody", b"kept")
    with Publisher(endpoint) as publisher:
        assert publisher.publish("mixed:1", chunk)
        assert not publisher.publish("mixed:1", chunk)
    assert drained(endpoint, "/queue/somebody", 1) == [b"kept"]


def test_everything_that_a_message_has_arrives(broker: BrokerProcess) -> None:
    endpoint = endpoint_of(broker)
    large = bytes(range(256)) * 2000
    far = 9_999_999_999_999
    chunk = [
        Message(
            "typed", b"a\0b", (("k:1", "v\n2"), ("receipt", "no"), ("destination", "elsewhere")),
            priority=7, persistent=False, expires=far, routing_type="anycast",
        ),
        Message("typed", Content(len(large), lambda: iter([large])), (("n", "2"),)),
        Message("typed", b"", (("n", "3"),)),
    ]  # fmt: skip
    with Publisher(endpoint) as publisher:
        assert publisher.publish("all", chunk)
    found: Sequence[Frame | Arrived | None]
    if endpoint.protocol == AMQP:
        with AmqpClient(endpoint) as amqp:
            found = received(amqp, "typed", 3)
    else:
        with StompClient(endpoint) as client:
            client.send("SUBSCRIBE", [("destination", "typed"), ("id", "1")])
            found = [client.message(30) for _ in range(3)]
    first, second, third = found
    assert first is not None
    assert second is not None
    assert third is not None
    assert first.body == b"a\0b"
    wanted = {"k:1": "v\n2", "priority": "7", "persistent": "false", "expires": str(far)}
    assert wanted.items() <= first.headers.items()
    assert first.headers["destination"] == "typed"
    assert (second.body, second.headers["n"], second.headers["persistent"]) == (large, "2", "true")
    assert (third.body, third.headers["n"]) == (b"", "3")
    assert "receipt" not in first.headers


@pytest.mark.parametrize(
    ("destination", "answer"),
    [("/queue/new", True), ("typed", True), ("/topic/new", True), ("forgetful", False),
     ("/queue/forgetful", False), ("closed", None)],
)  # fmt: skip
def test_whether_an_address_remembers_ids_can_be_asked(
    broker: BrokerProcess, destination: str, answer: bool | None
) -> None:
    endpoint = endpoint_of(broker)
    assert remembers_ids(endpoint, destination) is answer
    if answer is False:
        with pytest.raises(PublishError, match="set id-cache-size"):
            check_remembers(endpoint, destination)
    else:
        check_remembers(endpoint, destination)
    if answer:
        assert drained(endpoint, destination, 0) == []


def test_a_full_address_is_waited_for_and_told(
    broker: BrokerProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("daybook.pipeline.publishing._WAIT_SECONDS", 0.05)
    endpoint = endpoint_of(broker)
    told: list[str] = []
    with Publisher(endpoint, told=told.append) as publisher:
        assert publisher.publish("fill", messages("/queue/small", b"1", b"2"))
        thread = threading.Thread(
            target=lambda: publisher.publish("wait", messages("/queue/small", b"3"))
        )
        thread.start()
        wait_for(lambda: told, "a word about the wait")
        assert "has not committed 1 messages" in told[0]
        assert "is full" in told[0]
        assert drained(endpoint, "/queue/small", 3) == [b"1", b"2", b"3"]
        thread.join(30)
        assert not thread.is_alive()


def test_a_full_address_is_given_up_in_the_end(
    broker: BrokerProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("daybook.pipeline.publishing._WAIT_SECONDS", 0.05)
    endpoint = endpoint_of(broker)
    with Publisher(endpoint, timeout=0.2) as publisher:
        assert publisher.publish("full", messages("/queue/small", b"1", b"2"))
        with pytest.raises(PublishError, match=r"'/queue/small' is full.*gave up"):
            publisher.publish("more", messages("/queue/small", b"3"))
    assert drained(endpoint, "/queue/small", 2) == [b"1", b"2"]


def test_a_refusal_is_told_and_ends_it(broker: BrokerProcess) -> None:
    with Publisher(endpoint_of(broker)) as publisher:
        with pytest.raises(PublishError, match=r"refused.*has wildcards"):
            publisher.publish("a", messages("/queue/a{b}", b"x"))
        assert publisher.publish("b", messages("/queue/after", b"x"))


@pytest.mark.parametrize("protocol", [STOMP, AMQP])
def test_a_broker_that_is_killed_and_comes_back(tmp_path: Path, protocol: str) -> None:
    told: list[str] = []
    mixed = [Message("/queue/a", b"light", persistent=False), Message("/queue/a", b"1")]
    listen = (f"{protocol}://127.0.0.1:0",)
    with BrokerProcess(tmp_path / "data", config=CONFIG, listen=listen) as process:
        process.start()
        port = process.port
        process.listen[:] = [f"{protocol}://127.0.0.1:{port}"]
        endpoint = endpoint_of(process)
        with Publisher(endpoint, told=told.append) as publisher:
            assert publisher.publish("1", mixed)
            process.kill()
            thread = threading.Thread(
                target=lambda: publisher.publish("2", messages("/queue/a", b"2"))
            )
            thread.start()
            wait_for(lambda: told, "a word about the broker that is gone")
            process.start()
            thread.join(60)
            assert not publisher.publish("1", mixed)
        assert drained(endpoint, "/queue/a", 2) == [b"1", b"2"]
    assert "retrying" in told[0]


# ---- on peers that do one thing


@contextmanager
def peers(*scripts: Callable[[socket.socket], None]) -> Iterator[Endpoint]:
    """A server that answers CONNECT and has the next script for each connection."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        for script in scripts:
            connection, _ = listener.accept()
            with connection:
                connection.recv(1 << 16)
                connection.sendall(b"CONNECTED\nversion:1.2\n\n\0")
                script(connection)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield Endpoint("127.0.0.1", listener.getsockname()[1], "guest", "secret")
    finally:
        thread.join(30)
        listener.close()


def hear_commit(connection: socket.socket) -> bytes:
    heard = b""
    while b"COMMIT" not in heard or not heard.endswith(b"\0"):
        heard += connection.recv(1 << 16)
    return heard


def test_a_commit_whose_receipt_was_lost_is_repeated_alike() -> None:
    heard: list[bytes] = []

    def lose(connection: socket.socket) -> None:
        heard.append(hear_commit(connection))

    def know(connection: socket.socket) -> None:
        heard.append(hear_commit(connection))
        connection.sendall(b"ERROR\ncode:duplicate-id\nreceipt-id:1\n\nhad it\0")

    with peers(lose, know) as endpoint, Publisher(endpoint) as publisher:
        assert not publisher.publish("id", messages("a", b"x", b"y"))
    assert heard[0] == heard[1]
    assert heard[0].count(b"_AMQ_DUPL_ID:id\n") == 1


def test_ids_are_on_the_first_message_to_each_destination() -> None:
    heard: list[bytes] = []

    def confirm(connection: socket.socket) -> None:
        heard.append(hear_commit(connection))
        connection.sendall(b"RECEIPT\nreceipt-id:1\n\n\0")
        connection.recv(1 << 16)

    chunk = [
        Message("a", b"0", persistent=False), Message("b", b"1", persistent=False),
        Message("a", b"2"), Message("a", b"3"), Message("b", b"4", persistent=False),
        Message("a", b"5", routing_type="multicast"),
    ]  # fmt: skip
    with peers(confirm) as endpoint, Publisher(endpoint) as publisher:
        assert publisher.publish("id", chunk)
    frames = [each for each in heard[0].split(b"\0") if each.startswith(b"SEND")]
    ids = {
        each[-1:]: line.partition(b":")[2]
        for each in frames
        for line in each.split(b"\n")
        if line.startswith(b"_AMQ_DUPL_ID")
    }
    assert ids == {b"0": b"id", b"1": b"id/1", b"5": b"id/2"}


def test_a_broker_that_falls_silent_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("daybook.pipeline.publishing._WAIT_SECONDS", 0.02)
    monkeypatch.setattr("daybook.pipeline.publishing._SILENCE_SECONDS", 0.1)
    told: list[str] = []

    def fall_silent(connection: socket.socket) -> None:
        hear_commit(connection)
        assert connection.recv(1) == b""

    def confirm(connection: socket.socket) -> None:
        hear_commit(connection)
        connection.sendall(b"RECEIPT\nreceipt-id:1\n\n\0")
        connection.recv(1 << 16)

    with peers(fall_silent, confirm) as end, Publisher(end, told=told.append) as publisher:
        assert publisher.publish("id", messages("a", b"x"))
    assert any("has sent nothing for" in text for text in told)


def test_nobody_there_is_given_up_without_the_passcode() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        endpoint = Endpoint("127.0.0.1", listener.getsockname()[1], "guest", "secret")
    with Publisher(endpoint, timeout=0.3) as publisher:
        with pytest.raises(PublishError, match=r"cannot connect to.*tried for") as error:
            publisher.publish("id", messages("a", b"x"))
        assert "secret" not in str(error.value)
        # Who reads this may have said where by an option of Spark, not on a command line.
        with pytest.raises(PublishError, match=r"starts one; otherwise name another URL$"):
            publisher.connect()
    with pytest.raises(PublishError, match="cannot connect"):
        check_remembers(endpoint, "a")
    with pytest.raises(StompError):
        remembers_ids(endpoint, "a")


@pytest.mark.parametrize("pair", [("", "x"), ("a\0", "x"), ("a", "x\0y")])
def test_headers_that_cannot_be_sent(pair: tuple[str, str]) -> None:
    with pytest.raises(PublishError, match="cannot be sent"):
        Message("a", b"", (pair,)).lines()


def test_errors_have_what_programs_need() -> None:
    refusal = Refused("text", code="c", receipt="7")
    assert (str(refusal), refusal.code, refusal.receipt) == ("text", "c", "7")


def test_messages_go_at_the_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        nonlocal now
        slept.append(seconds)
        now += seconds

    monkeypatch.setattr(time, "monotonic", lambda: now)
    monkeypatch.setattr(time, "sleep", sleep)
    publisher = Publisher(Endpoint("h", 1, "", ""), rate=50)
    monkeypatch.setattr(publisher, "_attempt", lambda *args: True)
    for size in (100, 10, 1):
        assert publisher.publish("id", messages("a", *([b""] * size)))
    assert slept == pytest.approx([2.0, 0.2])


# ---- cutting

SIZES = st.lists(st.integers(0, 300), max_size=40)


@given(SIZES, st.integers(1, 5), st.integers(1, 1500))
def test_chunks_are_whole_bounded_and_as_long_as_they_may_be(
    sizes: list[int], rows_max: int, bytes_max: int
) -> None:
    given_messages = [Message("a", bytes(size)) for size in sizes]
    chunks = list(cut(iter(given_messages), rows_max=rows_max, bytes_max=bytes_max))
    assert [message for chunk in chunks for message in chunk] == given_messages
    assert chunks == list(cut(given_messages, rows_max=rows_max, bytes_max=bytes_max))
    for chunk, following in zip_longest(chunks, chunks[1:]):
        weight = sum(len(m.body) + OVERHEAD_BYTES for m in chunk if isinstance(m.body, bytes))
        assert len(chunk) <= rows_max
        assert len(chunk) == 1 or weight <= bytes_max
        if following is not None:
            assert len(chunk) == rows_max or weight + following[0].weight > bytes_max
