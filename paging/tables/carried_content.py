"""Where carried content is: keeping and reading the tables that record it.

A message's content is at its id, unless table `carried` says otherwise; table `large` finds the
large messages by their first chunk. Rows about removed segments are deleted after the segments have
left; rows of `carried` are not in the order of segments, so a sweep deletes them a part at a time.
Until then they are about messages that are in no queue. Must never know when content is carried.
"""

from collections.abc import Callable, Iterator
from struct import Struct
from typing import Any, Final, cast

import numpy as np

from daybook.engine.facts import details, events
from daybook.engine.facts.events import FLAGS, KIND, MESSAGE, RELATED
from daybook.engine.facts.kinds import WITH_CHUNKS
from daybook.paging.tables.checked import Transaction
from daybook.paging.tables.columns import Columns
from daybook.paging.tables.tables import (
    BLOCK_VALUE,
    BLOCKS,
    CARRIED,
    ID_KEY,
    LARGE,
    LARGE_KEY,
    META,
    Tables,
)

SWEEP_KEY: Final = b"sweep"
SWEEP_VALUE: Final = Struct("<QQQ")
"""The state of an unfinished sweep of `carried`: the message to continue with, how many rows are
still to be checked, and the last event that left."""
SWEEP_ROWS: Final = 5_000
"""How many rows are checked with one batch: about ten milliseconds."""

PLACING: Final = np.zeros(256, bool)
"""Kinds that record the place of content, or its removal; no queue has what is forwarded."""
PLACING[[*(WITH_CHUNKS - {events.FORWARDED}), events.SEGMENTS_REMOVED]] = True

# ---- keeping the tables


def note_places(tables: Tables, txn: Transaction, columns: Columns) -> None:
    """Record the places of content in a batch."""
    kinds = columns.column(KIND)
    chosen = PLACING[kinds]
    # The Routed of a message says where its content is only if the message is large.
    chosen &= (kinds != events.ROUTED) | (columns.column(FLAGS) & events.LARGE != 0)
    positions = np.flatnonzero(chosen)
    if len(positions):
        _note(tables, txn, columns, positions)
    _sweep(tables, txn)


def _note(
    tables: Tables, txn: Transaction, columns: Columns, positions: "np.ndarray[Any, Any]"
) -> None:
    for lsn, row, detail, _, _ in columns.events(positions):
        if row[KIND] == events.SEGMENTS_REMOVED:
            _forget(tables, txn, row[RELATED])
            continue
        if row[KIND] == events.CARRIED:
            txn.put(ID_KEY.pack(row[MESSAGE]), ID_KEY.pack(lsn), db=tables.db(CARRIED))
        decoded = events.decode_detail(row[KIND], detail)
        if isinstance(decoded, details.RoutedDetail | details.CarriedDetail) and decoded.chunks:
            key = LARGE_KEY.pack(decoded.chunks[0], row[MESSAGE])
            txn.put(key, b"", db=tables.db(LARGE))


def _forget(tables: Tables, txn: Transaction, last_lsn: int) -> None:
    """Delete the rows about segments that left."""
    cursor = txn.cursor(tables.db(LARGE))
    while cursor.first() and LARGE_KEY.unpack(cursor.key())[0] <= last_lsn:
        cursor.delete()
    rows = txn.count(tables.db(CARRIED))
    if rows:
        sweep = txn.get(SWEEP_KEY, db=tables.db(META))
        position = SWEEP_VALUE.unpack(sweep)[0] if sweep is not None else 0
        txn.put(SWEEP_KEY, SWEEP_VALUE.pack(position, rows, last_lsn), db=tables.db(META))
    blocks = txn.cursor(tables.db(BLOCKS))
    while blocks.first():
        first = ID_KEY.unpack(blocks.key())[0]
        if first + BLOCK_VALUE.unpack(blocks.value())[2] - 1 > last_lsn:
            break
        blocks.delete()


def forget_lost(tables: Tables, txn: Transaction, is_lost: Callable[[int], bool]) -> None:
    """Delete the rows about content in lost events."""
    carried = tables.db(CARRIED)
    lost = [key for key, value in txn.rows(carried) if is_lost(ID_KEY.unpack(value)[0])]
    large = []
    for key, _ in txn.rows(tables.db(LARGE)):
        chunk, message = LARGE_KEY.unpack(key)
        at = located(tables, txn, [message]).get(message, message)
        if is_lost(chunk) or is_lost(at):
            large.append(key)
    for key in lost:
        txn.delete(key, db=carried)
    for key in large:
        txn.delete(key, db=tables.db(LARGE))


def _sweep(tables: Tables, txn: Transaction) -> None:
    """Check some rows of `carried`, continuing where the last sweep ended, until each was
    checked."""
    sweep = txn.get(SWEEP_KEY, db=tables.db(META))
    if sweep is None:
        return
    position, left, last_lsn = SWEEP_VALUE.unpack(sweep)
    stale: list[bytes] = []
    cursor = txn.cursor(tables.db(CARRIED))
    more = cursor.set_range(ID_KEY.pack(position))
    for _ in range(min(left, SWEEP_ROWS)):
        if not more:
            more = cursor.first()
        if not more:
            break
        if ID_KEY.unpack(cursor.value())[0] <= last_lsn:
            stale.append(cursor.key())
        more = cursor.next()
    position = ID_KEY.unpack(cursor.key())[0] if more else 0
    for key in stale:
        txn.delete(key, db=tables.db(CARRIED))
    left = max(0, left - SWEEP_ROWS)
    if left:
        txn.put(SWEEP_KEY, SWEEP_VALUE.pack(position, left, last_lsn), db=tables.db(META))
    else:
        txn.delete(SWEEP_KEY, db=tables.db(META))


# ---- reading them


def located(tables: Tables, txn: Transaction, message_ids: list[int]) -> dict[int, int]:
    """The events that contain the content of those of these messages that were carried."""
    db = tables.db(CARRIED)
    if not txn.count(db):
        return {}
    found = {}
    for message_id in message_ids:
        value = txn.get(ID_KEY.pack(message_id), db=db)
        if value is not None:
            found[message_id] = cast(int, ID_KEY.unpack(value)[0])
    return found


def large_from(tables: Tables, txn: Transaction, last_lsn: int) -> Iterator[tuple[int, int]]:
    """First chunk and id of messages whose content once began at `last_lsn` or before.

    They may have been carried since, and have left every queue.
    """
    for key, _ in txn.rows(tables.db(LARGE)):
        first, message_id = LARGE_KEY.unpack(key)
        if first > last_lsn:
            return
        yield first, message_id
