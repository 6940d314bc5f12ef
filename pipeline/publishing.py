"""Publishes into a broker exactly once, with transactions that can be retried.

A chunk of messages is one transaction, and one message to each destination has a duplicate id made
of the chunk's id. After a broken connection it is unknown whether the COMMIT succeeded; the same
chunk is sent again, and the broker either commits it or reports a duplicate (ADR 15). In both cases
it is there once. This requires two things: an id always stands for the same messages, and the
addresses remember it (`id-cache-size`) until the retry.

Fault model: the broker may refuse, may block the sender because an address is full, and may
disappear at any moment and come back. Must never know where messages come from.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, Literal
from uuid import uuid4

import msgspec

from daybook.client.amqp.failures import AmqpRefused
from daybook.client.bodies import Content
from daybook.client.endpoint import ClientError, Endpoint
from daybook.client.stomp import Refused
from daybook.errors import DaybookError
from daybook.pipeline.channels import Channel, Sendable, connected

ROWS_MAX: Final = 200
"""Messages of a transaction: with 64 subscriptions to their topic they are as many as the broker's
`max-transaction-entries` allows by default."""
BYTES_MAX: Final = 8 << 20
"""Maximum size of a transaction, far below the broker's default `max-transaction-bytes`."""
OVERHEAD_BYTES: Final = 256
"""The weight of a message without headers and body."""
TIMEOUT_SECONDS: Final = 300.0
DEFAULT_PRIORITY: Final = 4
DUPLICATE: Final = "duplicate-id"
DUPLICATE_ID: Final = "_AMQ_DUPL_ID"
RESERVED: Final = frozenset(
    {
        "destination", "destination-type", "priority", "persistent", "expires", "content-length",
        "receipt", "transaction", "message-id", "subscription", "ack", "redelivered",
        "delivery-count", "ttl", "heart-beat", DUPLICATE_ID,
    }
)  # fmt: skip
"""Headers with a meaning for the broker: they are not copied to a published message."""
ROUTING_TYPES: Final = ("", "anycast", "multicast")

_FORCED: Final = "amqp:connection:forced"
"""A broker over AMQP that stops says it; another attempt may find it again."""
_SILENCE_SECONDS: Final = 20.0
_WAIT_SECONDS: Final = 5.0
_BACKOFF_SECONDS: Final = 0.1
_BACKOFF_SECONDS_MAX: Final = 5.0
_PROBE_SECONDS: Final = 5.0

Told = Callable[[str], None]
RoutingType = Literal["", "anycast", "multicast"]


class PublishError(DaybookError):
    """The broker refused, or could not be reached in time; the text says which and why."""


class Message(msgspec.Struct, frozen=True):
    """A message to publish; `expires` is in milliseconds since 1970 UTC, 0 for never.

    `key` is not sent; it identifies the message for the sender.
    """

    destination: str
    body: bytes | Content
    headers: tuple[tuple[str, str], ...] = ()
    priority: int = DEFAULT_PRIORITY
    persistent: bool = True
    expires: int = 0
    routing_type: RoutingType = ""
    key: str = ""

    @property
    def weight(self) -> int:
        """About how many bytes the message adds to a transaction."""
        headers = sum(len(name) + len(value) + 2 for name, value in self.headers)
        return self.body_bytes + headers + OVERHEAD_BYTES

    @property
    def body_bytes(self) -> int:
        """Length of the body."""
        return len(self.body) if isinstance(self.body, bytes) else self.body.size

    def lines(self) -> list[tuple[str, str]]:
        """Return the headers of its SEND. Raises PublishError for a header that cannot be sent."""
        lines = [("destination", self.destination)]
        if self.routing_type:
            lines.append(("destination-type", self.routing_type.upper()))
        lines.append(("persistent", "true" if self.persistent else "false"))
        lines.append(("priority", str(self.priority)))
        if self.expires:
            lines.append(("expires", str(self.expires)))
        lines += [pair for pair in self.headers if pair[0] not in RESERVED]
        for name, value in lines:
            if not name or "\0" in name or "\0" in value:
                raise PublishError(
                    f"a message to {self.destination!r} has a header {name!r} that cannot be "
                    "sent: a header needs a name, and neither name nor value may contain NUL"
                )
        return lines


def cut(
    messages: Iterable[Message], *, rows_max: int = ROWS_MAX, bytes_max: int = BYTES_MAX
) -> Iterator[list[Message]]:
    """Divide messages into chunks; the same messages always give the same chunks."""
    chunk: list[Message] = []
    size = 0
    for message in messages:
        weight = message.weight
        if chunk and (len(chunk) >= rows_max or size + weight > bytes_max):
            yield chunk
            chunk, size = [], 0
        chunk.append(message)
        size += weight
    if chunk:
        yield chunk


class Publisher:
    """Publishes chunks over a connection; reconnects whenever it breaks.

    Used by one thread; a context manager.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        rate: float = 0.0,
        timeout: float = TIMEOUT_SECONDS,
        told: Told = lambda text: None,
    ) -> None:
        """`rate` is messages a second, 0 for no limit.

        `timeout` is how many seconds a chunk may take while the broker is unreachable or blocks the
        sender. `told` is called with a sentence when it takes long.
        """
        self.endpoint: Final = endpoint
        self._rate: Final = rate
        self._timeout: Final = timeout
        self._told: Final = told
        self._channel: Channel | None = None
        self._free_at = 0.0

    def __enter__(self) -> "Publisher":
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()

    def connect(self) -> None:
        """Connect now, without retries. Raises PublishError."""
        try:
            self._connected()
        except ClientError as error:
            raise PublishError(str(error)) from error

    def publish(self, chunk: str, messages: Sequence[Message]) -> bool:
        """Publish a chunk once; return True if it was committed now, False if it already was.

        `chunk` is its id, which must never stand for other messages. After a PublishError it is
        unknown whether the chunk was committed; it can be published again.
        """
        assert messages, "a chunk has messages"
        self._pace(len(messages))
        give_up = time.monotonic() + self._timeout
        delay = _BACKOFF_SECONDS
        while True:
            try:
                return self._attempt(chunk, messages, give_up)
            except ClientError as error:
                self._drop()
                if error.code == DUPLICATE:
                    return False
                if is_final(error):
                    raise PublishError(f"{self.endpoint} refused: {error}") from error
                if time.monotonic() + delay > give_up:
                    raise PublishError(f"{error} (tried for {self._timeout:.0f} s)") from error
                if delay == _BACKOFF_SECONDS:
                    self._told(f"{error}; retrying")
                time.sleep(delay)
                delay = min(2 * delay, _BACKOFF_SECONDS_MAX)

    def close(self) -> None:
        """Disconnect; everything published is already confirmed."""
        if self._channel is not None:
            self._channel.disconnect()
            self._channel = None

    def _pace(self, count: int) -> None:
        """Wait until the rate allows `count` more messages."""
        if self._rate:
            now = time.monotonic()
            if self._free_at > now:
                time.sleep(self._free_at - now)
            self._free_at = max(self._free_at, now) + count / self._rate

    def _connected(self) -> Channel:
        if self._channel is None:
            self._channel = connected(self.endpoint)
        return self._channel

    def _drop(self) -> None:
        if self._channel is not None:
            self._channel.drop()
            self._channel = None

    def _attempt(self, chunk: str, messages: Sequence[Message], give_up: float) -> bool:
        channel = self._connected()
        channel.send(_numbered(chunk, messages))
        self._wait_for(channel, messages, give_up)
        return True

    def _wait_for(self, channel: Channel, messages: Sequence[Message], give_up: float) -> None:
        """Wait for a commit as long as the broker answers, and report long waits."""
        begun, silent_for = time.monotonic(), _WAIT_SECONDS
        while not channel.is_committed(_WAIT_SECONDS):
            if channel.silence > _SILENCE_SECONDS:
                raise ClientError(f"{self.endpoint} has sent nothing for {channel.silence:.0f} s")
            waited = time.monotonic() - begun
            sentence = (
                f"{self.endpoint} has not committed {len(messages):,} messages for {waited:.0f} "
                f"s: perhaps {messages[0].destination!r} is full and the broker blocks the sender"
            )
            if time.monotonic() > give_up:
                self._drop()
                raise PublishError(f"{sentence}; gave up")
            if waited >= silent_for:
                self._told(sentence)
                silent_for *= 2


def is_final(error: ClientError) -> bool:
    """Whether an error is a refusal that another attempt would meet again."""
    if isinstance(error, AmqpRefused):
        return error.condition != _FORCED
    return isinstance(error, Refused)


def _numbered(chunk: str, messages: Sequence[Message]) -> Iterator[Sendable]:
    """Yield headers and bodies, some with a duplicate id."""
    carriers = _carriers(messages)
    for position, message in enumerate(messages):
        head = message.lines()
        number = carriers.get(position)
        if number is not None:
            head.append((DUPLICATE_ID, f"{chunk}/{number}" if number else chunk))
        yield head, message.body


def _carriers(messages: Sequence[Message]) -> dict[int, int]:
    """Return the positions of the messages that get an id, one to each destination, with numbers.

    One id alone is not enough: one address may not remember ids, while another does.
    """
    chosen: dict[tuple[str, str], int] = {}
    for position, message in enumerate(messages):
        chosen.setdefault((message.destination, message.routing_type), position)
    return {position: number for number, position in enumerate(chosen.values())}


def remembers_ids(
    endpoint: Endpoint, destination: str, routing_type: RoutingType = ""
) -> bool | None:
    """Return whether an address detects duplicates, None if unknown. Raises ClientError.

    This has no effect: the probing transaction can never be committed, because one queue would be
    on two addresses. An address that remembers ids refuses it earlier, because two messages have
    the same id; the name in the refusal shows which of the two reasons it was.
    """
    name = f"daybook-probe-{uuid4().hex}"
    twice, queue = f"{name}-id", f"{name}-queue"
    asked = Message(destination, b"", routing_type=routing_type).lines()
    asked.append((DUPLICATE_ID, twice))
    probe: list[Sendable] = [(asked, b""), (asked, b"")]
    probe += [([("destination", f"{name}-{each}::{queue}")], b"") for each in ("1", "2")]
    channel = connected(endpoint, _PROBE_SECONDS)
    try:
        channel.send(probe)
        channel.is_committed(_PROBE_SECONDS)
    except (Refused, AmqpRefused) as refusal:
        if isinstance(refusal, Refused) and not refusal.receipt:
            return None
        return True if twice in str(refusal) else False if queue in str(refusal) else None
    finally:
        channel.drop()
    return None


def check_remembers(endpoint: Endpoint, destination: str) -> None:
    """Raise PublishError if an address does not detect duplicates, or without a broker."""
    try:
        answer = remembers_ids(endpoint, destination)
    except ClientError as error:
        raise PublishError(str(error)) from error
    if answer is False:
        raise forgets(endpoint, destination)


def forgets(endpoint: Endpoint, destination: str) -> PublishError:
    """Return the error for an address that does not detect duplicates."""
    return PublishError(
        f"{destination!r} at {endpoint} does not detect duplicates, so nothing can be published "
        "there exactly once: set id-cache-size in its [[address-setting]] above 0"
    )
