"""What segments still hold that is queued: to be carried forward before they can leave.

Reads the index and the journal, and changes nothing. A whole survey in one view is proof: an id
never comes back into a queue that it left, and content that was carried stays where it is. Must
never know who carries, or when.
"""

from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import lmdb
import numpy as np

from engine import events
from engine.events import (
    ADDRESS,
    FLAGS,
    KIND,
    PRIORITY,
    CarriedDetail,
    RoutedDetail,
    decode_detail,
)
from engine.message import MESSAGE_OVERHEAD_BYTES
from engine.queues import StoreError
from journal.disk import RealDisk
from journal.format import Damage, segment_first_lsn
from journal.segment import open_segment, segment_names
from paging import pages, records
from paging.carrying import large_from, located
from paging.content import ContentReader
from paging.layout import LAYOUT
from paging.tables import (
    FLIGHT_KEY,
    FLIGHTS,
    ID_KEY,
    PAGE_KEY,
    PAGES,
    QUEUES,
    Tables,
    level_prefix,
    open_for_reading,
    page_key,
)

CACHE_BYTES: Final = 4 * 1024 * 1024


class Place(NamedTuple):
    """A queued message, the event that has its content, and the first event that it needs.

    `size` is that of the engine: headers, body and what a message costs beside.
    """

    message: int
    lsn: int
    address: int
    priority: int
    flags: int
    size: int
    first: int


class Position(NamedTuple):
    """How far a search of the pages has come: the key of a page."""

    queue: int = 0
    level: int = 0
    first: int = 0


class Weight(NamedTuple):
    """A segment, the bytes of it that are still queued, and all that it has, uncompressed."""

    first_lsn: int
    queued_bytes: int
    bytes: int


class Survey:
    """The index and the journal of a data directory, to be asked what must be carried."""

    def __init__(self, data: Path, last_lsn: int) -> None:
        """Open them; what is asked for is content at `last_lsn` or before. Raises IndexDamaged."""
        self._last_lsn: Final = last_lsn
        self._disk: Final = RealDisk(data / "journal")
        self._tables: Final[Tables] = open_for_reading(data / "index")
        self._content: Final = ContentReader(self._disk, LAYOUT, cache_bytes=CACHE_BYTES)

    def close(self) -> None:
        """Close both."""
        self._content.close()
        self._tables.close()

    def batches(self, limit: int) -> Iterator[list[Place]]:
        """All that must be carried, about `limit` at a time, each batch as of its own moment.

        A message in several queues comes several times. Raises IndexDamaged and StoreError.
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
        """How many places there are at one moment; 0 proves that the segments can be done without.

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
                firsts.append(place.first)
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
        """Rows and heaps of a sealed segment, uncompressed; of a damaged one what is stored."""
        segment = open_segment(self._disk, name)
        try:
            entries = segment.footer().entries()
            row_bytes = segment.codec().row_bytes
            return sum(entry.heap_raw_bytes + row_bytes * entry.event_count for entry in entries)
        except Damage:
            return segment.file.size()
        finally:
            segment.close()

    def _all(self, txn: lmdb.Transaction) -> Iterator[Place]:
        position: Position | None = Position()
        while position is not None:
            found, position = self._in_pages(txn, position, 1)
            yield from found
        yield from self._in_flight(txn)
        yield from self._large(txn)

    # ---- ready

    def _in_pages(
        self, txn: lmdb.Transaction, start: Position, limit: int
    ) -> tuple[list[Place], Position | None]:
        """Ready messages from a position on, and where to go on, None after the last page."""
        found: list[Place] = []
        cursor = txn.cursor(self._tables.db(PAGES))
        more = cursor.set_range(PAGE_KEY.pack(*start))
        while more:
            queue_id, level, first = PAGE_KEY.unpack(cursor.key())
            if len(found) >= limit:
                return found, Position(queue_id, level, first)
            if first > self._last_lsn:
                # The rest of the level is later still.
                more = cursor.set_range(PAGE_KEY.pack(queue_id, level + 1, 0))
                continue
            rows = pages.decode(bytes(cursor.value()), queue_id, first)
            count = int(np.searchsorted(rows.message, np.uint64(self._last_lsn), "right"))
            found += self._behind(txn, rows.take(slice(0, count)), 9 - level)
            more = cursor.next()
        return found, None

    def _behind(self, txn: lmdb.Transaction, rows: pages.Rows, priority: int) -> Iterator[Place]:
        ids = rows.message.tolist()
        carried = located(self._tables, txn, ids)
        for message_id, size, address, _, flags, _ in zip(
            *(column.tolist() for column in rows), strict=True
        ):
            lsn = carried.get(message_id, message_id)
            if lsn <= self._last_lsn and not flags & events.BODY_OMITTED:
                yield self._place(message_id, lsn, address, priority, flags, size)

    def _place(
        self, message: int, lsn: int, address: int, priority: int, flags: int, size: int
    ) -> Place:
        first = lsn
        if flags & events.LARGE:
            detail = self._detail(lsn)
            first = min(detail.chunks[:1], default=lsn)
            size = detail.body_bytes + MESSAGE_OVERHEAD_BYTES
        return Place(message, lsn, address, priority, flags, size, first)

    # ---- in flight, and large

    def _in_flight(self, txn: lmdb.Transaction) -> Iterator[Place]:
        for key, value in txn.cursor(self._tables.db(FLIGHTS)):
            message_id = FLIGHT_KEY.unpack(key)[1]
            record = records.decode(records.FlightRecord, value, "an entry in flight")
            lsn = located(self._tables, txn, [message_id]).get(message_id, message_id)
            if lsn <= self._last_lsn and not record.flags & events.BODY_OMITTED:
                yield self._place(
                    message_id, lsn, record.address, record.priority, record.flags, record.size
                )

    def _large(self, txn: lmdb.Transaction) -> Iterator[Place]:
        """Large messages that begin in the segments and were routed, or carried, behind them."""
        for first, message_id in large_from(self._tables, txn, self._last_lsn):
            lsn = located(self._tables, txn, [message_id]).get(message_id, message_id)
            if lsn <= self._last_lsn:
                continue
            detail = self._detail(lsn)
            if detail.chunks[:1] != (first,):
                # It was carried since.
                continue
            row = self._content.event(lsn).row
            if self._is_queued(txn, row[PRIORITY], message_id):
                place = self._place(message_id, lsn, row[ADDRESS], row[PRIORITY], row[FLAGS], 0)
                yield place._replace(first=first)

    def _detail(self, lsn: int) -> RoutedDetail | CarriedDetail:
        event = self._content.event(lsn)
        detail = decode_detail(event.row[KIND], event.detail)
        if not isinstance(detail, RoutedDetail | CarriedDetail):
            raise StoreError(f"event {lsn} is no message, and the index says that it is")
        return detail

    def _is_queued(self, txn: lmdb.Transaction, priority: int, message_id: int) -> bool:
        """Whether any queue has a message, ready or in flight."""
        queues = txn.cursor(self._tables.db(QUEUES))
        for key in queues.iternext(keys=True, values=False):
            queue_id = ID_KEY.unpack(key)[0]
            flight = txn.get(FLIGHT_KEY.pack(queue_id, message_id), db=self._tables.db(FLIGHTS))
            if flight is not None or self._is_ready(txn, queue_id, priority, message_id):
                return True
        return False

    def _is_ready(
        self, txn: lmdb.Transaction, queue_id: int, priority: int, message_id: int
    ) -> bool:
        cursor = txn.cursor(self._tables.db(PAGES))
        behind = page_key(queue_id, priority, message_id + 1)
        found = cursor.prev() if cursor.set_range(behind) else cursor.last()
        if not found or not bytes(cursor.key()).startswith(level_prefix(queue_id, priority)):
            return False
        rows = pages.decode(bytes(cursor.value()), queue_id, PAGE_KEY.unpack(cursor.key())[2])
        return bool(np.isin(np.uint64(message_id), rows.message))


def _first_of(name: str) -> int:
    return segment_first_lsn(name) or 0
