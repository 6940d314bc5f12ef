"""Finding queued messages whose content is in a part of the journal that is missing.

Reads the tables and, for large messages, the events that list their chunks. Must never know why a
part is missing.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Final, NamedTuple

from daybook.engine.facts import events
from daybook.engine.facts.details import CarriedDetail, RoutedDetail
from daybook.engine.facts.events import KIND, chunk_lsns, decode_detail
from daybook.engine.queues.queue import StoreError
from daybook.journal.disk import Disk
from daybook.journal.errors import JournalError
from daybook.paging.content.content import ContentReader
from daybook.paging.retention.survey import CACHE_BYTES
from daybook.paging.tables import pages, records
from daybook.paging.tables.carried_content import located
from daybook.paging.tables.checked import Transaction
from daybook.paging.tables.layout import LAYOUT
from daybook.paging.tables.tables import FLIGHT_KEY, FLIGHTS, PAGE_KEY, PAGES, Tables, level_of


class Entry(NamedTuple):
    """An entry of a queue: the columns of the event that would remove it."""

    queue: int
    message: int
    address: int
    priority: int
    flags: int
    delivery_count: int


def without_content(tables: Tables, disk: Disk, gone: Sequence[tuple[int, int]]) -> Iterator[Entry]:
    """Yield the entries whose headers or body are in these ranges of events.

    Raises IndexDamaged.
    """
    ranges = sorted((first, last) for first, last in gone if first <= last)
    with closing(ContentReader(disk, LAYOUT, cache_bytes=CACHE_BYTES)) as content:
        search = _Search(tables, content, ranges)
        with tables.read() as txn:
            yield from search.of(txn)


def entries(tables: Tables, txn: Transaction) -> Iterator[Entry]:
    """Yield all entries of all queues: those in the pages, then those in flight.

    Raises IndexDamaged.
    """
    for key, value in txn.rows(tables.db(PAGES)):
        queue, packed_level, first = PAGE_KEY.unpack(key)
        rows = pages.decode(value, queue, first)
        level = level_of(packed_level)
        for message, address, flags, count in zip(
            rows.message.tolist(), rows.address.tolist(), rows.flags.tolist(),
            rows.delivery_count.tolist(), strict=True,
        ):  # fmt: skip
            yield Entry(
                queue, message, address, records.priority_of(level, flags),
                records.message_flags(level, flags), count,
            )  # fmt: skip
    for key, value in txn.rows(tables.db(FLIGHTS)):
        queue, message = FLIGHT_KEY.unpack(key)
        found = records.decode(records.FlightRecord, value, "an entry in flight")
        yield Entry(
            queue, message, found.address, found.priority, found.flags, found.delivery_count
        )


class _Search:
    def __init__(
        self, tables: Tables, content: ContentReader, ranges: list[tuple[int, int]]
    ) -> None:
        self._tables: Final = tables
        self._content: Final = content
        self._firsts: Final = [first for first, _ in ranges]
        self._lasts: Final = [last for _, last in ranges]

    def of(self, txn: Transaction) -> Iterator[Entry]:
        """Look at all entries, ready ones first."""
        for entry in entries(self._tables, txn):
            if entry.flags & events.BODY_OMITTED:
                continue
            where = located(self._tables, txn, [entry.message])
            if self._is_lost(where.get(entry.message, entry.message), entry):
                yield entry

    def _is_gone(self, lsn: int) -> bool:
        at = bisect_right(self._firsts, lsn) - 1
        return at >= 0 and lsn <= self._lasts[at]

    def _is_lost(self, lsn: int, entry: Entry) -> bool:
        if self._is_gone(lsn):
            return True
        if not entry.flags & events.LARGE:
            return False
        try:
            event = self._content.event(lsn, entry.message)
            detail = decode_detail(event.row[KIND], event.detail)
        except (JournalError, StoreError):
            return True
        if not isinstance(detail, RoutedDetail | CarriedDetail):
            return True
        return any(map(self._is_gone, chunk_lsns(detail)))
