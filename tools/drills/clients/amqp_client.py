"""The client of a drill's workload over AMQP 1.0, by the client of this package.

Its words are those of STOMP: a receipt is the outcome `accepted` of a message, the broker's
settlement of an answer, or the end of a transaction. Must never know the broker's insides.
"""

from collections import deque
from typing import Final

from daybook.client.amqp.arriving import Arrived
from daybook.client.amqp.client import AmqpClient, check
from daybook.client.amqp.failures import AmqpClientError, AmqpRefused
from daybook.client.amqp.leaving import Leaving, place_of
from daybook.client.amqp.links import Sender
from daybook.client.bodies import Content
from daybook.client.endpoint import AMQP, Endpoint
from daybook.protocols.amqp.wire.termini import Accepted, Modified
from daybook.tools.drills.clients.client import (
    LOGIN,
    SOON_SECONDS,
    THIS_MACHINE,
    Delivery,
    Gone,
    Heard,
    Receipt,
    Refused,
    unpadded,
)

TIMEOUT_SECONDS: Final = 120.0
"""As long as a broker may be slow, or its disk full; a broker that dies ends the connection."""


class AmqpDrillClient:
    """The client. The end of the connection, or of a link, is answered with Gone."""

    keeps_what_was_undone: Final = False

    def __init__(
        self, port: int, host: str = THIS_MACHINE, *, timeout: float = TIMEOUT_SECONDS
    ) -> None:
        """Connect as guest to a port; raises Gone."""
        try:
            endpoint = Endpoint(host, port, LOGIN, LOGIN, protocol=AMQP)
            self._client: Final = AmqpClient(endpoint, timeout=timeout)
        except AmqpClientError as error:
            raise Gone from error
        self._senders: Final[dict[str, Sender]] = {}
        self._transactions: Final[dict[str, bytes]] = {}
        # Messages of transactions that are open.
        self._posted: Final[dict[str, list[int]]] = {}
        # Receipts by the numbers of the deliveries that were sent, and that were answered.
        self._sent: Final[dict[int, str]] = {}
        self._answered: Final[dict[int, str]] = {}
        self._undone: Final[set[int]] = set()
        self._heard: Final[deque[Heard]] = deque()

    def send(self, destination: str, body: str, receipt: str = "", transaction: str = "") -> None:
        data = body.encode()
        message = Leaving(place_of(destination))
        txn_id = self._transactions[transaction] if transaction else b""
        try:
            link = self._senders.get(destination)
            if link is None:
                link = self._senders[destination] = self._client.sender(message.place)
            content = Content(len(data), lambda: iter([data]))
            number = self._client.send(link, message, content, txn_id=txn_id)
        except AmqpClientError as error:
            raise Gone from error
        if transaction:
            self._posted.setdefault(transaction, []).append(number)
        self._sent[number] = receipt

    def subscribe(self, destination: str, id: str, credit: int) -> None:
        try:
            self._client.receiver(place_of(destination), window=credit)
        except AmqpClientError as error:
            raise Gone from error

    def ack(self, delivery: Delivery, receipt: str, transaction: str = "") -> None:
        message: Arrived = delivery.frame
        self._answered[message.delivery] = receipt
        txn_id = self._transactions[transaction] if transaction else b""
        self._client.settle(message, Accepted(), txn_id=txn_id)

    def nack(self, delivery: Delivery, receipt: str) -> None:
        message: Arrived = delivery.frame
        self._answered[message.delivery] = receipt
        self._client.settle(message, Modified(delivery_failed=True))

    def begin(self, transaction: str) -> None:
        try:
            self._transactions[transaction] = self._client.begin()
        except AmqpClientError as error:
            raise Gone from error

    def commit(self, transaction: str, receipt: str) -> None:
        self._end(transaction, receipt, fails=False)

    def abort(self, transaction: str, receipt: str) -> None:
        self._end(transaction, receipt, fails=True)

    def _end(self, transaction: str, receipt: str, *, fails: bool) -> None:
        try:
            number = self._client.end(self._transactions.pop(transaction), fails=fails)
        except AmqpClientError as error:
            raise Gone from error
        posted = self._posted.pop(transaction, [])
        if fails:
            # What becomes of messages that are undone does not matter.
            self._undone.update(posted)
        self._sent[number] = receipt

    def receive(self, seconds: float) -> Heard | None:
        self._collect()
        if not self._heard:
            try:
                self._client.poll(max(seconds, SOON_SECONDS))
            except AmqpClientError as error:
                raise Gone from error
            self._collect()
        return self._heard.popleft() if self._heard else None

    def _collect(self) -> None:
        """Put everything that has arrived into words."""
        for number, state in self._client.take_outcomes():
            receipt = self._sent.pop(number, "")
            if number in self._undone:
                self._undone.discard(number)
                continue
            try:
                check(state, f"{receipt or 'a message in a transaction'} was refused")
            except AmqpRefused as error:
                self._heard.append(Refused(str(error)))
                continue
            if receipt:
                self._heard.append(Receipt(receipt))
        for number in self._client.take_confirmed():
            receipt = self._answered.pop(number, "")
            if receipt:
                self._heard.append(Receipt(receipt))
        while (message := self._client.take_message()) is not None:
            self._heard.append(_delivery(message))

    def cut(self) -> None:
        self._client.__exit__()


def _delivery(message: Arrived) -> Delivery:
    """Return a message in the words of a drill.

    AMQP does not name the broker's number of a message, so its place is that among the messages of
    its producer, or of its transaction: links are in no order among each other, so later messages
    may overtake a commit that waits.
    """
    try:
        body = unpadded(message.body.decode("utf-8", "replace"))
    finally:
        message.content.close()
    if ">" in body:
        # Forwarded messages are in the order in which they were taken.
        producer, place = body, 1
    else:
        producer, separator, serial = body.rstrip("!").rpartition(".")
        if not separator:
            producer, _, serial = serial.rpartition("-")
        place = int(serial) + 1
    return Delivery(
        body, message.attempt, message.is_redelivered, message.headers["destination"],
        place, message, producer,
    )  # fmt: skip
