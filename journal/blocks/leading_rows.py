"""The first columns of many blocks: decompresses only the needed parts, all in one call.

Fault model: an invalid frame, or one of another size than the header of its block says, is Damage.
Must never know what a column means.
"""

from collections.abc import Sequence
from typing import TypeAlias

from daybook.journal.blocks.block import BlockCodec, Buffer
from daybook.journal.blocks.format import BlockHeader, Damage
from daybook.journal.blocks.rows_frame import (
    PARTED_COUNT_MIN,
    ZSTD_BLOCK_BYTES,
    Order,
    parts_with,
    shortened,
    zstd_blocks,
)

Stored: TypeAlias = tuple[BlockHeader, bytes]
"""Header and rows frame of a block that has events."""


def leading_rows(
    codec: BlockCodec, blocks: Sequence[Stored], positions: tuple[int, ...]
) -> Sequence[Buffer]:
    """Decompress the rows of each block as far as these columns reach.

    `codec.order` says where each column is. Raises Damage.
    """
    frames = []
    parts: dict[Order, int] = {}
    for header, rows in blocks:
        codec.check_size(header)
        order = codec.order(header)
        if order not in parts:
            parts[order] = parts_with(order, positions)
        frames.append(_first_parts(header, rows, order, parts[order]))
    try:
        return codec.decompress_all(frames)
    except Damage:
        # Another compressor may have divided the frame in another way.
        return codec.decompress_all([(rows, header.rows_raw_bytes) for header, rows in blocks])


def _first_parts(header: BlockHeader, rows: bytes, order: Order, parts: int) -> tuple[bytes, int]:
    """Return a frame of the first parts, and the size that it must decompress to."""
    count = header.event_count
    if parts < len(order.part_ends) and count >= PARTED_COUNT_MIN:
        size = count * order.part_ends[parts - 1]
        # Nearly always each part is one zstd block.
        blocks = parts if size <= ZSTD_BLOCK_BYTES else zstd_blocks(order, parts, count)
        found = shortened(rows, blocks, size)
        if found is not None:
            return found, size
    return rows, header.rows_raw_bytes
