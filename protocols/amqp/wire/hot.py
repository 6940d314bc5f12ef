"""The three performatives that come with every message: transfer, disposition and flow, by hand.

These functions read and write as the table would; a test compares. The table, with all its checks,
reads everything that few peers send or encode like this.
Must never know a session.
"""

import struct
from collections.abc import Sequence
from typing import Any, Final

from daybook.engine.messages.amqp.constructors import DESCRIBED, NULL
from daybook.engine.messages.amqp.malformed import Malformed
from daybook.engine.messages.amqp.reader import Reader
from daybook.engine.messages.amqp.writer import NOTHING, of_type
from daybook.protocols.amqp.wire.kinds import FIRST, SECOND
from daybook.protocols.amqp.wire.performatives import Disposition, Flow, Transfer
from daybook.protocols.amqp.wire.table import DISPOSITION, FLOW, TRANSFER
from daybook.protocols.amqp.wire.termini import Accepted, Released

_TAG_MAX: Final = 32
_ACCEPTED: Final = Accepted()
_RELEASED: Final = Released()
_STATES: Final[dict[bytes, Any]] = {
    b"\0\x53\x24\x45": _ACCEPTED, b"\0\x53\x24\xc0": _ACCEPTED,
    b"\0\x53\x26\x45": _RELEASED, b"\0\x53\x26\xc0": _RELEASED,
}  # fmt: skip
"""States without fields, as a list without items; the empty list of 8 bits has two more bytes."""


_SHORT_BINARIES: Final = [bytes((0xA0, size)) for size in range(256)]
_UNSETTLED: Final = b"\x43\x42"
_SETTLED: Final = b"\x43\x41"
"""The message format 0, and whether a delivery is settled."""
_UINTS: Final = [of_type("uint", number) for number in range(256)]
_FALSE: Final = b"\x42"
_TRUE: Final = b"\x41"


def read(reader: Reader) -> Any:
    """Read one of the three, or return None with the reader where it was."""
    data, at = reader.data, reader.at
    if reader.end - at < 4 or data[at] != DESCRIBED or data[at + 1] != 0x53:
        return None
    code = data[at + 2]
    if code < FLOW or code > DISPOSITION:
        return None
    reader.at = at + 3
    outer = reader.end
    try:
        count, stop = reader.begin_list()
        reader.end = stop
        if code == TRANSFER:
            found: Any = _transfer(reader, count)
        elif code == DISPOSITION:
            found = _disposition(reader, count)
        else:
            found = _flow(reader, count)
        if found is not None and reader.at == stop:
            reader.end = outer
            return found
    except Malformed:
        pass
    reader.at = at
    reader.end = outer
    return None


class Single:
    """A frame as most are: a transfer with a whole message, of which only its number and whether it
    is settled matter. `stop` is where the next frame begins."""

    __slots__ = ("channel", "delivery", "handle", "is_settled", "payload", "stop")

    def __init__(
        self, channel: int, handle: int, delivery: int, is_settled: bool, payload: bytes, stop: int
    ) -> None:
        self.channel: Final = channel
        self.handle: Final = handle
        self.delivery: Final = delivery
        self.is_settled: Final = is_settled
        self.payload: Final = payload
        self.stop: Final = stop


def single(data: bytes, at: int, end: int, size_max: int) -> Single | None:
    """Read a frame that begins at a place; None if it is another one, or not all there."""
    if end - at < _HEAD_BYTES:
        return None
    size = data[at] << 24 | data[at + 1] << 16 | data[at + 2] << 8 | data[at + 3]
    stop = at + size
    if stop > end or size < _HEAD_BYTES or size > size_max:
        return None
    if data[at + 4] != 2 or data[at + 5] != 0 or data[at + 8] != DESCRIBED:
        return None
    if data[at + 9] != 0x53 or data[at + 10] != TRANSFER or data[at + 11] != 0xC0:
        return None
    fields_end = at + 13 + data[at + 12]
    if fields_end > stop:
        return None
    reader = Reader(data, at + _HEAD_BYTES, fields_end)
    try:
        handle, delivery, is_settled = _single_fields(reader, data[at + 13])
    except Malformed:
        return None
    if handle < 0 or delivery < 0 or reader.at != fields_end:
        return None
    channel = data[at + 6] << 8 | data[at + 7]
    return Single(channel, handle, delivery, is_settled, data[fields_end:stop], stop)


def _single_fields(reader: Reader, count: int) -> tuple[int, int, bool]:
    """Read the fields of a transfer that says no more than a `Single`. Raises Malformed."""
    if count < 2 or count > 11:
        raise Malformed("left to the table")
    handle, delivery = reader.uint(), reader.uint()
    if count > 2:
        _tag(reader)
    if count > 3:
        reader.uint()
    is_settled = count > 4 and reader.boolean()
    has_more = count > 5 and reader.boolean()
    for _ in range(6, count):
        if reader.code() != NULL:
            raise Malformed("left to the table")
        reader.at += 1
    return -1 if has_more else handle, delivery, is_settled


def _optional(number: int) -> int | None:
    return None if number < 0 else number


def _state(reader: Reader) -> Any:
    """Read a state or null."""
    at = reader.at
    if reader.code() == NULL:
        reader.at = at + 1
        return None
    state = _STATES.get(reader.data[at : at + 4])
    if state is None:
        raise Malformed("left to the table")
    if reader.data[at + 3] == 0x45:
        reader.at = at + 4
    elif reader.data[at + 4 : at + 6] == b"\x01\0":
        reader.at = at + 6
    else:
        raise Malformed("left to the table")
    return state


def _tag(reader: Reader) -> bytes | None:
    """Read a short binary or null."""
    code = reader.code()
    at = reader.at + 1
    if code == NULL:
        reader.at = at
        return None
    if code != 0xA0 or at >= reader.end:
        raise Malformed("left to the table")
    size = reader.data[at]
    reader.at = after = at + 1 + size
    if size > _TAG_MAX or after > reader.end:
        raise Malformed("left to the table")
    return reader.data[at + 1 : after]


def _mode(reader: Reader) -> int | None:
    """Read the settle mode of a receiver or null."""
    code = reader.code()
    at = reader.at + 1
    if code == NULL:
        reader.at = at
        return None
    if code != 0x50 or at >= reader.end or reader.data[at] > SECOND:
        raise Malformed("left to the table")
    reader.at = at + 1
    return SECOND if reader.data[at] else FIRST


def _transfer(reader: Reader, count: int) -> Transfer | None:
    if count < 1 or count > 11:
        return None
    handle = reader.uint()
    if handle < 0:
        return None
    delivery_id = reader.uint() if count > 1 else -1
    tag = _tag(reader) if count > 2 else None
    message_format = reader.uint() if count > 3 else -1
    settled = _settled(reader) if count > 4 else None
    more = count > 5 and reader.boolean()
    mode = _mode(reader) if count > 6 else None
    state = _state(reader) if count > 7 else None
    resume = count > 8 and reader.boolean()
    aborted = count > 9 and reader.boolean()
    batchable = count > 10 and reader.boolean()
    return Transfer(
        handle, _optional(delivery_id), tag, _optional(message_format), settled, more, mode, state,
        resume, aborted, batchable,
    )  # fmt: skip


def _settled(reader: Reader) -> bool | None:
    """Read the only boolean for which null means something else than false."""
    if reader.code() == NULL:
        reader.at += 1
        return None
    return reader.boolean()


def _disposition(reader: Reader, count: int) -> Disposition | None:
    if count < 2 or count > 6 or reader.code() == NULL:
        return None
    role = reader.boolean()
    first = reader.uint()
    if first < 0:
        return None
    last = reader.uint() if count > 2 else -1
    settled = count > 3 and reader.boolean()
    state = _state(reader) if count > 4 else None
    batchable = count > 5 and reader.boolean()
    return Disposition(role, first, _optional(last), settled, state, batchable)


def _flow(reader: Reader, count: int) -> Flow | None:
    if count < 4 or count > 10:
        return None
    next_incoming = reader.uint()
    incoming_window, next_outgoing, outgoing_window = reader.uint(), reader.uint(), reader.uint()
    if incoming_window < 0 or next_outgoing < 0 or outgoing_window < 0:
        return None
    handle = reader.uint() if count > 4 else -1
    delivery_count = reader.uint() if count > 5 else -1
    credit = reader.uint() if count > 6 else -1
    available = reader.uint() if count > 7 else -1
    drain = count > 8 and reader.boolean()
    echo = count > 9 and reader.boolean()
    return Flow(
        next_incoming_id=_optional(next_incoming), incoming_window=incoming_window,
        next_outgoing_id=next_outgoing, outgoing_window=outgoing_window,
        handle=_optional(handle), delivery_count=_optional(delivery_count),
        link_credit=_optional(credit), available=_optional(available), drain=drain, echo=echo,
    )  # fmt: skip


def transfer_frames(
    channel: int,
    handle: int,
    delivery_id: int,
    tag: bytes,
    settled: bool,
    parts: Sequence[bytes],
    max_frame_size: int,
) -> list[bytes]:
    """Return the frames of a delivery: as few as its receiver allows to be so large.

    The message is all the parts, one behind the other; its format is that of AMQP 1.0, number 0.
    """
    fields = (
        _uint(handle) + _uint(delivery_id) + _SHORT_BINARIES[len(tag)] + tag
        + (_UNSETTLED if not settled else _SETTLED)
    )  # fmt: skip
    size = len(fields) + _HEAD_BYTES
    for part in parts:
        size += len(part)
    if size <= max_frame_size:
        whole = [_head(size, channel, TRANSFER, fields, 5)]
        whole += parts
        return [b"".join(whole)]
    return _cut(channel, fields, _uint(handle), b"".join(parts), max_frame_size)


def is_plain(said: Transfer) -> bool:
    """Say whether `transfer_frames` can write a transfer: it has a whole message, and says no more
    than most do."""
    return not (
        said.more or said.message_format != 0 or said.rcv_settle_mode is not None
        or said.state is not None or said.resume or said.aborted or said.batchable
    )  # fmt: skip


class TransferHeads:
    """Writes the bytes in front of the message in most frames of a link by which the peer receives:
    they differ in their size, and in the number and the tag of the delivery. The tag has 16 bytes:
    a number of 8, and 8 others."""

    __slots__ = ("_between", "_pack", "_rest", "size")

    def __init__(self, channel: int, handle: int, settled: bool) -> None:
        first = _uint(handle)
        number_and_rest = 5 + 18 + 2
        fields = len(first) + number_and_rest
        middle = _MIDDLE | channel << 32 | TRANSFER << 8
        self._between: Final = b"".join(
            (middle.to_bytes(8, "big"), bytes((fields + 1, 5)), first, b"\x70")
        )
        self._rest: Final = int.from_bytes(_SETTLED if settled else _UNSETTLED, "big")
        self._pack: Final = struct.Struct(f">I{len(self._between)}sIHQ8sH").pack
        self.size: Final = _HEAD_BYTES + fields

    def head(self, delivery: int, tag: int, more_of_tag: bytes, message_bytes: int) -> bytes:
        """Return the head of a delivery whose number needs more than a byte."""
        return self._pack(
            self.size + message_bytes, self._between, delivery, _TAG_OF_16, tag, more_of_tag,
            self._rest,
        )  # fmt: skip


_TAG_OF_16: Final = 0xA010
"""Two bytes that announce a tag of 16."""
SHORT_NUMBERS: Final = 256
"""So many numbers are shorter than the others."""


def _cut(
    channel: int, fields: bytes, handle: bytes, payload: bytes, max_frame_size: int
) -> list[bytes]:
    """Return the frames of a delivery that does not fit into one."""
    frames = []
    at, end = 0, len(payload)
    fields, count = fields + _TRUE, 6
    later = handle + NOTHING * 4
    while at < end:
        room = max_frame_size - len(fields) - _HEAD_BYTES
        assert room > 0, "no peer may ask for frames below 512 bytes"
        if end - at <= room:
            fields, count = handle, 1
        piece = payload[at : at + room]
        size = len(fields) + _HEAD_BYTES + len(piece)
        frames.append(_head(size, channel, TRANSFER, fields, count) + piece)
        at += room
        fields, count = later + _TRUE, 6
    return frames


def disposition_frame(
    channel: int, role: bool, first: int, last: int, settled: bool, state: bytes
) -> bytes:
    """Return the frame that says one state, encoded, of all deliveries from one to another."""
    fields = b"".join(
        (
            _TRUE if role else _FALSE, _uint(first), NOTHING if last == first else _uint(last),
            _TRUE if settled else NOTHING, state,
        )
    )  # fmt: skip
    return _head(len(fields) + _HEAD_BYTES, channel, DISPOSITION, fields, 5)


def flow_frame(
    channel: int,
    next_incoming_id: int,
    incoming_window: int,
    next_outgoing_id: int,
    outgoing_window: int,
    *,
    handle: int,
    delivery_count: int,
    link_credit: int,
) -> bytes:
    """Return the frame that says the state of a session, and the credit of one of its links."""
    numbers = (
        next_incoming_id, incoming_window, next_outgoing_id, outgoing_window, handle,
        delivery_count, link_credit,
    )  # fmt: skip
    fields = b"".join([_uint(number) for number in numbers])
    return _head(len(fields) + _HEAD_BYTES, channel, FLOW, fields, len(numbers))


def _uint(number: int) -> bytes:
    return _UINTS[number] if number < 256 else b"\x70" + number.to_bytes(4, "big")


def _head(size: int, channel: int, code: int, fields: bytes, count: int) -> bytes:
    if len(fields) >= _SHORT_MAX:
        more = _LONG_HEAD_BYTES - _HEAD_BYTES
        return (
            _LONG_FRAME.pack(
                size + more, 2, 0, channel, 0, 0x53, code, 0xD0, len(fields) + 4, count
            )
            + fields
        )
    middle = _MIDDLE | channel << 32 | code << 8
    return _FRAME.pack(size, middle, len(fields) + 1 << 8 | count) + fields


_FRAME: Final = struct.Struct(">IQH")
_MIDDLE: Final = 0x0200_0000_0053_00C0
"""The bytes between the size of a frame and that of its fields: the offset of the performative, the
type, room for the channel and for the code, and the constructor of a short list."""
_HEAD_BYTES: Final = _FRAME.size
_LONG_FRAME: Final = struct.Struct(">IBBHBBBBII")
"""With a list of more than 255 bytes."""
_LONG_HEAD_BYTES: Final = _LONG_FRAME.size
_SHORT_MAX: Final = 255
