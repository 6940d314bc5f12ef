"""Reading a journal in batches that are each worth a commit of an index.

Must never know how the batches are used.
"""

from collections.abc import Collection, Iterator
from typing import Final

from daybook.journal.blocks.block import Block
from daybook.journal.disk import Disk
from daybook.journal.segments.reader import read_blocks
from daybook.paging.tables.layout import LAYOUT

BATCH_BYTES: Final = 16 * 1024 * 1024
"""Stored bytes that one commit takes at most."""


def batches(
    disk: Disk, after_lsn: int, last_lsn: int, ends: Collection[int] = ()
) -> Iterator[list[Block]]:
    """The blocks after `after_lsn`, up to the one that contains `last_lsn`, in batches.

    A batch also ends with each event of `ends` that is the last of a block. Raises the errors of
    `read_blocks`.
    """
    batch: list[Block] = []
    size = 0
    for block in read_blocks(disk, LAYOUT, from_lsn=after_lsn + 1, to_lsn=last_lsn):
        if block.last_lsn <= after_lsn:
            continue
        batch.append(block)
        size += block.header.block_bytes
        if size >= BATCH_BYTES or block.last_lsn in ends:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
