"""Frames and protocol headers as bytes (part 2, sections 2.2 and 2.3; part 5, section 5.3).

The reader gets bytes, cut anywhere, and returns headers and frames one at a time, so its session
may pause. It holds no more than the largest frame, and consumes all that it looks at: any other
input ends it. Must never know a session.
"""

import struct
from typing import Any, Final

from daybook.engine.messages.amqp.malformed import Malformed
from daybook.engine.messages.amqp.reader import Reader
from daybook.protocols.amqp.wire import hot
from daybook.protocols.amqp.wire.errors import DECODE_ERROR, FRAMING_ERROR, AmqpError
from daybook.protocols.amqp.wire.kinds import FRAME, SASL_FRAME
from daybook.protocols.amqp.wire.performatives import Transfer
from daybook.protocols.amqp.wire.table import COMPOSITES

FRAME_SIZE_MIN: Final = 512
"""The frame that every peer must take (MIN-MAX-FRAME-SIZE), and the largest one of SASL."""

AMQP: Final = 0
TLS: Final = 2
SASL: Final = 3
FOREIGN: Final = -1
"""No protocol of AMQP 1.0."""

_NAME: Final = b"AMQP"
_VERSION: Final = b"\x01\x00\x00"
_HEADER_BYTES: Final = 8
_FRAME_TYPES: Final = {AMQP: 0, SASL: 1}

EMPTY_FRAME: Final = b"\0\0\0\x08\x02\0\0\0"
"""A peer with nothing to say sends it, so that it is not silent."""


def protocol_header(protocol: int) -> bytes:
    """Return the bytes by which a peer says what it speaks from now on."""
    return _NAME + bytes((protocol,)) + _VERSION


class Header:
    """The protocol that a peer wants to speak: AMQP, TLS, SASL, or something FOREIGN."""

    __slots__ = ("protocol",)

    def __init__(self, protocol: int) -> None:
        self.protocol: Final = protocol


class Frame:
    """A frame: its channel, its performative, None in an empty one, and the payload of a
    transfer."""

    __slots__ = ("channel", "payload", "performative")

    def __init__(self, channel: int, performative: Any, payload: bytes) -> None:
        self.channel: Final = channel
        self.performative: Final = performative
        self.payload: Final = payload


class FrameReader:
    """Reads what a peer sends: headers, and frames of the protocol that the last header named.

    A header is first; after frames of SASL another one comes.
    """

    __slots__ = (
        "_at", "_awaits_header", "_data", "_frame_type", "_has_ended", "_more", "_more_bytes",
        "_sasl_frame_size", "max_frame_size",
    )  # fmt: skip

    def __init__(self, max_frame_size: int, sasl_frame_size: int = FRAME_SIZE_MIN) -> None:
        """Take frames of AMQP, and those of SASL, that are no larger."""
        self.max_frame_size = max_frame_size
        self._sasl_frame_size: Final = sasl_frame_size
        self._data = b""
        self._at = 0
        self._more: list[bytes] = []
        self._more_bytes = 0
        self._awaits_header = True
        self._frame_type = 0
        self._has_ended = False

    @property
    def buffered_bytes(self) -> int:
        """Bytes that wait to be read."""
        return len(self._data) - self._at + self._more_bytes

    @property
    def is_in_sasl(self) -> bool:
        """Whether the last header was that of SASL."""
        return not self._awaits_header and self._frame_type > 0

    def receive(self, data: bytes) -> None:
        """Take bytes of the peer; ignored after the end."""
        if not self._has_ended:
            self._more.append(data)
            self._more_bytes += len(data)

    def next(self) -> Header | Frame | None:
        """Return what comes next, None if it is not there yet.

        Raises AmqpError for other bytes; nothing comes after that, or after a foreign header.
        """
        if self._has_ended:
            return None
        try:
            if self._awaits_header:
                return self._header()
            if self._frame_type and self._has(4) and self._begins_with_name():
                return self._header()
            return self._frame()
        except Malformed as error:
            self._end()
            raise AmqpError(DECODE_ERROR, str(error)) from None

    def next_single(self) -> hot.Single | None:
        """Return what comes next if it is a whole message in a frame; None leaves it to `next`."""
        if self._frame_type or self._awaits_header or self._has_ended:
            return None
        if self._at >= len(self._data) and not self._has(1):
            return None
        found = hot.single(self._data, self._at, len(self._data), self.max_frame_size)
        if found is not None:
            self._at = found.stop
        return found

    def _end(self) -> None:
        self._has_ended = True
        self._data = b""
        self._at = self._more_bytes = 0
        self._more.clear()

    def _has(self, size: int) -> bool:
        """Return whether so many bytes are there, and have them in one piece."""
        if len(self._data) - self._at >= size:
            return True
        if self.buffered_bytes < size:
            return False
        self._data = b"".join((self._data[self._at :], *self._more))
        self._at = self._more_bytes = 0
        self._more.clear()
        return True

    def _begins_with_name(self) -> bool:
        """Return whether a header comes: no frame of SASL is so large as these bytes would say."""
        return self._data[self._at : self._at + 4] == _NAME

    def _header(self) -> Header | None:
        here = min(self.buffered_bytes, _HEADER_BYTES)
        if not here or not self._has(here):
            return None
        given = self._data[self._at : self._at + here]
        protocol = given[4] if here > 4 else AMQP
        if not protocol_header(protocol).startswith(given) or protocol not in (AMQP, TLS, SASL):
            self._end()
            return Header(FOREIGN)
        if here < _HEADER_BYTES:
            return None
        self._at += _HEADER_BYTES
        if protocol == TLS:
            self._end()
        else:
            self._awaits_header = False
            self._frame_type = _FRAME_TYPES[protocol]
        return Header(protocol)

    def _frame(self) -> Frame | None:
        if not self._has(4):
            return None
        data, at = self._data, self._at
        size = data[at] << 24 | data[at + 1] << 16 | data[at + 2] << 8 | data[at + 3]
        if size < 8 or size > (self._sasl_frame_size if self._frame_type else self.max_frame_size):
            raise self._not_framed(f"a frame cannot have {size} bytes here")
        if not self._has(size):
            return None
        data, at = self._data, self._at
        self._at = end = at + size
        offset = data[at + 4] << 2
        if offset < 8 or offset > size:
            raise self._not_framed(f"a frame of {size} bytes cannot begin at {offset}")
        if data[at + 5] != self._frame_type:
            raise self._not_framed(f"a frame has type {data[at + 5]}, not {self._frame_type}")
        channel = data[at + 6] << 8 | data[at + 7]
        if offset == size:
            if self._frame_type:
                raise self._not_framed("a frame of SASL is empty")
            return Frame(channel, None, b"")
        return self._body(channel, Reader(data, at + offset, end))

    def _body(self, channel: int, reader: Reader) -> Frame:
        if self._frame_type:
            wanted, performative = SASL_FRAME, None
        else:
            wanted, performative = FRAME, hot.read(reader)
        if performative is None:
            performative = COMPOSITES.read(reader)
            row = COMPOSITES.row_of(performative)
            if row is None or wanted not in row.provides:
                raise Malformed("a frame has a body of no kind that frames have")
        if reader.at == reader.end:
            return Frame(channel, performative, b"")
        if not isinstance(performative, Transfer):
            raise Malformed(f"{reader.end - reader.at} bytes are left behind a performative")
        return Frame(channel, performative, reader.data[reader.at : reader.end])

    def _not_framed(self, text: str) -> AmqpError:
        self._end()
        return AmqpError(FRAMING_ERROR, text)


def frame(channel: int, performative: Any, payload: bytes = b"") -> bytes:
    """Return a frame. Raises ValueError for a field that cannot have its value."""
    row = COMPOSITES.row_of(performative)
    assert row is not None and not {FRAME, SASL_FRAME}.isdisjoint(row.provides), performative
    body = COMPOSITES.encoded(performative)
    size = _HEAD.size + len(body) + len(payload)
    frame_type = _FRAME_TYPES[SASL if SASL_FRAME in row.provides else AMQP]
    return _HEAD.pack(size, 2, frame_type, channel) + body + payload


_HEAD: Final = struct.Struct(">IBBH")
