"""MESSAGE frames, for each version and ack mode."""

import pytest

from daybook.engine.effects import REDELIVERED, RETAINED
from daybook.engine.facts.events import PERSISTENT
from daybook.engine.facts.values import Value
from daybook.engine.messages import headers
from daybook.protocols.stomp import subscription
from tests.support.compiled import replaces_parts
from tests.support.worlds import second_format as maps
from tests.unit.protocols.stomp.fakes import FakeMessage, Peer, connected

STORED = b"destination:/queue/orders\ncontent-length:2\nx:y\n"


def delivered(
    version: str | None,
    ack: str,
    message: FakeMessage,
    count: int = 1,
    subscribe: str = "id:s",
    redelivered: bool = False,
) -> tuple[bytes, Peer]:
    peer = connected(version)
    peer.send(f"SUBSCRIBE\n{subscribe}\ndestination:/queue/a\nack:{ack}\n\n\0".encode())
    peer.subscribed().deliver(message, count, redelivered or count > 1, 1234)
    return peer.taken(), peer


def test_1_2_with_acknowledgements() -> None:
    output, peer = delivered("1.2", "client-individual", FakeMessage(77, STORED, b"ok"))
    assert output == (
        b"MESSAGE\nsubscription:s\nmessage-id:77\nack:1-77\n"
        b"destination:/queue/orders\ncontent-length:2\nx:y\n\nok\0"
    )
    assert peer.session.gate == 1234


@pytest.mark.parametrize(("version", "ack"), [("1.2", "auto"), ("1.1", "client"), ("1.1", "auto")])
def test_without_an_ack_header(version: str, ack: str) -> None:
    output, _ = delivered(version, ack, FakeMessage(77, STORED, b"ok"))
    assert output == (
        b"MESSAGE\nsubscription:s\nmessage-id:77\n"
        b"destination:/queue/orders\ncontent-length:2\nx:y\n\nok\0"
    )


def test_1_0_without_id() -> None:
    output, _ = delivered(None, "client", FakeMessage(77, STORED, b"ok"), 1, "x:y")
    assert output == (
        b"MESSAGE\nmessage-id:77\ndestination:/queue/orders\ncontent-length:2\nx:y\n\nok\0"
    )


@pytest.mark.parametrize(
    ("marks", "lines"),
    [
        (0, b""),
        (REDELIVERED, b"redelivered:true\n"),
        (RETAINED, b"retained:true\n"),
        (REDELIVERED | RETAINED, b"redelivered:true\nretained:true\n"),
    ],
)
def test_marks(marks: int, lines: bytes) -> None:
    peer = connected("1.1")
    peer.send(b"SUBSCRIBE\nid:s\ndestination:/queue/a\n\n\0")
    peer.subscribed().deliver(FakeMessage(77, STORED, b"ok"), 1, marks, 0)
    assert peer.taken().partition(b"message-id:77\n")[2] == lines + STORED + b"\nok\0"


def test_redelivered() -> None:
    output, _ = delivered("1.2", "client", FakeMessage(77, STORED, b"ok"), 3)
    assert b"\nredelivered:true\ndelivery-count:3\n" in output
    first, _ = delivered("1.2", "client", FakeMessage(77, STORED, b"ok"), 1)
    assert b"redelivered" not in first
    assert b"delivery-count" not in first


@pytest.mark.parametrize("version", ["1.2", "1.1"])
def test_the_flag_stands_alone_where_the_attempt_before_did_not_count(version: str) -> None:
    output, _ = delivered(version, "client", FakeMessage(77, STORED), 1, "id:s", redelivered=True)
    assert output.count(b"\nredelivered:true\n") == 1
    assert b"delivery-count" not in output


@pytest.mark.parametrize("stored", [b"", b"x:destination\n", b"xdestination:y\n"])
def test_a_missing_destination_is_that_of_the_subscription(stored: bytes) -> None:
    output, _ = delivered("1.2", "auto", FakeMessage(77, stored))
    assert output.count(b"\ndestination:/queue/a\n") == 1


def test_a_destination_that_is_not_the_first_header() -> None:
    output, _ = delivered("1.2", "auto", FakeMessage(77, b"x:y\ndestination:/queue/b\n"))
    assert output == b"MESSAGE\nsubscription:s\nmessage-id:77\nx:y\ndestination:/queue/b\n\n\0"


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("1.2", b"destination:d\na:x\\ny\nb:x\\ry\nc:\\\\\n"),
        ("1.1", b"destination:d\na:x\\ny\nb:x\ry\nc:\\\\\n"),
        (None, b"destination:d\nb:x\ry\nc:\\\n"),
    ],
)
def test_escapes_are_those_of_the_receiver(version: str | None, expected: bytes) -> None:
    stored = headers.build([("destination", "d"), ("a", "x\ny"), ("b", "x\ry"), ("c", "\\")])
    output, _ = delivered(version, "auto", FakeMessage(77, stored))
    assert output.endswith(b"message-id:77\n" + expected + b"\n\0")


@pytest.mark.parametrize("stored", [b"a:b:c\nd:e\n", b"a:b\\cc\nd:e\n"])
@pytest.mark.parametrize(("version", "shown"), [("1.2", b"\\c"), ("1.1", b"\\c"), (None, b":")])
def test_a_colon_in_a_value(stored: bytes, version: str | None, shown: bytes) -> None:
    """Of journals before colons were escaped, and after; "Value Encoding" of STOMP 1.1 and 1.2."""
    output, _ = delivered(version, "auto", FakeMessage(77, b"destination:x\n" + stored))
    assert output.endswith(b"\na:b" + shown + b"c\nd:e\n\n\0")


@pytest.mark.parametrize(("version", "shown"), [("1.2", b"a\\cb\\\\"), ("1.1", b"a\\cb\\\\")])
def test_the_id_is_escaped(version: str, shown: bytes) -> None:
    output, _ = delivered(version, "auto", FakeMessage(77, STORED), 1, "id:a\\cb\\\\")
    assert b"\nsubscription:" + shown + b"\n" in output


def test_gate_only_rises() -> None:
    _, peer = delivered("1.2", "auto", FakeMessage(77, STORED))
    peer.subscribed().deliver(FakeMessage(78, STORED), 1, 0, 5)
    assert peer.session.gate == 1234


@pytest.mark.parametrize("ending", [b"UNSUBSCRIBE\nid:s\n\n\0", b"DISCONNECT\n\n\0", b"BAD\n\n\0"])
def test_nothing_is_delivered_after_the_end(ending: bytes) -> None:
    _, peer = delivered("1.2", "auto", FakeMessage(77, STORED))
    subscription = peer.subscribed()
    peer.send(ending)
    subscription.deliver(FakeMessage(78, STORED), 1, False, 5)
    assert peer.taken() == b""


def test_nothing_is_delivered_after_the_loss_of_the_connection() -> None:
    _, peer = delivered("1.2", "auto", FakeMessage(77, STORED))
    peer.session.connection_lost(peer.now)
    peer.subscribed().deliver(FakeMessage(78, STORED), 1, False, 5)
    assert peer.taken() == b""


TRANSLATED = (
    b"destination:/queue/a\ncontent-length:4\npriority:4\npersistent:true\ntimestamp:12\n"
    b"on:true\nn:7\ntext:a\\cb\n"
)


TYPED = maps.encode({"on": True, "n": 7, "text": "a:b"}, destination="d", timestamp=12)


@pytest.mark.parametrize(
    ("version", "expected"),
    [("1.2", TRANSLATED), ("1.1", TRANSLATED), (None, TRANSLATED.replace(b"\\c", b":"))],
)
def test_headers_of_another_format_are_translated(version: str | None, expected: bytes) -> None:
    message = FakeMessage(77, TYPED, b"a\0bc", flags=maps.MAPS | PERSISTENT)
    with maps.installed():
        output, _ = delivered(version, "auto", message)
    assert output.endswith(b"\nmessage-id:77\n" + expected + b"\na\0bc\0")


def test_a_translated_message_that_expires_says_so() -> None:
    message = FakeMessage(77, maps.encode({}), flags=maps.MAPS)
    message.expires, message.priority = 1234, 9
    with maps.installed():
        output, _ = delivered("1.2", "auto", message)
    assert b"\npriority:9\npersistent:false\nexpires:1234\n" in output
    assert output.count(b"\ndestination:/queue/a\n") == 1


def test_properties_that_would_mean_something_else_are_not_translated() -> None:
    said: dict[str, Value] = {"message-id": "1", "ack": "2", "redelivered": True, "receipt": "3"}
    nul: dict[str, Value] = {"a\0b": "c", "d": "e\0", "f": "g"}
    message = FakeMessage(77, maps.encode(said | nul), flags=maps.MAPS)
    with maps.installed():
        output, _ = delivered("1.2", "client", message)
    head = output.partition(b"\n\n")[0]
    assert head.count(b"message-id:") == head.count(b"ack:") == 1
    assert b"redelivered" not in head
    assert b"receipt" not in head
    assert head.endswith(b"persistent:false\nf:g")
    assert b"\0" not in head


def test_headers_that_are_the_same_object_in_two_formats_are_told_apart() -> None:
    with maps.installed():
        peer = connected("1.2")
        peer.send(b"SUBSCRIBE\nid:s\ndestination:/queue/a\n\n\0")
        subscription = peer.subscribed()
        subscription.deliver(FakeMessage(1, b""), 1, False, 0)
        peer.taken()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(maps.MapsCodec, "_read", lambda *_: ({}, {"a": "b"}))
            patch.setattr(maps.MapsCodec, "body", lambda *parts: parts[-1])
            subscription.deliver(FakeMessage(2, b"", flags=maps.MAPS), 1, False, 0)
        assert b"\na:b\n" in peer.taken()


@replaces_parts
def test_credit_owed_is_bounded_and_on_the_account(monkeypatch: pytest.MonkeyPatch) -> None:
    # A client that never sends an ACK, and whose window of bytes empty bodies do not use up.
    monkeypatch.setattr(subscription, "OWED_MAX", 100)
    peer = connected("1.2")
    peer.send(b"SUBSCRIBE\nid:s\ndestination:/queue/a\nack:auto\ncredit:0,10\n\n\0")
    before = peer.session.keys_bytes
    for number in range(1, 1_001):
        peer.subscribed().deliver(FakeMessage(number, STORED, b""), 1, False, 0)
    assert 50 * 128 <= peer.session.keys_bytes - before <= 100 * 128
    peer.taken()
    given = len(peer.broker.commands)
    for number, returns in ((1_000, 1), (950, 2), (1, 2)):
        assert not peer.send(b"ACK\nid:1-%d\n\n\0" % number)
        assert len(peer.broker.commands) - given == returns
    assert b"no such delivery" in peer.send(b"ACK\nid:1-1000\n\n\0")
    assert peer.session.keys_bytes == 0


def test_an_ack_of_what_was_forgotten_is_none_of_a_delivery_to_come() -> None:
    peer = connected("1.2")
    peer.send(b"SUBSCRIBE\nid:s\ndestination:/queue/a\nack:auto\ncredit:5\n\n\0")
    assert b"no such delivery" in peer.send(b"ACK\nid:1-0\n\n\0")
