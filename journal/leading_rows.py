"""The first columns of many blocks: only what is needed is decompressed, all of it in one call.

Fault model: a frame that is none, or holds more or less than the header of its block says, is
Damage. Must never know what a column means.
"""

from collections.abc import Sequence
from typing import TypeAlias

from journal import rows_frame
from journal.block import BlockCodec, Buffer
from journal.format import BlockHeader, Damage

Stored: TypeAlias = tuple[BlockHeader, bytes]
"""Header and rows frame of a block that has events."""


def leading_rows(
    codec: BlockCodec, blocks: Sequence[Stored], positions: tuple[int, ...]
) -> Sequence[Buffer]:
    """For each block the rows as far as these columns reach; `codec.order` says where each is.

    Raises Damage.
    """
    for header, _ in blocks:
        codec.check_size(header)
    try:
        return codec.decompress_all([_frame(codec, *block, positions) for block in blocks])
    except Damage:
        # Another compressor may have cut parts otherwise than ours.
        return codec.decompress_all([(rows, header.rows_raw_bytes) for header, rows in blocks])


def _frame(
    codec: BlockCodec, header: BlockHeader, rows: bytes, positions: tuple[int, ...]
) -> tuple[bytes, int]:
    """A frame that has these columns, and how much it must hold."""
    count = header.event_count
    order = codec.order(header)
    parts = rows_frame.parts_with(order, positions)
    if parts < len(order.part_ends) and count >= rows_frame.PARTED_COUNT_MIN:
        size = count * order.part_ends[parts - 1]
        shortened = rows_frame.shortened(rows, rows_frame.zstd_blocks(order, parts, count), size)
        if shortened is not None:
            return shortened, size
    return rows, header.rows_raw_bytes
