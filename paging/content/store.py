"""The store of the engine: entries from the index, content from its clusters and the journal.

Each answer reads its own view of the last commit, so that no view is held between calls and the
indexer may reuse pages. A view may be later than `indexed_lsn`, never earlier: the asking queue
knows which entries left or came meanwhile.

Fault model: index and journal may be damaged or missing. Every failed check is a StoreError with
the remedy. Must never know the writer of the index, or when entries leave memory.
"""

import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Final, cast

import numpy as np

from daybook.engine.facts.details import CarriedDetail, Origin, RoutedDetail
from daybook.engine.facts.events import FORMAT, LARGE, PERSISTENT, chunk_lsns, decode_detail
from daybook.engine.messages.annotations import annotated
from daybook.engine.messages.content import UnknownFormat, codec_of, is_known
from daybook.engine.messages.message import MESSAGE_OVERHEAD_BYTES, UNREAD, Message
from daybook.engine.messages.origins import journaled, says_origin
from daybook.engine.queues.entry import LEVELS, Entry
from daybook.engine.queues.paged_range import PagedRange
from daybook.engine.queues.queue import (
    PAST_ALL,
    ContentError,
    Due,
    Loaded,
    Queue,
    StoreDamaged,
    StoreError,
)
from daybook.engine.queues.window import Window
from daybook.engine.state.digest import U64 as U64_MASK
from daybook.engine.state.state import State
from daybook.journal.data_directory import CLUSTERS_DIRECTORY
from daybook.journal.disk import Disk, RealDisk
from daybook.paging.content.cluster_writer import ranges_of
from daybook.paging.content.clusters import ClusterReader
from daybook.paging.content.content import CACHE_BYTES, Content, ContentReader, DecodedCache
from daybook.paging.tables import annotations
from daybook.paging.tables.carried_content import located
from daybook.paging.tables.checked import Cursor, IndexDamaged, Transaction
from daybook.paging.tables.last_values import last_value
from daybook.paging.tables.layout import LAYOUT
from daybook.paging.tables.loading import load_state
from daybook.paging.tables.pages import (
    NO_ROWS,
    SIZE_MAX,
    U8,
    U64,
    Rows,
    decode,
    entry_hashes,
    header_of,
    join,
)
from daybook.paging.tables.records import entry_of, message_flags, priority_of, ready_entry
from daybook.paging.tables.tables import (
    ANNOTATIONS,
    BLOCK_VALUE,
    BLOCKS,
    ID_KEY,
    LAST_VALUES,
    PAGE_KEY,
    PAGES,
    TIMERS,
    IndexUnwritable,
    Tables,
    level_prefix,
    open_for_reading,
    page_key,
    timer_key,
    timer_of,
)

MAP_BYTES: Final = 48 * 1024 * 1024
"""How many bytes of the mapped file may be read before it is mapped again, by default."""
PAGE_TOUCH_BYTES: Final = 4096
"""The memory that reading the next page adds to the process."""
SEEK_TOUCH_BYTES: Final = 64 * 1024
"""The memory that a seek adds: the kernel also maps the surrounding pages."""
SUM_PAGES: Final = 256
"""How many pages are summed in one view."""
ALONE: Final = Window(1, with_content=False)
DUE_PER_PAGE: Final = 64
"""How many keys of timers a page of LMDB has, approximately."""


class IndexStore:
    """The tables of an index and their journal, as `engine.queues.queue.Store`.

    `content` reads the same journal for callers that need events by LSN. Not to be shared between
    threads.
    """

    def __init__(
        self,
        tables: Tables,
        disk: Disk,
        *,
        cache_bytes: int = CACHE_BYTES,
        map_bytes: int = MAP_BYTES,
        owns_tables: bool = True,
    ) -> None:
        """Begin with tables; raises StoreError if they cannot be read.

        `close` closes them, unless somebody else owns them.

        `disk` has the segments. `cache_bytes` bounds decoded blocks and units. After `map_bytes` of
        the tables were read they are closed and reopened for reading, so that they do not count as
        memory of the process; 0 means never, for tables that others use too.
        """
        self._tables = tables
        self._map_bytes: Final = map_bytes
        self._owns_tables: Final = owns_tables
        self._touched = 0
        self._indexed_lsn = 0
        cache = DecodedCache(cache_bytes)
        self.content: Final = ContentReader(disk, LAYOUT, self.locate, cache=cache)
        with self._reading() as txn:
            data_id = tables.data_id(txn)
        clusters = RealDisk(tables.path / CLUSTERS_DIRECTORY)
        self._clusters: Final = ClusterReader(clusters, data_id, cache)
        self.refresh(0)

    @property
    def tables(self) -> Tables:
        """The tables, until the next call."""
        return self._tables

    def close(self) -> None:
        """Close the index and the segments."""
        if self._owns_tables:
            self._tables.close()
        self._clusters.close()
        self.content.close()

    def take_notes(self) -> list[str]:
        """Return sentences for the log: about damage that the store works around."""
        return self._clusters.take_notes()

    @property
    def indexed_lsn(self) -> int:
        """The LSN whose state the store holds, as of the last `refresh`."""
        return self._indexed_lsn

    def refresh(self, lsn: int) -> int:
        """Read how far the index is, at least up to `lsn`; return it. Raises StoreError."""
        with self._reading() as txn:
            found = self._tables.position(txn)[0]
            self._clusters.know(ranges_of(self._tables, txn))
        if found < max(lsn, self._indexed_lsn):
            raise StoreError(
                f"the index in {self._tables.path} is at event {found}, and was at "
                f"{max(lsn, self._indexed_lsn)} before: it was replaced. Start the broker again"
            )
        self._indexed_lsn = found
        return found

    def checkpoint(self) -> State:
        """Return the state at `indexed_lsn`, with this as its store. Raises StoreError."""
        with self._reading() as txn:
            self._indexed_lsn = self._tables.position(txn)[0]
            self._clusters.know(ranges_of(self._tables, txn))
            state = load_state(self._tables, txn, self, until=self._indexed_lsn)
        if self._map_bytes:
            # All records were read, and are not needed again.
            self._map_anew()
        return state

    # ---- for the engine

    def load(self, queue: Queue, priority: int, after: int, window: Window) -> Loaded:
        """Return the next ready entries of a level with ids above `after`."""
        with self._reading() as txn:
            rows, reached = self._next_rows(txn, queue, priority, after, window)
            noted = annotations.of_rows(self._tables, txn, queue.id, rows)
            ids = rows.message.tolist()
            if not window.with_content:
                return Loaded(_bare_entries(rows, ids, priority, noted), reached)
            carried = located(self._tables, txn, ids)
        contents = self._contents(queue.id, ids, carried)
        return Loaded(self._entries(rows, ids, priority, contents, noted), reached)

    def firsts(self, wanted: Sequence[tuple[Queue, int, int]]) -> list[int]:
        """Return the id of the next entry of each level above an id, 0 where there is none."""
        found: list[int] = []
        with self._reading() as txn:
            cursor = txn.cursor(self._tables.db(PAGES))
            for queue, level, after in wanted:
                # After a start that is all of them: no page has to be read for it.
                first = self._first_key(cursor, queue, level) if not after else 0
                if not first:
                    rows, _ = self._next_rows(txn, queue, level, after, ALONE)
                    first = int(rows.message[0]) if len(rows.message) else 0
                found.append(first)
        return found

    def _first_key(self, cursor: Cursor, queue: Queue, level: int) -> int:
        """Return the first entry of a level if the key of its first page says it, else 0."""
        self._touched += SEEK_TOUCH_BYTES
        prefix = level_prefix(queue.id, level)
        if queue.transients_from or not cursor.set_range(prefix):
            return 0
        key = cursor.key()
        first: int = PAGE_KEY.unpack(key)[2] if key.startswith(prefix) else 0
        return 0 if first in queue.gone or first in queue.entries else first

    def pass_over(self, queue: Queue, level: int, after: int, most: int) -> tuple[int, int]:
        """Count the next entries of a level with ids above `after`; return how many there are, and
        the last id."""
        paged = queue.paged_range(level)
        until = paged.until if paged is not None else PAST_ALL
        passed = 0
        with self._reading() as txn:
            for page in self._pages(txn, queue.id, level, after):
                if int(page.message[0]) > until:
                    break
                ids = _unknown_to(queue, _above(page, after)).message
                if len(ids) and int(ids[-1]) > until:
                    ids = ids[: int(ids.searchsorted(U64.type(until), "right"))]
                if passed + len(ids) >= most:
                    return most, int(ids[most - passed - 1])
                passed += len(ids)
        return passed, PAST_ALL

    def find(self, queue: Queue, message_id: int) -> Entry | None:
        """Return one entry that is not in flight, without content."""
        if message_id in queue.entries or message_id in queue.gone:
            return None
        with self._reading() as txn:
            for priority in _levels_around(queue, message_id):
                found = self._find(txn, queue, priority, message_id)
                if found is not None:
                    return found
        return None

    def entered(self, message_id: int) -> int:
        """Return when a message entered its queue: see `engine.queues.queue.Store`."""
        return self.content.time_of(message_id)

    def last_value(self, queue: Queue, key: bytes) -> int:
        """Return the newest message with a last value key, 0 if there was none."""
        try:
            if not self._tables.has(LAST_VALUES):
                return 0
        except (IndexDamaged, IndexUnwritable) as error:
            raise StoreError(str(error)) from error
        with self._reading() as txn:
            self._touched += SEEK_TOUCH_BYTES
            return last_value(self._tables, txn, queue.id, key)

    def fill(self, messages: list[Message]) -> None:
        """Fetch the headers and bodies of messages whose content is not resident; raises
        StoreError.

        An unknown format of content is a ContentError.
        """
        for message in messages:
            try:
                codec_of(message.flags)
            except UnknownFormat as error:
                raise ContentError(f"message {message.id}: {error}") from error
        wanted = sorted({message.id for message in messages})
        with self._reading() as txn:
            carried = located(self._tables, txn, wanted)
        found = dict(zip(wanted, self._fetch(wanted, carried), strict=True))
        for message in messages:
            headers, body = found[message.id]
            size = message.size
            message.headers = headers
            message.body = body
            message.size = len(headers) + len(body) + MESSAGE_OVERHEAD_BYTES
            message.size += len(message.annotations)
            if message.size != size:
                self._enlarge(message, size)
            message.resident = True

    def origin(self, message: Message) -> Origin | None:
        """Return where a message was before, None if it is not a copy; raises StoreError."""
        lsn = self.where([message.id])[0]
        detail = self._detail(lsn, message)
        if detail is not None and detail.origin is not None:
            return detail.origin
        if message.resident and not says_origin(codec_of(message.flags), message.headers):
            return None
        event = self.content.event(lsn, message.id)
        return journaled(event.row, detail, event.headers)

    def _detail(self, lsn: int, message: Message) -> RoutedDetail | CarriedDetail | None:
        """Return the detail of the event that contains a message; raises StoreError."""
        detail = decode_detail(*self.content.detail(lsn, message.id))
        return detail if isinstance(detail, RoutedDetail | CarriedDetail) else None

    def where(self, message_ids: list[int]) -> list[int]:
        """Return the LSNs of the events with the content of messages."""
        with self._reading() as txn:
            carried = located(self._tables, txn, message_ids)
        return [carried.get(message_id, message_id) for message_id in message_ids]

    def _fetch(self, ids: list[int], carried: dict[int, int]) -> list[Content]:
        """Content of messages, from the events that contain it."""
        if not carried:
            return self.content.fetch(ids)
        # By place; if two messages have one place that is damage, and reading it detects that.
        places = sorted((carried.get(message_id, message_id), message_id) for message_id in ids)
        lsns = [lsn for lsn, _ in places]
        order = [message_id for _, message_id in places]
        found = dict(zip(order, self.content.fetch(lsns, order), strict=True))
        return [found[message_id] for message_id in ids]

    def paged_sum(self, queue: Queue) -> tuple[int, int]:
        """Return how many entries are in the queue's paged ranges, and the sum of their hashes."""
        count = total = 0
        for priority, paged in queue.paged_ranges():
            if not paged.count:
                continue
            for rows in self._paged_rows(queue, priority, paged):
                length = len(rows.message)
                queues = np.full(length, queue.id, U64)
                hashes = entry_hashes(queues, np.full(length, priority, U8), rows)
                count += length
                total += int(hashes.sum(dtype=U64))
        return count, total & U64_MASK

    def due(self, reason: int, after: Due, until: int, limit: int) -> list[Due]:
        """Return timers of a reason up to a time: see `engine.queues.queue.Store`."""
        found: list[Due] = []
        first = timer_key(reason, after)
        end = timer_key(reason, (until + 1, 0, 0))
        with self._reading() as txn:
            cursor = txn.cursor(self._tables.db(TIMERS))
            self._touched += SEEK_TOUCH_BYTES + PAGE_TOUCH_BYTES * (limit // DUE_PER_PAGE)
            more = cursor.set_range(first)
            if more and cursor.key() == first:
                more = cursor.next()
            while more and len(found) < limit:
                key = cursor.key()
                if key >= end:
                    break
                found.append(timer_of(key)[1])
                more = cursor.next()
        return found

    def locate(self, lsn: int) -> tuple[int, int] | None:
        """Return segment and offset of the last indexed block that begins at an event or before."""
        with self._reading() as txn:
            self._touched += SEEK_TOUCH_BYTES
            cursor = txn.cursor(self._tables.db(BLOCKS))
            key = ID_KEY.pack(lsn)
            found = cursor.set_range(key)
            if not found or cursor.key() != key:
                found = cursor.prev() if found else cursor.last()
            if not found:
                return None
            segment, offset, *_ = BLOCK_VALUE.unpack(cursor.value())
        return segment, offset

    # ---- the index

    @contextmanager
    def _reading(self) -> Iterator[Transaction]:
        """A view of the last commit; raises StoreError for everything that is wrong with it."""
        try:
            if 0 < self._map_bytes < self._touched:
                self._map_anew()
            # An index that is older than the table gets it when its writer begins.
            self._tables.has(ANNOTATIONS)
            with self._tables.read() as txn:
                yield txn
        except (IndexDamaged, struct.error) as error:
            raise StoreDamaged(f"{error}. {self._remedy()}") from error
        except IndexUnwritable as refusal:
            raise StoreError(str(refusal)) from refusal

    def _map_anew(self) -> None:
        """Map the tables again: until then, the pages that were read stay in the memory of the
        process."""
        self._tables.close()
        self._tables = open_for_reading(self._tables.path)
        self._touched = 0

    def _remedy(self) -> str:
        return (
            f"Stop the broker, delete the directory {self._tables.path}, and start it again: the "
            "index is then rebuilt from the journal"
        )

    def _pages(self, txn: Transaction, queue_id: int, priority: int, after: int) -> Iterator[Rows]:
        """The pages of a level that may have ids above `after`, in order."""
        prefix = level_prefix(queue_id, priority)
        cursor = txn.cursor(self._tables.db(PAGES))
        self._touched += SEEK_TOUCH_BYTES
        start = page_key(queue_id, priority, after + 1)
        more = cursor.set_range(start)
        if not more or cursor.key() != start:
            # The page before may extend beyond `after`.
            before = cursor.prev() if more else cursor.last()
            if before and cursor.key().startswith(prefix):
                first = PAGE_KEY.unpack(cursor.key())[2]
                before = header_of(cursor.value(), queue_id, first).last > after
            else:
                before = False
            more = before or (more and cursor.set_range(start))
        while more and cursor.key().startswith(prefix):
            self._touched += PAGE_TOUCH_BYTES
            first = PAGE_KEY.unpack(cursor.key())[2]
            yield decode(cursor.value(), queue_id, first)
            more = cursor.next()

    def _next_rows(
        self, txn: Transaction, queue: Queue, priority: int, after: int, window: Window
    ) -> tuple[Rows, int]:
        """Return the entries of a level that fit in a window and only the store has, and
        `reached`."""
        paged = queue.paged_range(priority)
        until = paged.until if paged is not None else PAST_ALL
        parts: list[Rows] = []
        messages = max(window.messages, 1)
        room = window.bytes
        for page in self._pages(txn, queue.id, priority, after):
            if int(page.message[0]) > until:
                break
            rows = _above(page, after)
            while len(rows.message):
                # Only entries that may fit are examined: a page can be many windows, or part of
                # one.
                fit = int(rows.size.cumsum(dtype=np.int64).searchsorted(room, "right"))
                count = max(min(fit, messages), 1)
                some = _unknown_to(queue, rows.take(slice(0, count)))
                rows = rows.take(slice(count, None))
                if not len(some.message):
                    continue
                if parts and not fit:
                    return join(parts), int(parts[-1].message[-1])
                parts.append(some)
                messages -= len(some.message)
                room -= int(some.size.sum(dtype=np.int64))
                if not messages:
                    return join(parts), int(some.message[-1])
        return (join(parts) if parts else NO_ROWS), PAST_ALL

    def _find(self, txn: Transaction, queue: Queue, priority: int, message_id: int) -> Entry | None:
        page = next(self._pages(txn, queue.id, priority, message_id - 1), None)
        rows = _unknown_to(queue, _above(page, message_id - 1)) if page is not None else NO_ROWS
        if not len(rows.message) or int(rows.message[0]) != message_id:
            return None
        _, *known, annotated = [int(column[0]) for column in rows]
        noted = annotations.of_entry(self._tables, txn, queue.id, message_id, annotated)
        return ready_entry(message_id, priority, *known, annotations=noted)

    def _paged_rows(self, queue: Queue, priority: int, paged: PagedRange) -> Iterator[Rows]:
        """The entries of a paged range that only the index has, many pages at once."""
        after = paged.after
        while after < paged.until:
            found: list[Rows] = []
            with self._reading() as txn:
                for page in islice(self._pages(txn, queue.id, priority, after), SUM_PAGES):
                    rows = _unknown_to(queue, _above(page, after))
                    found.append(rows.take(rows.message <= U64.type(paged.until)))
                    after = int(page.message[-1])
            if not found:
                return
            yield join(found)

    # ---- entries

    def _contents(self, queue_id: int, ids: list[int], carried: dict[int, int]) -> list[Content]:
        """Headers and bodies of messages: from clusters if these have them, otherwise from the
        journal."""
        found = self._clusters.fetch(queue_id, ids)
        missing = [place for place, content in enumerate(found) if content is None]
        rest = self._fetch([ids[place] for place in missing], carried) if missing else []
        if len(rest) == len(ids):
            return rest
        for place, content in zip(missing, rest, strict=True):
            found[place] = content
        return cast(list[Content], found)

    def _entries(
        self,
        rows: Rows,
        ids: list[int],
        level: int,
        contents: list[Content],
        noted: dict[int, bytes],
    ) -> list[Entry]:
        """Make entries from rows, the content of their messages, and annotations."""
        columns = [column.tolist() for column in rows[1:-1]]
        entries = []
        for message_id, size, address, delivery_count, flags, expires, due, content in zip(
            ids, *columns, contents, strict=True
        ):
            message = Message(
                message_id, address, priority_of(level, flags), message_flags(level, flags),
                expires, *content,
            )  # fmt: skip
            message.origin = UNREAD
            if noted:
                message = annotated(message, noted.get(message_id, b""))
            if message.size != size:
                self._enlarge(message, size)
            if message.flags & FORMAT and not is_known(message.flags):
                # This version cannot read the headers: `fill` reports that.
                message.resident = False
            entries.append(entry_of(message, level, delivery_count, flags, due))
        return entries

    def _enlarge(self, message: Message, size: int) -> None:
        """Make a message large if its body is in chunks; raises StoreError if it is not."""
        if message.flags & LARGE:
            detail = self._detail(self.where([message.id])[0], message)
            if detail is not None:
                message.enlarge(chunk_lsns(detail), detail.body_bytes)
        if min(message.size, SIZE_MAX) != size:
            raise StoreDamaged(
                f"message {message.id} has {message.size} bytes in the journal, and {size} as the "
                f"index says. {self._remedy()}"
            )


def _bare_entries(
    rows: Rows, ids: list[int], priority: int, noted: dict[int, bytes]
) -> list[Entry]:
    """Make entries from rows and annotations, without the content of their messages."""
    columns = [column.tolist() for column in rows[1:-1]]
    return [
        ready_entry(message_id, priority, *known, annotations=noted.get(message_id, b""))
        for message_id, *known in zip(ids, *columns, strict=True)
    ]


def _above(rows: Rows, after: int) -> Rows:
    """The rows above an id."""
    if int(rows.message[0]) > after:
        return rows
    return rows.take(slice(int(rows.message.searchsorted(U64.type(after), "right")), None))


def _unknown_to(queue: Queue, rows: Rows) -> Rows:
    """The rows of entries that are not in the queue's memory and have not left since."""
    if queue.transients_from:
        stay = (rows.flags & PERSISTENT != 0) | (rows.message > U64.type(queue.transients_from))
        if not stay.all():
            rows = rows.take(stay)
    ids = rows.message.tolist()
    if queue.entries.keys().isdisjoint(ids) and queue.gone.keys().isdisjoint(ids):
        return rows
    entries, gone = queue.entries, queue.gone
    return rows.take(
        [place for place, number in enumerate(ids) if number not in entries and number not in gone]
    )


def _levels_around(queue: Queue, message_id: int) -> Iterator[int]:
    """The levels of the paged ranges that may contain an entry; all, if the queue has no paged
    range."""
    ranges = list(queue.paged_ranges())
    if not ranges:
        yield from range(LEVELS)
        return
    for priority, paged in ranges:
        if paged.after < message_id <= paged.until:
            yield priority
