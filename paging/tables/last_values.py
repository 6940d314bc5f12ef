"""The newest message for each last value key of each queue, in the index.

A row says which message came last with a key; it may have left its queue since. Rows of such
messages are removed by sweeps: when a queue has many more rows than messages, those are deleted
whose message left, unless an older message, which is in flight or set aside, may still return and
must then be known to be replaced. So the rows need no care when a message leaves, and a queue has
about as many as messages. Must never know the meaning of a key.
"""

from typing import Final

import numpy as np

from daybook.engine.messages.message import PRIORITIES
from daybook.engine.queues.queue import PAST_ALL, Queue
from daybook.paging.tables.checked import IndexDamaged, Transaction
from daybook.paging.tables.levels import Levels
from daybook.paging.tables.tables import (
    LAST_VALUE,
    LAST_VALUE_KEY,
    LAST_VALUES,
    Tables,
    queue_prefix,
)

ROWS_MIN: Final = 1000
"""How many rows a queue may have before the first sweep, in addition to two for each message."""


class LastValues:
    """Writes the rows of the queues of one fold."""

    def __init__(self, tables: Tables, levels: Levels) -> None:
        self._tables: Final = tables
        self._table: Final = tables.db(LAST_VALUES)
        self._levels: Final = levels
        # By queue: how many rows it has at most, and how many it may have before a sweep.
        self._rows: Final[dict[int, int]] = {}
        self._most: Final[dict[int, int]] = {}

    def write(self, txn: Transaction, queue: Queue) -> None:
        """Write the keys known to a queue, and clear them there."""
        latest, queue.latest = queue.latest, None
        assert latest is not None
        rows = self._rows.get(queue.id)
        if rows is None:
            rows = self._count(txn, queue.id)
        for key, message_id, lsn in latest.items():
            packed = LAST_VALUE_KEY.pack(queue.id, key)
            txn.put(packed, LAST_VALUE.pack(message_id, lsn), db=self._table)
        rows += len(latest)
        most = max(2 * queue.message_count + ROWS_MIN, self._most.get(queue.id, 0))
        if rows > most:
            rows = self._sweep(txn, queue)
            self._most[queue.id] = 2 * rows + ROWS_MIN
        self._rows[queue.id] = rows

    def forget(self, txn: Transaction, queue_id: int) -> None:
        """Delete the rows of a queue that is gone."""
        self._rows.pop(queue_id, None)
        self._most.pop(queue_id, None)
        if not txn.count(self._table):
            return
        cursor = txn.cursor(self._table)
        prefix = queue_prefix(queue_id)
        while cursor.set_range(prefix) and cursor.key().startswith(prefix):
            cursor.delete()

    def _count(self, txn: Transaction, queue_id: int) -> int:
        cursor = txn.cursor(self._table)
        prefix = queue_prefix(queue_id)
        more = cursor.set_range(prefix)
        count = 0
        while more and cursor.key().startswith(prefix):
            count += 1
            more = cursor.next()
        return count

    def _sweep(self, txn: Transaction, queue: Queue) -> int:
        """Delete obsolete rows; return the number of the others."""
        # In memory are the entries in flight.
        returning = list(queue.entries)
        there = [np.array(returning, np.uint64)]
        for level, rows in self._levels.each_page(txn, queue.id):
            there.append(rows.message)
            if level >= PRIORITIES:
                returning.append(int(rows.message[0]))
        present = set(np.concatenate(there).tolist())
        oldest = min(returning, default=PAST_ALL)
        cursor = txn.cursor(self._table)
        prefix = queue_prefix(queue.id)
        kept = 0
        unwanted = []
        more = cursor.set_range(prefix)
        while more and cursor.key().startswith(prefix):
            message_id, lsn = _row(self._tables, cursor.value())
            if message_id in present or lsn > oldest:
                kept += 1
            else:
                unwanted.append(cursor.key())
            more = cursor.next()
        for key in unwanted:
            txn.delete(key, db=self._table)
        return kept


def last_value(tables: Tables, txn: Transaction, queue_id: int, key: bytes) -> int:
    """Return the newest message of a queue with a key, 0 if there was none. Raises IndexDamaged."""
    value = txn.get(LAST_VALUE_KEY.pack(queue_id, key), db=tables.db(LAST_VALUES))
    return _row(tables, value)[0] if value is not None else 0


def _row(tables: Tables, value: bytes) -> tuple[int, int]:
    if len(value) != LAST_VALUE.size:
        raise IndexDamaged(
            f"the index in {tables.path} is damaged: a last value has {len(value)} bytes"
        )
    message_id, lsn = LAST_VALUE.unpack(value)
    return message_id, lsn
