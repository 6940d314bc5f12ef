"""Folding a journal into an index in batches that are each worth a commit.

Must never know what the index is for.
"""

from collections.abc import Collection, Iterator
from typing import Final

from daybook.journal.blocks.block import Block
from daybook.journal.disk import Disk
from daybook.journal.segments.reader import read_blocks
from daybook.paging.fold.index import Index
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


def folded(
    index: Index, disk: Disk, last_lsn: int, ends: Collection[int] = ()
) -> Iterator[list[Block]]:
    """Fold whole blocks up to an event into an index; yield each batch after its commit.

    The last batch may end with a block that is not folded, because it has later events, too. `ends`
    as in `batches`. Raises the errors of `read_blocks` and `Index.advance`.
    """
    for batch in batches(disk, index.lsn, last_lsn, ends):
        index.advance([block for block in batch if block.last_lsn <= last_lsn])
        yield batch
