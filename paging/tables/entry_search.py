"""Finding single ready entries in the pages during a fold of a batch, and recording which.

The part of an `engine.queues.queue.Store` that a fold needs. Must never know the fate of the
returned entries.
"""

from bisect import bisect_left
from typing import Final, NamedTuple

import numpy as np

from daybook.engine.queues.entry import LEVELS, Entry
from daybook.engine.queues.queue import PAST_ALL, Queue
from daybook.paging.tables import pages
from daybook.paging.tables.annotations import of_entry
from daybook.paging.tables.checked import Cursor, Transaction
from daybook.paging.tables.pages import U8, U64
from daybook.paging.tables.plain_events import Taken
from daybook.paging.tables.records import ready_entry
from daybook.paging.tables.tables import ID_KEY, LEVEL_KEY, PAGES, Tables, level_prefix

PAGES_MAX: Final = 1024
"""How many pages are cached, one for each level: those of many queues that are busy at once."""


class _Page(NamedTuple):
    """A page as lists: ids, and the other columns."""

    messages: list[int]
    columns: list[list[int]]


_NOTHING: Final = _Page([-1], [])


class Finder:
    """Entries by id from the pages as a transaction sees them; caches the pages it read."""

    def __init__(self, tables: Tables) -> None:
        self._tables: Final = tables
        self._table: Final = tables.db(PAGES)
        self._txn: Transaction | None = None
        self._cursor: Cursor | None = None
        self._pages: Final[dict[int, _Page]] = {}
        self._adopted: list[tuple[int, int, int]] = []

    @property
    def indexed_lsn(self) -> int:
        """Entries that left the queues are already gone from the pages when this is used."""
        return PAST_ALL

    def begin(self, txn: Transaction) -> None:
        """Begin reading the pages as they are now."""
        self._txn = txn
        self._cursor = txn.cursor(self._table)
        self._pages.clear()

    def end(self) -> None:
        """Stop reading: the transaction ends."""
        self._txn = self._cursor = None
        self._pages.clear()

    def find(self, queue: Queue, message_id: int) -> Entry | None:
        """Return one ready entry, without content; record that it came into memory."""
        for priority, paged in queue.paged_ranges():
            if not paged.count:
                continue
            page = self._pages.get(queue.id * LEVELS + priority, _NOTHING)
            if not page.messages[0] <= message_id <= page.messages[-1]:
                page = self._read(queue.id, priority, message_id)
            at = bisect_left(page.messages, message_id)
            if at < len(page.messages) and page.messages[at] == message_id:
                self._adopted.append((queue.id, priority, message_id))
                *known, annotated = [column[at] for column in page.columns]
                noted = self._noted(queue.id, message_id, annotated) if annotated else b""
                return ready_entry(message_id, priority, *known, annotations=noted)
        return None

    def _noted(self, queue_id: int, message_id: int, annotated: int) -> bytes:
        assert self._txn is not None
        return of_entry(self._tables, self._txn, queue_id, message_id, annotated)

    def _read(self, queue_id: int, priority: int, message_id: int) -> _Page:
        """Read the page of a level that has the message, if any has."""
        cursor = self._cursor
        assert cursor is not None
        prefix = level_prefix(queue_id, priority)
        key = prefix + ID_KEY.pack(message_id)
        found = cursor.set_range(key)
        if not found or cursor.key() != key:
            found = cursor.prev() if found else cursor.last()
        if not found or not cursor.key().startswith(prefix):
            return _NOTHING
        first = ID_KEY.unpack_from(cursor.key(), LEVEL_KEY.size)[0]
        rows = pages.decode(cursor.value(), queue_id, first)
        if len(self._pages) >= PAGES_MAX:
            self._pages.clear()
        page = _Page(rows.message.tolist(), [column.tolist() for column in rows[1:]])
        self._pages[queue_id * LEVELS + priority] = page
        return page

    def take_adopted(self) -> Taken | None:
        """Return the entries that came into memory since the last call, None without any."""
        adopted, self._adopted = self._adopted, []
        if not adopted:
            return None
        queues, priorities, messages = zip(*adopted, strict=True)
        return Taken(np.array(queues, U64), np.array(priorities, U8), np.array(messages, U64))
