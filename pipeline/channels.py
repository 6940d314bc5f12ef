"""Connections of the publisher: a transaction of messages over STOMP, or over AMQP 1.0.

A refusal of anything in a transaction ends it before its commit. Must never know where messages
come from, or whether they are published again.
"""

from collections.abc import Iterable
from contextlib import suppress
from typing import Final, Protocol, TypeAlias

from daybook.client.amqp.client import AmqpClient, check
from daybook.client.amqp.leaving import Place, leaving_of
from daybook.client.amqp.links import Sender
from daybook.client.bodies import PIECE_BYTES, Content
from daybook.client.endpoint import AMQP, ClientError, Endpoint
from daybook.client.stomp import ANSWER_SECONDS, StompClient, encode

Sendable: TypeAlias = tuple[list[tuple[str, str]], bytes | Content]
"""The headers of a message, the destination first, and its body."""

_TRANSACTION: Final = ("transaction", "daybook-publish")
_HEART_BEAT_MS: Final = 5_000


class Channel(Protocol):
    """A connection. All methods raise ClientError; one with the code of a refusal is final."""

    @property
    def silence(self) -> float:
        """Seconds since the broker last sent anything."""
        ...

    def send(self, messages: Iterable[Sendable]) -> None:
        """Send messages in one transaction, and ask for its commit."""
        ...

    def is_committed(self, seconds: float) -> bool:
        """Return whether the commit is confirmed within `seconds`."""
        ...

    def disconnect(self) -> None:
        """Close the connection, if that can be done."""
        ...

    def drop(self) -> None:
        """Drop the connection; an open transaction is undone."""
        ...


def connected(endpoint: Endpoint, timeout: float = ANSWER_SECONDS) -> Channel:
    """Connect to a broker that answers within `timeout` seconds. Raises ClientError."""
    kind = AmqpChannel if endpoint.protocol == AMQP else StompChannel
    return kind(endpoint, timeout)


class StompChannel:
    """A channel over STOMP."""

    def __init__(self, endpoint: Endpoint, timeout: float) -> None:
        self._client: Final = StompClient(endpoint, timeout=timeout, heart_beat_ms=_HEART_BEAT_MS)
        self._receipt = ""

    @property
    def silence(self) -> float:
        """As `Channel.silence`."""
        return self._client.silence

    def send(self, messages: Iterable[Sendable]) -> None:
        """As `Channel.send`."""
        client = self._client
        unwritten = bytearray(encode("BEGIN", [_TRANSACTION]))
        for head, body in messages:
            lines = [*head, _TRANSACTION]
            if isinstance(body, bytes):
                unwritten += encode("SEND", lines, body)
            else:
                client.send_encoded(bytes(unwritten))
                unwritten.clear()
                client.send_content(lines, body)
            if len(unwritten) >= PIECE_BYTES:
                client.send_encoded(bytes(unwritten))
                unwritten.clear()
        client.send_encoded(bytes(unwritten))
        self._receipt = client.request_receipt("COMMIT", [_TRANSACTION])

    def is_committed(self, seconds: float) -> bool:
        """As `Channel.is_committed`."""
        return self._client.has_receipt(self._receipt, seconds)

    def disconnect(self) -> None:
        """As `Channel.disconnect`."""
        with suppress(ClientError):
            self._client.disconnect()
        self.drop()

    def drop(self) -> None:
        """As `Channel.drop`."""
        self._client.__exit__()


class AmqpChannel:
    """A channel over AMQP 1.0. The commit is asked for when all messages are accepted, because it
    would be carried out without a message that was refused."""

    def __init__(self, endpoint: Endpoint, timeout: float) -> None:
        self._client: Final = AmqpClient(endpoint, timeout=timeout, silence_ms=2 * _HEART_BEAT_MS)
        self._links: Final[dict[Place, Sender]] = {}
        self._commit = 0

    @property
    def silence(self) -> float:
        """As `Channel.silence`."""
        return self._client.silence

    def send(self, messages: Iterable[Sendable]) -> None:
        """As `Channel.send`."""
        client = self._client
        txn_id = client.begin()
        sent = []
        for head, body in messages:
            message = leaving_of(head[0][1], head[1:])
            link = self._links.get(message.place)
            if link is None:
                link = self._links[message.place] = client.sender(message.place)
            sent.append(client.send(link, message, _content(body), txn_id=txn_id))
        for number in sent:
            client.accept(number)
        self._commit = client.end(txn_id)

    def is_committed(self, seconds: float) -> bool:
        """As `Channel.is_committed`."""
        state = self._client.outcome(self._commit, seconds)
        if state is None:
            return False
        check(state, "the transaction")
        return True

    def disconnect(self) -> None:
        """As `Channel.disconnect`."""
        with suppress(ClientError):
            self._client.disconnect()
        self.drop()

    def drop(self) -> None:
        """As `Channel.drop`."""
        self._client.__exit__()


def _content(body: bytes | Content) -> Content:
    if isinstance(body, bytes):
        return Content(len(body), lambda: iter([body]))
    return body
