"""Clients that others wrote, behind one interface for all tests."""

import queue
import ssl
from pathlib import Path
from typing import Any, Final, NamedTuple

import stomp  # type: ignore[import-untyped]
from stompest.config import StompConfig  # type: ignore[import-untyped]
from stompest.sync import Stomp  # type: ignore[import-untyped]

from tests.interop.npm import NodeClient

SECONDS: Final = 60.0
QUIET_SECONDS: Final = 0.3
STOMP_PY: Final = {
    "1.0": stomp.StompConnection10,
    "1.1": stomp.StompConnection11,
    "1.2": stomp.StompConnection12,
}


class Message(NamedTuple):
    """A frame that a client handed over."""

    command: str
    headers: dict[str, str]
    raw: bytes
    frame: Any

    @property
    def body(self) -> str:
        """The body as text."""
        return self.raw.decode()


class How(NamedTuple):
    """How a client connects: the port, who it is, and whom it trusts if it uses TLS.

    `beat_ms` are the heart-beats that it wants, both ways; `folder` has the packages of npm.
    """

    port: int
    login: str = "guest"
    passcode: str = "guest"
    ca: Path | None = None
    beat_ms: int = 0
    folder: Path | None = None


class Refused(Exception):
    """The client did not get in; the text is the broker's answer."""


class StompPyClient(stomp.ConnectionListener):  # type: ignore[misc]
    """stomp.py."""

    def __init__(self, how: How, version: str) -> None:
        self.version = version
        self.beats = 0
        self.heard: queue.SimpleQueue[Message] = queue.SimpleQueue()
        options = {} if version == "1.0" else {"heartbeats": (how.beat_ms, how.beat_ms)}
        place = ("localhost", how.port)
        self.connection = STOMP_PY[version](
            [place], reconnect_attempts_max=1, auto_decode=False, **options
        )
        if how.ca is not None:
            self.connection.set_ssl(
                [place], ca_certs=str(how.ca), ssl_version=ssl.PROTOCOL_TLS_CLIENT
            )
        self.connection.set_listener("", self)
        try:
            self.connection.connect(how.login, how.passcode, wait=True)
        except stomp.exception.ConnectFailedException as error:
            raise Refused(str(self.receive(0))) from error

    def on_message(self, frame: Any) -> None:
        self.heard.put(Message("MESSAGE", frame.headers, frame.body, frame))

    def on_receipt(self, frame: Any) -> None:
        self.heard.put(Message("RECEIPT", frame.headers, b"", frame))

    def on_error(self, frame: Any) -> None:
        self.heard.put(Message("ERROR", frame.headers, frame.body, frame))

    def receive(self, seconds: float = SECONDS) -> Message | None:
        try:
            return self.heard.get(timeout=seconds)
        except queue.Empty:
            return None

    def send(self, destination: str, body: str | bytes, **headers: str) -> None:
        self.connection.send(destination, body, headers=_named(headers))

    def subscribe(self, destination: str, id: str, ack: str = "auto", **headers: str) -> None:
        named = _named(headers)
        if self.version == "1.0":
            self.connection.subscribe(destination, ack=ack, headers={"id": id, **named})
        else:
            self.connection.subscribe(destination, id, ack=ack, headers=named)

    def unsubscribe(self, id: str, **headers: str) -> None:
        if self.version == "1.0":
            self.connection.unsubscribe("unused", headers={"id": id, **headers})
        else:
            self.connection.unsubscribe(id, headers=headers)

    def settle(self, what: str, message: Message, transaction: str | None = None) -> None:
        act = getattr(self.connection, what)
        headers = message.headers
        if self.version == "1.2":
            act(headers["ack"], transaction=transaction)
        elif self.version == "1.1":
            act(headers["message-id"], headers["subscription"], transaction=transaction)
        else:
            act(headers["message-id"], transaction=transaction)

    def transact(self, what: str, transaction: str, **headers: str) -> None:
        getattr(self.connection, what)(transaction, headers=headers)

    def disconnect(self) -> None:
        self.connection.disconnect(receipt="bye")

    def close(self) -> None:
        if self.connection.is_connected():
            self.connection.disconnect()


class StompestClient:
    """stompest."""

    def __init__(self, how: How, version: str) -> None:
        self.version = version
        self.tokens: dict[str, Any] = {}
        scheme, context = "tcp", None
        if how.ca is not None:
            scheme, context = "ssl", ssl.create_default_context(cafile=str(how.ca))
        config = StompConfig(
            f"{scheme}://localhost:{how.port}", login=how.login, passcode=how.passcode,
            version=version, sslContext=context,
        )  # fmt: skip
        self.client = Stomp(config)
        beats = (how.beat_ms, how.beat_ms) if version != "1.0" else None
        try:
            self.client.connect(heartBeats=beats, connectTimeout=SECONDS, connectedTimeout=SECONDS)
        except Exception as error:
            self.client.close()
            raise Refused(str(error)) from error

    def receive(self, seconds: float = SECONDS) -> Message | None:
        if not self.client.canRead(seconds):
            return None
        frame = self.client.receiveFrame()
        return Message(frame.command, frame.headers, frame.body, frame)

    def send(self, destination: str, body: str | bytes, **headers: str) -> None:
        raw = body.encode() if isinstance(body, str) else body
        # The library does not count.
        length = {"content-length": str(len(raw))} if b"\0" in raw else {}
        self.client.send(destination, raw, {**length, **_named(headers)})

    def subscribe(self, destination: str, id: str, ack: str = "auto", **headers: str) -> None:
        named = {"id": id, "ack": ack, **_named(headers)}
        self.tokens[id] = self.client.subscribe(destination, named)

    def unsubscribe(self, id: str, **headers: str) -> None:
        frame = self.client.session.unsubscribe(self.tokens.pop(id))
        frame.headers.update(headers)
        self.client.sendFrame(frame)

    def settle(self, what: str, message: Message, transaction: str | None = None) -> None:
        if transaction:
            message.frame.rawHeaders.append(("transaction", transaction))
        getattr(self.client, what)(message.frame)

    def transact(self, what: str, transaction: str, **headers: str) -> None:
        getattr(self.client, what)(transaction, receipt=headers.get("receipt"))

    def disconnect(self) -> None:
        self.client.disconnect(receipt="bye")
        while (frame := self.client.receiveFrame()).command != "RECEIPT":
            assert frame.command == "MESSAGE"
        self.client.close()

    def close(self) -> None:
        self.client.close()


class FromNpm:
    """A library from npm."""

    library = ""

    def __init__(self, how: How, version: str) -> None:
        assert how.folder is not None
        self.version = version
        ca = str(how.ca) if how.ca is not None else ""
        self.process = NodeClient(
            how.folder, self.library, port=how.port, version=version, login=how.login,
            passcode=how.passcode, ca=ca, beat=how.beat_ms,
        )  # fmt: skip
        first = self.receive()
        if first is None or first.command != "CONNECTED":
            self.process.close()
            raise Refused(str(first))

    def receive(self, seconds: float = SECONDS) -> Message | None:
        found = self.process.frame(seconds)
        if found is None:
            return None
        return Message(found["command"], found["headers"], found["body"], found["handle"])

    def send(self, destination: str, body: str | bytes, **headers: str) -> None:
        raw = body.encode() if isinstance(body, str) else body
        self.process.act("send", raw, destination=destination, **headers)

    def subscribe(self, destination: str, id: str, ack: str = "auto", **headers: str) -> None:
        self.process.act("subscribe", destination=destination, id=id, ack=ack, **headers)

    def unsubscribe(self, id: str, **headers: str) -> None:
        self.process.act("unsubscribe", id=id, **headers)

    def settle(self, what: str, message: Message, transaction: str | None = None) -> None:
        headers = {"transaction": transaction} if transaction else {}
        self.process.act(what, handle=message.frame, **headers)

    def transact(self, what: str, transaction: str, **headers: str) -> None:
        self.process.act(what, transaction=transaction, **headers)

    def disconnect(self) -> None:
        self.process.act("disconnect")
        while (frame := self.receive()) is not None and frame.command != "CLOSED":
            assert frame.command in ("MESSAGE", "RECEIPT"), frame
        self.process.close()

    def close(self) -> None:
        self.process.close()


class StompJsClient(FromNpm):
    """@stomp/stompjs, over WebSocket."""

    library = "stompjs"


class StompitClient(FromNpm):
    """stompit, over TCP."""

    library = "stompit"


Client = StompPyClient | StompestClient | StompJsClient | StompitClient
PYTHON: Final = (StompPyClient, StompestClient)
KINDS: Final = [
    *((kind, version) for kind in PYTHON for version in STOMP_PY),
    *((kind, version) for kind in (StompJsClient, StompitClient) for version in ("1.1", "1.2")),
]
"""All libraries, in the versions of STOMP that they speak."""


def _named(headers: dict[str, str]) -> dict[str, str]:
    """Underscores in names become hyphens."""
    return {name.replace("_", "-"): value for name, value in headers.items()}


def take(client: Client, command: str = "MESSAGE") -> Message:
    """The next frame, which must be of this command."""
    message = client.receive()
    assert message is not None
    assert message.command == command, message
    return message
