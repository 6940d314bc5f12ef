"""Changing the pages of many levels at once: inserts and removes entries in their order.

Keeps the counts of each level, and the sum of the hashes of each queue, up to date. Must never know
why entries change.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from daybook.engine.facts.events import PERSISTENT
from daybook.engine.queues.entry import HELD_LEVEL, SCHEDULED_LEVEL
from daybook.engine.state.timers import DELIVERY, EXPIRY
from daybook.paging.tables import annotations, pages
from daybook.paging.tables.checked import Cursor, IndexDamaged, Table, Transaction
from daybook.paging.tables.pages import NO_ROWS, U8, U64, Ids, Rows
from daybook.paging.tables.plain_events import NONE_PLACED, NONE_TAKEN, Placed, Taken, ranks
from daybook.paging.tables.records import LevelRecord, QueueRecord
from daybook.paging.tables.tables import (
    ANNOTATIONS,
    ID_KEY,
    LEVEL_KEY,
    PAGES,
    TIMERS,
    Tables,
    level_of,
    timer_key,
)

LEVELS: Final = 16
"""The factor of the queue id in the number of a level."""

PRIORITY_MAX: Final = 9
LEVEL_KEY_BYTES: Final = LEVEL_KEY.size
BEYOND: Final = (1 << 64) - 1
"""The first id of the next page, after the last page of a level."""

SHORT_RANKS: Final = 1 << 16
SPARSE: Final = 4
"""A page that is filled to less than one part in this many moves into the next one."""

U64_MASK: Final = (1 << 64) - 1


class Level:
    """The counts of the pages of one level."""

    __slots__ = ("bytes", "count", "transient_bytes", "transients")

    def __init__(self) -> None:
        self.count = 0
        self.bytes = 0
        self.transients = 0
        self.transient_bytes = 0


class Found(NamedTuple):
    """A page that was looked up, and the first id of the next one in its level."""

    key: bytes
    page: bytes
    next_first: int


class Levels:
    """The pages of all queues: their counts, and changes to them."""

    def __init__(self, tables: Tables) -> None:
        self._tables: Final = tables
        self._pages: Final = tables.db(PAGES)
        self._timers: Final = tables.db(TIMERS)
        self.known: Final[dict[int, dict[int, Level]]] = {}
        """By queue, then by priority; empty ones may be absent."""
        self.sums: Final[dict[int, int]] = {}
        """By queue: the sum of the hashes of its ready entries, modulo 2^64."""
        self._moved: list[tuple[NDArray[np.uint64], int]] = []

    def load(self, record: QueueRecord) -> None:
        """Take the counts and the sum of a queue from its record."""
        if record.sum:
            self.sums[record.id] = record.sum
        for each in record.levels:
            level = self._level(record.id, each.priority)
            level.count, level.bytes = each.count, each.bytes
            level.transients, level.transient_bytes = each.transients, each.transient_bytes

    def _level(self, queue_id: int, priority: int) -> Level:
        """Return the counts of a level, created if there are none."""
        levels = self.known.get(queue_id)
        if levels is None:
            levels = self.known[queue_id] = {}
        level = levels.get(priority)
        if level is None:
            level = levels[priority] = Level()
        return level

    def of(self, queue_id: int) -> list[LevelRecord]:
        """Return the records of the levels of a queue that are not empty."""
        levels = self.known.get(queue_id, {})
        return [
            LevelRecord(priority, level.count, level.bytes, level.transients, level.transient_bytes)
            for priority, level in sorted(levels.items(), reverse=True)
            if level.count
        ]

    def count(self) -> int:
        """Return how many entries there are in all pages."""
        return sum(level.count for levels in self.known.values() for level in levels.values())

    def forget(self, queue_id: int) -> None:
        """Forget a queue whose pages are gone."""
        self.sums.pop(queue_id, None)
        self.known.pop(queue_id, None)

    # ---- changing

    def take_moved(self) -> list[tuple[NDArray[np.uint64], int]]:
        """Return the ids that entered pages (with 1) and left them (-1) since the last call."""
        moved, self._moved = self._moved, []
        return moved

    def change(self, txn: Transaction, placed: Placed, taken: Taken) -> list[int]:
        """Insert and remove entries; return the numbers of the levels that changed.

        An entry in both is replaced. The annotations of those removed are deleted; those of others
        are for the caller to write. Raises IndexDamaged if an entry to be removed does not exist.
        """
        into = _by_level(placed.queue, placed.priority, placed.rows.message)
        out = _by_level(taken.queue, taken.priority, taken.message)
        rows = placed.rows.take(into.order)
        messages = taken.message[out.order]
        plain = None if pages.extras_of(rows) else pages.PlainRows(rows)
        removed: list[Rows] = []
        counts: list[int] = []
        numbers: list[int] = []
        cursor = txn.cursor(self._pages)
        for number, inserted, ids in _both(into, out):
            before = len(removed)
            change = _Change(txn, cursor, self._pages, number, removed)
            if ids.start == ids.stop:
                change.add(rows, inserted, plain)
            else:
                change.run(messages[ids], rows.take(inserted))
            count = sum(len(part.message) for part in removed[before:])
            if count:
                counts.append(count)
                numbers.append(number)
        cursor.close()
        if removed:
            gone = pages.join(removed)
            self._book(txn, np.array(numbers, np.int64), np.array(counts, np.int64), gone, -1)
            if gone.annotated.any():
                queues = np.repeat(np.array(numbers, np.int64) // LEVELS, counts)
                annotations.forget(self._tables.db(ANNOTATIONS), txn, queues, gone)
        if len(rows.message):
            lengths = np.diff(into.starts, append=len(rows.message))
            self._book(txn, into.numbers, lengths, rows, 1)
        changed = sorted({*into.numbers.tolist(), *out.numbers.tolist()})
        for number in changed:
            self._forget_if_empty(number)
        return changed

    def _forget_if_empty(self, number: int) -> None:
        """Keep no counts of a level without entries: most names have none, most of the time."""
        queue_id = number // LEVELS
        levels = self.known.get(queue_id)
        if levels is None:
            return
        level = level_of(number % LEVELS)
        if level in levels and not levels[level].count:
            del levels[level]
        if not levels:
            self.forget(queue_id)

    def _book(
        self,
        txn: Transaction,
        numbers: NDArray[np.int64],
        counts: NDArray[np.int64],
        rows: Rows,
        sign: int,
    ) -> None:
        """Add rows, which are sorted by level, to the counts (sign 1) or subtract them (-1)."""
        self._moved.append((rows.message, sign))
        starts = np.concatenate(([0], np.cumsum(counts)[:-1]))
        queue = np.repeat(numbers // LEVELS, counts)
        priority = np.repeat(((PRIORITY_MAX - numbers) % LEVELS).astype(U8), counts)
        hashes = np.add.reduceat(pages.entry_hashes(queue, priority, rows), starts)
        transient = (rows.flags & PERSISTENT) == 0
        size = rows.size.astype(np.int64)
        books = zip(
            numbers.tolist(),
            counts.tolist(),
            np.add.reduceat(size, starts).tolist(),
            np.add.reduceat(transient, starts, dtype=np.int64).tolist(),
            np.add.reduceat(np.where(transient, size, 0), starts).tolist(),
            hashes.tolist(),
            strict=True,
        )
        for number, count, total, transients, transient_bytes, hashed in books:
            queue_id = number // LEVELS
            level = self._level(queue_id, level_of(number % LEVELS))
            level.count += sign * count
            level.bytes += sign * total
            level.transients += sign * transients
            level.transient_bytes += sign * transient_bytes
            self.sums[queue_id] = (self.sums.get(queue_id, 0) + sign * hashed) & U64_MASK
        self._book_timers(txn, queue, priority, rows, sign)

    def _book_timers(
        self,
        txn: Transaction,
        queue: Ids | NDArray[np.int64],
        level: NDArray[np.uint8],
        rows: Rows,
        sign: int,
    ) -> None:
        """List the timers of entries, or delete them."""
        keys = sorted(timer_keys(queue, level, rows))
        if sign > 0:
            txn.put_all([(key, b"") for key in keys], db=self._timers)
            return
        for key in keys:
            txn.delete(key, db=self._timers)

    # ---- reading

    def each_page(self, txn: Transaction, queue_id: int) -> Iterator[tuple[int, Rows]]:
        """(Priority, rows) of each page of a queue, in order. Raises IndexDamaged."""
        cursor = txn.cursor(self._pages)
        prefix = LEVEL_KEY.pack(queue_id, 0)
        more = cursor.set_range(prefix)
        while more:
            key = cursor.key()
            if not key.startswith(prefix[: ID_KEY.size]):
                return
            first = ID_KEY.unpack_from(key, LEVEL_KEY_BYTES)[0]
            yield level_of(key[ID_KEY.size]), pages.decode(cursor.value(), queue_id, first)
            more = cursor.next()

    def transients(self, txn: Transaction, queue_id: int) -> Taken:
        """Return all non-persistent entries of a queue."""
        return self._chosen(txn, queue_id, only_transient=True)

    def all_of(self, txn: Transaction, queue_id: int) -> Taken:
        """Return all entries of a queue."""
        return self._chosen(txn, queue_id, only_transient=False)

    def _chosen(self, txn: Transaction, queue_id: int, *, only_transient: bool) -> Taken:
        found = [NONE_TAKEN]
        for priority, rows in self.each_page(txn, queue_id):
            message = rows.message
            if only_transient:
                message = message[(rows.flags & PERSISTENT) == 0]
            count = len(message)
            found.append(
                Taken(np.full(count, queue_id, U64), np.full(count, priority, U8), message)
            )
        return join_taken(found)


def timer_keys(
    queue: Ids | NDArray[np.int64], level: NDArray[np.uint8], rows: Rows
) -> Iterator[bytes]:
    """Keys of the timers of entries. Held entries have none: no scan looks for them."""
    for reason, times, has_timer in (
        (EXPIRY, rows.expires, level != HELD_LEVEL),
        (DELIVERY, rows.due, level == SCHEDULED_LEVEL),
    ):
        at = np.flatnonzero((times != 0) & has_timer)
        columns = (times[at].tolist(), rows.message[at].tolist(), queue[at].tolist())
        for timer in zip(*columns, strict=True):
            yield timer_key(reason, timer)


def join_taken(parts: list[Taken]) -> Taken:
    """Concatenate entries to be removed."""
    return Taken(*[np.concatenate(columns) for columns in zip(*parts, strict=True)])


def join_placed(parts: list[Placed]) -> Placed:
    """Concatenate entries to be inserted."""
    filled = [part for part in parts if len(part.queue)]
    if len(filled) <= 1:
        return filled[0] if filled else NONE_PLACED
    return Placed(
        np.concatenate([part.queue for part in filled]),
        np.concatenate([part.priority for part in filled]),
        pages.join([part.rows for part in filled]),
    )


class _ByLevel(NamedTuple):
    """An order by level and message, and where each level begins in it."""

    order: NDArray[np.intp]
    numbers: NDArray[np.int64]
    starts: NDArray[np.intp]


def _by_level(
    queue: Ids | NDArray[np.int64], priority: NDArray[np.uint8], message: NDArray[np.uint64]
) -> _ByLevel:
    count = len(queue)
    if not count:
        nothing = np.empty(0, np.intp)
        return _ByLevel(nothing, np.empty(0, np.int64), nothing)
    number = queue.astype(np.int64) * LEVELS + (PRIORITY_MAX - priority.astype(np.int64)) % LEVELS
    numbers, rank = ranks(number)
    in_order = bool((message[1:] > message[:-1]).all())
    order: NDArray[np.intp]
    if not in_order:
        order = np.lexsort((message, rank))
    elif len(numbers) == 1:
        order = np.arange(count)
    else:
        # For short integers numpy sorts by counting.
        short = rank.astype(np.uint16) if len(numbers) < SHORT_RANKS else rank
        order = np.argsort(short, kind="stable")
    counts = np.bincount(rank)
    starts = np.concatenate(([0], np.cumsum(counts)[:-1]))
    return _ByLevel(order, numbers.astype(np.int64), starts)


def _both(into: _ByLevel, out: _ByLevel) -> Iterator[tuple[int, slice, slice]]:
    """(Number, entries to insert, entries to remove) of each level, in the order of their keys."""
    goes_in = _slices(into)
    comes_out = _slices(out)
    nothing = slice(0, 0)
    for number in sorted({*goes_in, *comes_out}):
        yield number, goes_in.get(number, nothing), comes_out.get(number, nothing)


def _slices(levels: _ByLevel) -> dict[int, slice]:
    starts = [*levels.starts.tolist(), len(levels.order)]
    slices = map(slice, starts[:-1], starts[1:])
    return dict(zip(levels.numbers.tolist(), slices, strict=True))


class _Change:
    """Changes the pages of one level; removed entries are in `removed`."""

    def __init__(
        self,
        txn: Transaction,
        cursor: Cursor,
        table: Table,
        number: int,
        removed: list[Rows],
    ) -> None:
        self._txn = txn
        self._cursor = cursor
        self._table = table
        self._queue_id = number // LEVELS
        self._prefix = LEVEL_KEY.pack(self._queue_id, number % LEVELS)
        self._after = LEVEL_KEY.pack(self._queue_id, number % LEVELS + 1)
        self._removed = removed

    def add(self, source: Rows, places: slice, plain: pages.PlainRows | None) -> None:
        """Insert some rows; nearly always they come after all others.

        `plain` has the same rows if none needs additional columns.
        """
        cursor = self._cursor
        found = cursor.set_range(self._after)
        found = cursor.prev() if found else cursor.last()
        key = cursor.key() if found else b""
        if not key.startswith(self._prefix):
            if plain is not None and places.stop - places.start <= pages.PLAIN_MAX:
                first = self._prefix + ID_KEY.pack(plain.ids[places.start])
                self._txn.put(first, plain.page(places.start, places.stop), db=self._table)
            else:
                self._put(source.take(places))
            return
        page = cursor.value()
        header = pages.header_of(page, self._queue_id, ID_KEY.unpack_from(key, LEVEL_KEY_BYTES)[0])
        if plain is not None and self._append_plain(key, page, header, places, plain):
            return
        rows = source.take(places)
        if header.last >= int(rows.message[0]):
            self.run(NO_ROWS.message, rows)
        elif header.extras or pages.extras_of(rows):
            self._extend(key, page, rows)
        else:
            self._append(key, page, header, rows)

    def _append_plain(
        self,
        key: bytes,
        page: bytes,
        header: pages.Header,
        places: slice,
        plain: pages.PlainRows,
    ) -> bool:
        """Append rows to the last page if it has none behind them, is plain, and has room; return
        whether it was so."""
        start, stop = places.start, places.stop
        if (
            header.extras
            or header.last >= plain.ids[start]
            or header.messages + stop - start > pages.PLAIN_MAX
        ):
            return False
        self._txn.put(key, plain.appended(page, header, start, stop), db=self._table)
        return True

    def _append(self, key: bytes, page: bytes, header: pages.Header, rows: Rows) -> None:
        """Append rows to the last page, where none need additional columns."""
        room = pages.capacity(0) - header.messages
        more = len(rows.message) - room
        if room:
            fitting = rows if more <= 0 else rows.take(slice(room))
            self._txn.put(key, pages.append(page, header, fitting), db=self._table)
        if more > 0:
            self._put(rows.take(slice(room, None)))

    def _extend(self, key: bytes, page: bytes, rows: Rows) -> None:
        """Append rows to the last page, where some need additional columns."""
        old = pages.decode(page, self._queue_id, ID_KEY.unpack_from(key, LEVEL_KEY_BYTES)[0])
        self._write(key, pages.join([old, rows]), BEYOND)

    def run(self, taken: NDArray[np.uint64], coming: Rows) -> None:
        """Remove entries and insert others, page by page; all in order of their ids."""
        forced = 0
        while len(taken) or len(coming.message):
            wanted = forced or min(
                int(taken[0]) if len(taken) else BEYOND,
                int(coming.message[0]) if len(coming.message) else BEYOND,
            )
            found = self._find(wanted)
            if found is None:
                if len(taken):
                    raise self._missing(int(taken[0]))
                self._put(coming)
                return
            until = np.uint64(found.next_first)
            out = int(np.searchsorted(taken, until))
            into = int(np.searchsorted(coming.message, until))
            rows = self._without(found, taken[:out])
            changed = pages.join([rows, coming.take(slice(into))]) if into else rows
            if into and len(rows.message) and coming.message[0] < rows.message[-1]:
                changed = changed.take(np.argsort(changed.message, kind="stable"))
            taken = taken[out:]
            coming = coming.take(slice(into, None))
            forced = 0
            if out and len(changed.message) and self._fits_next(changed, taken, found.next_first):
                self._txn.delete(found.key, db=self._table)
                coming = pages.join([changed, coming])
                forced = found.next_first
            else:
                self._write(found.key, changed, found.next_first)

    def _find(self, wanted: int) -> Found | None:
        """The page of the level that has the id, or would have it; None if the level has no
        page."""
        cursor = self._cursor
        prefix = self._prefix
        key = prefix + ID_KEY.pack(wanted)
        found = cursor.set_range(key)
        behind = cursor.key() if found else b""
        if behind != key:
            before = cursor.prev() if found else cursor.last()
            if before and cursor.key().startswith(prefix):
                key = cursor.key()
                next_first = _first_of(behind, prefix)
                return Found(key, cursor.value(), next_first)
            if not behind.startswith(prefix):
                return None
            cursor.set_key(behind)
        page = cursor.value()
        following = cursor.key() if cursor.next() else b""
        return Found(behind, page, _first_of(following, prefix))

    def _without(self, found: Found, taken: NDArray[np.uint64]) -> Rows:
        """The rows of a page without those that leave."""
        first = ID_KEY.unpack_from(found.key, LEVEL_KEY_BYTES)[0]
        rows = pages.decode(found.page, self._queue_id, first)
        count = len(taken)
        if not count:
            return rows
        if count > len(rows.message):
            raise self._missing(int(taken[-1]))
        if bool((rows.message[:count] == taken).all()):
            # The first ones, as nearly always.
            self._removed.append(rows.take(slice(count)))
            return rows.take(slice(count, None))
        at = np.searchsorted(rows.message, taken)
        at[at == len(rows.message)] = 0
        absent = rows.message[at] != taken
        if absent.any():
            raise self._missing(int(taken[absent][0]))
        self._removed.append(rows.take(at))
        stays = np.ones(len(rows.message), bool)
        stays[at] = False
        return rows.take(stays)

    def _fits_next(self, rows: Rows, taken: NDArray[np.uint64], next_first: int) -> bool:
        """Whether so little is left of a page that the next one has room for it.

        `taken` are the entries that are taken out from there on.
        """
        extras = pages.extras_of(rows)
        if next_first == BEYOND or len(rows.message) > pages.capacity(extras) // SPARSE:
            return False
        page = self._txn.get(self._prefix + ID_KEY.pack(next_first), db=self._table)
        header = pages.header_of(bytes(page or b""), self._queue_id, next_first)
        stays = header.messages - int(np.searchsorted(taken, np.uint64(header.last), "right"))
        return stays + len(rows.message) <= pages.capacity(extras | header.extras)

    def _write(self, key: bytes, rows: Rows, next_first: int) -> None:
        """Replace the page of a key by rows."""
        if not len(rows.message) or key != self._prefix + ID_KEY.pack(int(rows.message[0])):
            self._txn.delete(key, db=self._table)
        size = pages.capacity(pages.extras_of(rows))
        if next_first == BEYOND or len(rows.message) <= size:
            self._put(rows)
            return
        # In the middle of a level more may be inserted: leave room in both halves.
        half = (len(rows.message) + 1) // 2
        self._write_half(rows.take(slice(half)), next_first)
        self._write_half(rows.take(slice(half, None)), next_first)

    def _write_half(self, rows: Rows, next_first: int) -> None:
        first = int(rows.message[0])
        self._write(self._prefix + ID_KEY.pack(first), rows, next_first)

    def _put(self, rows: Rows) -> None:
        """Write rows as pages, each as full as possible."""
        for first, page in pages.encode_all(rows) if len(rows.message) else ():
            self._txn.put(self._prefix + ID_KEY.pack(first), page, db=self._table)

    def _missing(self, message_id: int) -> IndexDamaged:
        return IndexDamaged(
            f"the index is damaged: message {message_id} is not in the pages of queue "
            f"{self._queue_id}, and the journal says that it leaves it"
        )


def _first_of(key: bytes, prefix: bytes) -> int:
    """First id of the next page; BEYOND if that is of another level, or does not exist."""
    if not key.startswith(prefix):
        return BEYOND
    return int(ID_KEY.unpack_from(key, LEVEL_KEY_BYTES)[0])
