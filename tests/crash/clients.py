"""STOMP clients that others wrote, behind the face of a drill's client: stomp.py, stompest."""

import logging
import queue
from collections.abc import Callable
from typing import Any, Final

import stomp  # type: ignore[import-untyped]
from stomp.exception import StompException  # type: ignore[import-untyped]
from stompest.config import StompConfig  # type: ignore[import-untyped]
from stompest.error import StompConnectionError, StompError  # type: ignore[import-untyped]
from stompest.protocol import StompSpec  # type: ignore[import-untyped]
from stompest.sync import Stomp  # type: ignore[import-untyped]

from daybook.tools.drills.clients.client import Delivery, Gone, Heard, Receipt, Refused, unpadded

CONNECT_SECONDS: Final = 20.0
# That connections break is what these tests are about.
for _name in ("stompest", "stomp.py"):
    logging.getLogger(_name).setLevel(logging.CRITICAL)
NO_HEART_BEATS: Final = (0, 0)


def _delivery(headers: dict[str, str], body: str, frame: Any) -> Delivery:
    return Delivery(
        unpadded(body),
        int(headers.get("delivery-count", "1")),
        headers.get("redelivered") == "true",
        headers["destination"],
        int(headers["message-id"]),
        frame,
    )


class StompPy(stomp.ConnectionListener):  # type: ignore[misc]
    """stomp.py: its own thread reads, this puts what it hands over into a queue."""

    name: Final = "stomp.py"
    keeps_what_was_undone: Final = True

    def __init__(self, port: int) -> None:
        self._heard: queue.SimpleQueue[Heard | None] = queue.SimpleQueue()
        self._connection = stomp.StompConnection12(
            [("127.0.0.1", port)], reconnect_attempts_max=1, heartbeats=NO_HEART_BEATS
        )
        self._connection.set_listener("", self)
        try:
            self._connection.connect("guest", "guest", wait=True)
        except (StompException, OSError) as error:
            self.cut()
            raise Gone from error

    def on_message(self, frame: Any) -> None:
        self._heard.put(_delivery(frame.headers, frame.body, frame))

    def on_receipt(self, frame: Any) -> None:
        self._heard.put(Receipt(frame.headers["receipt-id"]))

    def on_error(self, frame: Any) -> None:
        self._heard.put(Refused(frame.headers.get("message", "")))

    def on_disconnected(self) -> None:
        self._heard.put(None)

    def _do(self, action: Callable[..., Any], *arguments: Any, **values: Any) -> None:
        try:
            action(*arguments, **values)
        except (StompException, OSError) as error:
            raise Gone from error

    def send(self, destination: str, body: str, receipt: str = "", transaction: str = "") -> None:
        headers = {"receipt": receipt} if receipt else {}
        if transaction:
            headers["transaction"] = transaction
        self._do(self._connection.send, destination, body, headers=headers)

    def subscribe(self, destination: str, id: str, credit: int) -> None:
        headers = {"credit": str(credit)}
        self._do(
            self._connection.subscribe, destination, id, ack="client-individual", headers=headers
        )

    def ack(self, delivery: Delivery, receipt: str, transaction: str = "") -> None:
        ack = delivery.frame.headers["ack"]
        self._do(self._connection.ack, ack, transaction=transaction or None, receipt=receipt)

    def nack(self, delivery: Delivery, receipt: str) -> None:
        self._do(self._connection.nack, delivery.frame.headers["ack"], receipt=receipt)

    def begin(self, transaction: str) -> None:
        self._do(self._connection.begin, transaction)

    def commit(self, transaction: str, receipt: str) -> None:
        self._do(self._connection.commit, transaction, headers={"receipt": receipt})

    def abort(self, transaction: str, receipt: str) -> None:
        self._do(self._connection.abort, transaction, headers={"receipt": receipt})

    def receive(self, seconds: float) -> Heard | None:
        try:
            heard = self._heard.get(timeout=seconds) if seconds else self._heard.get_nowait()
        except queue.Empty:
            return None
        if heard is None:
            self.cut()
            raise Gone
        return heard

    def cut(self) -> None:
        transport = self._connection.transport
        transport.running = False
        transport.disconnect_socket()


class Stompest:
    """stompest: synchronous, no threads of its own."""

    name: Final = "stompest"
    keeps_what_was_undone: Final = True

    def __init__(self, port: int) -> None:
        config = StompConfig(
            f"failover:(tcp://127.0.0.1:{port})?maxReconnectAttempts=0,startupMaxReconnectAttempts=0",
            login="guest",
            passcode="guest",
            version=StompSpec.VERSION_1_2,
        )
        self._client = Stomp(config)
        self._subscriptions: dict[str, Any] = {}
        try:
            self._client.connect(
                host="localhost",
                heartBeats=NO_HEART_BEATS,
                connectTimeout=CONNECT_SECONDS,
                connectedTimeout=None,
            )
        except (StompError, OSError) as error:
            self.cut()
            raise Gone from error

    def _do(self, action: Callable[..., Any], *arguments: Any, **values: Any) -> Any:
        try:
            return action(*arguments, **values)
        except (StompConnectionError, OSError) as error:
            raise Gone from error

    def send(self, destination: str, body: str, receipt: str = "", transaction: str = "") -> None:
        headers = {"transaction": transaction} if transaction else {}
        self._do(self._client.send, destination, body.encode(), headers, receipt=receipt or None)

    def subscribe(self, destination: str, id: str, credit: int) -> None:
        headers = {"id": id, "ack": "client-individual", "credit": str(credit)}
        self._do(self._client.subscribe, destination, headers)

    def ack(self, delivery: Delivery, receipt: str, transaction: str = "") -> None:
        if transaction:
            # What makes stompest put the ACK into the transaction.
            delivery.frame.rawHeaders.append(("transaction", transaction))
        self._do(self._client.ack, delivery.frame, receipt=receipt or None)

    def nack(self, delivery: Delivery, receipt: str) -> None:
        self._do(self._client.nack, delivery.frame, receipt=receipt)

    def begin(self, transaction: str) -> None:
        self._do(self._client.begin, transaction)

    def commit(self, transaction: str, receipt: str) -> None:
        self._do(self._client.commit, transaction, receipt=receipt)

    def abort(self, transaction: str, receipt: str) -> None:
        self._do(self._client.abort, transaction, receipt=receipt)

    def receive(self, seconds: float) -> Heard | None:
        if not self._do(self._client.canRead, seconds):
            return None
        frame = self._do(self._client.receiveFrame)
        if frame.command == "MESSAGE":
            return _delivery(frame.headers, frame.body.decode(), frame)
        if frame.command == "RECEIPT":
            self._client.receipt(frame)
            return Receipt(frame.headers["receipt-id"])
        return Refused(str(frame.headers.get("message", frame)))

    def cut(self) -> None:
        try:
            self._client.close()
        except (StompError, OSError):
            return


CLIENTS: Final[tuple[type[StompPy] | type[Stompest], ...]] = (StompPy, Stompest)
