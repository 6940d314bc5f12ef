"""How a delivery leaves: the header of its transfer, and the message as it came; or, of another
format, as the table of conversions says it.

Must never know a link.
"""

from contextlib import suppress
from typing import Any, Final

from daybook.engine.effects import REDELIVERED
from daybook.engine.facts.definitions import ANYCAST, MULTICAST
from daybook.engine.facts.events import FORMAT, PERSISTENT
from daybook.engine.facts.own_headers import ANNOTATIONS
from daybook.engine.facts.values import Symbol
from daybook.engine.messages.amqp.content_codec import AMQP, annotated, leaving
from daybook.engine.messages.amqp.sections import (
    APPLICATION_PROPERTIES,
    COMPOSITES,
    DATA,
    MESSAGE_ANNOTATIONS,
    VALUE,
    Header,
    Properties,
)
from daybook.engine.messages.amqp.writer import encoded, map_of_items, of_type, section_of
from daybook.engine.messages.annotations import Annotations, unpacked
from daybook.engine.messages.content import View, view_of
from daybook.engine.messages.conversions import text_of
from daybook.protocols.amqp.addressing import Prefixes, without_prefix
from daybook.protocols.port import DeliveredMessage

_US_PER_MS: Final = 1000
_UINT_MAX: Final = 0xFFFF_FFFF
_JMS_TYPE: Final = encoded(Symbol("x-opt-jms-msg-type"))
_JMS_TO: Final = encoded(Symbol("x-opt-jms-dest"))
_JMS_REPLY_TO: Final = encoded(Symbol("x-opt-jms-reply-to"))
_JMS_KINDS: Final = {ANYCAST: of_type("byte", 0), MULTICAST: of_type("byte", 1)}
_TEXT: Final = of_type("byte", 5)
_BYTES: Final = of_type("byte", 3)
_FRONTS_MAX: Final = 256
_NONE: Final[Annotations] = {}

_fronts: Final[dict[int, bytes]] = {}
"""Headers of transfers without a time to live, encoded: by what they say."""


def front_of(message: DeliveredMessage, count: int, marks: int, now: int) -> bytes:
    """Return the header section of the count-th attempt to deliver a message."""
    is_durable = message.flags & PERSISTENT > 0
    is_again = marks & REDELIVERED > 0
    key = count << 8 | message.priority << 2 | is_durable << 1 | is_again
    if not message.expires:
        known = _fronts.get(key)
        if known is not None:
            return known
    ttl = min(max(message.expires - now // _US_PER_MS, 0), _UINT_MAX) if message.expires else None
    header = Header(
        durable=is_durable, priority=message.priority, ttl=ttl,
        first_acquirer=not is_again, delivery_count=count - 1,
    )  # fmt: skip
    front = COMPOSITES.encoded(header)
    if ttl is None and len(_fronts) < _FRONTS_MAX:
        _fronts[key] = front
    return front


def is_as_it_came(message: DeliveredMessage) -> bool:
    """Whether a message has only headers of this format and a body in memory: these leave so."""
    return message.flags & FORMAT == AMQP and not (message.chunks or message.annotations)


def parts_of(
    message: DeliveredMessage, front: bytes, prefixes: Prefixes, added: Annotations = _NONE
) -> list[bytes]:
    """Return a message behind the header of its transfer; of a large one what is in front of its
    body. In messages of other formats addresses may have these prefixes. Annotations are `added` to
    those that it has. Raises Malformed."""
    if message.flags & FORMAT == AMQP and not (message.annotations or added):
        return leaving(message.headers, message.body, front)
    noted = {**unpacked(message.annotations), **added}
    if message.flags & FORMAT == AMQP:
        return leaving(annotated(message.headers, noted), message.body, front)
    view = view_of(message)
    if message.chunks:
        return [front, data_head(view, message.body_bytes, noted, prefixes=prefixes)]
    return [front, *expressed(view, noted, prefixes=prefixes)]


def data_head(
    view: View, size: int, noted: Annotations, expires: int = 0, prefixes: Prefixes = ()
) -> bytes:
    """Return the sections of a message of another format up to its body, which is data of this
    size. `expires` is in milliseconds since 1970, 0 for what the transfer's header says."""
    head = _head_of(view, _BYTES, noted, expires, prefixes)
    return b"".join((*head, b"\0\x53\x75\xb0", size.to_bytes(4, "big")))


def expressed(
    view: View, noted: Annotations, expires: int = 0, prefixes: Prefixes = ()
) -> list[bytes]:
    """Return the sections of a message of another format."""
    body = view.body
    if isinstance(body, bytes) and _is_text(view):
        with suppress(UnicodeDecodeError):
            body = body if b"\0" in body else body.decode()
    if isinstance(body, bytes):
        head = _head_of(view, _BYTES, noted, expires, prefixes)
        return [*head, section_of(DATA, encoded(body))]
    jms_type = _TEXT if isinstance(body, str) else b""
    head = _head_of(view, jms_type, noted, expires, prefixes)
    return [*head, section_of(VALUE, encoded(body))]


def _is_text(view: View) -> bool:
    """Whether the sender says that the body is text; without a type it is, if it can be:
    UTF-8 without NUL."""
    content_type = view.standard.content_type
    return not content_type or content_type.startswith("text/")


def _head_of(
    view: View, jms_type: bytes, noted: Annotations, expires: int, prefixes: Prefixes
) -> list[bytes]:
    """Return the sections in front of the body."""
    found = view.standard
    to, to_type = without_prefix(found.destination, prefixes)
    reply_to, reply_type = without_prefix(found.reply_to, prefixes)
    properties: dict[str, Any] = {
        "message_id": found.message_id or view.message_id,
        "user_id": found.user_id, "to": to, "subject": found.type,
        "reply_to": reply_to, "correlation_id": found.correlation_id,
        "content_type": found.content_type, "content_encoding": found.content_encoding,
        "absolute_expiry_time": expires, "creation_time": found.timestamp,
        "group_id": found.group_id, "group_sequence": found.group_sequence,
        "reply_to_group_id": found.reply_to_group_id,
    }  # fmt: skip
    standard = Properties(**{name: each for name, each in properties.items() if each})
    items: list[bytes] = []
    own: list[bytes] = []
    for name, value in view.properties.items():
        said = value if isinstance(value, bool | int | float) else text_of(value)
        if name in ANNOTATIONS:
            own += (encoded(Symbol(ANNOTATIONS[name])), encoded(said))
        else:
            items += (encoded(name), encoded(said))
    annotations = [_JMS_TYPE, jms_type] if jms_type else []
    if to_type is not None:
        annotations += [_JMS_TO, _JMS_KINDS[to_type]]
    if reply_type is not None:
        annotations += [_JMS_REPLY_TO, _JMS_KINDS[reply_type]]
    annotations += own
    annotations += [encoded(each) for pair in noted.items() for each in pair]
    parts = []
    if annotations:
        parts.append(section_of(MESSAGE_ANNOTATIONS, map_of_items(annotations)))
    parts.append(COMPOSITES.encoded(standard))
    if items:
        parts.append(section_of(APPLICATION_PROPERTIES, map_of_items(items)))
    return parts
