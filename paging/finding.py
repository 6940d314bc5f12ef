"""Finding single ready entries in the pages while a batch is folded, and noting which.

It is what a fold needs of a `engine.queues.Store`, and no more. Must never know what becomes of
the entries that it gave.
"""

from bisect import bisect_left
from typing import Final

import lmdb
import numpy as np

from engine.message import PRIORITIES, Entry
from engine.queues import PAST_ALL, Queue
from paging import pages
from paging.pages import U8, U32, U64
from paging.plain import Taken
from paging.records import ready_entry
from paging.tables import ID_KEY, LEVEL_KEY, PAGES, Tables, level_prefix


class Finder:
    """Entries by id from the pages as a transaction sees them; remembers the page it looked at."""

    def __init__(self, tables: Tables) -> None:
        self._table: Final = tables.db(PAGES)
        self._cursor: lmdb.Cursor | None = None
        self._prefix = b""
        self._messages: list[int] = []
        self._columns: list[list[int]] = []
        self._adopted: list[tuple[int, int, int]] = []

    @property
    def indexed_lsn(self) -> int:
        """What left the queues is gone from the pages when it matters, whatever its LSN."""
        return PAST_ALL

    def begin(self, txn: lmdb.Transaction) -> None:
        """Look at the pages as they are now."""
        self._cursor = txn.cursor(self._table)
        self._prefix = b""

    def end(self) -> None:
        """Look at nothing more: the transaction ends."""
        self._cursor = None
        self._prefix = b""

    def find(self, queue: Queue, message_id: int) -> Entry | None:
        """Return one ready entry, without content; note that it came into memory."""
        for priority in range(PRIORITIES - 1, -1, -1):
            gap = queue.gap(priority)
            if gap is None or not gap.count:
                continue
            prefix = level_prefix(queue.id, priority)
            if not self._covers(prefix, message_id):
                self._open(prefix, message_id, queue.id)
            at = bisect_left(self._messages, message_id)
            if at < len(self._messages) and self._messages[at] == message_id:
                self._adopted.append((queue.id, priority, message_id))
                known = [column[at] for column in self._columns]
                return ready_entry(message_id, priority, *known)
        return None

    def _covers(self, prefix: bytes, message_id: int) -> bool:
        messages = self._messages
        return prefix == self._prefix and messages[0] <= message_id <= messages[-1]

    def _open(self, prefix: bytes, message_id: int, queue_id: int) -> None:
        """Read the page that has the message if any has."""
        cursor = self._cursor
        assert cursor is not None
        key = prefix + ID_KEY.pack(message_id)
        found = cursor.set_range(key)
        if not found or bytes(cursor.key()) != key:
            found = cursor.prev() if found else cursor.last()
        self._prefix = b""
        self._messages = []
        if not found or not bytes(cursor.key()).startswith(prefix):
            return
        first = ID_KEY.unpack_from(bytes(cursor.key()), LEVEL_KEY.size)[0]
        rows = pages.decode(bytes(cursor.value()), queue_id, first)
        self._prefix = prefix
        self._messages = rows.message.tolist()
        self._columns = [column.tolist() for column in rows[1:]]

    def take_adopted(self) -> Taken | None:
        """Return what came into memory since this was last asked, None if nothing did."""
        adopted, self._adopted = self._adopted, []
        if not adopted:
            return None
        queues, priorities, messages = zip(*adopted, strict=True)
        return Taken(np.array(queues, U32), np.array(priorities, U8), np.array(messages, U64))
