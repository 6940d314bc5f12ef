"""Where content is that was carried forward: the tables that say it, kept and asked.

A message's content is at its id, unless table `carried` says otherwise; table `large` finds the
large messages by their first chunk. Rows of what is gone go when the segments they speak of have
left. Must never know who carries, or when.
"""

from collections.abc import Iterator
from typing import cast

import lmdb
import numpy as np

from engine import events
from engine.events import FLAGS, KIND, MESSAGE, RELATED
from paging.columns import Columns
from paging.tables import (
    BLOCK_VALUE,
    BLOCKS,
    CARRIED,
    ID_KEY,
    LARGE,
    LARGE_KEY,
    Tables,
)

# ---- keeping the tables


def note_places(tables: Tables, txn: lmdb.Transaction, columns: Columns) -> None:
    """Take in what a batch says of where content is."""
    kinds = columns.column(KIND)
    is_large = (kinds == events.ROUTED) & (columns.column(FLAGS) & events.LARGE != 0)
    chosen = is_large | (kinds == events.CARRIED) | (kinds == events.SEGMENTS_REMOVED)
    positions = np.flatnonzero(chosen)
    if not len(positions):
        return
    for lsn, row, detail, _, _ in columns.events(positions):
        if row[KIND] == events.SEGMENTS_REMOVED:
            _forget(tables, txn, row[RELATED])
            continue
        if row[KIND] == events.CARRIED:
            txn.put(ID_KEY.pack(row[MESSAGE]), ID_KEY.pack(lsn), db=tables.db(CARRIED))
        decoded = events.decode_detail(row[KIND], detail)
        if isinstance(decoded, events.RoutedDetail | events.CarriedDetail) and decoded.chunks:
            key = LARGE_KEY.pack(decoded.chunks[0], row[MESSAGE])
            txn.put(key, b"", db=tables.db(LARGE))


def _forget(tables: Tables, txn: lmdb.Transaction, last_lsn: int) -> None:
    """Delete what speaks of segments that left."""
    cursor = txn.cursor(tables.db(LARGE))
    while cursor.first() and LARGE_KEY.unpack(cursor.key())[0] <= last_lsn:
        cursor.delete()
    carried = txn.cursor(tables.db(CARRIED))
    stale = [key for key, value in carried if ID_KEY.unpack(value)[0] <= last_lsn]
    for key in stale:
        txn.delete(key, db=tables.db(CARRIED))
    blocks = txn.cursor(tables.db(BLOCKS))
    while blocks.first():
        first = ID_KEY.unpack(blocks.key())[0]
        if first + BLOCK_VALUE.unpack(blocks.value())[2] - 1 > last_lsn:
            break
        blocks.delete()


# ---- asking them


def located(tables: Tables, txn: lmdb.Transaction, message_ids: list[int]) -> dict[int, int]:
    """The events that have the content of those messages that were carried."""
    db = tables.db(CARRIED)
    if not txn.stat(db)["entries"]:
        return {}
    found = {}
    for message_id in message_ids:
        value = txn.get(ID_KEY.pack(message_id), db=db)
        if value is not None:
            found[message_id] = cast(int, ID_KEY.unpack(value)[0])
    return found


def large_from(tables: Tables, txn: lmdb.Transaction, last_lsn: int) -> Iterator[tuple[int, int]]:
    """First chunk and id of messages whose content has begun at `last_lsn` or before, once.

    They may have been carried since, and be gone from every queue.
    """
    for key in txn.cursor(tables.db(LARGE)).iternext(keys=True, values=False):
        first, message_id = LARGE_KEY.unpack(key)
        if first > last_lsn:
            return
        yield first, message_id
