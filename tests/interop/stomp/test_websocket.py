"""STOMP over WebSocket: at the port of STOMP, with and without TLS, and what goes wrong."""

import os
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from tests.interop.wire import Wire, frame
from tests.support.brokers.certificates import Authority
from tests.support.process import BrokerProcess, wait_for

pytestmark = pytest.mark.interop

CONNECT = frame("CONNECT", accept_version="1.2", host="h")
SUBPROTOCOLS: Any = ["v12.stomp", "v11.stomp", "v10.stomp"]
MIB = 1 << 20


@pytest.fixture(scope="module")
def broker(shared_broker: BrokerProcess) -> BrokerProcess:
    return shared_broker


def opened(port: int, **options: Any) -> Any:
    """A connection of WebSocket, not logged in."""
    options = {"subprotocols": SUBPROTOCOLS, "compression": None, "max_size": None} | options
    scheme = "wss" if "ssl" in options else "ws"
    return connect(f"{scheme}://localhost:{port}/", sock=plain(port), **options)


def plain(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=60)


@contextmanager
def logged_in(port: int, **options: Any) -> Iterator[ClientConnection]:
    with opened(port, **options) as web:
        web.send(CONNECT.decode())
        assert str(web.recv()).startswith("CONNECTED\nversion:1.2\n")
        yield web


def answer(web: ClientConnection, said: bytes, *, text: bool = True) -> bytes:
    web.send(said.decode() if text else said)
    got = web.recv(60)
    return got.encode() if isinstance(got, str) else got


def send(destination: str, body: bytes, **headers: str) -> bytes:
    return frame("SEND", body, destination=destination, receipt="r", **headers)


@pytest.mark.parametrize(
    ("offered", "chosen"),
    [
        (SUBPROTOCOLS, "v12.stomp"),
        (["v10.stomp", "v11.stomp"], "v11.stomp"),
        (["mqtt", "v10.stomp"], "v10.stomp"),
        (None, None),
    ],
)
def test_the_best_subprotocol_is_chosen(
    broker: BrokerProcess, offered: Any, chosen: str | None
) -> None:
    with logged_in(broker.port, subprotocols=offered) as web:
        assert web.subprotocol == chosen


def test_no_common_subprotocol(broker: BrokerProcess) -> None:
    with pytest.raises(InvalidStatus) as caught, opened(broker.port, subprotocols=["mqtt"]):
        pass
    assert caught.value.response.status_code == 400
    assert b"v12.stomp" in (caught.value.response.body or b"")


@pytest.mark.parametrize("text", [True, False])
def test_messages_in_the_kind_of_the_client(broker: BrokerProcess, text: bool) -> None:
    queue = f"/queue/kind.{text}"
    with opened(broker.port) as web:
        answer(web, CONNECT, text=text)
        assert answer(web, send(queue, "Grüße".encode()), text=text).startswith(b"RECEIPT")
        subscribe = frame("SUBSCRIBE", destination=queue, id="1", ack="auto")
        web.send(subscribe.decode() if text else subscribe)
        got = web.recv(60)
        assert isinstance(got, str) is text
        body = got.encode() if isinstance(got, str) else got
        assert body.endswith("\n\nGrüße\0".encode())
        # Bytes that are not text are never in a text message.
        web.send(send(queue, b"\xff\xfe"))
        while isinstance(got := web.recv(60), str) or b"\xff\xfe" not in got:
            pass


def test_frames_may_be_split_and_share_messages(broker: BrokerProcess) -> None:
    two = send("/queue/split", b"one") + send("/queue/split", b"two")
    with logged_in(broker.port) as web:
        web.send(two.decode())
        web.send([two[:9].decode(), two[9:30].decode(), "", two[30:].decode()])
        for place in range(len(two)):
            web.send(two[place : place + 1].decode())
        receipts = ""
        while receipts.count("RECEIPT") < 6:
            receipts += str(web.recv(60))
        web.send(frame("SUBSCRIBE", destination="/queue/split", id="1", ack="auto").decode())
        found = ""
        while found.count("MESSAGE\n") < 6:
            found += str(web.recv(60))
        assert (found.count("\n\none\0"), found.count("\n\ntwo\0")) == (3, 3)


def test_heart_beats_are_lone_newlines(broker: BrokerProcess) -> None:
    with opened(broker.port) as web:
        said = frame("CONNECT", accept_version="1.2", host="h", heart_beat="0,1000")
        answer(web, said)
        assert web.recv(30) == "\n"
        web.send("\n")
        assert web.recv(30) == "\n"


def test_large_messages(broker: BrokerProcess) -> None:
    body = os.urandom(3 * MIB)
    said = send("/queue/large", body)
    with logged_in(broker.port) as web:
        # The length of frames is limited, not that of messages.
        pieces = [said[at : at + 60_000] for at in range(0, len(said), 60_000)]
        web.send(pieces)
        assert "RECEIPT" in str(web.recv(60))
        web.send(frame("SUBSCRIBE", destination="/queue/large", id="1", ack="auto").decode())
        found = b""
        while not found.endswith(body + b"\0"):
            got = web.recv(60)
            found += got.encode() if isinstance(got, str) else got


def test_a_frame_that_is_too_long(broker: BrokerProcess) -> None:
    with logged_in(broker.port) as web:
        web.send(b"\n" * (MIB + 1))
        with pytest.raises(ConnectionClosed) as caught:
            web.recv(60)
        assert caught.value.rcvd is not None
        assert caught.value.rcvd.code == 1009
    wait_for(lambda: "exceeds limit" in broker.log_text(), "the log")


def test_an_error_then_the_end(broker: BrokerProcess) -> None:
    with logged_in(broker.port) as web:
        assert answer(web, b"NONSENSE\n\n\0").startswith(b"ERROR\n")
        with pytest.raises(ConnectionClosed) as caught:
            web.recv(60)
        assert caught.value.rcvd is not None
        assert caught.value.rcvd.code == 1008
        assert "NONSENSE" in caught.value.rcvd.reason


def test_a_clean_end_of_both_sides(broker: BrokerProcess) -> None:
    with logged_in(broker.port) as web:
        web.send(frame("DISCONNECT", receipt="bye").decode())
        assert "RECEIPT" in str(web.recv(60))
        with pytest.raises(ConnectionClosed) as caught:
            web.recv(60)
        assert caught.value.rcvd is not None
        assert caught.value.rcvd.code == 1000
    with logged_in(broker.port) as web:
        web.close(1000)
        # It would be 1006 if the broker had not answered in time.
        assert web.close_code == 1000


def test_a_login_that_is_refused(broker: BrokerProcess) -> None:
    with opened(broker.port) as web:
        said = frame("CONNECT", accept_version="1.2", host="h", login="joe", passcode="x")
        assert answer(web, said).startswith(b"ERROR\n")


# ---- pages of other sites


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://localhost"])
def test_pages_need_to_be_listed(broker: BrokerProcess, origin: Any) -> None:
    with pytest.raises(InvalidStatus) as caught, opened(broker.port, origin=origin):
        pass
    assert caught.value.response.status_code == 403
    assert b"websocket-origins" in (caught.value.response.body or b"")


def test_listed_pages_and_paths(tmp_path: Path) -> None:
    settings = [
        'acceptor.websocket-origins=["https://shop.example"]', "acceptor.websocket-path=/stomp"
    ]  # fmt: skip
    with BrokerProcess(tmp_path / "data", settings=settings) as broker:
        port = broker.start().port
        url = f"ws://localhost:{port}"
        options: Any = {"compression": None, "subprotocols": SUBPROTOCOLS}
        shop: Any = "https://shop.example"
        with connect(f"{url}/stomp?x=1", sock=plain(port), origin=shop, **options) as web:
            assert answer(web, CONNECT).startswith(b"CONNECTED")
        for path, origin, status in (
            ("/stomp", "https://shop.example.evil", 403), ("/", shop, 404), ("/stomp/", shop, 404),
        ):  # fmt: skip
            page: Any = origin
            with (
                pytest.raises(InvalidStatus) as caught,
                connect(f"{url}{path}", sock=plain(port), origin=page, **options),
            ):
                pass
            assert caught.value.response.status_code == status
        told = "shop.example.evil; list the page in websocket-origins of the acceptor"
        wait_for(lambda: told in broker.log_text(), "the log")


def test_any_page_and_none(tmp_path: Path) -> None:
    settings = ['acceptor.websocket-origins=["*"]']
    with BrokerProcess(tmp_path / "data", settings=settings) as broker:
        broker.start()
        origin: Any = "null"
        with logged_in(broker.port, origin=origin):
            pass
        broker.stop()
        broker.settings[:] = ["acceptor.websocket=false"]
        broker.start()
        with Wire(broker.port) as wire:
            wire.write(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            assert wire.read().command == "ERROR"


# ---- TLS


def test_wss(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "certificates")
    listen = (f"stomps://127.0.0.1:0?certificate={authority.issue('localhost')}",)
    with BrokerProcess(tmp_path / "data", listen=listen) as broker:
        port = broker.start().port
        with logged_in(port, ssl=authority.trusting()) as web:
            assert "RECEIPT" in answer(web, send("/queue/a", b"x" * 300_000)).decode()
            web.send(frame("SUBSCRIBE", destination="/queue/a", id="1", ack="auto").decode())
            found = ""
            while not found.endswith("x\0"):
                found += str(web.recv(60))
            assert answer(web, b"NONSENSE\n\n\0").startswith(b"ERROR\n")
            with pytest.raises(ConnectionClosed):
                web.recv(60)
        with Wire(port, tls=authority.trusting()) as wire:
            assert wire.connect().command == "CONNECTED"


# ---- peers that behave badly


REQUEST = (
    b"GET /stomp HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)


@pytest.fixture
def raw(broker: BrokerProcess) -> Iterator[socket.socket]:
    """A socket on which the broker has agreed to WebSocket."""
    with plain(broker.port) as found:
        found.sendall(REQUEST)
        head = found.recv(4096)
        assert head.startswith(b"HTTP/1.1 101 ")
        assert b"permessage" not in head
        yield found


def masked(first: int, data: bytes = b"", *, length: int | None = None) -> bytes:
    """A frame as a client must send it; the mask is zeros."""
    size = len(data) if length is None else length
    if size < 126:
        head = struct.pack("!BB", first, 0x80 | size)
    elif size < 65536:
        head = struct.pack("!BBH", first, 0x80 | 126, size)
    else:
        head = struct.pack("!BBQ", first, 0x80 | 127, size)
    return head + b"\0\0\0\0" + data


def end_of(peer: socket.socket) -> bytes:
    """Everything until the broker closes."""
    found = b""
    try:
        while data := peer.recv(65536):
            found += data
    except ConnectionResetError:
        pass
    return found


@pytest.mark.parametrize(
    ("said", "code"),
    [
        (b"\x82\x01x", 1002),  # without a mask
        (masked(0xF2, b"x"), 1002),  # reserved bits, as for compression
        (masked(0x83, b"x"), 1002),  # an opcode that does not exist
        (masked(0x80, b"x"), 1002),  # continues nothing
        (masked(0x01, b"x") + masked(0x81, b"x"), 1002),  # a message within another
        (masked(0x09, b"x"), 1002),  # a ping in parts
        (masked(0x89, b"x" * 126), 1002),  # a ping that is too long
        (masked(0x88, b"\x03"), 1002),  # half a code
        (masked(0x81, b"\xff"), 1007),  # no UTF-8
        (masked(0x01, b"\xc3") + masked(0x80, b"x"), 1007),  # over two frames
        (masked(0x82, b"", length=1 << 40), 1009),
    ],
)
def test_what_is_no_frame_ends_with_a_code(raw: socket.socket, said: bytes, code: int) -> None:
    raw.sendall(said)
    found = end_of(raw)
    assert found[:1] == b"\x88"
    assert struct.unpack("!H", found[2:4])[0] == code


@pytest.mark.parametrize(
    ("said", "status"),
    [
        (b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", b"426"),
        (b"GET / HTTP/1.0\r\n\r\n", b"505"),
        (b"GET garbage\r\n\r\n", b"400"),
        (b"G\r\n\r\n", b"400"),
        (b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 200 + b"\r\n", b"431"),
        (b"GET /" + b"a" * 9000 + b" HTTP/1.1\r\n\r\n", b"414"),
        (REQUEST.replace(b"Version: 13", b"Version: 7"), b"400"),
        (REQUEST.replace(b"Key: dGhl", b"Key: d"), b"400"),
        (REQUEST.replace(b"Host", b"Origin: http://x\r\nOrigin: http://y\r\nHost"), b"400"),
    ],
)
def test_what_is_no_request_gets_an_answer(
    broker: BrokerProcess, said: bytes, status: bytes
) -> None:
    with plain(broker.port) as peer:
        for at in range(0, len(said), 700):
            peer.sendall(said[at : at + 700])
        assert end_of(peer).startswith(b"HTTP/1.1 " + status)


def test_pings_are_answered_within_bounds(raw: socket.socket, broker: BrokerProcess) -> None:
    raw.sendall(masked(0x81, CONNECT))
    assert b"CONNECTED" in raw.recv(65536)
    raw.sendall(masked(0x89, b"are you there"))
    assert raw.recv(65536) == b"\x8a\x0dare you there"
    before = broker.rss_bytes()
    flood = masked(0x89, b"x" * 100) * 600
    for _ in range(200):
        raw.sendall(flood)
    raw.sendall(masked(0x89, b"last"))
    found = b""
    while not found.endswith(b"\x8a\x04last"):
        found += raw.recv(1 << 20)
    # A pong for each ping would be more than 12 MB.
    assert len(found) < 2 * MIB
    assert broker.rss_bytes() - before < 16 * MIB


def test_too_much_before_the_login(raw: socket.socket) -> None:
    raw.sendall(masked(0x82, b"", length=900_000) + b"x" * 40_000)
    found = end_of(raw)
    assert struct.unpack("!H", found[2:4])[0] == 1009


def test_a_peer_that_never_answers_the_end(raw: socket.socket) -> None:
    raw.sendall(masked(0x81, CONNECT))
    raw.recv(65536)
    begun = time.monotonic()
    raw.sendall(masked(0x81, frame("DISCONNECT")))
    found = end_of(raw)
    assert found.startswith(b"\x88")
    assert time.monotonic() - begun < 5


def test_a_request_that_never_ends(tmp_path: Path) -> None:
    settings = ["acceptor.connect-timeout=1s"]
    with BrokerProcess(tmp_path / "data", settings=settings) as broker:
        broker.start()
        for said in (b"G", b"GET / HTTP/1.1\r\n", REQUEST, REQUEST + masked(0x81, b"CONN")):
            with plain(broker.port) as peer:
                peer.sendall(said)
                begun = time.monotonic()
                end_of(peer)
                assert time.monotonic() - begun < 15
