"""Packing and unpacking rows of events in memory, with ids of any size (ADR 36).

Most rows are packed by `events.ROW_STRUCT`, which refuses ids of more than four bytes with a
struct.error; then `pack_wide` does it. Must never know what an event means.
"""

from struct import Struct
from typing import Final

from daybook.engine.facts.events import (
    ADDRESS,
    MESSAGE,
    PRIORITY,
    QUEUE,
    ROW_BYTES,
    SHORT_ID_MAX,
    Row,
)

BARE_STRUCT: Final = Struct("<BBHIIBBxxQQQQq16x")
"""Packs columns as ROW_STRUCT does, for events without detail, headers and body."""
WIDE_STRUCT: Final = Struct("<BBHIIBBHQQQQqIIIHxx")
"""The same with the upper bits of queue and address, in bytes that the others leave unused."""
HEAD_STRUCT: Final = Struct("<BBHIIBBxx")
"""The columns up to the flags, which most rows of a kind have in common with the one before."""
TAKER_STRUCT: Final = Struct("<QQQ")
"""The consumer, the connection, and no related event."""
TAKEN_STRUCT: Final = Struct("<16sQ24sq16x")
"""A head and the other columns of a delivery: the message, who took it, the time."""
DECISION_STRUCT: Final = Struct("<16sQ24sqIII4x")
"""The same with the lengths of the strings of an event."""
for _each in (BARE_STRUCT, WIDE_STRUCT, TAKEN_STRUCT, DECISION_STRUCT):
    assert _each.size == ROW_BYTES


class RowHead:
    """Packs the heads of rows of one kind; one that equals that before is not packed again."""

    __slots__ = (
        "_address", "_count", "_flags", "_kind", "_packed", "_priority", "_queue", "_reason"
    )  # fmt: skip

    def __init__(self, kind: int) -> None:
        self._kind: Final = kind
        self._packed = b""
        self._reason = self._count = self._address = self._queue = self._priority = 0
        self._flags = -1

    def pack(
        self, reason: int, count: int, address: int, queue: int, priority: int, flags: int
    ) -> bytes:
        """Return a head. Raises struct.error where ROW_STRUCT does."""
        if (
            flags == self._flags
            and count == self._count
            and priority == self._priority
            and reason == self._reason
            and queue == self._queue
            and address == self._address
        ):
            return self._packed
        self._packed = HEAD_STRUCT.pack(self._kind, reason, count, address, queue, priority, flags)
        self._reason, self._count, self._flags = reason, count, flags
        self._address, self._queue, self._priority = address, queue, priority
        return self._packed


def pack_wide(row: Row, detail_bytes: int, headers_bytes: int, body_bytes: int) -> bytes:
    """Pack a row with ids of any size, and the lengths of its strings, where ROW_STRUCT raises
    struct.error.

    A value that no row can have raises struct.error here too.
    """
    address, queue = row[ADDRESS], row[QUEUE]
    return WIDE_STRUCT.pack(
        *row[:ADDRESS], address & SHORT_ID_MAX, queue & SHORT_ID_MAX, *row[PRIORITY:MESSAGE],
        queue >> 32, *row[MESSAGE:], detail_bytes, headers_bytes, body_bytes, address >> 32,
    )  # fmt: skip


def unpack_wide(packed: bytes) -> tuple[Row, tuple[int, int, int]]:
    """Return the packed row, with ids of any size, and the lengths of its strings."""
    (
        kind, reason, count, address, queue, priority, flags, queue_upper, message, consumer,
        connection, related, time, detail_bytes, headers_bytes, body_bytes, address_upper,
    ) = WIDE_STRUCT.unpack(packed)  # fmt: skip
    found = (
        kind, reason, count, address_upper << 32 | address, queue_upper << 32 | queue, priority,
        flags, message, consumer, connection, related, time,
    )  # fmt: skip
    return found, (detail_bytes, headers_bytes, body_bytes)
