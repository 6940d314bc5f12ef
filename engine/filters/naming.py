"""The meaning of names in filters: properties of the application, and facts about the message.

The names of Artemis (`AMQPriority`), of JMS (`JMSPriority`) and, where a message has no property of
that name, the headers with a standard meaning as STOMP spells them (`priority`). Must never know
the syntax of filters.
"""

from collections.abc import Callable
from typing import Final, TypeAlias

from daybook.engine.filters.comparing import Known
from daybook.engine.messages.content import codec_of
from daybook.engine.messages.conversions import plain_of
from daybook.engine.messages.message import Message

AddressName: TypeAlias = Callable[[int], str | None]
"""The name of an address by its id; None if it does not exist any more."""
Reader: TypeAlias = Callable[[Message], Known]
Fact: TypeAlias = Callable[[Message, AddressName], Known]


def _standard(field: str) -> Fact:
    """Return what the headers say in every format; unknown where they do not."""
    return lambda message, _: plain_of(codec_of(message.flags).said(message.headers, field)) or None


def _durability(durable: str, other: str) -> Fact:
    return lambda message, _: durable if message.persistent else other


_FACTS: Final[dict[tuple[str, ...], Fact]] = {
    ("AMQAddress",): lambda message, name_of: name_of(message.address_id),
    ("AMQUserID", "JMSMessageID"): lambda message, _: f"ID:{message.id}",
    ("AMQPriority", "JMSPriority"): lambda message, _: message.priority,
    ("AMQExpiration", "JMSExpiration"): lambda message, _: message.expires,
    ("AMQDurable",): _durability("DURABLE", "NON_DURABLE"),
    ("JMSDeliveryMode",): _durability("PERSISTENT", "NON_PERSISTENT"),
    ("AMQSize",): lambda message, _: len(message.headers) + message.body_bytes,
    ("AMQTimestamp", "JMSTimestamp"): _standard("timestamp"),
    ("AMQGroupID", "JMSXGroupID", "_AMQ_GROUP_ID"): _standard("group_id"),
    ("JMSType",): _standard("type"),
    ("JMSCorrelationID",): _standard("correlation_id"),
    ("JMSReplyTo",): _standard("reply_to"),
    ("JMSDestination",): _standard("destination"),
}
FACTS: Final = {name: fact for names, fact in _FACTS.items() for name in names}
"""Names that always mean a fact."""

_LATE: Final = frozenset(("AMQAddress", "AMQUserID", "JMSMessageID"))


def is_late(name: str) -> bool:
    """Whether a name means what is known of a message only when it is routed."""
    return name in _LATE


HEADERS: Final[dict[str, Fact]] = {
    "priority": lambda message, _: message.priority,
    "persistent": lambda message, _: message.persistent,
    "expires": lambda message, _: message.expires or None,
    "timestamp": _standard("timestamp"),
    "type": _standard("type"),
    "correlation-id": _standard("correlation_id"),
    "reply-to": _standard("reply_to"),
    "content-type": _standard("content_type"),
    "destination": _standard("destination"),
}
"""Names that mean a fact if the message has no property of that name."""


def reader_of(name: str, name_of: AddressName) -> Reader:
    """Return the function that reads what a name means in a message, None if it has no such
    thing."""
    fact = FACTS.get(name)
    if fact is not None:
        found = fact
        return lambda message: found(message, name_of)
    fact = HEADERS.get(name)
    if fact is None:
        return lambda message: plain_of(codec_of(message.flags).first(message.headers, name))
    otherwise = fact

    def read(message: Message) -> Known:
        value = plain_of(codec_of(message.flags).first(message.headers, name))
        return value if value is not None else otherwise(message, name_of)

    return read
