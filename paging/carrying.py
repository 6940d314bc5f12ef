"""Where content is that was carried forward, and what must still be before segments can leave.

A message's content is at its id, unless table `carried` says otherwise; table `large` finds the
large messages by their first chunk. Rows of what is gone go when the segments they speak of have
left. Must never know who carries, or when.
"""

from collections.abc import Iterator
from typing import NamedTuple, cast

import lmdb
import numpy as np

from engine import events
from engine.events import FLAGS, KIND, MESSAGE, RELATED
from paging import pages, records
from paging.columns import Columns
from paging.tables import (
    BLOCK_VALUE,
    BLOCKS,
    CARRIED,
    FLIGHT_KEY,
    FLIGHTS,
    ID_KEY,
    LARGE,
    LARGE_KEY,
    PAGE_KEY,
    PAGES,
    Tables,
)


class Place(NamedTuple):
    """A message in a queue, and the event that has its content."""

    message: int
    lsn: int
    address: int
    priority: int
    flags: int
    size: int


class Position(NamedTuple):
    """How far a search has come: the key of a page."""

    queue: int = 0
    level: int = 0
    first: int = 0


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


def to_carry(
    tables: Tables, txn: lmdb.Transaction, last_lsn: int, start: Position, limit: int
) -> tuple[list[Place], Position | None]:
    """Ready messages whose content is at `last_lsn` or before, from a position on.

    At most about `limit`; return them and where to go on, None after the last page. Messages whose
    body is not journaled are passed over.
    """
    found: list[Place] = []
    cursor = txn.cursor(tables.db(PAGES))
    more = cursor.set_range(PAGE_KEY.pack(*start))
    while more:
        queue_id, level, first = PAGE_KEY.unpack(cursor.key())
        if len(found) >= limit:
            return found, Position(queue_id, level, first)
        if first > last_lsn:
            # The rest of the level is later still.
            more = cursor.set_range(PAGE_KEY.pack(queue_id, level + 1, 0))
            continue
        rows = pages.decode(bytes(cursor.value()), queue_id, first)
        rows = rows.take(slice(0, int(np.searchsorted(rows.message, last_lsn, "right"))))
        found += _behind(tables, txn, rows, 9 - level, last_lsn)
        more = cursor.next()
    return found, None


def _behind(
    tables: Tables, txn: lmdb.Transaction, rows: pages.Rows, priority: int, last_lsn: int
) -> Iterator[Place]:
    ids = rows.message.tolist()
    carried = located(tables, txn, ids)
    for message_id, size, address, _, flags, _ in zip(
        *(column.tolist() for column in rows), strict=True
    ):
        lsn = carried.get(message_id, message_id)
        if lsn <= last_lsn and not flags & events.BODY_OMITTED:
            yield Place(message_id, lsn, address, priority, flags, size)


def flights_to_carry(tables: Tables, txn: lmdb.Transaction, last_lsn: int) -> list[Place]:
    """Messages in flight whose content is at `last_lsn` or before."""
    found = {}
    for key, value in txn.cursor(tables.db(FLIGHTS)):
        message_id = FLIGHT_KEY.unpack(key)[1]
        record = records.decode(records.FlightRecord, value, "an entry in flight")
        lsn = located(tables, txn, [message_id]).get(message_id, message_id)
        if lsn <= last_lsn and not record.flags & events.BODY_OMITTED:
            found[message_id] = Place(
                message_id, lsn, record.address, record.priority, record.flags, record.size
            )
    return list(found.values())


def large_to_carry(tables: Tables, txn: lmdb.Transaction, last_lsn: int) -> Iterator[int]:
    """Ids of large messages that begin at `last_lsn` or before and were routed behind it.

    They may be gone from every queue.
    """
    for key in txn.cursor(tables.db(LARGE)).iternext(keys=True, values=False):
        first, message_id = LARGE_KEY.unpack(key)
        if first > last_lsn:
            return
        carried = located(tables, txn, [message_id]).get(message_id, message_id)
        if message_id > last_lsn and carried == message_id:
            yield message_id
