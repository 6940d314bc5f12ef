"""Frames in bytes: cuts, line ends, lengths, limits, errors, the end."""

import pytest

from daybook.engine.commands import Begin, CloseConnection, Send, Settle
from daybook.engine.facts.reasons import CLOSED, DISCONNECTED, PROTOCOL_ERROR, SHUTDOWN
from daybook.protocols.stomp.wire.options import StompOptions
from tests.unit.protocols.stomp.fakes import Peer, connected, frame


def bodies(peer: Peer) -> list[bytes]:
    return [each.body for each in peer.broker.of(Send)]


# ---------------------------------------------------------------- bodies


@pytest.mark.parametrize("step", [1, 1000, 10**6])
@pytest.mark.parametrize("size", [3, 20_000])
def test_blanks_around_a_receipt_are_trimmed_in_1_0_alone(step: int, size: int) -> None:
    """As around any other value that says something to the broker."""
    stream = b"SEND\ndestination: /queue/a\t\nreceipt: r 1\t\nnote: kept \n\n" + b"x" * size + b"\0"
    peer = connected("1.0")
    output = b"".join(peer.send(stream[at : at + step]) for at in range(0, len(stream), step))
    assert output == b"RECEIPT\nreceipt-id:r 1\n\n\0"
    (sent,) = peer.broker.of(Send)
    assert (sent.address, sent.headers) == ("a", b"destination: /queue/a\t\nnote: kept \n")
    assert peer.send(frame("BEGIN\ntransaction: t \nreceipt: 2")).endswith(b"receipt-id:2\n\n\0")
    assert b"\nreceipt-id:3\n" in peer.send(frame("NONSENSE\nreceipt: 3 "))
    peer = connected("1.1")
    stream = b"SEND\ndestination:/queue/a\nreceipt: r 1\t\n\n\0"
    assert peer.send(stream) == b"RECEIPT\nreceipt-id: r 1\t\n\n\0"


@pytest.mark.parametrize("version", [None, "1.0", "1.2"])
@pytest.mark.parametrize("step", [1, 1000])
def test_what_is_no_stomp_is_refused_when_its_head_is_complete(
    version: str | None, step: int
) -> None:
    peer = Peer() if version is None else connected(version)
    end = b"\n\n" if version == "1.0" else b"\r\n\r\n"
    request = b"GET / HTTP/1.1" + end
    output = b"".join(peer.send(request[at : at + step]) for at in range(0, len(request), step))
    assert output.startswith(b"ERROR\nmessage:unknown command")
    assert b"GET / HTTP" in output
    assert peer.session.closing


@pytest.mark.parametrize("head", [b"NONSENSE\n\n", b"FOO\nreceipt:1\n\n", b"FOO\nbad line\n\n"])
def test_the_error_is_the_same_before_and_after_the_nul(head: bytes) -> None:
    assert connected().send(head) == connected().send(head + b"\0") != b""


def test_a_command_waits_for_its_nul() -> None:
    peer = connected()
    assert peer.send(b"BEGIN\ntransaction:t\nreceipt:1\n\n") == b""
    assert peer.send(b"\0") == b"RECEIPT\nreceipt-id:1\n\n\0"


def test_a_body_ends_at_the_first_nul_without_content_length() -> None:
    peer = connected()
    peer.send(b"SEND\ndestination:/queue/a\n\nab\0SEND\ndestination:/queue/a\n\n\0")
    assert bodies(peer) == [b"ab", b""]


def test_a_body_with_content_length_may_hold_nul() -> None:
    peer = connected()
    peer.send(b"SEND\ndestination:/queue/a\ncontent-length:5\n\na\0b\0c\0\n\n")
    assert bodies(peer) == [b"a\0b\0c"]


@pytest.mark.parametrize("body", [b"abcd", b"abc\n"])
def test_content_length_that_is_too_small(body: bytes) -> None:
    peer = connected()
    output = peer.send(b"SEND\ndestination:/queue/a\ncontent-length:3\n\n" + body + b"\0")
    assert output.startswith(b"ERROR\nmessage:no NUL after the 3 bytes")
    assert bodies(peer) == []


@pytest.mark.parametrize("step", [1, 7, 1000, 65536])
@pytest.mark.parametrize("length", [True, False])
def test_big_bodies_in_pieces(step: int, length: bool) -> None:
    body = bytes(range(1, 256)) * 400
    if length:
        body += b"\0" + body
    head = b"SEND\ndestination:/queue/a\nreceipt:big\n"
    head += b"content-length:%d\n" % len(body) if length else b""
    stream = head + b"\n" + body + b"\0\nSEND\ndestination:/queue/a\n\nnext\0"
    peer = connected(options=StompOptions(min_large_message_size=1 << 20))
    output = b"".join(peer.send(stream[at : at + step]) for at in range(0, len(stream), step))
    assert bodies(peer) == [body, b"next"]
    assert output == b"RECEIPT\nreceipt-id:big\n\n\0"


def test_big_body_with_a_wrong_length() -> None:
    peer = connected()
    peer.send(b"SEND\ndestination:/queue/a\nreceipt:r\ncontent-length:50000\n\n" + b"x" * 40000)
    output = peer.send(b"x" * 10001)
    assert b"no NUL after the 50000 bytes" in output
    assert b"receipt-id:r" in output
    assert bodies(peer) == []


@pytest.mark.parametrize(
    "command", ["SUBSCRIBE\nid:1\ndestination:/queue/a", "BEGIN\ntransaction:t"]
)
@pytest.mark.parametrize("rest", [b"\n\nx\0", b"\ncontent-length:1\n\nx\0"])
def test_only_send_has_a_body(command: str, rest: bytes) -> None:
    peer = connected()
    output = peer.send(command.encode() + rest)
    assert b"has a body" in output
    assert peer.broker.of(Begin) == []


def test_content_length_zero_is_no_body() -> None:
    peer = connected()
    peer.send(b"BEGIN\ntransaction:t\ncontent-length:0\n\n\0")
    assert len(peer.broker.of(Begin)) == 1


# ---------------------------------------------------------------- line ends


def test_heart_beats_and_line_ends_between_frames() -> None:
    peer = connected()
    peer.send(
        b"\n\n\r\n\nSEND\ndestination:/queue/a\n\n1\0\r\n\n\nSEND\ndestination:/queue/a\n\n2\0\n"
    )
    assert bodies(peer) == [b"1", b"2"]


def test_carriage_returns_in_1_2() -> None:
    peer = Peer()
    peer.send(b"CONNECT\r\naccept-version:1.2\r\nhost:h\r\n\r\n\0\r\n")
    peer.log_in("u")
    peer.taken()
    output = peer.send(
        b"SEND\r\ndestination:/queue/a\r\nreceipt:1\r\nx:y\r\n\r\na\r\n\n\nb\0\r\n"
        b"SEND\r\ndestination:/queue/a\r\nreceipt:2\r\n\r\nc\0"
    )
    assert output == b"RECEIPT\nreceipt-id:1\n\n\0RECEIPT\nreceipt-id:2\n\n\0"
    assert bodies(peer) == [b"a\r\n\n\nb", b"c"]
    assert peer.broker.of(Send)[0].headers == b"destination:/queue/a\nx:y\n"


@pytest.mark.parametrize("version", ["1.0", "1.1"])
def test_carriage_returns_in_connect_promise_nothing(version: str) -> None:
    peer = Peer()
    peer.send(f"CONNECT\r\naccept-version:{version}\r\nhost:h\r\n\r\n\0".encode())
    peer.log_in("u")
    peer.taken()
    assert b"without a colon" in peer.send(b"SEND\ndestination:/queue/a\n\r\nx\n\n\0")


def test_mixed_line_ends_in_1_2() -> None:
    peer = connected()
    peer.send(b"SEND\ndestination:/queue/a\r\n\n1\0SEND\r\ndestination:/queue/a\n\r\n2\0")
    assert bodies(peer) == [b"1", b"2"]


def test_a_carriage_return_inside_a_line_is_an_error_in_1_2() -> None:
    peer = connected()
    output = peer.send(b"SEND\ndestination:/queue/a\nx:a\rb\n\n1\0")
    assert b"carriage return inside a header line" in output


@pytest.mark.parametrize("version", [None, "1.1"])
def test_carriage_returns_belong_to_the_value_before_1_2(version: str | None) -> None:
    peer = connected(version)
    peer.send(b"SEND\ndestination:/queue/a\nx:y\r\n\n1\0")
    assert peer.broker.of(Send)[0].headers == b"destination:/queue/a\nx:y\\r\n"
    output = peer.send(b"SEND\r\ndestination:/queue/a\r\n\r\n1\0")
    assert b"frame without a blank line" in output


# ---------------------------------------------------------------- header lines


@pytest.mark.parametrize("version", [None, "1.1", "1.2"])
@pytest.mark.parametrize(
    ("line", "part"),
    [
        (b"nocolon", b"header line without a colon"),
        (b":value", b"header without a name"),
        (b"a:\xff", b"header line is not UTF-8"),
    ],
)
def test_wrong_header_lines(version: str | None, line: bytes, part: bytes) -> None:
    peer = connected(version)
    output = peer.send(b"SEND\ndestination:/queue/a\nreceipt:r\n" + line + b"\n\nx\0")
    assert part in output
    assert b"\nreceipt-id:r\n" in output
    assert bodies(peer) == []


@pytest.mark.parametrize("where", [b"x:a\\tb", b"a\\tb:x", b"receipt:a\\tb"])
@pytest.mark.parametrize("version", ["1.1", "1.2"])
def test_undefined_escapes(version: str, where: bytes) -> None:
    peer = connected(version)
    output = peer.send(b"SEND\ndestination:/queue/a\n" + where + b"\n\nx\0")
    assert output.startswith(b"ERROR\nmessage:undefined escape in ")
    assert bodies(peer) == []
    assert b"receipt-id" not in output


def test_a_frame_that_ends_before_its_headers() -> None:
    peer = connected()
    output = peer.send(b"DISCONNECT\nreceipt:5\0SEND\ndestination:/queue/a\n\n\0")
    assert output.startswith(b"ERROR\nmessage:frame without a blank line")
    assert b"\nreceipt-id:5\n" in output


@pytest.mark.parametrize("receipt", ["a-b", "\u00fc", "x" * 500, "", "a b"])
def test_receipts_come_back_as_they_were(receipt: str) -> None:
    peer = connected()
    output = peer.send(frame(f"SEND\ndestination:/queue/a\nreceipt:{receipt}"))
    assert output == f"RECEIPT\nreceipt-id:{receipt}\n\n\0".encode()


def test_escaped_receipts_come_back_escaped() -> None:
    peer = connected()
    output = peer.send(b"SEND\ndestination:/queue/a\nreceipt:a\\c\\nb\n\n\0")
    assert output == b"RECEIPT\nreceipt-id:a\\c\\nb\n\n\0"


# ---------------------------------------------------------------- limits


def limited(stream: bytes, **limits: int) -> bytes:
    peer = connected("1.2", StompOptions(**limits))  # type: ignore[arg-type]
    output = peer.send(stream)
    assert peer.session.closing == output.startswith(b"ERROR\n")
    return output


def test_number_of_headers() -> None:
    head = "SEND\ndestination:/queue/a\n" + "\n".join(f"a{i}:b" for i in range(9))
    assert limited(frame(head), max_headers=10) == b""
    assert b"max-headers" in limited(frame(head + "\nx:y"), max_headers=10)


def test_length_of_a_header() -> None:
    assert limited(frame("SEND\ndestination:/queue/a\na:" + "x" * 98), max_header_length=100) == b""
    output = limited(frame("SEND\ndestination:/queue/a\na:" + "x" * 99), max_header_length=100)
    assert b"max-header-length" in output
    output = limited(
        frame("SEND\ndestination:/queue/a\nreceipt:" + "x" * 93), max_header_length=100
    )
    assert b"max-header-length" in output


@pytest.mark.parametrize("step", [1, 10, 1000])
def test_length_of_all_headers(step: int) -> None:
    stream = b"SEND\n" + b"a:b\n" * 1000
    peer = connected("1.2", StompOptions(max_frame_head=200))
    output = b"".join(peer.send(stream[at : at + step]) for at in range(0, len(stream), step))
    assert output.count(b"ERROR") == 1
    assert b"max-frame-head" in output


def test_length_of_all_headers_to_the_byte() -> None:
    head = "SEND\ndestination:/queue/a\na:"
    assert limited(frame(head + "x" * (200 - len(head))), max_frame_head=200) == b""
    assert b"max-frame-head" in limited(frame(head + "x" * (201 - len(head))), max_frame_head=200)


def test_length_of_a_body() -> None:
    for length in ("", "\ncontent-length:100"):
        assert (
            limited(frame("SEND\ndestination:/queue/a" + length, b"x" * 100), max_data_length=100)
            == b""
        )
    for length in ("", "\ncontent-length:101"):
        output = limited(
            frame("SEND\ndestination:/queue/a" + length, b"x" * 101), max_data_length=100
        )
        assert b"max-data-length" in output


def test_length_of_a_body_is_checked_before_it_is_there() -> None:
    assert b"max-data-length" in limited(
        b"SEND\ndestination:/queue/a\ncontent-length:101\n\n", max_data_length=100
    )
    assert b"max-data-length" in limited(
        b"SEND\ndestination:/queue/a\n\n" + b"x" * 101, max_data_length=100
    )


def test_length_of_a_big_body_without_content_length() -> None:
    peer = connected("1.2", StompOptions(max_data_length=50_000))
    assert peer.send(b"SEND\ndestination:/queue/a\n\n" + b"x" * 40_000) == b""
    assert b"max-data-length" in peer.send(b"x" * 10_001)


# ---------------------------------------------------------------- errors and the end


def test_an_error_is_the_last_thing_that_happens() -> None:
    peer = connected()
    output = peer.send(b"SEND\nreceipt:7\n\n\0SEND\ndestination:/queue/a\nreceipt:8\n\n\0")
    assert output.count(b"\0") == 1
    said = b"SEND without destination; give the header destination"
    assert output.startswith(b"ERROR\nmessage:" + said + b"\nreceipt-id:7\n")
    assert b"\n\n" + said + b"\nWhere: SEND\n\0" in output
    assert b"\ncontent-type:text/plain\n" in output
    assert peer.session.closing
    assert peer.session.close_delay_ms == 250
    assert peer.send(b"SEND\ndestination:/queue/a\n\n\0") == b""
    assert bodies(peer) == []
    (command,) = peer.broker.commands
    assert command == CloseConnection(1, PROTOCOL_ERROR, "SEND without destination")


def test_frames_before_the_error_count() -> None:
    peer = connected()
    output = peer.send(b"SEND\ndestination:/queue/a\nreceipt:1\n\n1\0BAD\n\n\0")
    assert output.startswith(b"RECEIPT\nreceipt-id:1\n\n\0ERROR\n")
    assert bodies(peer) == [b"1"]


@pytest.mark.parametrize("version", [None, "1.1", "1.2"])
def test_errors_are_frames_of_their_version(version: str | None) -> None:
    peer = connected(version)
    output = peer.send(b"SEND\nreceipt:r\ndestination:a:b\npriority:\\\\x:\n\n\0")
    head, _, body = output.partition(b"\n\n")
    lines = head.split(b"\n")
    assert lines[0] == b"ERROR"
    values = dict(line.split(b":", 1) for line in lines[1:])
    assert int(values[b"content-length"]) == len(body) - 1
    assert (b":" in values[b"message"]) == (version is None and b":" in body.split(b"\n")[0])


def test_disconnect() -> None:
    peer = connected()
    output = peer.send(b"DISCONNECT\nreceipt:77\n\n\0SEND\ndestination:/queue/a\n\n\0")
    assert output == b"RECEIPT\nreceipt-id:77\n\n\0"
    assert peer.session.closing
    assert peer.session.close_delay_ms == 0
    assert peer.session.gate == peer.broker.lsn
    assert peer.broker.commands == [CloseConnection(1, CLOSED, asks_again=True)]
    peer.session.connection_lost(peer.now)
    assert len(peer.broker.commands) == 1


def test_a_lost_connection_is_told() -> None:
    peer = connected()
    peer.session.connection_lost(peer.now)
    assert peer.broker.commands == [CloseConnection(1, DISCONNECTED)]
    assert peer.session.closing
    other = connected()
    other.session.connection_lost(other.now, SHUTDOWN, "the broker stops")
    assert other.broker.commands == [CloseConnection(1, SHUTDOWN, "the broker stops")]


def test_runs_of_plain_acks_with_everything_between() -> None:
    peer = connected()
    peer.send(b"SUBSCRIBE\nid:s\ndestination:/queue/a\nack:client-individual\n\n\0")
    consumer = peer.subscribed().consumer
    peer.send(
        b"ACK\nid:1-5\n\n\0ACK\nid:1-6\n\n\0\nACK\nid:1-7\nreceipt:r\n\n\0"
        b"ACK\nreceipt:q\nid:1-8\n\n\0ACK\nid:1-9\ntransaction:t\n\n\0ACK\nid:1-10\n\n"
    )
    peer.send(b"\0ACK\ni")
    peer.send(b"d:1-11\n\n\0")
    acks = peer.broker.of(Settle)
    assert [each.message for each in acks] == [5, 6, 7, 8, 9, 10, 11]
    assert {each.consumer for each in acks} == {consumer}
    assert [each.transaction for each in acks] == [None] * 4 + ["t"] + [None] * 2


@pytest.mark.parametrize(
    ("version", "receipt", "answer"),
    [
        ("1.2", b"a:b", b"a\\cb"),
        ("1.1", b"a:b\\c", b"a\\cb\\c"),
        (None, b"a:b", b"a:b"),
    ],
)
def test_a_bare_colon_in_a_receipt(version: str | None, receipt: bytes, answer: bytes) -> None:
    peer = connected(version)
    output = peer.send(b"SEND\ndestination:/queue/a\nreceipt:" + receipt + b"\n\nx\0")
    assert output == b"RECEIPT\nreceipt-id:" + answer + b"\n\n\0"
