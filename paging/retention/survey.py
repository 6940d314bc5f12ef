"""Finding the queued messages in segments: they must be carried forward before the segments leave.

Only reads the index and the journal. A whole survey in one view is a proof: an id never returns to
a queue that it left, and content that was carried stays where it is. Must never know when content
is carried.
"""

from array import array
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from daybook.engine.facts import events
from daybook.engine.facts.details import CarriedDetail, RoutedDetail
from daybook.engine.facts.events import ADDRESS, FLAGS, KIND, PRIORITY, QUEUE, Row, decode_detail
from daybook.engine.messages.message import MESSAGE_OVERHEAD_BYTES, PRIORITIES
from daybook.engine.queues.entry import LEVELS
from daybook.engine.queues.queue import StoreError
from daybook.journal.blocks.format import Damage, segment_first_lsn
from daybook.journal.data_directory import INDEX, JOURNAL
from daybook.journal.disk import Disk, RealDisk
from daybook.journal.segments.segment import first_lsn_of, open_segment, segment_names
from daybook.paging.content.content import ContentReader
from daybook.paging.tables import pages, records
from daybook.paging.tables.carried_content import large_from, located
from daybook.paging.tables.checked import Transaction
from daybook.paging.tables.layout import LAYOUT
from daybook.paging.tables.tables import (
    FLIGHT_KEY,
    FLIGHTS,
    ID_KEY,
    PAGE_KEY,
    PAGES,
    QUEUES,
    Tables,
    level_of,
    level_prefix,
    open_for_reading,
    page_key,
)

CACHE_BYTES: Final = 4 * 1024 * 1024


class Place(NamedTuple):
    """A queued message, the event with its content, and the first event that it needs.

    `size` is that of the engine: headers, body and overhead.
    """

    message: int
    lsn: int
    address: int
    priority: int
    flags: int
    size: int
    first: int


class Position(NamedTuple):
    """How far a search of the pages has got: the key of a page."""

    queue: int = 0
    level: int = 0
    first: int = 0


class Weight(NamedTuple):
    """A segment, its bytes that are still queued, and all its bytes, uncompressed."""

    first_lsn: int
    queued_bytes: int
    bytes: int


class Survey:
    """Finds the content that must be carried, in the index and the journal of a data directory."""

    def __init__(self, disk: Disk, tables: Tables, last_lsn: int) -> None:
        """Take tables, which `close` closes; `last_lsn` is the last event that shall leave."""
        self._last_lsn: Final = last_lsn
        self._disk: Final = disk
        self._begins: Final = first_lsn_of(disk)
        self._tables: Final = tables
        self._content: Final = ContentReader(self._disk, LAYOUT, cache_bytes=CACHE_BYTES)

    @classmethod
    def of(cls, data: Path, last_lsn: int) -> "Survey":
        """Open the index and the journal of a data directory. Raises IndexDamaged."""
        return cls(RealDisk(data / JOURNAL), open_for_reading(data / INDEX), last_lsn)

    def close(self) -> None:
        """Close both."""
        self._content.close()
        self._tables.close()

    def batches(self, limit: int) -> Iterator[list[Place]]:
        """Yield the places to carry, about `limit` places at a time; each batch is a view of its
        own moment.

        A message in several queues occurs several times. Raises IndexDamaged and StoreError.
        """
        position: Position | None = Position()
        while position is not None:
            with self._tables.read() as txn:
                found, position = self._in_pages(txn, position, limit)
            yield found
        with self._tables.read() as txn:
            rest = [*self._in_flight(txn), *self._large(txn)]
        for start in range(0, len(rest), limit):
            yield rest[start : start + limit]

    def count(self) -> int:
        """How many places there are at one moment; 0 proves that the segments are not needed.

        Raises IndexDamaged and StoreError.
        """
        with self._tables.read() as txn:
            return sum(1 for _ in self._all(txn))

    def weigh(self) -> list[Weight]:
        """How much of each of the segments is queued. Raises IndexDamaged, StoreError, OSError."""
        ids, firsts, sizes = array("Q"), array("Q"), array("Q")
        with self._tables.read() as txn:
            for place in self._all(txn):
                ids.append(place.message)
                firsts.append(max(place.first, self._begins))
                sizes.append(max(place.size - MESSAGE_OVERHEAD_BYTES, 0))
        _, chosen = np.unique(np.frombuffer(ids, np.uint64), return_index=True)
        names = [name for name in segment_names(self._disk) if _first_of(name) <= self._last_lsn]
        begins = np.array([_first_of(name) for name in names], np.uint64)
        segments = begins.searchsorted(np.frombuffer(firsts, np.uint64)[chosen], "right") - 1
        queued = np.zeros(len(names), np.int64)
        np.add.at(queued, segments, np.frombuffer(sizes, np.uint64)[chosen].astype(np.int64))
        return [
            Weight(_first_of(name), count, self._bytes_of(name))
            for name, count in zip(names, queued.tolist(), strict=True)
        ]

    def _bytes_of(self, name: str) -> int:
        """Rows and heaps of a sealed segment, uncompressed; for a damaged one its stored bytes."""
        segment = open_segment(self._disk, name)
        try:
            entries = segment.footer().entries()
            row_bytes = segment.codec().layout.stored_row_bytes()
            return sum(entry.heap_raw_bytes + row_bytes * entry.event_count for entry in entries)
        except Damage:
            return segment.file.size()
        finally:
            segment.close()

    def _all(self, txn: Transaction) -> Iterator[Place]:
        position: Position | None = Position()
        while position is not None:
            found, position = self._in_pages(txn, position, 1)
            yield from found
        yield from self._in_flight(txn)
        yield from self._large(txn)

    # ---- ready

    def _in_pages(
        self, txn: Transaction, start: Position, limit: int
    ) -> tuple[list[Place], Position | None]:
        """Ready messages from a position on, and where to continue, None after the last page."""
        found: list[Place] = []
        cursor = txn.cursor(self._tables.db(PAGES))
        more = cursor.set_range(PAGE_KEY.pack(*start))
        while more:
            queue_id, level, first = PAGE_KEY.unpack(cursor.key())
            if len(found) >= limit:
                return found, Position(queue_id, level, first)
            if first > self._last_lsn:
                # The rest of the level is even later.
                more = cursor.set_range(PAGE_KEY.pack(queue_id, level + 1, 0))
                continue
            rows = pages.decode(cursor.value(), queue_id, first)
            count = int(np.searchsorted(rows.message, np.uint64(self._last_lsn), "right"))
            found += self._behind(txn, rows.take(slice(0, count)), level_of(level))
            more = cursor.next()
        return found, None

    def _behind(self, txn: Transaction, rows: pages.Rows, level: int) -> Iterator[Place]:
        ids = rows.message.tolist()
        carried = located(self._tables, txn, ids)
        columns = (rows.message, rows.size, rows.address, rows.flags)
        for message_id, size, address, flags in zip(
            *(column.tolist() for column in columns), strict=True
        ):
            lsn = carried.get(message_id, message_id)
            if lsn <= self._last_lsn and not flags & events.BODY_OMITTED:
                priority = records.priority_of(level, flags)
                kept = records.message_flags(level, flags)
                yield self._place(message_id, lsn, address, priority, kept, size)

    def _place(
        self, message: int, lsn: int, address: int, priority: int, flags: int, size: int
    ) -> Place:
        first = lsn
        if flags & events.LARGE:
            detail = self._detail(lsn, message)
            first = min(detail.chunks[:1], default=lsn)
            size = detail.body_bytes + MESSAGE_OVERHEAD_BYTES
        kept = flags & events.MESSAGE_FLAGS
        return Place(message, lsn, address, priority, kept, size, first)

    # ---- in flight, and large

    def _in_flight(self, txn: Transaction) -> Iterator[Place]:
        for key, value in txn.rows(self._tables.db(FLIGHTS)):
            message_id = FLIGHT_KEY.unpack(key)[1]
            record = records.decode(records.FlightRecord, value, "an entry in flight")
            lsn = located(self._tables, txn, [message_id]).get(message_id, message_id)
            if lsn <= self._last_lsn and not record.flags & events.BODY_OMITTED:
                yield self._place(
                    message_id, lsn, record.address, record.priority, record.flags, record.size
                )

    def _large(self, txn: Transaction) -> Iterator[Place]:
        """Large messages that begin in the segments and whose Routed or Carried event is behind
        them."""
        recalling: list[int] | None = None
        for first, message_id in large_from(self._tables, txn, self._last_lsn):
            lsn = located(self._tables, txn, [message_id]).get(message_id, message_id)
            if lsn <= self._last_lsn or first < self._begins:
                # The requested events, or chunks that left before: they are lost.
                continue
            detail = self._detail(lsn, message_id)
            if detail.chunks[:1] != (first,):
                # It was carried since.
                continue
            row = self._content.event(lsn, message_id).row
            queues = self._queues_of(txn, row, detail)
            queued = any(self._is_queued(txn, queue, row[PRIORITY], message_id) for queue in queues)
            if not queued:
                if recalling is None:
                    recalling = self._recalling(txn)
                queued = any(
                    self._is_queued(txn, queue, row[PRIORITY], message_id) for queue in recalling
                )
            if queued:
                place = self._place(message_id, lsn, row[ADDRESS], row[PRIORITY], row[FLAGS], 0)
                yield place._replace(first=first)

    def _detail(self, lsn: int, message: int) -> RoutedDetail | CarriedDetail:
        event = self._content.event(lsn, message)
        detail = decode_detail(event.row[KIND], event.detail)
        if not isinstance(detail, RoutedDetail | CarriedDetail):
            raise StoreError(f"event {lsn} is not a message, although the index says so")
        return detail

    def _queues_of(
        self, txn: Transaction, row: Row, detail: RoutedDetail | CarriedDetail
    ) -> Iterable[int]:
        """Ids of the queues that can have a message: those it was routed to, if that is known."""
        if row[KIND] == events.ROUTED and isinstance(detail, RoutedDetail):
            return detail.queues or (row[QUEUE],)
        return (ID_KEY.unpack(key)[0] for key, _ in txn.rows(self._tables.db(QUEUES)))

    def _recalling(self, txn: Transaction) -> list[int]:
        """Ids of the queues to which messages came later than to those that they were routed to."""
        found = []
        for key, value in txn.rows(self._tables.db(QUEUES)):
            if records.decode(records.QueueRecord, value, "a queue").recalls:
                found.append(ID_KEY.unpack(key)[0])
        return found

    def _is_queued(self, txn: Transaction, queue_id: int, priority: int, message_id: int) -> bool:
        """Whether a queue has a message, in whatever state."""
        flight = txn.get(FLIGHT_KEY.pack(queue_id, message_id), db=self._tables.db(FLIGHTS))
        levels = (priority, *range(PRIORITIES, LEVELS))
        return flight is not None or any(
            self._is_in(txn, queue_id, level, message_id) for level in levels
        )

    def _is_in(self, txn: Transaction, queue_id: int, level: int, message_id: int) -> bool:
        cursor = txn.cursor(self._tables.db(PAGES))
        behind = page_key(queue_id, level, message_id + 1)
        found = cursor.prev() if cursor.set_range(behind) else cursor.last()
        if not found or not cursor.key().startswith(level_prefix(queue_id, level)):
            return False
        rows = pages.decode(cursor.value(), queue_id, PAGE_KEY.unpack(cursor.key())[2])
        return bool(np.isin(np.uint64(message_id), rows.message))


def _first_of(name: str) -> int:
    return segment_first_lsn(name) or 0
