"""The sections of a message (part 3, section 3.2): one table, and the fields of the two lists.

Must never know what a queue or a link does with a message.
"""

from typing import Final, NamedTuple

import msgspec

from daybook.engine.messages.amqp.composites import Composites, composite
from daybook.engine.messages.amqp.kinds import (
    Address,
    Binary,
    Boolean,
    MessageId,
    Milliseconds,
    Moment,
    Name,
    String,
    UByte,
    UInt,
)


class Header(msgspec.Struct, frozen=True):
    """The wishes of a sender for the transfer of a message."""

    durable: Boolean = False
    priority: UByte = 4
    ttl: Milliseconds | None = None
    first_acquirer: Boolean = False
    delivery_count: UInt = 0


class Properties(msgspec.Struct, frozen=True):
    """The standard properties of a message, which nobody changes."""

    message_id: MessageId | None = None
    user_id: Binary | None = None
    to: Address | None = None
    subject: String | None = None
    reply_to: Address | None = None
    correlation_id: MessageId | None = None
    content_type: Name | None = None
    content_encoding: Name | None = None
    absolute_expiry_time: Moment | None = None
    creation_time: Moment | None = None
    group_id: String | None = None
    group_sequence: UInt | None = None
    reply_to_group_id: String | None = None


HEADER: Final = 0x70
DELIVERY_ANNOTATIONS: Final = 0x71
MESSAGE_ANNOTATIONS: Final = 0x72
PROPERTIES: Final = 0x73
APPLICATION_PROPERTIES: Final = 0x74
DATA: Final = 0x75
SEQUENCE: Final = 0x76
VALUE: Final = 0x77
FOOTER: Final = 0x78


class Section(NamedTuple):
    """A kind of section: the number of its descriptor, its name, and the type of its value."""

    code: int
    name: str
    type: str
    may_repeat: bool = False


SECTIONS: Final = (
    Section(HEADER, "header", "list"),
    Section(DELIVERY_ANNOTATIONS, "delivery-annotations", "map"),
    Section(MESSAGE_ANNOTATIONS, "message-annotations", "map"),
    Section(PROPERTIES, "properties", "list"),
    Section(APPLICATION_PROPERTIES, "application-properties", "map"),
    Section(DATA, "data", "binary", may_repeat=True),
    Section(SEQUENCE, "amqp-sequence", "list", may_repeat=True),
    Section(VALUE, "amqp-value", "*"),
    Section(FOOTER, "footer", "map"),
)
"""The sections in their order; a message has at most one of the three kinds of bodies."""

COMPOSITES: Final = Composites(
    (
        composite("header", HEADER, Header, "section"),
        composite("properties", PROPERTIES, Properties, "section"),
    )
)
