"""A message that arrives in frames: its headers as texts, and its body in pieces.

A long body of bytes or of text is never whole in memory; one of values is. Must never know a link.
"""

from typing import Final, NamedTuple

from daybook.client.amqp.failures import AmqpClientError
from daybook.client.bodies import BODY_BYTES_IN_MEMORY, Received
from daybook.engine.messages.amqp.content_codec import AMQP, FRAMINGS, begun, stored
from daybook.engine.messages.amqp.malformed import Malformed
from daybook.engine.messages.amqp.places import (
    Place,
    header_of,
    places_of,
    properties_of,
)
from daybook.engine.messages.amqp.sections import HEADER, PROPERTIES, Header
from daybook.engine.messages.content import View
from daybook.engine.messages.conversions import text_of
from daybook.engine.messages.headers import is_of_applications, standard_pairs

VALUE_BYTES_MAX: Final = 64 << 20
"""A body that is neither bytes nor text, or what is in front of a body, is not longer."""
_HEAD_BYTES: Final = 8
"""The head of a section of data with a long size."""
_SIZES: Final = {0xA0: 1, 0xB0: 4}


class Arrived(NamedTuple):
    """A message that arrived: its delivery, the number of the attempt to deliver it, whether
    somebody may have had it before, and its headers as texts."""

    delivery: int
    is_settled: bool
    attempt: int
    is_redelivered: bool
    headers: dict[str, str]
    content: Received

    @property
    def body(self) -> bytes:
        """The whole body, in memory."""
        return b"".join(self.content.pieces())


class Arriving:
    """A message of which frames arrive."""

    def __init__(self, delivery: int) -> None:
        self.delivery: Final = delivery
        self.is_settled = False
        self._content: Final = Received()
        self._data = bytearray()
        self._places: list[Place] = []
        # The headers of a long message, whose body goes through `_body`.
        self._headers = b""
        self._body: _Body | None = None

    def close(self) -> None:
        """Discard what has arrived."""
        self._content.close()

    def take(self, payload: bytes) -> None:
        """Take the payload of a frame. Raises AmqpClientError."""
        if self._body is not None:
            self._body.take(payload)
            return
        self._data += payload
        if len(self._data) > BODY_BYTES_IN_MEMORY:
            self._begin()
            if len(self._data) > VALUE_BYTES_MAX:
                raise AmqpClientError(
                    f"a message has a value of more than {VALUE_BYTES_MAX:,} bytes: only bytes and"
                    " texts may be so long"
                )

    def _begin(self) -> None:
        """Find the body of a long message."""
        data = bytes(self._data)
        found = begun(data)
        if found is None or found[0][0] not in FRAMINGS:
            return
        self._headers, body_at, self._places = found
        framing = FRAMINGS[self._headers[0]]
        size = int.from_bytes(data[body_at - framing.size_bytes : body_at])
        self._body = _Body(size, self._content)
        self._body.take(data[body_at:])
        self._data = bytearray(data[:body_at])

    def whole(self, destination: str, now_ms: int) -> Arrived:
        """Return the message, which has arrived whole. Raises AmqpClientError."""
        data = bytes(self._data)
        try:
            if self._body is None:
                self._places = places_of(data)
                self._headers, body = stored(data, self._places)
                self._content.add(View(AMQP, self._headers, body=body).plain_body)
            elif not self._body.is_whole:
                raise Malformed("its body is shorter than it says")
            return self._read(data, destination, now_ms)
        except Malformed as error:
            self.close()
            raise AmqpClientError(f"a message is malformed: {error}") from error

    def _read(self, data: bytes, destination: str, now_ms: int) -> Arrived:
        header = Header()
        expires = 0
        for place in self._places:
            if place.code == HEADER:
                header = header_of(data, place)
            elif place.code == PROPERTIES:
                expires = properties_of(data, place).absolute_expiry_time or 0
        if not expires and header.ttl is not None:
            expires = now_ms + header.ttl
        headers = {
            "destination": destination,
            "content-length": str(self._content.size),
            "priority": str(header.priority),
            "persistent": text_of(header.durable),
        }
        if expires:
            headers["expires"] = str(expires)
        # In front of the first delivery a message may have been in other hands, too.
        is_redelivered = not header.first_acquirer
        if is_redelivered and header.delivery_count:
            headers |= {"redelivered": "true", "delivery-count": str(header.delivery_count + 1)}
        elif is_redelivered:
            headers["redelivered"] = "true"
        view = View(AMQP, self._headers)
        others = standard_pairs(view.standard._replace(destination=""))
        others += [
            (name, text_of(value))
            for name, value in view.properties.items()
            if is_of_applications(name)
        ]
        return Arrived(
            self.delivery, self.is_settled, header.delivery_count + 1, is_redelivered,
            {**headers, **{name: text for name, text in others if name not in headers}},
            self._content,
        )  # fmt: skip


class _Body:
    """The rest of a message behind the head of its first section of data: the bytes of that, and
    of the sections of data that follow. Other sections are not read."""

    def __init__(self, size: int, content: Received) -> None:
        self._left = size
        self._content: Final = content
        self._head = b""
        self._is_over = False

    @property
    def is_whole(self) -> bool:
        """Whether a message may end here."""
        return self._left == 0

    def take(self, payload: bytes) -> None:
        """Take what follows."""
        while payload and not self._is_over:
            if self._left:
                piece = payload[: self._left]
                self._content.add(piece)
                self._left -= len(piece)
                payload = payload[len(piece) :]
                continue
            wanted = _HEAD_BYTES - len(self._head)
            self._head += payload[:wanted]
            payload = payload[wanted:]
            payload = self._next_section(payload)

    def _next_section(self, payload: bytes) -> bytes:
        """Read the head of a section if it is there; return what is behind it."""
        head = self._head
        if len(head) < 5:
            return payload
        size_bytes = _SIZES.get(head[3], 0)
        if head[:3] != b"\0\x53\x75" or not size_bytes:
            self._is_over = True
            return b""
        end = 4 + size_bytes
        if len(head) < end:
            return payload
        self._left = int.from_bytes(head[4:end])
        self._head = b""
        return head[end:] + payload
