"""Browsers and sequence numbers in frames."""

import pytest

from daybook.engine.commands import DeleteQueue
from tests.unit.protocols.stomp.exchange import NOW, Client, Exchange

BROWSE = "SUBSCRIBE\nid:s\ndestination:/queue/a\nbrowser:true"
END = b"MESSAGE\nsubscription:s\ndestination:\nmessage-id:\nbrowser:end\n\n"


def filled(*bodies: bytes, version: str | None = "1.2") -> Client:
    client = Exchange().client(version)
    for body in bodies:
        client.send("SEND\ndestination:/queue/a", body)
    return client


def bodies(frames: list[bytes]) -> list[bytes]:
    return [frame.partition(b"\n\n")[2] for frame in frames]


def headers(frame: bytes) -> dict[str, str]:
    lines = frame.partition(b"\n\n")[0].decode().split("\n")[1:]
    return dict(reversed([line.split(":", 1) for line in lines]))


@pytest.mark.parametrize("version", ["1.1", "1.2"])
def test_the_end_of_browse_message(version: str) -> None:
    client = filled(b"x", version=version)
    frames = client.send(BROWSE)
    assert bodies(frames) == [b"x", b""]
    assert frames[-1] == END


def test_the_end_without_an_id_in_1_0() -> None:
    client = filled(b"x", version=None)
    frames = client.send("SUBSCRIBE\ndestination:/queue/a\nbrowser:true")
    assert frames[-1] == b"MESSAGE\ndestination:\nmessage-id:\nbrowser:end\n\n"


def test_unsubscribing_after_the_end_and_the_id_again() -> None:
    client = filled(b"x")
    client.send(BROWSE)
    ended = client.exchange.broker.lsn
    assert client.send("UNSUBSCRIBE\nid:s\nreceipt:r") == [b"RECEIPT\nreceipt-id:r\n\n"]
    assert client.gate == ended
    assert bodies(client.send(BROWSE)) == [b"x", b""]


def test_no_end_with_browser_end_false() -> None:
    client = filled(b"x")
    assert bodies(client.send(BROWSE + "\nbrowser-end:false")) == [b"x"]
    assert bodies(client.send("SEND\ndestination:/queue/a", b"y")) == [b"y"]


@pytest.mark.parametrize("version", [None, "1.1", "1.2"])
def test_acknowledging_what_was_read(version: str | None) -> None:
    client = filled(b"x", b"y", version=version)
    frames = client.send(BROWSE + "\nack:client\ncredit:1,0")
    for expected in (b"x", b"y"):
        assert bodies(frames) in ([expected], [expected, b""])
        said = headers(frames[0])
        ack = f"id:{said['ack']}" if version == "1.2" else f"message-id:{said['message-id']}"
        frames = client.send(f"ACK\n{ack}\nsubscription:s\nreceipt:r")
        assert frames.pop(0).startswith(b"RECEIPT")
    assert frames == []
    assert client.exchange.broker.state.consumers == {}
    assert client.exchange.broker.state.queue_by_name["a"].ready_count == 2


def test_credit_of_an_automatic_browser_that_is_over() -> None:
    client = filled(b"x", b"y")
    frames = client.send(BROWSE + "\ncredit:1,0")
    frames = client.send(f"ACK\nid:{headers(frames[0])['ack']}")
    assert bodies(frames) == [b"y", b""]
    answer = client.send(f"ACK\nid:{headers(frames[0])['ack']}\nreceipt:r")
    assert answer == [b"RECEIPT\nreceipt-id:r\n\n"]


def test_acknowledging_and_unsubscribing_when_the_queue_is_gone() -> None:
    client = filled(b"x", b"y")
    frames = client.send(BROWSE + "\nack:client-individual\nbrowser-end:false")
    assert client.exchange.broker.handle(DeleteQueue("a", True), NOW)
    assert client.read() == [END]
    deleted = client.exchange.broker.lsn
    client.send(f"ACK\nid:{headers(frames[0])['ack']}")
    answer = client.send(f"ACK\nid:{headers(frames[1])['ack']}\nreceipt:r")
    assert answer == [b"RECEIPT\nreceipt-id:r\n\n"]
    assert client.gate >= deleted
    assert client.send("UNSUBSCRIBE\nid:s\nreceipt:r") == [b"RECEIPT\nreceipt-id:r\n\n"]
    assert client.gate >= deleted


def test_deleting_a_durable_subscription_by_a_browser_that_is_over() -> None:
    client = Exchange().client()
    client.send("SUBSCRIBE\nid:s\npersistent:true\ndestination:/topic/news")
    client.send("UNSUBSCRIBE\nid:s")
    frames = client.send("SUBSCRIBE\nid:s\npersistent:true\ndestination:/topic/news\nbrowser:true")
    assert frames == [END]
    answer = client.send("UNSUBSCRIBE\nid:s\npersistent:true\nreceipt:r")
    assert answer == [b"RECEIPT\nreceipt-id:r\n\n"]
    assert "dsub.s" not in client.exchange.broker.state.queue_by_name


def test_no_end_after_unsubscribing() -> None:
    client = filled(b"x")
    client.send(BROWSE + "\nbrowser-end:false")
    client.send("UNSUBSCRIBE\nid:s")
    assert client.exchange.broker.state.browser_count == 0


def test_sequence_numbers() -> None:
    client = filled(b"x", b"y")
    frames = client.send("SUBSCRIBE\nid:s\ndestination:/queue/a\ninclude-seq:seq")
    numbers = [int(headers(frame)["seq"]) for frame in frames]
    assert numbers == [int(headers(frame)["message-id"]) for frame in frames]
    assert numbers == sorted(set(numbers))
    assert bodies(frames) == [b"x", b"y"]


def test_the_number_comes_before_a_header_of_the_message() -> None:
    client = Exchange().client("1.1")
    client.send("SEND\ndestination:/queue/a\nseq:mine", b"x")
    (frame,) = client.send("SUBSCRIBE\nid:s\ndestination:/queue/a\ninclude-seq:seq")
    assert headers(frame)["seq"] == headers(frame)["message-id"]


def test_from_a_number_on() -> None:
    client = filled(b"x", b"y", b"z")
    frames = client.send("SUBSCRIBE\nid:a\ndestination:/queue/a\nbrowser:true\ninclude-seq:n")
    second = headers(frames[1])["n"]
    frames = client.send(BROWSE + f"\nfrom-seq:{second}")
    assert bodies(frames) == [b"y", b"z", b""]
