"""The interface of a drill's workload to a client, and its implementation by the STOMP client of
this package.

A client belongs to one thread, which reads with `receive`. `Gone` is raised when the connection has
ended, for any reason. Must never know the broker's insides.
"""

from collections.abc import Callable
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

from daybook.client import stomp
from daybook.client.endpoint import Endpoint
from daybook.errors import DaybookError

LOGIN: Final = "guest"
THIS_MACHINE: Final = "127.0.0.1"
SOON_SECONDS: Final = 0.0005
"""How long a client looks for a frame that is not waited for."""


class Gone(DaybookError):
    """The connection ended."""


class Delivery(NamedTuple):
    """A MESSAGE: the body without its padding, and `frame`, the client's own object.

    `id` is the broker's number of the message, or, where the protocol does not name that, its place
    among the messages of a `producer`.
    """

    body: str
    delivery_count: int
    is_flagged: bool
    destination: str
    id: int
    frame: Any
    producer: str = ""


class Receipt(NamedTuple):
    """A RECEIPT."""

    id: str


class Refused(NamedTuple):
    """An ERROR."""

    text: str


Heard: TypeAlias = Delivery | Receipt | Refused


class Client(Protocol):
    """The interface that the workload needs of a client. `keeps_what_was_undone` says that a
    delivery which a transaction settled is still this client's after its rollback; otherwise it
    comes again."""

    @property
    def keeps_what_was_undone(self) -> bool: ...

    def send(
        self, destination: str, body: str, receipt: str = "", transaction: str = ""
    ) -> None: ...

    def subscribe(self, destination: str, id: str, credit: int) -> None: ...

    def ack(self, delivery: Delivery, receipt: str, transaction: str = "") -> None: ...

    def nack(self, delivery: Delivery, receipt: str) -> None: ...

    def begin(self, transaction: str) -> None: ...

    def commit(self, transaction: str, receipt: str) -> None: ...

    def abort(self, transaction: str, receipt: str) -> None: ...

    def receive(self, seconds: float) -> Heard | None: ...

    def cut(self) -> None:
        """Drop the connection without a word."""
        ...


def padded(body: str, length: int) -> str:
    """Pad a body to the given length, in a way that `unpadded` can check."""
    if length <= len(body):
        return body
    pad = (body + " ") * (length // (len(body) + 1) + 1)
    return f"{body} {length} {pad}"[:length]


def unpadded(whole: str) -> str:
    """Undo `padded`; raises AssertionError if the body was not made by it."""
    body, _, rest = whole.partition(" ")
    if rest:
        length = int(rest.partition(" ")[0])
        assert whole == padded(body, length), f"{body} came damaged: {len(whole)} of {length} bytes"
    return body


Connect: TypeAlias = Callable[[int], Client]


class StompClient:
    """The client of this package. A refused frame is answered with Refused, and the end of the
    connection with Gone."""

    keeps_what_was_undone: Final = True

    def __init__(
        self, port: int, host: str = THIS_MACHINE, *, timeout: float = stomp.ANSWER_SECONDS
    ) -> None:
        """Connect as guest to a port; raises Gone."""
        try:
            self._client = stomp.StompClient(Endpoint(host, port, LOGIN, LOGIN), timeout=timeout)
        except stomp.StompError as error:
            raise Gone from error

    def _write(self, command: str, headers: dict[str, str], body: bytes = b"") -> None:
        given = [(name, value) for name, value in headers.items() if value]
        try:
            self._client.send(command, given, body)
        except stomp.StompError as error:
            raise Gone from error

    def send(self, destination: str, body: str, receipt: str = "", transaction: str = "") -> None:
        headers = {"destination": destination, "receipt": receipt, "transaction": transaction}
        self._write("SEND", headers, body.encode())

    def subscribe(
        self, destination: str, id: str, credit: int, selector: str = "", receipt: str = ""
    ) -> None:
        headers = {"destination": destination, "id": id, "ack": "client-individual"}
        headers |= {"selector": selector, "receipt": receipt}
        self._write("SUBSCRIBE", headers | {"credit": str(credit)})

    def ack(self, delivery: Delivery, receipt: str, transaction: str = "") -> None:
        headers = {"id": delivery.frame, "receipt": receipt, "transaction": transaction}
        self._write("ACK", headers)

    def nack(self, delivery: Delivery, receipt: str) -> None:
        self._write("NACK", {"id": delivery.frame, "receipt": receipt})

    def begin(self, transaction: str) -> None:
        self._write("BEGIN", {"transaction": transaction})

    def commit(self, transaction: str, receipt: str) -> None:
        self._write("COMMIT", {"transaction": transaction, "receipt": receipt})

    def abort(self, transaction: str, receipt: str) -> None:
        self._write("ABORT", {"transaction": transaction, "receipt": receipt})

    def receive(self, seconds: float) -> Heard | None:
        try:
            frame = self._client.frame(max(seconds, SOON_SECONDS))
        except stomp.Refused as error:
            return Refused(str(error))
        except stomp.StompError as error:
            raise Gone from error
        if frame is None:
            return None
        headers = frame.headers
        if frame.command == "RECEIPT":
            return Receipt(headers.get("receipt-id", ""))
        try:
            body = unpadded(frame.body.decode("utf-8", "replace"))
        finally:
            frame.content.close()
        return Delivery(
            body, int(headers.get("delivery-count", "1")), headers.get("redelivered") == "true",
            headers["destination"], int(headers["message-id"]), headers["ack"],
        )  # fmt: skip

    def cut(self) -> None:
        self._client.__exit__()
