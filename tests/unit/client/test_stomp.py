"""The small STOMP client: addresses, escapes, frames in pieces, and peers other than brokers."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daybook.client.bodies import PIECE_BYTES, Content
from daybook.client.endpoint import Endpoint
from daybook.client.stomp import (
    Refused,
    StompClient,
    StompError,
    encode,
    escaped,
    unescaped,
)
from tests.support.brokers.scripted_peer import peer

CONNECTED = b"CONNECTED\nversion:1.2\n\n\0"


@given(st.text())
def test_escapes_can_be_undone(text: str) -> None:
    assert unescaped(escaped(text)) == text
    assert not set(escaped(text)) & {"\n", "\r", ":"}


def test_frames_have_their_length() -> None:
    assert encode("SEND", [("a:b", "c\nd")], b"x\0y") == (
        b"SEND\na\\cb:c\\nd\ncontent-length:3\n\nx\0y\0"
    )
    assert encode("CONNECT", [("passcode", "a:b")]) == b"CONNECT\npasscode:a:b\n\n\0"


def test_a_message_in_single_bytes_is_one_message() -> None:
    frame = b"\n\nMESSAGE\nmessage-id:1\na:first\na:second\ncontent-length:3\n\nx\0y\0"

    def dribble(connection: socket.socket) -> None:
        for byte in frame:
            connection.sendall(bytes([byte]))

    with peer(CONNECTED, then=dribble) as endpoint, StompClient(endpoint) as client:
        message = client.message(10)
    assert message is not None
    assert (message.command, message.body) == ("MESSAGE", b"x\0y")
    assert message.headers["a"] == "first"


def test_receipts_may_come_in_any_order_and_between_messages() -> None:
    answer = b"RECEIPT\nreceipt-id:2\n\n\0MESSAGE\nmessage-id:7\n\nb\0RECEIPT\nreceipt-id:1\n\n\0"
    with peer(CONNECTED, answer) as endpoint, StompClient(endpoint) as client:
        content = Content(1, lambda: iter([b"x"]))
        first = client.send_with_receipt([("destination", "/queue/a")], content)
        client.wait_for(first)
        client.wait_for("2")
        message = client.message(0)
        assert message is not None
        assert message.body == b"b"


@pytest.mark.parametrize(
    ("answers", "words"),
    [
        ((b"",), "closed the connection"),
        ((b"ERROR\nmessage:no\n\nlogin or passcode is wrong\0",), "login or passcode is wrong"),
        ((b"ERROR\nmessage:short\n\n\0",), "short"),
        ((b"RECEIPT\nreceipt-id:1\n\n\0",), "answered RECEIPT instead of CONNECTED"),
        ((b"HTTP/1.1 400 Bad Request\r\n" + b"x" * (2 << 20),), "does not speak STOMP"),
    ],
)
def test_a_peer_that_is_no_broker_for_us(answers: tuple[bytes, ...], words: str) -> None:
    with peer(*answers) as endpoint, pytest.raises(StompError, match=words):
        StompClient(endpoint)


def test_a_peer_that_says_nothing() -> None:
    release = threading.Event()
    with peer(then=lambda _: release.wait(30) and None) as endpoint:  # type: ignore[func-returns-value]
        with pytest.raises(StompError, match="did not answer within"):
            StompClient(endpoint, timeout=0.05)
        release.set()


def test_nobody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(StompError, match="is a broker running there"):
        StompClient(Endpoint("127.0.0.1", port, "a", "b"))


def test_a_connection_that_breaks_in_the_middle_of_a_frame() -> None:
    with (
        peer(CONNECTED, b"MESSAGE\ncontent-length:100\n\nonly this") as endpoint,
        StompClient(endpoint) as client,
    ):
        client.send("SUBSCRIBE", [("id", "1")])
        with pytest.raises(StompError, match="closed the connection"):
            client.message(10)


def test_a_body_longer_than_memory_waits_in_a_file() -> None:
    body = bytes(range(1, 256)) * 10_000
    for length in (f"content-length:{len(body)}\n", ""):

        def say(connection: socket.socket, length: str = length) -> None:
            connection.sendall(f"MESSAGE\nmessage-id:1\n{length}\n".encode() + body + b"\0\n")

        with peer(CONNECTED, then=say) as endpoint, StompClient(endpoint) as client:
            message = client.message(10)
            assert message is not None
            assert message.content.size == len(body)
            assert max(map(len, message.content.pieces())) == PIECE_BYTES
            assert message.body == body
            message.content.close()


def test_a_long_body_may_take_longer_than_one_waits_for_a_message() -> None:
    begun = threading.Event()

    def dribble(connection: socket.socket) -> None:
        connection.sendall(b"MESSAGE\nmessage-id:1\ncontent-length:4\n\n")
        begun.set()
        for byte in b"body\0":
            time.sleep(0.02)
            connection.sendall(bytes([byte]))

    with peer(CONNECTED, then=dribble) as endpoint, StompClient(endpoint) as client:
        assert begun.wait(60)
        message = client.message(0.06)
        assert message is not None
        assert message.body == b"body"


def test_silence_in_the_middle_of_a_body() -> None:
    begun, release = threading.Event(), threading.Event()

    def stop_sending(connection: socket.socket) -> None:
        connection.sendall(b"MESSAGE\nmessage-id:1\ncontent-length:4\n\nbo")
        begun.set()
        release.wait(30)

    with peer(CONNECTED, then=stop_sending) as endpoint:
        with StompClient(endpoint) as client:
            assert begun.wait(60)
            # The whole body may take long, but not the silence within it.
            client._timeout = 0.1
            with pytest.raises(StompError, match="stopped sending"):
                client.message(0.05)
        release.set()


def test_content_that_ends_early() -> None:
    content = Content(10, lambda: iter([b"12345"]))
    with (
        peer(CONNECTED) as endpoint,
        StompClient(endpoint) as client,
        pytest.raises(StompError, match="ended 5 bytes early"),
    ):
        client.send_content([("destination", "/queue/a")], content)


def test_content_that_has_more_than_it_said() -> None:
    heard: list[bytes] = []

    def listen(connection: socket.socket) -> None:
        while data := connection.recv(1 << 16):
            heard.append(data)

    content = Content(7, lambda: iter([b"12345", b"67890"]))
    with peer(CONNECTED, then=listen) as endpoint, StompClient(endpoint) as client:
        client.send_content([("destination", "/queue/a")], content)
    assert b"".join(heard).endswith(b"content-length:7\n\n1234567\0")


def test_a_refusal_is_heard_while_the_body_is_sent() -> None:
    refused = threading.Event()

    def refuse(connection: socket.socket) -> None:
        connection.sendall(b"ERROR\nmessage:no\n\ntoo large\0")
        refused.set()
        with suppress(ConnectionResetError):
            while connection.recv(1 << 16):
                pass

    def pieces() -> Iterator[bytes]:
        yield b"first"
        refused.wait(30)
        while True:
            yield b"more" * PIECE_BYTES

    with (
        peer(CONNECTED, then=refuse) as endpoint,
        StompClient(endpoint) as client,
        pytest.raises(StompError, match="too large"),
    ):
        client.send_content([("destination", "/queue/a")], Content(1 << 40, pieces))


def test_a_login_with_a_line_break_is_refused_before_it_is_sent() -> None:
    with peer() as endpoint, pytest.raises(StompError, match="line breaks"):
        StompClient(endpoint._replace(login="a\nb"))


def test_a_refusal_says_for_programs_what_and_for_what() -> None:
    answer = b"ERROR\nmessage:no\ncode:duplicate-id\nreceipt-id:9\n\nhad it\0"
    with peer(CONNECTED, answer) as endpoint, StompClient(endpoint) as client:
        client.send("COMMIT", [("receipt", "9")])
        with pytest.raises(Refused, match="had it") as error:
            client.wait_for("9")
    assert (error.value.code, error.value.receipt) == ("duplicate-id", "9")


def test_heart_beats_are_heard_while_a_receipt_is_awaited() -> None:
    heard: list[bytes] = []
    release = threading.Event()

    def beat(connection: socket.socket) -> None:
        heard.append(connection.recv(1 << 16))
        connection.sendall(CONNECTED)
        release.wait(30)
        connection.sendall(b"\n")
        connection.recv(1)

    with peer(then=beat) as endpoint, StompClient(endpoint, heart_beat_ms=5000) as client:
        time.sleep(0.05)
        before = client.silence
        assert before >= 0.05
        release.set()
        while client.silence >= before:
            assert not client.has_receipt("1", 0.01)
    assert b"heart-beat:0,5000\n" in heard[0]


def test_what_was_said_is_heard_between_encoded_frames() -> None:
    frames = encode("SEND", [("destination", "a")], b"x") * 2

    def refuse(connection: socket.socket) -> None:
        connection.sendall(b"ERROR\n\nno room\0")
        with suppress(ConnectionResetError):
            while connection.recv(1 << 16):
                pass

    def send_for_ever(client: StompClient) -> None:
        while True:
            client.send_encoded(frames)

    with (
        peer(CONNECTED, then=refuse) as endpoint,
        StompClient(endpoint) as client,
        pytest.raises(Refused, match="no room"),
    ):
        send_for_ever(client)
