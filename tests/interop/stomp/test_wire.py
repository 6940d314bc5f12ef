"""Bytes that client libraries do not send: odd cuts, many frames at once, half-closed sockets."""

import socket

import pytest

from daybook.client.control import ask
from tests.interop.wire import Wire, frame
from tests.support.process import BrokerProcess, wait_for

pytestmark = pytest.mark.interop


def test_frames_byte_by_byte(shared_broker: BrokerProcess) -> None:
    with Wire(shared_broker.port) as wire:
        wire.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        stream = (
            frame("CONNECT", accept_version="1.2", host="h")
            + b"\r\n\n"
            + frame("SUBSCRIBE", destination="/queue/bytes", id=1, receipt="s")
            + frame("SEND", b"a\0b\n\n\0", destination="/queue/bytes", receipt="r")
        )
        for position in range(len(stream)):
            wire.write(stream[position : position + 1])
        wire.expect("CONNECTED")
        assert wire.expect("RECEIPT").headers["receipt-id"] == "s"
        assert wire.expect("RECEIPT").headers["receipt-id"] == "r"
        assert wire.expect("MESSAGE").body == b"a\0b\n\n\0"


def test_many_frames_in_one_packet_are_answered_in_order(shared_broker: BrokerProcess) -> None:
    count = 5000
    with Wire(shared_broker.port) as wire:
        wire.write(
            frame("CONNECT", accept_version="1.2", host="h")
            + frame("SUBSCRIBE", destination="/queue/many", id=1, ack="client")
            + b"".join(
                frame("SEND", b"%d" % number, destination="/queue/many", receipt=number)
                for number in range(count)
            )
        )
        wire.expect("CONNECTED")
        answers = list(wire.frames(2 * count))
        receipts = [answer for answer in answers if answer.command == "RECEIPT"]
        messages = [answer for answer in answers if answer.command == "MESSAGE"]
        assert [receipt.headers["receipt-id"] for receipt in receipts] == list(
            map(str, range(count))
        )
        assert [message.body for message in messages] == [b"%d" % n for n in range(count)]
        wire.send("ACK", id=messages[-1].headers["ack"], receipt="all")
        assert wire.expect("RECEIPT").headers["receipt-id"] == "all"


def test_a_slow_consumer_on_the_connection_of_a_fast_producer(
    shared_broker: BrokerProcess,
) -> None:
    """Neither direction of the connection may starve the other."""
    body = bytes(20_000)
    with Wire(shared_broker.port, receive_buffer=8192) as wire:
        wire.connect()
        wire.send("SUBSCRIBE", destination="/queue/both", id=1, ack="client-individual")
        sent = acked = receipted = 0
        while acked < 400:
            while sent < 400 and sent - acked < 60:
                wire.send("SEND", body, destination="/queue/both", receipt=f"s{sent}")
                sent += 1
            answer = wire.read()
            if answer.command == "MESSAGE":
                wire.send("ACK", id=answer.headers["ack"])
                acked += 1
            else:
                assert answer.headers["receipt-id"] == f"s{receipted}"
                receipted += 1
        wire.send("DISCONNECT", receipt="end")
        while wire.expect("RECEIPT").headers["receipt-id"] != "end":
            receipted += 1
        assert receipted == 400


def test_a_half_closed_socket_loses_nothing_that_was_sent(shared_broker: BrokerProcess) -> None:
    """A client may close its side before it reads: its messages count."""
    with Wire(shared_broker.port) as wire:
        wire.connect()
        wire.write(
            b"".join(frame("SEND", b"x", destination="/queue/half", n=n) for n in range(500))
        )
        wire.socket.shutdown(socket.SHUT_WR)
        assert wire.at_end()
    with Wire(shared_broker.port) as reader:
        reader.connect()
        reader.send("SUBSCRIBE", destination="/queue/half", id=1)
        assert [message.headers["n"] for message in reader.frames(500)] == list(
            map(str, range(500))
        )


def test_a_connection_cut_while_its_login_is_checked(shared_broker: BrokerProcess) -> None:
    for _ in range(30):
        with Wire(shared_broker.port) as wire:
            wire.send("CONNECT", accept_version="1.2", host="h")
            wire.send("SEND", b"x", destination="/queue/ghost")

    def is_empty() -> bool:
        answer = ask(shared_broker.directory, {"do": "status"})
        return answer is not None and answer["connections"] == 0

    wait_for(is_empty, "the end of all connections")
    assert "Traceback" not in shared_broker.log_text()


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (frame("SEND", b"x", destination="/queue/a", receipt="r", transaction="no"), "no"),
        (frame("ACK", id="nothing", receipt="r"), "nothing"),
        (frame("BOGUS", receipt="r"), "BOGUS"),
        (frame("SEND", b"x", receipt="r"), "destination"),
        (frame("UNSUBSCRIBE", id="7", receipt="r"), "7"),
        (frame("COMMIT", transaction="t", receipt="r"), "t"),
    ],
)
def test_an_error_names_the_receipt_and_ends_the_connection(
    shared_broker: BrokerProcess, data: bytes, text: str
) -> None:
    with Wire(shared_broker.port) as wire:
        wire.connect()
        wire.write(data)
        error = wire.expect("ERROR")
        assert error.headers["receipt-id"] == "r"
        assert text in error.headers["message"]
        assert wire.at_end()


def test_a_bare_colon_of_an_old_client(shared_broker: BrokerProcess) -> None:
    with Wire(shared_broker.port) as old, Wire(shared_broker.port) as new:
        old.write(b"CONNECT\n\n\0SEND\ndestination:/queue/colon\nat:12:30\n\nx\0")
        old.expect("CONNECTED")
        new.connect()
        new.send("SUBSCRIBE", destination="/queue/colon", id=1)
        assert new.expect("MESSAGE").headers["at"] == "12\\c30"


def test_an_error_is_logged_with_its_peer(shared_broker: BrokerProcess) -> None:
    with Wire(shared_broker.port) as wire:
        name = "{}:{}".format(*wire.socket.getsockname())
        wire.write(b"PUT / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert wire.read().command == "ERROR"
        assert wire.at_end()
    ended = [each for each in shared_broker.lines() if "ended by ERROR" in each["event"]]
    # Other tests of this minute may have been the first of this address.
    assert {each["peer"] for each in ended if "peer" in each}
    assert all("why" in each for each in ended if each.get("peer") == name)
