"""The rows frame of a block: one zstd frame whose first columns can be decompressed alone.

Narrow columns come first, with the lengths and the time: most queries need no more. Then comes the
message, then the other wide columns. Each of these parts ends at the end of a zstd block, so the
first parts with a new frame header are a valid frame. Blocks of earlier versions have the columns
in layout order, and no parts.

Fault model: a frame that was divided in another way fails to decompress to the expected size; see
`shortened`. Must never know what a column means, except for the columns that the layout names.
"""

from functools import lru_cache
from itertools import accumulate, pairwise
from struct import Struct
from typing import Final

import zstandard

from daybook.journal.blocks.layout import WIDTHS, RowLayout

PARTED_COUNT_MIN: Final = 64
"""A frame with fewer events is not divided, because the parts would cost more than they save."""
NARROW_BYTES: Final = 4
"""The largest width of the columns that come first."""

ZSTD_BLOCK_BYTES: Final = 128 << 10
"""The largest content of a zstd block (RFC 8878, section 3.1.1.2.3)."""
_BLOCK_HEADER: Final = 3
_RUN: Final = 1
"""Type of a zstd block that is one byte repeated (section 3.1.1.2.2)."""
_MAGIC: Final = zstandard.MAGIC_NUMBER
_SINGLE_SEGMENT: Final = 0b10_1_00000
"""Frame header descriptor: a content size of four bytes, and a window as large (3.1.1.1.1)."""
_FRAME_HEADER: Final = Struct("<IBI")
_DICTIONARY_ID_BYTES: Final = (0, 1, 2, 4)
_CONTENT_SIZE_BYTES: Final = (0, 2, 4, 8)
_DESCRIPTOR: Final = 4
"""Offset of the frame header descriptor."""


def _first_block(descriptor: int) -> int:
    """Return the offset of the first zstd block of a frame (section 3.1.1.1)."""
    is_single = descriptor >> 5 & 1
    content_size = _CONTENT_SIZE_BYTES[descriptor >> 6] or is_single
    window = 1 - is_single
    return _DESCRIPTOR + 1 + window + _DICTIONARY_ID_BYTES[descriptor & 3] + content_size


_FIRST_BLOCK: Final = tuple([_first_block(descriptor) for descriptor in range(256)])
_WITH_FIRST_BIT: Final = tuple([bytes([value | 1]) for value in range(256)])


class Order:
    """The order of a layout's columns in rows frames.

    `positions` are the layout positions in the order of the frame. The column at a layout position
    is from `starts` to `ends` of that position, and parts end at `part_ends`. All are bytes of one
    row; multiplied by the number of events they are offsets in the frame.
    """

    __slots__ = ("ends", "part_ends", "positions", "starts")

    def __init__(self, layout: RowLayout, parts: list[list[int]]) -> None:
        widths = [WIDTHS[code] for _, code, _ in layout.stored()]
        places = [place for part in parts for place in part]
        ends = dict(zip(places, accumulate(widths[place] for place in places), strict=True))
        self.positions: Final = tuple(places)
        self.starts: Final = tuple([ends[place] - width for place, width in enumerate(widths)])
        self.ends: Final = tuple([ends[place] for place in range(len(widths))])
        self.part_ends: Final = tuple([ends[part[-1]] for part in parts])


@lru_cache(maxsize=16)
def plain(layout: RowLayout) -> Order:
    """Return the order of the layout itself, in one part."""
    return Order(layout, [list(range(len(layout.stored())))])


@lru_cache(maxsize=16)
def narrow_first(layout: RowLayout) -> Order:
    """Return the order with narrow columns and the time first, then the message, then the rest."""
    stored = layout.stored()
    message = layout.position(layout.message_column)
    time = layout.position(layout.time_column)
    narrow = [place for place, (_, code, _) in enumerate(stored) if WIDTHS[code] <= NARROW_BYTES]
    first = [place for place in narrow if place not in (message, time)]
    first.append(time)
    rest = [place for place in range(len(stored)) if place != message and place not in first]
    parts = [first, [message], rest]
    return Order(layout, [part for part in parts if part])


def parts_with(order: Order, positions: tuple[int, ...]) -> int:
    """Return how many of the first parts contain all of these columns."""
    end = max((order.ends[place] for place in positions), default=0)
    return next(place for place, part_end in enumerate(order.part_ends, 1) if part_end >= end)


def compress(compressor: zstandard.ZstdCompressor, raw: bytes, count: int, order: Order) -> bytes:
    """Compress the columns of `count` events, which are in this order."""
    if count < PARTED_COUNT_MIN or len(order.part_ends) == 1:
        return compressor.compress(raw)
    work = compressor.compressobj(size=len(raw))
    pieces = []
    for start, end in pairwise((0, *(count * each for each in order.part_ends))):
        pieces.append(work.compress(raw[start:end]))
        if end < len(raw):
            pieces.append(work.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK))
    pieces.append(work.flush())
    return b"".join(pieces)


def zstd_blocks(order: Order, parts: int, count: int) -> int:
    """Return how many zstd blocks the first parts of the frame of `count` events have."""
    sizes = (end - start for start, end in pairwise((0, *order.part_ends[:parts])))
    return sum(-(-size * count // ZSTD_BLOCK_BYTES) for size in sizes)


def shortened(frame: bytes, blocks: int, size: int) -> bytes | None:
    """Return the first zstd blocks of a frame as a separate frame, which must hold `size` bytes.

    Returns None if the frame has no more blocks than these. If they hold another size, the result
    is an invalid frame.
    """
    if len(frame) <= _DESCRIPTOR:
        return None
    start = stop = last = _FIRST_BLOCK[frame[_DESCRIPTOR]]
    for _ in range(blocks):
        last = stop
        header = int.from_bytes(frame[last : last + _BLOCK_HEADER], "little")
        stop += _BLOCK_HEADER + (1 if header >> 1 & 3 == _RUN else header >> 3)
    if stop >= len(frame):
        return None
    # The first bit of a block marks the last block.
    is_last = _WITH_FIRST_BIT[frame[last]]
    header_bytes = _FRAME_HEADER.pack(_MAGIC, _SINGLE_SEGMENT, size)
    return b"".join((header_bytes, frame[start:last], is_last, frame[last + 1 : stop]))
