"""A journal and the tables of its index, written in the simplest way from the events of a world.

For tests of their readers: nothing here is shared with the indexer.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from daybook.engine.facts.events import BODY_OMITTED, FLAGS, KIND, LARGE, QUEUE, ROUTED
from daybook.engine.facts.rows import pack_wide
from daybook.engine.messages.annotations import hash_of
from daybook.engine.queues.entry import HELD_LEVEL, LEVELS, Entry
from daybook.engine.queues.queue import Queue
from daybook.engine.state.state import State
from daybook.engine.state.timers import DELIVERY, EXPIRY
from daybook.journal.blocks.batch import Batch
from daybook.journal.blocks.format import segment_first_lsn
from daybook.journal.data_directory import CLUSTERS_DIRECTORY
from daybook.journal.disk import Disk, RealDisk
from daybook.journal.journal import Journal
from daybook.journal.segments.reader import read_blocks
from daybook.paging.content.clusters import Gathered, write_cluster
from daybook.paging.tables.layout import LAYOUT
from daybook.paging.tables.pages import encode, rows_of
from daybook.paging.tables.records import flags_of
from daybook.paging.tables.tables import (
    ANNOTATION_KEY,
    ANNOTATIONS,
    BLOCK_VALUE,
    BLOCKS,
    CLUSTER_VALUE,
    CLUSTERS,
    ID_KEY,
    PAGES,
    TIMERS,
    Tables,
    page_key,
    timer_key,
)
from tests.support.world import Event

DATA_ID = b"d" * 16
BLOCK_EVENTS = 7


def write_journal(journal: Journal, events: Sequence[Event]) -> None:
    """Append the events that the journal does not have yet, in small blocks."""
    for start in range(journal.next_lsn - 1, len(events), BLOCK_EVENTS):
        some = events[start : start + BLOCK_EVENTS]
        rows = [pack_wide(e.row, *[len(text) for text in e[2:]]) for e in some]
        heaps = [[text for text in texts if text] for texts in list(zip(*some, strict=True))[2:]]
        journal.append(Batch(some[0].lsn, rows, heaps, some[-1].row[-1]))


def write_tables(tables: Tables, disk: Disk, state: State, lsn: int, page: int) -> None:
    """Make the tables of entries that stand in queues those of a state, in pages of at most so many
    entries."""

    def work(txn: Any) -> None:
        for name in (PAGES, TIMERS, BLOCKS, ANNOTATIONS):
            txn.clear(tables.db(name))
        for queue in state.queues.values():
            for level in range(LEVELS):
                some = [each for each in queue.standing() if each.level == level]
                for start in range(0, len(some), page):
                    _put_page(tables, txn, queue, level, some[start : start + page])
        for block in read_blocks(disk, LAYOUT, to_lsn=lsn):
            place = (segment_first_lsn(block.segment), block.offset, block.count, 0, 0, 0, 0)
            txn.put(ID_KEY.pack(block.first_lsn), BLOCK_VALUE.pack(*place), db=tables.db(BLOCKS))
        tables.set_position(txn, lsn, b"h" * 16, 0)

    tables.write(work)


def write_clusters(tables: Tables, events: Sequence[Event], each: int) -> None:
    """Write clusters of so many events, and damage every third one."""
    disk = RealDisk(tables.path / CLUSTERS_DIRECTORY)
    disk.create()
    found = []
    for start in range(0, len(events), each):
        some = [event for event in events[start : start + each] if _is_clustered(event)]
        last = min(start + each, len(events))
        if some:
            known = write_cluster(disk, DATA_ID, start + 1, last, _gathered(some))
            if start // each % 3 == 2:
                (disk.path / known.name).write_bytes(b"")
            found.append(known)

    def work(txn: Any) -> None:
        table = tables.db(CLUSTERS)
        txn.clear(table)
        behind = 0
        for known in found:
            if known.first > behind:
                value = CLUSTER_VALUE.pack(known.first - 1, 0, 0, 0)
                txn.put(ID_KEY.pack(behind), value, db=table)
            txn.put(ID_KEY.pack(known.first), CLUSTER_VALUE.pack(*known[1:], 1), db=table)
            behind = known.last + 1

    tables.write(work)


def _is_clustered(event: Event) -> bool:
    row = event.row
    left = row[FLAGS] & (LARGE | BODY_OMITTED)
    return bool(row[KIND] == ROUTED and row[QUEUE] and not left)


def _gathered(some: list[Event]) -> Gathered:
    some = sorted(some, key=lambda event: (event.row[QUEUE], event.lsn))
    return Gathered(
        np.array([event.row[QUEUE] for event in some], np.uint32),
        np.array([event.lsn for event in some], np.uint64),
        np.array([len(event.headers) for event in some], np.uint32),
        np.array([len(event.body) for event in some], np.uint32),
        [event.headers + event.body for event in some],
    )


def _put_page(tables: Tables, txn: Any, queue: Queue, level: int, entries: list[Entry]) -> None:
    rows = []
    for entry in entries:
        m = entry.message
        flags = flags_of(entry)
        known = m.id, m.size, m.address_id, entry.delivery_count, flags, m.expires, entry.due
        rows.append((*known, hash_of(m.annotations)))
        if m.annotations:
            noted = ANNOTATION_KEY.pack(queue.id, m.id)
            txn.put(noted, m.annotations, db=tables.db(ANNOTATIONS))
        for reason, time in ((EXPIRY, m.expires), (DELIVERY, entry.due)):
            if time and level != HELD_LEVEL:
                key = timer_key(reason, (time, m.id, queue.id))
                txn.put(key, b"", db=tables.db(TIMERS))
    key = page_key(queue.id, level, entries[0].message.id)
    txn.put(key, encode(rows_of(rows)), db=tables.db(PAGES))
