"""A message that leaves: the meaning of the command line's headers in AMQP 1.0.

The broker's own table of conversions expresses them, so a message is the same whether the client or
the broker converts it. Must never know a link.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

import msgspec

from daybook.client.amqp.failures import AmqpRefused
from daybook.client.bodies import BODY_BYTES_IN_MEMORY, Content
from daybook.engine.facts.definitions import ANYCAST, MULTICAST
from daybook.engine.facts.formats import LINES
from daybook.engine.facts.values import Symbol, Timestamp
from daybook.engine.messages.amqp.sections import COMPOSITES, Header
from daybook.engine.messages.content import View
from daybook.engine.messages.headers import build
from daybook.protocols.amqp.addressing import without_prefix
from daybook.protocols.amqp.leaving import data_head, expressed
from daybook.protocols.amqp.options import AmqpOptions
from daybook.protocols.stomp.wire import synonyms

_PREFIXES: Final = AmqpOptions().prefixes
"""Those that brokers have unless configured otherwise."""
_ELSEWHERE: Final = ("/temp-queue/", "/temp-topic/", "/reply-queue/", "/dsub/", "/exchange/")
_BY_ROUTING_TYPE: Final = {ANYCAST: "queue", MULTICAST: "topic"}
_DELAY: Final = "AMQ_SCHEDULED_DELAY"
_STOMP_ALONE: Final = frozenset(
    (
        "destination", "receipt", "receipt-outcome", "transaction", "content-length", "retain",
        "subscription", "ack", "message-id", "redelivered", "delivery-count", "heart-beat",
        "expiration",
    )
)  # fmt: skip
_BODY_BYTES_MAX: Final = (1 << 32) - 1


class Place(NamedTuple):
    """The meaning of a destination: the address of a link, and its capabilities, which say the
    routing type."""

    destination: str
    address: str
    capabilities: tuple[str, ...]


def place_of(destination: str) -> Place:
    """Return what a destination means: /queue/NAME, /topic/NAME, the same with queue:// and
    topic://, NAME or ADDRESS::QUEUE. Raises AmqpRefused for those that only STOMP has."""
    address, routing_type = without_prefix(destination, _PREFIXES)
    if routing_type is not None:
        return Place(destination, address, (_BY_ROUTING_TYPE[routing_type],))
    if destination.startswith(_ELSEWHERE):
        raise AmqpRefused(
            f"{destination}: AMQP has no such destinations; name /queue/NAME, /topic/NAME or"
            " ADDRESS::QUEUE, or use a URL with stomp://"
        )
    return Place(destination, destination, ())


class Leaving(msgspec.Struct, frozen=True):
    """A message to send, without its body.

    `ttl` is in milliseconds, `expires`, `due` in milliseconds since 1970, `delay` in milliseconds
    from its arrival; 0 for none. `lines` are the headers that travel with it.
    """

    place: Place
    lines: tuple[tuple[str, str], ...] = ()
    priority: int = 4
    persistent: bool = True
    ttl: int = 0
    expires: int = 0
    delay: int = 0
    due: int = 0

    def encoded(self, content: Content) -> Content:
        """Return the sections of the message, with its body. Raises AmqpRefused."""
        header = Header(durable=self.persistent, priority=self.priority, ttl=self.ttl or None)
        noted: dict[Any, Any] = {}
        if self.delay:
            noted[Symbol("x-opt-delivery-delay")] = self.delay
        if self.due:
            noted[Symbol("x-opt-delivery-time")] = Timestamp(self.due)
        front, lines = COMPOSITES.encoded(header), build(self.lines)
        if content.size <= BODY_BYTES_IN_MEMORY:
            body = b"".join(content.pieces())
            if len(body) == content.size:
                parts = expressed(View(LINES, lines, body=body), noted, self.expires)
                whole = b"".join((front, *parts))
                return Content(len(whole), lambda: iter([whole]))
        if content.size > _BODY_BYTES_MAX:
            raise AmqpRefused("a body of 4 GiB or more cannot be sent over AMQP")
        head = front + data_head(View(LINES, lines), content.size, noted, self.expires)

        def pieces() -> Iterator[bytes]:
            yield head
            yield from content.pieces()

        return Content(len(head) + content.size, pieces)


def leaving_of(destination: str, headers: Iterable[tuple[str, str]]) -> Leaving:
    """Return the message that headers describe. Raises AmqpRefused for those that AMQP cannot
    say."""
    place = place_of(destination)
    known: dict[str, Any] = {}
    lines = [("destination", place.address)]
    for name, value in headers:
        if name in _STOMP_ALONE:
            raise AmqpRefused(
                f"the header {name} is one of STOMP alone; leave it out, or use a URL with stomp://"
            )
        if name in ("priority", "ttl", "expires") or name == _DELAY:
            known["delay" if name == _DELAY else name] = _number(name, value)
        elif name in synonyms.DELIVERY_TIME.names:
            known["due"] = _number(name, value)
        elif name == "persistent":
            known["persistent"] = value == "true"
        elif name in ("destination-type", synonyms.ROUTING_TYPE):
            place = Place(destination, place.address, _capabilities_of(name, value))
        elif name == "reply-to":
            lines.append((name, place_of(value).address))
        else:
            lines.append((name, value))
    return Leaving(place, tuple(lines), **known)


def _capabilities_of(name: str, value: str) -> tuple[str, ...]:
    capability = _BY_ROUTING_TYPE.get(value.lower())
    if capability is None:
        raise AmqpRefused(f"the header {name} is ANYCAST or MULTICAST, not '{value}'")
    return (capability,)


def _number(name: str, value: str) -> int:
    if not (value.isascii() and value.isdigit() and len(value) < 19):
        raise AmqpRefused(f"the header {name} must be a whole number, not '{value}'")
    return int(value)
