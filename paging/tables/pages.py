"""A page: entries of one level of a queue, in order, as columns after a header.

A page has at most 4,076 bytes, so that it takes one page of LMDB with the crc of its row. All
integers are little endian: flags u8, reserved u8, count u16, last id u64; then the columns message
u64, size u32, address u32, delivery count u16, flags u8, then expires i64 if any entry has one, due
i64 if any is scheduled, u8 if any needs more than a byte for its flags, u32 if any needs upper bits
of its address, and u64 if any has annotations, for their hash. Must never know where pages are
kept.
"""

from collections.abc import Sequence
from struct import Struct
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from daybook.engine.facts.events import OF_HEADERS, SHORT_ID_MAX
from daybook.engine.messages.message import PRIORITIES
from daybook.engine.queues.entry import LEVELS, READY, RETAINED
from daybook.engine.state.digest import HASH_FACTORS, HASH_START, STATES
from daybook.paging.tables.checked import CRC_BYTES, IndexDamaged
from daybook.paging.tables.records import ASIDE_MASK, ASIDE_SHIFT

PAGE_BYTES_MAX: Final = 4080 - CRC_BYTES
HEADER: Final = Struct("<BBHQ")
HEADER_BYTES: Final = 12
WITH_EXPIRES: Final = 1
"""Flag of a page that has a column for the expiry of its entries."""
WITH_DUE: Final = 2
"""Likewise for the time until which they are scheduled."""
WITH_UPPER_FLAGS: Final = 4
"""Likewise for the upper byte of their flags."""
WITH_UPPER_ADDRESS: Final = 8
"""Likewise for the upper bits of their addresses (ADR 36)."""
WITH_ANNOTATIONS: Final = 16
"""Likewise for the hashes of their annotations, which a table of their own has (ADR 100)."""

SIZE_MAX: Final = (1 << 32) - 1
"""Larger sizes are recorded as this; only bounds of memory depend on it."""

ROW_BYTES: Final = 19
TIME_BYTES: Final = 8
BYTE_MAX: Final = 255
EXTRA_BYTES: Final = {
    WITH_EXPIRES: TIME_BYTES, WITH_DUE: TIME_BYTES, WITH_UPPER_FLAGS: 1, WITH_UPPER_ADDRESS: 4,
    WITH_ANNOTATIONS: 8,
}  # fmt: skip
"""How many bytes each of these columns takes per entry, in the order of the columns."""
assert HEADER.size == HEADER_BYTES

U64: Final = np.dtype("<u8")
U32: Final = np.dtype("<u4")
U16: Final = np.dtype("<u2")
U8: Final = np.dtype("u1")
I64: Final = np.dtype("<i8")


Ids: TypeAlias = NDArray[np.uint32] | NDArray[np.uint64]
"""Ids of addresses or queues: of four bytes if all columns they come from have four, else of
eight."""


Row: TypeAlias = tuple[int, int, int, int, int, int, int, int]
"""An entry, as in the columns of `Rows`."""


class Rows(NamedTuple):
    """Entries as columns of equal length: the content of a page, or rows to be inserted.

    `size` is bytes with overhead, `expires` and `due` milliseconds since 1970 or 0. `flags` are as
    `paging.tables.records.flags_of` gives them. `annotated` is the hash of the annotations, 0 for
    none.
    """

    message: NDArray[np.uint64]
    size: NDArray[np.uint32]
    address: Ids
    delivery_count: NDArray[np.uint16]
    flags: NDArray[np.uint16]
    expires: NDArray[np.int64]
    due: NDArray[np.int64]
    annotated: NDArray[np.uint64]

    def take(self, chosen: Any) -> "Rows":
        """Return some of the rows: a slice, positions, or a mask."""
        return Rows(*[column[chosen] for column in self])


NO_ROWS: Final = Rows(
    np.empty(0, U64), np.empty(0, U32), np.empty(0, U32),
    np.empty(0, U16), np.empty(0, U16), np.empty(0, I64), np.empty(0, I64), np.empty(0, U64),
)  # fmt: skip


_STATES: Final = np.array([STATES.get(level, READY) for level in range(LEVELS)], U64)
"""By level, the number in hashes for the state of an entry that is not in flight."""


def rows_of(entries: Sequence[Row]) -> Rows:
    """Make rows of tuples in the order of the columns."""
    if not entries:
        return NO_ROWS
    message, size, address, delivery_count, flags, expires, due, annotated = zip(
        *entries, strict=True
    )
    return Rows(
        np.array(message, U64), np.array(size, U32), np.array(address, U64),
        np.array(delivery_count, U16), np.array(flags, U16), np.array(expires, I64),
        np.array(due, I64), np.array(annotated, U64),
    )  # fmt: skip


def join(parts: Sequence[Rows]) -> Rows:
    """Concatenate rows."""
    if len(parts) == 1:
        return parts[0]
    return Rows(*[np.concatenate(columns) for columns in zip(*parts, strict=True)])


def extras_of(rows: Rows) -> int:
    """Return which additional columns entries need, as the flags of a page."""
    extras = WITH_EXPIRES * bool(rows.expires.any()) | WITH_DUE * bool(rows.due.any())
    extras |= WITH_UPPER_FLAGS * bool((rows.flags > BYTE_MAX).any())
    extras |= WITH_ANNOTATIONS * bool(rows.annotated.any())
    is_wide = rows.address.itemsize > U32.itemsize and rows.address.max(initial=0) > SHORT_ID_MAX
    return extras | WITH_UPPER_ADDRESS * bool(is_wide)


def capacity(extras: int) -> int:
    """How many entries a page can have with these columns in addition to those of all pages."""
    return (PAGE_BYTES_MAX - HEADER_BYTES) // _row_bytes(extras)


def _row_bytes(extras: int) -> int:
    """Return the bytes of an entry with these columns; other bits mean nothing here."""
    return _ROWS_BYTES[extras & (len(_ROWS_BYTES) - 1)]


_ROWS_BYTES: Final = tuple(
    ROW_BYTES + sum(size for flag, size in EXTRA_BYTES.items() if extras & flag)
    for extras in range(1 << len(EXTRA_BYTES))
)
"""By the flags of all combinations of additional columns: each page that is read asks for one."""
PLAIN_MAX: Final = capacity(0)
"""How many entries without additional columns a page can have."""


def encode(rows: Rows) -> bytes:
    """Build a page from rows, at least one and at most `capacity`."""
    count = len(rows.message)
    extras = extras_of(rows)
    assert 0 < count <= capacity(extras)
    parts = [HEADER.pack(extras, 0, count, int(rows.message[-1]))]
    parts += [column.tobytes() for column in _columns_always(rows)]
    for flag, column in ((WITH_EXPIRES, rows.expires), (WITH_DUE, rows.due)):
        if extras & flag:
            parts.append(column.tobytes())
    if extras & WITH_UPPER_FLAGS:
        parts.append((rows.flags >> U16.type(8)).astype(U8).tobytes())
    if extras & WITH_UPPER_ADDRESS:
        parts.append((rows.address >> U64.type(32)).astype(U32).tobytes())
    if extras & WITH_ANNOTATIONS:
        parts.append(rows.annotated.tobytes())
    return b"".join(parts)


def _columns_always(rows: Rows) -> list[NDArray[Any]]:
    """The columns that every page has; for addresses and flags the lower bits."""
    address = rows.address.astype(U32, copy=False)
    return [rows.message, rows.size, address, rows.delivery_count, rows.flags.astype(U8)]


class PlainRows:
    """Rows that need no additional columns, with the bytes of their columns.

    With a few entries for each of many queues, cutting arrays takes longer than all else.
    """

    def __init__(self, rows: Rows) -> None:
        """`extras_of` the rows must be 0, so it is for any part of them."""
        self.ids: Final[list[int]] = rows.message.tolist()
        self._columns: Final = [
            (column.itemsize, column.tobytes()) for column in _columns_always(rows)
        ]

    def page(self, start: int, stop: int) -> bytes:
        """Build the page of some rows, at least one and at most `PLAIN_MAX`: as `encode` does."""
        count = stop - start
        assert 0 < count <= PLAIN_MAX
        parts = [HEADER.pack(0, 0, count, self.ids[stop - 1])]
        for size, column in self._columns:
            parts.append(column[size * start : size * stop])
        return b"".join(parts)

    def appended(self, page: bytes, header: "Header", start: int, stop: int) -> bytes:
        """Append some rows to a page without additional columns that has room: as `append`."""
        before = header.messages
        count = before + stop - start
        assert before < count <= PLAIN_MAX
        parts = [HEADER.pack(0, 0, count, self.ids[stop - 1])]
        at = HEADER_BYTES
        for size, column in self._columns:
            parts += (page[at : at + size * before], column[size * start : size * stop])
            at += size * before
        return b"".join(parts)


def encode_all(rows: Rows) -> list[tuple[int, bytes]]:
    """Cut rows into full pages: (first message id, page) of each."""
    size = capacity(extras_of(rows))
    starts = range(0, len(rows.message), size)
    return [
        (int(rows.message[start]), encode(rows.take(slice(start, start + size))))
        for start in starts
    ]


class Header(NamedTuple):
    """The header of a page; `extras` are its flags."""

    messages: int
    last: int
    extras: int


def header_of(page: bytes, queue_id: int, first: int) -> Header:
    """Read the header of a page; raises IndexDamaged as `decode` does."""
    if len(page) < HEADER_BYTES:
        raise _damaged(queue_id, first, f"it has {len(page)} bytes")
    extras, _, count, last = HEADER.unpack_from(page)
    if not count or len(page) != HEADER_BYTES + count * _row_bytes(extras):
        raise _damaged(queue_id, first, f"it has {len(page)} bytes for {count} messages")
    return Header(count, last, extras)


def append(page: bytes, header: Header, rows: Rows) -> bytes:
    """Append rows, none of which needs additional columns, to those of a page."""
    count = header.messages
    start = HEADER_BYTES
    parts = [HEADER.pack(0, 0, count + len(rows.message), int(rows.message[-1]))]
    for column in _columns_always(rows):
        end = start + count * column.itemsize
        parts += (page[start:end], column.tobytes())
        start = end
    return b"".join(parts)


def decode(page: bytes, queue_id: int, first: int) -> Rows:
    """Parse a page; the columns are read-only.

    `queue_id` and `first`, the id of its first message, are those in its key. Raises IndexDamaged
    if it is not a page that was encoded for this key.
    """
    count, last, extras = header_of(page, queue_id, first)
    offset = HEADER_BYTES
    message = np.frombuffer(page, U64, count, offset)
    sizes = np.frombuffer(page, U32, count, offset := offset + 8 * count)
    address: Ids = np.frombuffer(page, U32, count, offset := offset + 4 * count)
    delivery_count = np.frombuffer(page, U16, count, offset := offset + 4 * count)
    flags = np.frombuffer(page, U8, count, offset := offset + 2 * count).astype(U16)
    offset += count
    expires = due = np.zeros(count, I64)
    if extras & WITH_EXPIRES:
        expires = np.frombuffer(page, I64, count, offset)
        offset += TIME_BYTES * count
    if extras & WITH_DUE:
        due = np.frombuffer(page, I64, count, offset)
        offset += TIME_BYTES * count
    if extras & WITH_UPPER_FLAGS:
        flags |= np.frombuffer(page, U8, count, offset).astype(U16) << U16.type(8)
        offset += count
    if extras & WITH_UPPER_ADDRESS:
        upper = np.frombuffer(page, U32, count, offset).astype(U64)
        address = upper << U64.type(32) | address
        offset += 4 * count
    annotated = np.zeros(count, U64)
    if extras & WITH_ANNOTATIONS:
        annotated = np.frombuffer(page, U64, count, offset)
    if int(message[0]) != first or int(message[-1]) != last:
        raise _damaged(queue_id, first, f"it begins with {message[0]} and ends with {message[-1]}")
    return Rows(message, sizes, address, delivery_count, flags, expires, due, annotated)


def _damaged(queue_id: int, first: int, what: str) -> IndexDamaged:
    return IndexDamaged(
        f"the index is damaged: the page of queue {queue_id} that begins with message {first}: "
        f"{what}"
    )


def entry_hashes(
    queue: Ids | NDArray[np.int64], level: NDArray[np.uint8], rows: Rows
) -> NDArray[np.uint64]:
    """Return `engine.state.digest.entry_hash` of entries that are not in flight, one for each
    row."""
    priority, flags = level.astype(U64), rows.flags.astype(U64)
    state: NDArray[np.uint64] | np.uint64 = np.uint64(READY)
    aside = level >= PRIORITIES
    if aside.any():
        # As `paging.tables.records` reads them.
        shift, mask = np.uint64(ASIDE_SHIFT), np.uint64(ASIDE_MASK)
        priority = np.where(aside, flags >> shift & mask, priority)
        own = flags & (mask | np.uint64(RETAINED))
        flags = np.where(aside, own | flags >> shift & np.uint64(OF_HEADERS), flags)
        state = _STATES[level]
    value = _mix(rows.message + np.uint64(HASH_START))
    wide = queue.astype(U64)
    place = wide << np.uint64(32) | wide >> np.uint64(32)
    value = _mix(value ^ place ^ rows.address)
    known = rows.delivery_count.astype(U64) << np.uint64(32)
    known |= priority << np.uint64(16) | flags << np.uint64(8)
    value = _mix(value ^ (known | state))
    value = _mix(value ^ rows.expires.view(U64))
    if rows.due.any():
        value = np.where(rows.due > 0, _mix(value ^ rows.due.view(U64)), value)
    if rows.annotated.any():
        value = np.where(rows.annotated > 0, _mix(value ^ rows.annotated), value)
    return value


def _mix(value: NDArray[np.uint64]) -> NDArray[np.uint64]:
    value = (value ^ (value >> np.uint64(30))) * np.uint64(HASH_FACTORS[0])
    value = (value ^ (value >> np.uint64(27))) * np.uint64(HASH_FACTORS[1])
    return value ^ (value >> np.uint64(31))
