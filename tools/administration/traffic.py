"""How `daybook send` and `daybook receive` speak to a broker: by STOMP or by AMQP 1.0.

Both say the same: a send is done when the broker has the messages, and an answer to a message
before the end is there when the broker ends. Must never know options or what is printed.
"""

from collections.abc import Iterable
from types import TracebackType
from typing import Final, Literal, NamedTuple, Protocol, TypeAlias

from daybook.client.amqp.arriving import Arrived
from daybook.client.amqp.client import ANSWER_SECONDS, AmqpClient
from daybook.client.amqp.leaving import leaving_of, place_of
from daybook.client.bodies import Content, Received
from daybook.client.endpoint import AMQP, Endpoint
from daybook.client.stomp import StompClient, encode
from daybook.protocols.amqp.wire.termini import Accepted, Modified

WINDOW: Final = 1000
"""How many sends may wait for their receipts."""

TRANSACTION: Final = "daybook-send"
CONTAINER: Final = "daybook"
"""The container id of durable subscriptions over AMQP."""

Ack: TypeAlias = Literal["auto", "client", "client-individual"]
Headers: TypeAlias = Iterable[tuple[str, str]]


class Shown(NamedTuple):
    """A message to show, and what its answer needs."""

    headers: dict[str, str]
    content: Received
    answered_by: str | Arrived


class Traffic(Protocol):
    """A connection for one command; a context manager. All methods raise ClientError."""

    def __enter__(self) -> "Traffic": ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...

    def send(
        self,
        destination: str,
        headers: Headers,
        content: Content,
        count: int,
        *,
        in_transaction: bool,
    ) -> list[dict[str, str]]:
        """Send so many copies, and wait until the broker has them; return the outcomes that it
        reports, which may be none. The connection is closed."""
        ...

    def subscribe(self, destination: str, ack: Ack, wanted: int | None) -> None:
        """Subscribe, to so many messages or to all."""
        ...

    def next(self, timeout: float | None) -> Shown | None:
        """Return the next message, None after `timeout` seconds."""
        ...

    def answer(self, shown: Shown, *, rejects: bool, is_last: bool) -> None:
        """Acknowledge a message, or reject it as a failed attempt."""
        ...

    def end(self) -> None:
        """Close the connection; the broker then has all answers."""
        ...


def connected(
    endpoint: Endpoint, *, durable: str | None = None, timeout: float = ANSWER_SECONDS
) -> Traffic:
    """Connect, for the durable subscription of a name or for none, to a broker that has to give
    each answer within `timeout` seconds. Raises ClientError."""
    if endpoint.protocol == AMQP:
        return AmqpTraffic(endpoint, durable, timeout)
    return StompTraffic(endpoint, durable, timeout)


class StompTraffic:
    """The traffic over STOMP."""

    def __init__(
        self, endpoint: Endpoint, durable: str | None, timeout: float = ANSWER_SECONDS
    ) -> None:
        self._durable: Final = durable
        self._client: Final = StompClient(endpoint, timeout=timeout)
        self._last = b""

    def __enter__(self) -> "StompTraffic":
        return self

    def __exit__(self, *failure: object) -> None:
        self._client.__exit__()

    def send(
        self,
        destination: str,
        headers: Headers,
        content: Content,
        count: int,
        *,
        in_transaction: bool,
    ) -> list[dict[str, str]]:
        """As `Traffic.send`; receipts say the outcomes, but not in a transaction."""
        client = self._client
        lines = [("destination", destination), *headers]
        if in_transaction:
            transaction = ("transaction", TRANSACTION)
            client.send("BEGIN", [transaction])
            for _ in range(count):
                client.send_content([*lines, transaction], content)
            client.wait_for(client.request_receipt("COMMIT", [transaction]))
            client.disconnect()
            return []
        receipts = []
        lines.append(("receipt-outcome", "true"))
        for number in range(count):
            receipts.append(client.send_with_receipt(lines, content))
            if number >= WINDOW:
                client.wait_for(receipts[number - WINDOW])
        for receipt in receipts[-WINDOW:]:
            client.wait_for(receipt)
        client.disconnect()
        return [client.outcomes[receipt] for receipt in receipts if receipt in client.outcomes]

    def subscribe(self, destination: str, ack: Ack, wanted: int | None) -> None:
        """As `Traffic.subscribe`."""
        subscription = self._durable or "daybook-receive"
        headers = [("destination", destination), ("id", subscription), ("ack", ack)]
        if self._durable is not None:
            headers.append(("persistent", "true"))
        if wanted is not None:
            headers.append(("credit", f"{wanted},0"))
        self._client.wait_for(self._client.request_receipt("SUBSCRIBE", headers))

    def next(self, timeout: float | None) -> Shown | None:
        """As `Traffic.next`."""
        frame = self._client.message(timeout)
        if frame is None:
            return None
        return Shown(frame.headers, frame.content, frame.headers.get("ack", ""))

    def answer(self, shown: Shown, *, rejects: bool, is_last: bool) -> None:
        """As `Traffic.answer`."""
        assert isinstance(shown.answered_by, str)
        frame = encode("NACK" if rejects else "ACK", [("id", shown.answered_by)])
        # An answer makes room for one more message, and no code waits for that one.
        if is_last:
            self._last = frame
        else:
            self._client.send_encoded(frame)

    def end(self) -> None:
        """As `Traffic.end`."""
        self._client.disconnect(self._last)


class AmqpTraffic:
    """The traffic over AMQP 1.0."""

    def __init__(
        self, endpoint: Endpoint, durable: str | None, timeout: float = ANSWER_SECONDS
    ) -> None:
        self._durable: Final = durable
        self._client: Final = AmqpClient(
            endpoint, timeout=timeout, container=CONTAINER if durable else ""
        )
        self._unconfirmed: Final[list[int]] = []

    def __enter__(self) -> "AmqpTraffic":
        return self

    def __exit__(self, *failure: object) -> None:
        self._client.__exit__()

    def send(
        self,
        destination: str,
        headers: Headers,
        content: Content,
        count: int,
        *,
        in_transaction: bool,
    ) -> list[dict[str, str]]:
        """As `Traffic.send`; AMQP names no queues. In a transaction it says no outcomes."""
        client = self._client
        message = leaving_of(destination, headers)
        link = client.sender(message.place, tells_drops=not in_transaction)
        txn_id = client.begin() if in_transaction else b""
        sent: list[int] = []
        reasons: list[str] = []
        for number in range(count):
            sent.append(client.send(link, message, content, txn_id=txn_id))
            if number >= WINDOW:
                reasons.append(client.routed(sent[number - WINDOW]))
        reasons += [client.routed(delivery) for delivery in sent[-WINDOW:]]
        if txn_id:
            client.commit(txn_id)
        client.disconnect()
        if not link.tells_drops:
            return []
        return [{"dropped": reason} if reason else {} for reason in reasons]

    def subscribe(self, destination: str, ack: Ack, wanted: int | None) -> None:
        """As `Traffic.subscribe`."""
        self._client.receiver(
            place_of(destination), wanted=wanted, is_settled=ack == "auto",
            durable=self._durable or "",
        )  # fmt: skip

    def next(self, timeout: float | None) -> Shown | None:
        """As `Traffic.next`."""
        found = self._client.message(timeout)
        if found is None:
            return None
        message = found[1]
        return Shown(message.headers, message.content, message)

    def answer(self, shown: Shown, *, rejects: bool, is_last: bool) -> None:
        """As `Traffic.answer`."""
        assert isinstance(shown.answered_by, Arrived)
        state = Modified(delivery_failed=True) if rejects else Accepted()
        self._client.settle(shown.answered_by, state)
        self._unconfirmed.append(shown.answered_by.delivery)
        if len(self._unconfirmed) > WINDOW:
            self._client.confirm(self._unconfirmed.pop(0))

    def end(self) -> None:
        """As `Traffic.end`."""
        for delivery in self._unconfirmed:
            self._client.confirm(delivery)
        self._client.disconnect()
