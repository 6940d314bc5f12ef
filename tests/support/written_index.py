"""A journal and the tables of its index, written in the plainest way from what a world journaled.

For tests of who reads them: nothing here is shared with the indexer.
"""

from collections.abc import Sequence
from typing import Any

from engine.events import ROW_STRUCT
from engine.message import PRIORITIES, Entry
from engine.queues import Queue
from engine.state import State
from journal.batch import Batch
from journal.disk import Disk
from journal.format import segment_first_lsn
from journal.journal import Journal
from journal.reader import read_blocks
from paging.layout import LAYOUT
from paging.pages import encode, rows_of
from paging.tables import (
    BLOCK_VALUE,
    BLOCKS,
    EXPIRING,
    EXPIRING_KEY,
    ID_KEY,
    PAGES,
    Tables,
    page_key,
)
from tests.support.world import Event

DATA_ID = b"d" * 16
BLOCK_EVENTS = 7


def write_journal(journal: Journal, events: Sequence[Event]) -> None:
    """Append what the journal does not have yet, in small blocks."""
    for start in range(journal.next_lsn - 1, len(events), BLOCK_EVENTS):
        some = events[start : start + BLOCK_EVENTS]
        rows = [ROW_STRUCT.pack(*e.row, *[len(text) for text in e[2:]]) for e in some]
        heaps = [[text for text in texts if text] for texts in list(zip(*some, strict=True))[2:]]
        journal.append(Batch(some[0].lsn, rows, heaps, some[-1].row[-1]))


def write_tables(tables: Tables, disk: Disk, state: State, lsn: int, page: int) -> None:
    """Make the tables of ready entries those of a state, in pages of at most so many entries."""

    def work(txn: Any) -> None:
        for name in (PAGES, EXPIRING, BLOCKS):
            txn.drop(tables.db(name), delete=False)
        for queue in state.queues.values():
            for priority in range(PRIORITIES):
                ready = [e for e in queue.ready() if e.message.priority == priority]
                for start in range(0, len(ready), page):
                    _put_page(tables, txn, queue, priority, ready[start : start + page])
        for block in read_blocks(disk, LAYOUT, to_lsn=lsn):
            place = (segment_first_lsn(block.segment), block.offset, block.count, 0, 0, 0, 0)
            txn.put(ID_KEY.pack(block.first_lsn), BLOCK_VALUE.pack(*place), db=tables.db(BLOCKS))
        tables.set_position(txn, lsn, b"h" * 16, 0)

    tables.write(work)


def _put_page(tables: Tables, txn: Any, queue: Queue, priority: int, entries: list[Entry]) -> None:
    rows = []
    for entry in entries:
        m = entry.message
        rows.append((m.id, m.size, m.address_id, entry.delivery_count, m.flags, m.expires))
        if m.expires:
            key = EXPIRING_KEY.pack(m.expires, m.id, queue.id)
            txn.put(key, b"", db=tables.db(EXPIRING))
    key = page_key(queue.id, priority, entries[0].message.id)
    txn.put(key, encode(rows_of(rows)), db=tables.db(PAGES))
