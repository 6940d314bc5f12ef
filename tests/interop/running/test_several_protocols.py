"""One port for STOMP and AMQP 1.0, as users of Artemis have it: plain, with TLS, over WebSocket."""

import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from proton import Message
from proton.utils import BlockingConnection
from websockets.sync.client import connect

from tests.interop.using import events, status
from tests.interop.wire import Wire
from tests.support.brokers.certificates import Authority
from tests.support.process import BrokerProcess, wait_for

pytestmark = pytest.mark.interop

SECONDS = 30
SASL = b"AMQP\x03\x01\x00\x00"
AMQP = b"AMQP\x00\x01\x00\x00"
TLS = b"AMQP\x02\x01\x00\x00"
CONNECT = b"CONNECT\naccept-version:1.2\nhost:h\n\n\0"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    listen = ("amqp+stomp://127.0.0.1:0?connect-timeout=1s", "stomp+amqp://127.0.0.1:0")
    with BrokerProcess(tmp_path_factory.mktemp("both") / "data", listen=listen) as process:
        process.start()
        yield process


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def encrypted(
    tmp_path_factory: pytest.TempPathFactory, authority: Authority
) -> Iterator[BrokerProcess]:
    listen = (f"amqps+stomps://127.0.0.1:0?certificate={authority.issue('localhost')}",)
    with BrokerProcess(tmp_path_factory.mktemp("tls") / "data", listen=listen) as process:
        process.start()
        yield process


def said(port: int, *pieces: bytes, tls: ssl.SSLContext | None = None) -> bytes:
    """What the broker says to these bytes until it closes, or until it has answered."""
    plain = socket.create_connection(("127.0.0.1", port), timeout=SECONDS)
    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with plain if tls is None else tls.wrap_socket(plain, server_hostname="localhost") as peer:
        for piece in pieces:
            peer.sendall(piece)
        return b"".join(iter(lambda: peer.recv(65536), b""))


def test_clients_of_both_share_a_port_and_a_queue(broker: BrokerProcess) -> None:
    # The first two URLs are those of the first acceptor.
    assert broker.ports[0] == broker.ports[1] != broker.ports[2]
    for port in set(broker.ports):
        amqp = BlockingConnection(f"127.0.0.1:{port}", timeout=SECONDS, allowed_mechs="ANONYMOUS")
        stomp = Wire(port)
        assert stomp.connect().command == "CONNECTED"
        stomp.send("SUBSCRIBE", destination="/queue/both", id="1")
        amqp.create_sender("queue://both").send(Message(body="over", durable=True))
        assert stomp.expect("MESSAGE").body == b"over"
        receiver = amqp.create_receiver("queue://back")
        stomp.send("SEND", b"and back", destination="/queue/back")
        assert receiver.receive(SECONDS).body == "and back"
        receiver.accept()
        amqp.close()
        stomp.socket.close()


def one_byte_at_a_time(port: int, data: bytes, count: int) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=SECONDS) as peer:
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for at in range(len(data)):
            peer.sendall(data[at : at + 1])
        got = b""
        while len(got) < count:
            got += peer.recv(count - len(got))
        return got


def test_beginnings_may_be_cut_anywhere(broker: BrokerProcess) -> None:
    for port in set(broker.ports):
        assert one_byte_at_a_time(port, SASL, 8) == SASL
        assert one_byte_at_a_time(port, CONNECT, 9) == b"CONNECTED"
        assert one_byte_at_a_time(port, b"\r\n\n" + CONNECT, 9) == b"CONNECTED"


def refusals(broker: BrokerProcess) -> list[Any]:
    found = [each["detail"] for each in events(broker, "ConnectionRefused")]
    return [(each["protocol"], each["text"]) for each in found]


def test_strangers_hear_why(broker: BrokerProcess) -> None:
    amqp_first, _, stomp_first, _ = broker.ports
    wrong = "these bytes begin none of the protocols that are spoken here: "
    assert said(amqp_first, b"HELO there\r\n") == SASL
    answer = said(stomp_first, b"HELO there\r\n")
    assert answer.startswith(b"ERROR\n")
    assert f"{wrong}STOMP and AMQP 1.0".encode() in answer
    # What looks like AMQP gets the answer of AMQP, wherever it comes.
    for port in (amqp_first, stomp_first):
        assert said(port, b"AMQP\x00\x00\x09\x01") == said(port, TLS) == SASL
    # The first one of an address and reason in a minute is recorded by itself.
    refused = ("AMQP 1.0", f"{wrong}AMQP 1.0 and STOMP")
    wait_for(lambda: refused in refusals(broker), SECONDS)
    assert f"{wrong}STOMP and AMQP 1.0" in broker.log_text()


@pytest.mark.parametrize("begun", [b"", b"A", b"CONN"])
def test_a_stranger_who_says_too_little_is_ended_in_time(
    broker: BrokerProcess, begun: bytes
) -> None:
    assert said(broker.port, begun) == SASL


def test_both_over_tls(encrypted: BrokerProcess, authority: Authority) -> None:
    trusting = authority.trusting()
    with Wire(encrypted.port, tls=trusting) as stomp:
        assert stomp.connect().command == "CONNECTED"
    with (
        socket.create_connection(("127.0.0.1", encrypted.port), timeout=SECONDS) as plain,
        trusting.wrap_socket(plain, server_hostname="localhost") as peer,
    ):
        for at in range(8):
            peer.sendall(SASL[at : at + 1])
        assert peer.recv(8) == SASL
        # The header for TLS (5.2.1) asks for what is there already.
        assert said(encrypted.port, TLS, tls=trusting) == SASL
    # Without TLS each hears in its own language that it is wrong here.
    assert said(encrypted.port, SASL) == said(encrypted.port, TLS) == SASL
    assert b"speaks TLS" in said(encrypted.port, CONNECT)


@pytest.mark.parametrize(
    ("offered", "chosen"),
    [(["amqp"], "amqp"), (["v12.stomp"], "v12.stomp"), (["v12.stomp", "amqp"], "amqp")],
)
def test_the_subprotocol_of_websocket_chooses(
    broker: BrokerProcess, offered: Any, chosen: str
) -> None:
    with connect(f"ws://127.0.0.1:{broker.port}", subprotocols=offered) as web:
        assert web.subprotocol == chosen
        if chosen == "amqp":
            web.send(SASL)
            assert web.recv(SECONDS)[:8] == SASL  # type: ignore[index]
        else:
            web.send(CONNECT.decode())
            assert str(web.recv(SECONDS)).startswith("CONNECTED")


def test_first_bytes_choose_where_there_is_no_subprotocol(broker: BrokerProcess) -> None:
    with connect(f"ws://127.0.0.1:{broker.port}") as web:
        for piece in (CONNECT[:3], CONNECT[3:]):
            web.send(piece.decode())
        assert str(web.recv(SECONDS)).startswith("CONNECTED")
    with connect(f"ws://127.0.0.1:{broker.port}") as web:
        for piece in (SASL[:3], SASL[3:]):
            web.send(piece)
        assert web.recv(SECONDS)[:8] == SASL  # type: ignore[index]


def test_status_and_metrics_name_both(broker: BrokerProcess) -> None:
    first, second = status(broker)["acceptors"]
    port = broker.port
    assert first["name"] == "amqp+stomp"
    assert first["url"] == f"amqp://127.0.0.1:{port} stomp://127.0.0.1:{port}"
    assert second["url"].startswith("stomp://")


def test_a_broker_xml_opens_one_port_for_both(tmp_path: Path) -> None:
    text = (
        '<configuration><core><acceptors><acceptor name="artemis">'
        "tcp://127.0.0.1:0?protocols=CORE,AMQP,STOMP</acceptor></acceptors></core></configuration>"
    )
    with BrokerProcess(tmp_path / "data", listen=(), config=text) as broker:
        broker.start()
        assert broker.ports[0] == broker.ports[1]
        with Wire(broker.port) as stomp:
            assert stomp.connect().command == "CONNECTED"
        assert one_byte_at_a_time(broker.port, SASL, 8) == SASL
