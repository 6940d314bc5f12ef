"""Logins, bodies, escapes, extensions, temporary queues, TLS, heart-beats and kills, with each of
the libraries."""

import time
from pathlib import Path
from typing import Any

import pytest

from tests.interop.clients import Refused, StompestClient, StompJsClient, StompPyClient, take
from tests.interop.npm import NodeClient
from tests.support.brokers.certificates import Authority
from tests.support.process import BrokerProcess, wait_for

# stompest leaves sockets open that could not connect.
pytestmark = [pytest.mark.interop, pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")]

BEAT_MS = 500
SILENT_SECONDS = 2.5


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A name that no other test uses."""
    return str(request.node.name).replace("[", ".").replace("]", "").replace("-", ".")


def test_a_wrong_passcode_is_refused_with_the_reason(
    shared_broker: BrokerProcess, connect: Any
) -> None:
    with pytest.raises(Refused, match="nobody"):
        connect(shared_broker, login="nobody", passcode="guessed")


def test_any_bytes_are_a_body(shared_broker: BrokerProcess, connect: Any, name: str) -> None:
    client = connect(shared_broker)
    client.subscribe(f"/queue/{name}", "1")
    bodies = [bytes(range(256)), b"\0", b"\0\0\n\0", b"\xff\xfe" * 40_000, b""]
    for body in bodies:
        client.send(f"/queue/{name}", body)
    assert [take(client).raw for _ in bodies] == bodies
    client.disconnect()


def test_headers_keep_every_character(
    shared_broker: BrokerProcess, connect: Any, name: str
) -> None:
    client = connect(shared_broker)
    if client.version == "1.0":
        pytest.skip("STOMP 1.0 has no escapes")
    client.subscribe(f"/queue/{name}", "1")
    sent = {"colon": "a:b:c", "slash": "a\\b\\\\n", "feed": "a\nb", "word": "ünï ✓ 漢字 😀"}
    if client.version == "1.2":
        sent["return"] = "a\r\nb"
    if isinstance(client, StompJsClient):
        # It undoes escapes one after the other, and knows none before 1.2.
        keys = ("colon", "feed", "word") if client.version == "1.2" else ("word",)
        sent = {key: sent[key] for key in keys}
    client.send(f"/queue/{name}", "x", **sent)
    headers = take(client).headers
    assert {key: headers.get(key) for key in sent} == sent
    client.disconnect()


def test_extensions_of_subscribe_pass_through(
    shared_broker: BrokerProcess, connect: Any, name: str
) -> None:
    client = connect(shared_broker)
    for number in range(5):
        client.send(f"/queue/{name}", str(number), parity=("even", "odd")[number % 2])
    client.subscribe(f"/queue/{name}", "look", browser="true", include_seq="seq")
    shown = [take(client) for _ in range(6)]
    assert [one.body for one in shown[:5]] == list("01234")
    assert shown[5].headers["browser"] == "end"
    numbers = [int(one.headers["seq"]) for one in shown[:5]]
    assert numbers == sorted(set(numbers))
    client.subscribe(f"/queue/{name}", "odd", "client-individual", selector="parity = 'odd'")
    assert [take(client).body, take(client).body] == ["1", "3"]
    client.subscribe(f"/queue/{name}", "few", "client-individual", credit="1,0")
    first = take(client)
    assert first.body == "0"
    assert client.receive(0.3) is None
    client.settle("ack", first)
    assert take(client).body == "2"
    client.disconnect()


def test_a_request_is_answered_by_a_temporary_queue(
    shared_broker: BrokerProcess, connect: Any, name: str
) -> None:
    asking, answering = connect(shared_broker), connect(shared_broker)
    answering.subscribe(f"/queue/{name}", "1")
    asking.subscribe("/temp-queue/answers", "1")
    asking.send(f"/queue/{name}", "question", reply_to="/temp-queue/answers", correlation_id="7")
    question = take(answering)
    assert question.headers["correlation-id"] == "7"
    answering.send(question.headers["reply-to"], "answer", correlation_id="7")
    answer = take(asking)
    assert (answer.body, answer.headers["correlation-id"]) == ("answer", "7")
    asking.disconnect()
    answering.disconnect()


def test_an_expired_message_is_not_delivered(
    shared_broker: BrokerProcess, connect: Any, name: str
) -> None:
    client = connect(shared_broker)
    client.send(f"/queue/{name}", "late", expires=str(int(time.time() * 1000) - 1000))
    client.send(f"/queue/{name}", "in time", expires=str(int(time.time() * 1000) + 600_000))
    client.subscribe(f"/queue/{name}", "1")
    assert take(client).body == "in time"
    client.disconnect()


def test_heart_beats_keep_both_sides_connected(
    shared_broker: BrokerProcess, connect: Any, name: str
) -> None:
    client = connect(shared_broker, beat_ms=BEAT_MS)
    if isinstance(client, StompestClient):
        pytest.skip("stompest leaves heart-beats to its user")
    client.subscribe(f"/queue/{name}", "1")
    assert client.receive(SILENT_SECONDS) is None
    client.send(f"/queue/{name}", "still here")
    assert take(client).body == "still here"
    client.disconnect()


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def secret_broker(tmp_path_factory: pytest.TempPathFactory, authority: Authority) -> Any:
    """A broker that speaks TLS only."""
    settings = (f"acceptor.certificate={authority.issue('localhost')}",)
    directory = tmp_path_factory.mktemp("secret") / "data"
    listen = ("stomps://127.0.0.1:0",)
    with BrokerProcess(directory, settings=settings, listen=listen) as process:
        yield process.start()


def test_messages_cross_tls(
    secret_broker: BrokerProcess, authority: Authority, connect: Any, name: str
) -> None:
    client = connect(secret_broker, ca=authority.ca)
    client.subscribe(f"/queue/{name}", "1")
    client.send(f"/queue/{name}", "secret " * 50_000)
    assert take(client).body == "secret " * 50_000
    client.disconnect()


def test_a_client_connects_again_after_a_kill(tmp_path: Path, connect: Any, name: str) -> None:
    with BrokerProcess(tmp_path / "data") as broker:
        client = connect(broker.start())
        client.subscribe(f"/queue/{name}", "1", "client-individual")
        client.send(f"/queue/{name}", "kept", receipt="r")
        heard = {message.command: message for message in (client.receive(), client.receive())}
        assert heard.keys() == {"MESSAGE", "RECEIPT"}
        broker.kill()
        if isinstance(client, StompPyClient):
            wait_for(lambda: not client.connection.is_connected(), "the end")
        broker.start()
        again = connect(broker)
        again.subscribe(f"/queue/{name}", "1", "client-individual")
        message = take(again)
        assert (message.body, message.headers["redelivered"]) == ("kept", "true")
        again.settle("ack", message)
        again.disconnect()


def test_stompjs_reconnects_by_itself(tmp_path: Path, packages: Path) -> None:
    with BrokerProcess(tmp_path / "data") as broker:
        broker.start()
        broker.listen[:] = [f"stomp://127.0.0.1:{broker.port}"]
        client = NodeClient(
            packages, "stompjs", port=broker.port, version="1.2", login="guest",
            passcode="guest", ca="", beat=0, reconnect=True,
        )  # fmt: skip
        try:
            assert _next(client)["command"] == "CONNECTED"
            client.act("subscribe", id="1", destination="/queue/again", ack="client-individual")
            client.act("send", b"kept", destination="/queue/again", receipt="r")
            assert {_next(client)["command"], _next(client)["command"]} == {"MESSAGE", "RECEIPT"}
            broker.kill()
            assert _next(client)["command"] == "CLOSED"
            broker.start()
            found = _next(client)
            while found["command"] != "MESSAGE":
                found = _next(client)
            assert (found["body"], found["headers"]["redelivered"]) == (b"kept", "true")
        finally:
            client.close()


def _next(client: NodeClient) -> dict[str, Any]:
    found = client.frame(60.0)
    assert found is not None
    return found
