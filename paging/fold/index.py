"""The index: tables with the state at some LSN of the journal, advanced batch by batch.

One batch of blocks is one synchronous commit, complete or absent. Fault model: after any exception
the tables are those of the last commit, and the next call reads them again. Must never know its
readers.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import numpy as np

from daybook.engine.facts import events
from daybook.journal.blocks.block import Block
from daybook.journal.blocks.format import segment_first_lsn
from daybook.paging.content.cluster_writer import Clustering, remove_leftovers
from daybook.paging.fold.fold import Fold
from daybook.paging.fold.index_digest import digest_of_tables
from daybook.paging.tables.carried_content import note_places
from daybook.paging.tables.checked import IndexDamaged, Transaction
from daybook.paging.tables.columns import Columns
from daybook.paging.tables.names import IDLE_MAX
from daybook.paging.tables.tables import BLOCK_VALUE, BLOCKS, ID_KEY, Tables, open_for_writing

U64: Final = (1 << 64) - 1
PART_EVENTS: Final = 250_000
"""How many events are folded at once; a larger batch is folded in parts, with one commit."""


class Index:
    """The index in a directory, open for writing; one process at a time."""

    def __init__(
        self,
        path: Path,
        data_id: bytes,
        *,
        plain: bool = True,
        clusters: bool = True,
        idle_max: int = IDLE_MAX,
        tables: Tables | None = None,
    ) -> None:
        """Open the index, or create it for the journal of `data_id` (16 bytes).

        `tables` are already open, shared with readers in other threads, and never closed here.

        Without `plain` every event goes through `apply`, which is slower and gives the same result.
        Without `clusters` none is written: for an index that no reader takes content from.
        `idle_max` is how many idle addresses keep their objects (`paging.tables.names`). Raises
        IndexDamaged and IndexUnwritable.
        """
        self.path: Final = path
        self._data_id: Final = data_id
        self._plain: Final = plain
        self._clusters: Final = clusters
        self._idle_max: Final = idle_max
        self._shared: Final = tables
        self._tables: Tables | None = None
        self._fold: Fold | None = None
        self._clustering: Clustering | None = None
        self.lsn = 0
        """The indexed LSN."""
        self.last_hash = b""
        """Hash of the block that ends there, 16 bytes; zero if the index is empty."""
        self._open()

    @property
    def tables(self) -> Tables:
        """The tables; readers in this process must use them, and must not hold a transaction during
        `advance`."""
        return self._open()

    def _open(self) -> Tables:
        if self._tables is None:
            self._tables = self._shared or open_for_writing(self.path, self._data_id)
            with self._tables.read() as txn:
                self.lsn, self.last_hash, _ = self._tables.position(txn)
            remove_leftovers(self._tables)
        return self._tables

    def close(self) -> None:
        """Close the tables, unless they are shared."""
        self._fold = None
        self._clustering = None
        if self._tables is not None and self._shared is None:
            self._tables.close()
        self._tables = None

    def advance(self, blocks: Sequence[Block]) -> int:
        """Fold blocks, the first of which follows the indexed LSN; return the new indexed LSN.

        Marks are skipped. One commit; if it raises IndexDamaged, IndexUnwritable or Corruption (of
        the journal), the tables stay unchanged.
        """
        filled = [block for block in blocks if block.count]
        if not filled:
            return self.lsn
        assert filled[0].first_lsn == self.lsn + 1, "blocks follow the indexed LSN"
        tables = self._open()
        last = filled[-1]
        try:
            tables.make_room(last.last_lsn - self.lsn)
            tables.write(lambda txn: self._advance(txn, filled))
        except BaseException:
            # The state is ahead of the tables.
            self.close()
            raise
        self.lsn, self.last_hash = last.last_lsn, last.hash
        if self._clustering is not None:
            self._clustering.tidy()
        return self.lsn

    def _advance(self, txn: Transaction, blocks: list[Block]) -> None:
        tables = self._open()
        if tables.position(txn)[0] != self.lsn:
            raise IndexDamaged(f"the index in {self.path} is also written by another process")
        fold, clustering = self._fold, self._clustering
        # They exist only after an attempt that failed.
        self._fold = self._clustering = None
        if fold is None or clustering is None:
            fold = Fold(tables, txn, plain=self._plain, idle_max=self._idle_max)
            live = fold.levels.count()
            clustering = Clustering(tables, txn, live, makes=self._clusters)
        for part in _parts(blocks):
            columns = Columns(part)
            fold.fold(txn, columns)
            clustering.follow(columns, fold.take_appended(), fold.levels.take_moved())
            _write_blocks(tables, txn, columns)
            note_places(tables, txn, columns)
        clustering.save(txn)
        last = blocks[-1]
        tables.set_position(txn, last.last_lsn, last.hash, last.time)
        self._fold, self._clustering = fold, clustering

    def digest(self) -> str:
        """Return the digest of the state at the indexed LSN; the cost depends on the queues, not on
        the entries."""
        tables = self._open()
        with tables.read() as txn:
            if self._fold is None:
                self._fold = Fold(tables, txn, plain=self._plain, idle_max=self._idle_max)
            return digest_of_tables(tables, txn, self._fold.state, self._fold.levels.sums)


def _parts(blocks: list[Block]) -> Iterator[list[Block]]:
    """Cut a batch into parts, which bounds the memory."""
    part: list[Block] = []
    events_in_part = 0
    for block in blocks:
        part.append(block)
        events_in_part += block.count
        if events_in_part >= PART_EVENTS:
            yield part
            part, events_in_part = [], 0
    if part:
        yield part


def _write_blocks(tables: Tables, txn: Transaction, columns: Columns) -> None:
    """Record where each block is, and the range of its times and messages."""
    starts = columns.starts
    time = columns.column(events.TIME)
    message = columns.column(events.MESSAGE)
    # Events without a message have 0 there, which must not be the lowest.
    named = np.where(message == 0, np.uint64(U64), message)
    lowest = np.minimum.reduceat(named, starts)
    highest = np.maximum.reduceat(message, starts)
    lowest[highest == 0] = 0
    known = zip(
        columns.blocks,
        np.minimum.reduceat(time, starts).tolist(),
        np.maximum.reduceat(time, starts).tolist(),
        lowest.tolist(),
        highest.tolist(),
        strict=True,
    )
    items = [
        (
            ID_KEY.pack(block.first_lsn),
            BLOCK_VALUE.pack(segment_first_lsn(block.segment), block.offset, block.count, *summary),
        )
        for block, *summary in known
    ]
    txn.put_all(items, db=tables.db(BLOCKS), append=True)
