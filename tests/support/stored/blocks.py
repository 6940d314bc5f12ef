"""Blocks without files: the events of a `World` as a reader of a journal would get them."""

from collections.abc import Iterable, Sequence

from daybook.engine.facts.rows import pack_wide
from daybook.journal.blocks.batch import Batch
from daybook.journal.blocks.block import Block, BlockCodec, RawBlock
from daybook.journal.blocks.format import BLOCK_HEADER_BYTES, NO_HASH, BlockHeader
from daybook.paging.tables.layout import LAYOUT
from tests.support.world import Event

DATA_ID = b"0123456789abcdef"
SEGMENT = f"{1:020}.seg"


class Chain:
    """Makes blocks that follow each other."""

    def __init__(self) -> None:
        self.codec = BlockCodec(LAYOUT, DATA_ID)
        self.hash = NO_HASH
        self.offset = 200

    def block(self, events: Sequence[Event]) -> Block:
        """The block of some events, at least one."""
        strings = [(event.detail, event.headers, event.body) for event in events]
        rows = [
            pack_wide(event.row, *map(len, heaps))
            for event, heaps in zip(events, strings, strict=True)
        ]
        heaps = [[text for text in heap if text] for heap in zip(*strings, strict=True)]
        encoded = self.codec.encode(
            Batch(events[0].lsn, rows, heaps, events[-1].row[11]), self.hash
        )
        return self._block(encoded.header, encoded.data, encoded.hash)

    def mark(self, next_lsn: int) -> Block:
        """A block without events."""
        encoded = self.codec.encode_mark(next_lsn, 0, self.hash)
        return self._block(encoded.header, encoded.data, encoded.hash)

    def _block(self, header: BlockHeader, data: bytes, block_hash: bytes) -> Block:
        heap = BLOCK_HEADER_BYTES + header.rows_stored_bytes
        raw = RawBlock(header, self.offset, data[BLOCK_HEADER_BYTES:heap], data[heap:], block_hash)
        self.hash = block_hash
        self.offset += len(data)
        return Block(self.codec, raw, SEGMENT)


def blocks_of(
    journal: Sequence[Event], cuts: Iterable[int], chain: Chain | None = None
) -> list[Block]:
    """Divide a journal into blocks after these numbers of events."""
    chain = chain or Chain()
    ends = sorted({cut for cut in cuts if 0 < cut < len(journal)} | {len(journal)})
    starts = [0, *ends[:-1]]
    return [chain.block(journal[start:end]) for start, end in zip(starts, ends, strict=True)]
