"""Ears of the judge, one for each protocol: they say in its words all that leaves for a client."""

from typing import NamedTuple, Protocol

from tests.simulation.judges.violation import Violation
from tests.simulation.machine.network import Link
from tests.simulation.peers.ledger import Ledger
from tests.simulation.peers.wire import Frame, FrameReader


class Told(NamedTuple):
    """A message that leaves for a client: its subscription, id and attempt; `text` is for people.

    `bare` is the part of it that AMQP lets nobody change, b"" elsewhere.
    """

    name: str
    message: int
    body: bytes
    attempt: int
    flagged: bool
    text: str
    bare: bytes = b""


class Listener(Protocol):
    """The judge, as ears know it."""

    ledger: Ledger

    def opened(self, link: Link, connection: int) -> None:
        """A peer hears that its connection is open; 0 if its id is not said."""
        ...

    def begun(self, link: Link, name: str, message: int, count: int, *, durable: bool) -> None:
        """The first bytes of a message leave."""
        ...

    def told(self, link: Link, told: Told) -> None:
        """The last bytes of a message leave."""
        ...

    def answered(self, link: Link, key: str) -> None:
        """The broker has done the request with this key."""
        ...

    def parted(self, link: Link, name: str, *, is_stolen: bool) -> None:
        """The broker has detached a link, perhaps since another one took its place."""
        ...

    def kept_out(self, link: Link) -> None:
        """A client hears that another one with its id is there."""
        ...

    def declined(self, link: Link, key: str, duplicate: str) -> None:
        """It was not done; because of a message with this id that is there, unless it is empty."""
        ...


class StompEar:
    """Hears STOMP."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self._reader = FrameReader()

    def hear(self, link: Link, data: bytes) -> None:
        """Bytes leave the broker."""
        for frame in self._reader.feed(data):
            self._frame(link, frame)

    def _frame(self, link: Link, frame: Frame) -> None:
        listener = self._listener
        headers = frame.headers
        if frame.command == "MESSAGE":
            if headers.get("browser") != "end":
                self._message(link, frame)
        elif frame.command == "RECEIPT":
            listener.answered(link, headers["receipt-id"])
        elif frame.command == "CONNECTED":
            listener.opened(link, int(headers["session"]))
        elif frame.command != "ERROR":
            raise Violation("protocol", f"the broker sent {frame}")
        elif headers.get("code", ""):
            listener.declined(link, headers.get("receipt-id", ""), headers["message"])

    def _message(self, link: Link, frame: Frame) -> None:
        headers = frame.headers
        name = headers.get("subscription", "")
        if not name:
            subscriptions = self._listener.ledger.subscriptions
            name = next(key[1] for key in reversed(subscriptions) if key[0] == link.serial)
        told = Told(
            name, int(headers["message-id"]), frame.body,
            int(headers.get("delivery-count", "1")), headers.get("redelivered") == "true",
            str(frame),
        )  # fmt: skip
        self._listener.told(link, told)
