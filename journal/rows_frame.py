"""The rows frame of a block: one zstd frame whose first columns can be had without the others.

The columns before the message, and the message, end a zstd block each, and zstd gives what a block
holds without the blocks behind it. It is a frame like all others to every reader; one that was
written in one piece reads as well, only no part of it is had for less. Columns are alike within
themselves more than with others, so that frames in parts are smaller, too.

Must never know what a column means.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import Final

import zstandard

from journal.format import Damage
from journal.layout import WIDTHS, RowLayout

PARTED_COUNT_MIN: Final = 64
"""Events from which on a frame is in parts; below, what parts cost is more than they bring."""

_MAGIC_BYTES: Final = 4
_BLOCK_HEADER_BYTES: Final = 3
_RUN: Final = 1
"""Type of a zstd block that is one byte repeated (RFC 8878, section 3.1.1.2.2)."""
_DICTIONARY_ID_BYTES: Final = (0, 1, 2, 4)
_CONTENT_SIZE_BYTES: Final = (0, 2, 4, 8)


def part_ends(layout: RowLayout) -> tuple[int, ...]:
    """Where parts end, in bytes of a row: before the column of the message, and behind it."""
    message = layout.position(layout.message_column)
    widths = [WIDTHS[code] for _, code, _ in layout.stored()]
    ends = {sum(widths[:message]), sum(widths[: message + 1])}
    return tuple(sorted(ends - {0, sum(widths)}))


def compress(
    compressor: zstandard.ZstdCompressor, raw: bytes, count: int, ends: tuple[int, ...]
) -> bytes:
    """The frame of the columns of `count` events."""
    if count < PARTED_COUNT_MIN:
        return compressor.compress(raw)
    work = compressor.compressobj(size=len(raw))
    pieces = []
    for start, end in pairwise((0, *(count * each for each in ends))):
        pieces.append(work.compress(raw[start:end]))
        pieces.append(work.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK))
    pieces.append(work.compress(raw[count * ends[-1] if ends else 0 :]))
    pieces.append(work.flush())
    return b"".join(pieces)


def leading(decompressor: zstandard.ZstdDecompressor, frame: bytes, wanted: int) -> bytes:
    """At least the first `wanted` bytes of what a frame holds, and little more. Raises Damage."""
    work = decompressor.decompressobj()
    pieces = []
    size = 0
    try:
        for start, end in pairwise((0, *_block_ends(frame))):
            piece = work.decompress(frame[start:end])
            pieces.append(piece)
            size += len(piece)
            if size >= wanted:
                return pieces[0] if len(pieces) == 1 else b"".join(pieces)
    except zstandard.ZstdError as error:
        raise Damage(f"a frame cannot be decompressed: {error}") from error
    raise Damage("a frame decompressed to fewer bytes than the block header says")


def _block_ends(frame: bytes) -> Iterator[int]:
    """Where the zstd blocks of a frame end (RFC 8878, section 3.1.1). Raises Damage."""
    try:
        descriptor = frame[_MAGIC_BYTES]
        is_single = descriptor >> 5 & 1
        content_size = _CONTENT_SIZE_BYTES[descriptor >> 6] or is_single
        position = _MAGIC_BYTES + 1 + (1 - is_single)
        position += _DICTIONARY_ID_BYTES[descriptor & 3] + content_size
        is_last = False
        while not is_last:
            header = int.from_bytes(frame[position : position + _BLOCK_HEADER_BYTES], "little")
            is_last = bool(header & 1)
            stored = 1 if header >> 1 & 3 == _RUN else header >> 3
            position += _BLOCK_HEADER_BYTES + stored
            if position > len(frame):
                raise Damage("a frame ends within a zstd block")
            yield position
    except IndexError as error:
        raise Damage("a frame ends within its header") from error
