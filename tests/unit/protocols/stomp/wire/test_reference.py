"""Behaviour where brokers differ: one test for each line of the table in docs/stomp.md."""

import pytest

from daybook.protocols.port import Caller
from daybook.protocols.stomp.session import Session
from daybook.protocols.stomp.wire.options import StompOptions
from tests.unit.protocols.stomp.exchange import Client, Exchange
from tests.unit.protocols.stomp.fakes import NOW, FakeBroker

INDIVIDUAL = "SUBSCRIBE\nid:s\ndestination:/queue/a\nack:client-individual"
CUMULATIVE = "SUBSCRIBE\nid:s\ndestination:/queue/a\nack:client"


def header(frame: bytes, name: str) -> str | None:
    for line in frame.partition(b"\n\n")[0].split(b"\n")[1:]:
        if line.startswith(name.encode() + b":"):
            return line.partition(b":")[2].decode()
    return None


def body(frame: bytes) -> bytes:
    return frame.partition(b"\n\n")[2]


def is_error(frames: list[bytes], *parts: str) -> bool:
    return frames[-1].startswith(b"ERROR\n") and all(part.encode() in frames[-1] for part in parts)


def fill(client: Client, count: int, queue: str = "a") -> None:
    for number in range(count):
        client.send(f"SEND\ndestination:/queue/{queue}", b"%d" % number)


def test_after_an_error() -> None:
    exchange = Exchange()
    client = exchange.client()
    frames = client.send_raw(b"BAD\n\n\0SEND\ndestination:/queue/a\n\nlost\0")
    assert len(frames) == 1
    assert is_error(frames)
    assert client.session.closing
    assert client.session.close_delay_ms == 250
    assert exchange.client().send(INDIVIDUAL) == []


def test_receipt_id_of_an_error() -> None:
    frames = Exchange().client().send("SEND\nreceipt:5")
    assert header(frames[0], "receipt-id") == "5"
    assert header(Exchange().client().send("SEND\nx:y")[0], "receipt-id") is None


@pytest.mark.parametrize(
    ("sender", "receiver", "sent", "received"),
    [
        (None, None, "a\\nb\\c", "a\\nb\\c"),
        (None, "1.2", "a\\nb", "a\\\\nb"),
        ("1.1", "1.2", "a\\nb\\c\\\\", "a\\nb\\c\\\\"),
        ("1.2", "1.1", "a\\rb", "a\rb"),
        ("1.2", None, "a\\\\b", "a\\b"),
        ("1.2", None, "a\\nb", None),
    ],
)
def test_header_escapes(
    sender: str | None, receiver: str | None, sent: str, received: str | None
) -> None:
    exchange = Exchange()
    exchange.client(sender).send(f"SEND\ndestination:/queue/a\nx:{sent}")
    (message,) = exchange.client(receiver).send(INDIVIDUAL)
    assert header(message, "x") == received


@pytest.mark.parametrize(("version", "escape"), [("1.1", "\\r"), ("1.1", "\\t"), ("1.2", "\\t")])
def test_undefined_header_escapes(version: str, escape: str) -> None:
    frames = Exchange().client(version).send(f"SEND\ndestination:/queue/a\nx:{escape}")
    assert is_error(frames, "undefined escape")


def test_connect_and_connected_are_never_escaped() -> None:
    session = Session(FakeBroker(), StompOptions(), Caller("peer"), "day:book\\0")
    session.receive(b"CONNECT\naccept-version:1.2\nhost:h\nlogin:a\\cb\\t\n\n\0", NOW)
    assert session.login_request == ("a\\cb\\t", "", False)
    session.authenticated("user", "", NOW)
    session.admitted("", NOW)
    assert header(session.out[0], "server") == "day:book\\0"


@pytest.mark.parametrize("line", [":value", "nocolon"])
def test_empty_header_name_and_line_without_a_colon(line: str) -> None:
    assert is_error(Exchange().client().send(f"SEND\ndestination:/queue/a\n{line}"), "header")


@pytest.mark.parametrize("version", ["1.1", "1.2"])
def test_subscribe_without_id(version: str) -> None:
    assert is_error(Exchange().client(version).send("SUBSCRIBE\ndestination:/queue/a"), "id")


def test_subscribe_without_id_in_1_0() -> None:
    exchange = Exchange()
    client = exchange.client(None)
    assert client.send("SUBSCRIBE\ndestination:/queue/a") == []
    fill(exchange.client(), 1)
    assert len(client.read()) == 1


def test_the_same_subscription_id_twice() -> None:
    client = Exchange().client()
    client.send(INDIVIDUAL)
    assert is_error(client.send(INDIVIDUAL), "'s'")


def test_begin_with_an_id_that_is_open() -> None:
    client = Exchange().client()
    client.send("BEGIN\ntransaction:t")
    assert is_error(client.send("BEGIN\ntransaction:t\nreceipt:r"), "'t'", "receipt-id:r")


def test_ack_in_client_mode_covers_its_subscription() -> None:
    exchange = Exchange()
    client = exchange.client()
    fill(client, 3)
    fill(client, 2, "b")
    acks = [header(each, "ack") for each in client.send(CUMULATIVE)]
    client.send("SUBSCRIBE\nid:other\ndestination:/queue/b\nack:client")
    client.send(f"ACK\nid:{acks[1]}")
    client.session.connection_lost(1)
    again = exchange.client()
    assert [body(each) for each in again.send(CUMULATIVE)] == [b"2"]
    others = again.send("SUBSCRIBE\nid:other\ndestination:/queue/b\nack:client")
    assert [body(each) for each in others] == [b"0", b"1"]


@pytest.mark.parametrize("command", ["ACK", "NACK"])
@pytest.mark.parametrize(
    ("version", "head"),
    [
        ("1.2", "id:1-4711"),
        ("1.2", "id:9-1"),
        ("1.1", "subscription:s\nmessage-id:4711"),
    ],
)
def test_ack_of_an_unknown_id(command: str, version: str, head: str) -> None:
    client = Exchange().client(version)
    client.send(INDIVIDUAL)
    frames = client.send(f"{command}\n{head}\nreceipt:r")
    assert is_error(frames, head.rpartition(":")[2], "receipt-id:r")


def test_ack_with_the_wrong_subscription_in_1_1() -> None:
    client = Exchange().client("1.1")
    fill(client, 1)
    (message,) = client.send(INDIVIDUAL)
    client.send("SUBSCRIBE\nid:other\ndestination:/queue/b\nack:client")
    number = header(message, "message-id")
    assert is_error(client.send(f"ACK\nsubscription:other\nmessage-id:{number}"), f"'{number}'")


def test_ack_twice() -> None:
    client = Exchange().client()
    fill(client, 1)
    (message,) = client.send(INDIVIDUAL)
    ack = header(message, "ack")
    assert client.send(f"ACK\nid:{ack}") == []
    assert is_error(client.send(f"ACK\nid:{ack}"), f"'{ack}'")


def test_receipt_of_a_send_inside_a_transaction() -> None:
    exchange = Exchange()
    client = exchange.client()
    client.send("BEGIN\ntransaction:t")
    before = exchange.broker.lsn
    assert client.send("SEND\ndestination:/queue/a\ntransaction:t\nreceipt:1")
    assert (client.gate, exchange.broker.lsn) == (0, before)
    assert client.send("COMMIT\ntransaction:t\nreceipt:2")
    assert client.gate == exchange.broker.lsn > before


def test_nack_is_a_failed_attempt() -> None:
    client = Exchange().client()
    fill(client, 1)
    (message,) = client.send(INDIVIDUAL)
    (again,) = client.send(f"NACK\nid:{header(message, 'ack')}")
    assert body(again) == b"0"
    assert header(again, "redelivered") == "true"


@pytest.mark.parametrize("command", ["ACK", "NACK"])
def test_settled_in_a_transaction_then_aborted(command: str) -> None:
    exchange = Exchange()
    client = exchange.client()
    fill(client, 1)
    (message,) = client.send(INDIVIDUAL)
    client.send("BEGIN\ntransaction:t")
    assert client.send(f"{command}\nid:{header(message, 'ack')}\ntransaction:t") == []
    assert client.send("ABORT\ntransaction:t\nreceipt:r") == [b"RECEIPT\nreceipt-id:r\n\n"]
    assert client.send(f"ACK\nid:{header(message, 'ack')}\nreceipt:r") == [
        b"RECEIPT\nreceipt-id:r\n\n"
    ]
    client.session.connection_lost(1)
    assert exchange.client().send(INDIVIDUAL) == []


def test_the_receipt_header_is_not_in_message() -> None:
    client = Exchange().client()
    client.send("SEND\nreceipt:secret\ndestination:/queue/a\nreceipt:again")
    (message,) = client.send(INDIVIDUAL)
    assert header(message, "receipt") is None


def test_the_senders_message_id_is_overridden() -> None:
    exchange = Exchange()
    client = exchange.client()
    client.send("SEND\ndestination:/queue/a\nmessage-id:mine\nreceipt:1")
    lsn = client.gate
    (message,) = client.send(INDIVIDUAL)
    assert message.count(b"message-id:") == 1
    assert header(message, "message-id") == str(lsn)


def test_receipts_of_ack_and_commit_wait_for_the_disk() -> None:
    exchange = Exchange()
    client = exchange.client()
    fill(client, 2)
    first, second = client.send(INDIVIDUAL)
    client.send(f"ACK\nid:{header(first, 'ack')}\nreceipt:1")
    assert client.gate == exchange.broker.lsn
    client.send("BEGIN\ntransaction:t")
    client.send(f"ACK\nid:{header(second, 'ack')}\ntransaction:t")
    client.send("COMMIT\ntransaction:t\nreceipt:2")
    assert client.gate == exchange.broker.lsn


def test_heart_beat_of_a_1_0_client_is_ignored() -> None:
    client = Exchange().client(None)
    assert header(client.connected[0], "heart-beat") is None
    assert client.session.next_deadline == 0


@pytest.mark.parametrize("version", [None, "1.1", "1.2"])
def test_session_and_server_in_connected(version: str | None) -> None:
    (connected,) = Exchange().client(version).connected
    assert header(connected, "session") == "1"
    assert header(connected, "server") == "daybook/0"


def test_content_of_a_redelivered_message() -> None:
    exchange = Exchange()
    client = exchange.client()
    fill(client, 1)
    (message,) = client.send(INDIVIDUAL)
    assert header(message, "redelivered") is None
    assert header(message, "delivery-count") is None
    client.session.connection_lost(1)
    (again,) = exchange.client().send(INDIVIDUAL)
    assert header(again, "redelivered") == "true"
    assert header(again, "delivery-count") == "2"


@pytest.mark.parametrize(
    ("limits", "text", "content"),
    [
        ({"max_headers": 3}, "SEND\ndestination:/queue/a\na:b\nc:d\ne:f", b""),
        ({"max_header_length": 50}, "SEND\ndestination:/queue/a\nx:" + "y" * 60, b""),
        ({"max_frame_head": 90}, "SEND\ndestination:/queue/a\nx:" + "y" * 90, b""),
        ({"max_data_length": 10}, "SEND\ndestination:/queue/a", b"x" * 11),
        ({"max_data_length": 10}, "SEND\ndestination:/queue/a\ncontent-length:11", b"x" * 11),
    ],
)
def test_limits_reached(limits: dict[str, int], text: str, content: bytes) -> None:
    exchange = Exchange(StompOptions(**limits))  # type: ignore[arg-type]
    client = exchange.client()
    ((name, value),) = limits.items()
    frames = client.send(text, content)
    assert is_error(frames, name.replace("_", "-"), str(value))
    assert client.session.closing


@pytest.mark.parametrize("destination", ["/queue/temp.x", "/topic/temp.default.9.x", "temp.x"])
def test_a_name_made_up_under_temp(destination: str) -> None:
    assert is_error(
        Exchange().client().send(f"SUBSCRIBE\nid:1\ndestination:{destination}"), "temp."
    )


def test_non_persistent_messages_can_be_acknowledged() -> None:
    client = Exchange().client()
    client.send("SEND\ndestination:/queue/a\npersistent:false", b"x")
    (message,) = client.send(INDIVIDUAL)
    assert client.send(f"ACK\nid:{header(message, 'ack')}\nreceipt:r") == [
        b"RECEIPT\nreceipt-id:r\n\n"
    ]


@pytest.mark.parametrize("head", ["id:1-9223372036854775808", "id:1-18446744073709551615"])
def test_ids_as_large_as_they_can_be_are_ids(head: str) -> None:
    client = Exchange().client()
    client.send(INDIVIDUAL)
    assert is_error(client.send(f"ACK\n{head}"), "is not in flight")


def test_durable_subscription_from_end_to_end() -> None:
    exchange = Exchange()
    client = exchange.client()
    client.send("SUBSCRIBE\nid:mine\npersistent:true\ndestination:/topic/a\nack:client")
    client.send("UNSUBSCRIBE\nid:mine")
    client.send("SEND\ndestination:/topic/a", b"kept")
    client.send("SEND\ndestination:/dsub/mine", b"direct")
    frames = client.send("SUBSCRIBE\nid:0\ndestination:/dsub/mine\nack:auto")
    assert [body(each) for each in frames] == [b"kept", b"direct"]
    client.send("UNSUBSCRIBE\nid:0")
    assert client.send("UNSUBSCRIBE\nid:mine\npersistent:true\nreceipt:r") == [
        b"RECEIPT\nreceipt-id:r\n\n"
    ]
    assert is_error(client.send("UNSUBSCRIBE\nid:mine\npersistent:true"), "'mine'")


def test_credit_limits_what_is_under_way() -> None:
    client = Exchange().client()
    fill(client, 3)
    (first,) = client.send(INDIVIDUAL + "\ncredit:1,0")
    (second,) = client.send(f"ACK\nid:{header(first, 'ack')}")
    assert (body(first), body(second)) == (b"0", b"1")


def test_a_selector_that_means_nothing_is_refused() -> None:
    frames = Exchange().client().send("SUBSCRIBE\nid:1\ndestination:/topic/a\nselector:x == 1")
    assert is_error(frames, "column 4")
