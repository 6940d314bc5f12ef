"""Frames and messages of AMQP 1.0, as simulated clients and the judge write and read them."""

from typing import Any, NamedTuple

from daybook.engine.facts.values import Symbol
from daybook.engine.messages.amqp.places import header_of, places_of
from daybook.engine.messages.amqp.reader import Reader
from daybook.engine.messages.amqp.sections import (
    APPLICATION_PROPERTIES,
    DATA,
    FOOTER,
    HEADER,
    MESSAGE_ANNOTATIONS,
    PROPERTIES,
    VALUE,
    Header,
    Properties,
)
from daybook.engine.messages.amqp.sections import COMPOSITES as SECTIONS
from daybook.engine.messages.amqp.writer import encoded, section_of
from daybook.protocols.amqp.wire.frames import Frame, FrameReader
from daybook.protocols.amqp.wire.frames import Header as ProtocolHeader

FRAME_SIZE = 1 << 20
SHAPES = ("data", "data", "text", "bytes")
"""How a body is said; the journal has the same bytes of it."""
STANDARD = ("destination", "receipt", "transaction", "priority", "persistent", "expires", "ttl",
            "content-length", "JMSXGroupID", "JMSXGroupSeq", "AMQ_SCHEDULED_DELAY")  # fmt: skip
"""Headers that do not become application properties."""


class AmqpReader:
    """Bytes cut anywhere in, frames and headers of protocols out."""

    def __init__(self) -> None:
        self._reader = FrameReader(FRAME_SIZE, FRAME_SIZE)

    def feed(self, data: bytes) -> list[Frame | ProtocolHeader]:
        """Take bytes; return the frames that they complete."""
        self._reader.receive(data)
        found = []
        while (each := self._reader.next()) is not None:
            found.append(each)
        return found


class Content(NamedTuple):
    """A message that arrived: its attempt, whether it was flagged, its parts."""

    durable: bool
    attempt: int
    flagged: bool
    body: bytes
    bare: bytes
    annotations: dict[Any, Any]


def message_of(said: dict[str, str], body: bytes, shape: str, to: str | None) -> bytes:
    """Return the sections of a message that has these headers, as STOMP names them."""
    ttl = int(said["ttl"]) if "ttl" in said else None
    durable = said.get("persistent") != "false"
    parts = [SECTIONS.encoded(Header(durable, int(said.get("priority", "4")), ttl))]
    if "AMQ_SCHEDULED_DELAY" in said:
        delay = {Symbol("x-opt-delivery-delay"): int(said["AMQ_SCHEDULED_DELAY"])}
        parts.append(section_of(MESSAGE_ANNOTATIONS, encoded(delay)))
    expires = int(said["expires"]) if "expires" in said else None
    standard = Properties(to=to, group_id=said.get("JMSXGroupID"), absolute_expiry_time=expires)
    parts.append(SECTIONS.encoded(standard))
    properties = {name: value for name, value in said.items() if name not in STANDARD}
    if properties:
        parts.append(section_of(APPLICATION_PROPERTIES, encoded(properties)))
    if shape == "data":
        parts.append(section_of(DATA, encoded(body)))
    else:
        parts.append(section_of(VALUE, encoded(body.decode() if shape == "text" else body)))
    return b"".join((*parts, tail_of(body)))


def tail_of(body: bytes) -> bytes:
    """Return the footer that a message with this body has, if any."""
    return section_of(FOOTER, encoded({Symbol("x-f"): len(body)})) if len(body) % 2 else b""


def message_of_tag(tag: bytes | None) -> int:
    """Return the message that a delivery of the broker is of."""
    return int.from_bytes((tag or b"")[:8], "big")


def bare_of(data: bytes) -> bytes:
    """Return the part of a message that nobody may change."""
    return next(data[each.at :] for each in places_of(data) if each.code >= PROPERTIES)


def head_of(data: bytes) -> Header:
    """Return the header section, of a message of which perhaps only the beginning is there."""
    reader = Reader(data, 0, len(data))
    found: Header = SECTIONS.read(reader)
    return found


def content_of(data: bytes) -> Content:
    """Read a message that arrived."""
    places = places_of(data)
    head, body, noted = Header(), b"", {}
    for place in places:
        if place.code == HEADER:
            head = header_of(data, place)
        elif place.code == MESSAGE_ANNOTATIONS:
            noted = Reader(data, place.value, place.end).value()
        elif place.code in (DATA, VALUE):
            value = Reader(data, place.value, place.end).value()
            body += value.encode() if isinstance(value, str) else value
    return Content(
        head.durable, head.delivery_count + 1, not head.first_acquirer, body, bare_of(data), noted
    )
