"""Folding blocks into the tables: plain events as sets, all others by the engine's `apply`.

Works within one write transaction. The state in memory has the entries in flight and, within a
batch, the entries that events touched. After any exception neither state nor transaction may be
used. Must never know files, clocks, or when a batch is worth its commit.
"""

from collections.abc import Iterator
from typing import Final, cast

import msgspec
import numpy as np
from numpy.typing import NDArray

from daybook.engine.facts import events, reasons
from daybook.engine.facts.events import CONNECTION, CONSUMER, KIND, MESSAGE, QUEUE
from daybook.engine.facts.events import Row as EventRow
from daybook.engine.facts.kinds import ENDING_UNNAMED, MOVING_QUEUES, OF_ENTRIES, SAYING_UNROUTED
from daybook.engine.facts.mismatch import MismatchError
from daybook.engine.messages.annotations import hash_of
from daybook.engine.queues.entry import READY, Entry
from daybook.engine.queues.queue import PAST_ALL, Address, Queue, Store
from daybook.engine.state.address_counts import UNROUTED, unrouted_at
from daybook.engine.state.apply import APPLY
from daybook.engine.state.state import State
from daybook.paging.tables import records
from daybook.paging.tables.checked import IndexDamaged, Transaction
from daybook.paging.tables.columns import Columns
from daybook.paging.tables.entry_search import Finder
from daybook.paging.tables.id_pages import IdPages
from daybook.paging.tables.last_values import LastValues
from daybook.paging.tables.levels import LEVELS, Levels, join_placed, join_taken
from daybook.paging.tables.loading import lacking
from daybook.paging.tables.names import IDLE_MAX, Names
from daybook.paging.tables.pages import SIZE_MAX, U8, U64, Ids, Row, rows_of
from daybook.paging.tables.plain_events import (
    NONE_PLACED,
    NONE_TAKEN,
    Placed,
    Run,
    Taken,
    classify,
    everything,
    ranks,
)
from daybook.paging.tables.tables import (
    ADDRESSES,
    ANNOTATION_KEY,
    ANNOTATIONS,
    CONNECTIONS,
    CONSUMERS,
    FLIGHT_KEY,
    FLIGHTS,
    ID_KEY,
    QUEUES,
    SETTINGS,
    SETTINGS_KEY,
    Tables,
)

BARRIERS: Final = np.zeros(256, bool)
"""Kinds of events that plain events must not be moved across."""
BARRIERS[sorted(MOVING_QUEUES)] = True

UNROUTED_REASONS: Final = np.zeros(256, bool)
UNROUTED_REASONS[sorted(UNROUTED)] = True

ELSEWHERE: Final = np.zeros(256, bool)
ELSEWHERE[sorted(SAYING_UNROUTED)] = True

PLAIN_MIN: Final = 64
"""Shorter runs are not worth being examined as sets."""

ROUTED: Final = events.ROUTED


class _Changed:
    """Ids of records to be rewritten or deleted at the end of a batch."""

    def __init__(self) -> None:
        self.addresses: set[int] = set()
        self.queues: set[int] = set()
        self.connections: set[int] = set()
        self.consumers: set[int] = set()
        self.settings = False

    def forget_none(self) -> None:
        """Remove the id 0, which events use when they are about none."""
        for numbers in (self.addresses, self.queues, self.connections, self.consumers):
            numbers.discard(0)


class Fold:
    """The state in the tables, and folding more events into both."""

    def __init__(
        self,
        tables: Tables,
        txn: Transaction,
        *,
        plain: bool = True,
        idle_max: int = IDLE_MAX,
    ) -> None:
        """Load the state from the tables; without `plain` all events go through `apply`.

        For `idle_max` see `Names`. Raises IndexDamaged.
        """
        self._tables: Final = tables
        self._plain: Final = plain
        self._finder: Final = Finder(tables)
        self.levels: Final = Levels(tables)
        self.state: Final = State(cast(Store, self._finder))
        self.names: Final = Names(tables, self.state, PAST_ALL, idle_max)
        try:
            self.names.load(txn, self.levels.load)
        except KeyError as error:
            raise lacking(tables, error) from error
        self._touched: set[tuple[int, int]] = set()
        self._changed = _Changed()
        self._appended: list[Placed] = []
        # Keys and values for the table of annotations.
        self._noted: list[tuple[bytes, bytes]] = []
        self._ids: Final = IdPages(tables, self.state)
        self._last_values: Final = LastValues(tables, self.levels)

    def take_appended(self) -> Placed:
        """Return the entries that plain events appended to pages since the last call."""
        appended, self._appended = self._appended, []
        return join_placed(appended)

    def fold(self, txn: Transaction, columns: Columns) -> None:
        """Fold events into state and tables, except for the position.

        Raises IndexDamaged and Corruption.
        """
        self._finder.begin(txn)
        self.names.begin(txn)
        kinds = columns.column(KIND)
        start = 0
        for barrier in [*np.flatnonzero(BARRIERS[kinds]).tolist(), columns.count]:
            if start < barrier:
                self._run(txn, columns, start, barrier)
            if barrier < columns.count:
                self._barrier(txn, columns, barrier)
            start = barrier + 1
        self._settle(txn, [], [])
        self._count_addresses(columns, kinds)
        self._write_records(txn)
        self._finder.end()
        self.names.end()

    def _run(self, txn: Transaction, columns: Columns, start: int, stop: int) -> None:
        if not self._plain or stop - start < PLAIN_MIN:
            self._apply(columns, everything(columns, start, stop))
            return
        self._settle(txn, [], [])
        keyed = self.names.has_keyed or bool(
            (columns.column(KIND)[start:stop] == events.QUEUE_CREATED).any()
        )
        run = classify(columns, start, stop, self._is_flying, keyed=keyed)
        self._apply(columns, run)
        self._count(run)
        self._settle(txn, [run.appended], [run.taken])
        if len(run.appended.queue):
            self._appended.append(run.appended)

    def _is_flying(self, queue_id: int, message_id: int) -> bool:
        """Whether an entry is in memory, which after `_settle` means in flight.

        Also true if it may be set aside: an event that removes an entry does not name its level.
        """
        queue = self.state.queues.get(queue_id)
        return queue is not None and (message_id in queue.entries or queue.aside_count > 0)

    def _count(self, run: Run) -> None:
        """Update the counters of queues by the plain events of a run."""
        distinct, rank = ranks(run.added)
        newest = np.zeros(len(distinct), U64)
        # Not in the order of ids: a message in several queues comes after those in one.
        np.maximum.at(newest, rank, run.newest)
        counts = np.bincount(rank, minlength=len(distinct)).tolist()
        for queue_id, added, last in zip(distinct.tolist(), counts, newest.tolist(), strict=True):
            queue = self._queue(queue_id)
            queue.added += added
            queue.newest = max(queue.newest, last)
        self._changed.queues.update(distinct.tolist())
        for counter, ended in run.ended.items():
            for queue_id, count in _tally(ended):
                queue = self._queue(queue_id)
                setattr(queue, counter, getattr(queue, counter) + count)
            self._changed.queues.update(ended.tolist())

    def _count_addresses(self, columns: Columns, kinds: NDArray[np.uint8]) -> None:
        """Update the counters of addresses by all events; some addresses may be gone."""
        named = columns.column(events.ADDRESS)
        reason = columns.column(events.REASON)
        is_alone = reason == reasons.HISTORY_ONLY
        is_routed = (kinds == ROUTED) & ~is_alone
        is_unrouted = (kinds == events.DROPPED) & UNROUTED_REASONS[reason]
        is_unrouted |= (kinds == ROUTED) & is_alone
        elsewhere = np.flatnonzero(ELSEWHERE[kinds] & (reason == reasons.NO_ROUTE))
        found = zip(kinds[elsewhere].tolist(), columns.details(elsewhere), strict=True)
        before = np.array([unrouted_at(kind, bytes(detail)) for kind, detail in found], U64)
        for number, count in _tally(named[is_routed]):
            address = self._counted(number)
            if address is not None:
                address.routed += count
        for number, count in (*_tally(named[is_unrouted]), *_tally(before)):
            address = self._counted(number)
            if address is not None:
                address.unrouted += count

    def _counted(self, number: int) -> Address | None:
        """Return an address whose record must be written again, None if it is gone."""
        self._changed.addresses.add(number)
        return self.names.address(number)

    def _queue(self, queue_id: int) -> Queue:
        queue = self.names.queue(queue_id)
        if queue is None:
            raise IndexDamaged(
                f"the index in {self._tables.path} does not agree with the journal: it has no "
                f"queue {queue_id}"
            )
        return queue

    # ---- events one by one

    def _apply(self, columns: Columns, run: Run) -> None:
        """Apply the events that are not plain, in order."""
        state = self.state
        lsn = 0
        row: tuple[int, ...] = (0,)
        try:
            for lsn, row, detail, header_bytes, body_bytes in columns.events(run.rest):
                kind = row[KIND]
                if kind in OF_ENTRIES:
                    self._note_entry(row, detail)
                else:
                    self._note_other(row)
                if kind == ROUTED:
                    # Only the size of the content matters; the bytes are dropped when the entry is
                    # settled.
                    APPLY[kind](state, lsn, row, detail, bytes(header_bytes), bytes(body_bytes))
                else:
                    APPLY[kind](state, lsn, row, detail, b"", b"")
                    if kind == events.QUEUE_CREATED:
                        self.names.note_created(row[QUEUE])
        except (KeyError, ValueError, IndexError, MismatchError, msgspec.MsgspecError) as error:
            known = events.BY_NUMBER.get(row[KIND])
            name = known.name if known is not None else f"of kind {row[KIND]}"
            raise IndexDamaged(
                f"the index in {self._tables.path} does not agree with the journal: event {lsn} "
                f"({name}) does not fit: {error!r}"
            ) from error

    def _note_entry(self, row: EventRow, detail: bytes) -> None:
        """Record which entries an event is about, before it is applied."""
        queue_id, message_id = row[QUEUE], row[MESSAGE]
        changed = self._changed
        if queue_id:
            self._touched.add((queue_id, message_id))
            changed.queues.add(queue_id)
        elif row[KIND] == ROUTED:
            decoded = events.routed_detail(detail)
            for each in decoded.queues:
                self._touched.add((each, message_id))
                changed.queues.add(each)
        if row[CONSUMER]:
            changed.consumers.add(row[CONSUMER])
        elif row[KIND] in ENDING_UNNAMED:
            queue = self.state.queues.get(queue_id)
            entry = queue.entries.get(message_id) if queue is not None else None
            if entry is not None and entry.consumer is not None:
                changed.consumers.add(entry.consumer.id)

    def _note_other(self, row: EventRow) -> None:
        """Record which records an event is about, before it is applied."""
        changed = self._changed
        changed.addresses.add(row[events.ADDRESS])
        changed.connections.add(row[CONNECTION])
        changed.consumers.add(row[CONSUMER])
        changed.settings = True
        if row[KIND] == events.SETTINGS_CHANGED:
            # Any address may have to forget ids.
            remembering = self.state.addresses.items()
            changed.addresses.update(number for number, each in remembering if each.ids is not None)
        if row[QUEUE]:
            changed.queues.add(row[QUEUE])
            # One that is being created is in no table yet, and to look for it costs most of this.
            is_new = row[KIND] == events.QUEUE_CREATED
            queue = self.names.queue(row[QUEUE]) if not is_new else None
            if queue is not None:
                # It may be bound to another address from here on.
                changed.addresses.add(queue.address.id)

    def _barrier(self, txn: Transaction, columns: Columns, position: int) -> None:
        only = everything(columns, position, position + 1)
        if columns.column(KIND)[position] != events.BROKER_STARTED:
            self._apply(columns, only)
            return
        self._settle(txn, [], [])
        state = self.state
        changed = self._changed
        for queue in state.queues.values():
            self._touched.update((queue.id, message_id) for message_id in queue.entries)
        transient = [queue.id for queue in state.queues.values() if queue.transient_count]
        changed.addresses.update(state.addresses)
        changed.queues.update(state.queues)
        changed.connections.update(state.connections)
        changed.consumers.update(state.consumers)
        before = set(state.queues)
        self._apply(columns, only)
        gone = before - set(state.queues)
        taken = [self.levels.all_of(txn, queue_id) for queue_id in gone]
        taken += [
            self.levels.transients(txn, queue_id) for queue_id in transient if queue_id not in gone
        ]
        self._settle(txn, [], taken)

    # ---- writing to the tables

    def _settle(self, txn: Transaction, placed: list[Placed], taken: list[Taken]) -> None:
        """Write entries in memory to their places in the tables, together with the plain ones."""
        touched, self._touched = self._touched, set()
        adopted = self._finder.take_adopted()
        placed = [*placed, self._leave_memory(txn, touched)]
        taken = [*taken, *([adopted] if adopted is not None else [])]
        queue_ids = {queue_id for queue_id, _ in touched}
        into = join_placed(placed)
        out = join_taken(taken) if taken else NONE_TAKEN
        if len(into.queue) or len(out.queue):
            numbers = self.levels.change(txn, into, out)
            queue_ids.update(number // LEVELS for number in numbers)
        if self._noted:
            txn.put_all(self._noted, db=self._tables.db(ANNOTATIONS))
            self._noted = []
        for queue_id in queue_ids:
            queue = self.names.queue(queue_id)
            if queue is None:
                self.levels.forget(queue_id)
            else:
                self._refresh(queue)
        self._changed.queues.update(queue_ids)
        for timers in (self.state.expiring, self.state.scheduled):
            timers.heap.clear()
        self._finder.begin(txn)

    def _leave_memory(self, txn: Transaction, touched: set[tuple[int, int]]) -> Placed:
        """Evict ready entries; write those in flight, and delete those no longer in flight."""
        flights = self._tables.db(FLIGHTS)
        # Mostly there are none: then nothing has to be deleted for each entry.
        had_flights = txn.count(flights) > 0
        queues: list[int] = []
        priorities: list[int] = []
        ready: list[Row] = []
        for queue_id, message_id in sorted(touched):
            queue = self.state.queues.get(queue_id)
            entry = queue.entries.get(message_id) if queue is not None else None
            key = FLIGHT_KEY.pack(queue_id, message_id)
            if queue is None or entry is None:
                if had_flights:
                    txn.delete(key, db=flights)
                continue
            message = entry.message
            if entry.state != READY:
                message.headers = message.body = b""
                message.resident = False
                message.chunks = ()
                txn.put(key, records.encode(records.flight_record(entry)), db=flights)
                continue
            if had_flights:
                txn.delete(key, db=flights)
            del queue.entries[message_id]
            queue.weight -= message.weight
            queues.append(queue_id)
            priorities.append(entry.level)
            ready.append(_row_of(entry))
            if message.annotations:
                self._noted.append((ANNOTATION_KEY.pack(queue_id, message_id), message.annotations))
        if not ready:
            return NONE_PLACED
        return Placed(np.array(queues, U64), np.array(priorities, U8), rows_of(ready))

    def _refresh(self, queue: Queue) -> None:
        """Give a queue, which has only entries in flight in memory, the counts of the tables."""
        queue.forget_places()
        queue.ready_count = queue.held_count = queue.scheduled_count = 0
        count = size = transients = 0
        for priority, level in self.levels.known.get(queue.id, {}).items():
            paged = queue.level(priority).open_paged(0, PAST_ALL)
            paged.count, paged.bytes = level.count, level.bytes
            paged.transients, paged.transient_bytes = level.transients, level.transient_bytes
            count += level.count
            queue.count_standing(priority, level.count)
            size += level.bytes
            transients += level.transients
        for entry in queue.entries.values():
            size += entry.message.size
            transients += int(not entry.message.persistent)
        queue.paged_count = count
        queue.bytes = size
        queue.transient_count = transients

    # ---- records

    def _write_records(self, txn: Transaction) -> None:
        changed, self._changed = self._changed, _Changed()
        changed.forget_none()
        state, tables = self.state, self._tables
        self._write_names(txn, changed)
        for number in changed.connections:
            connection = state.connections.get(number)
            value = records.encode(records.connection_record(connection)) if connection else b""
            _put(txn, tables, CONNECTIONS, number, value)
        for number in changed.consumers:
            consumer = state.consumers.get(number)
            value = records.encode(records.consumer_record(consumer)) if consumer else b""
            _put(txn, tables, CONSUMERS, number, value)
        if changed.settings:
            value = records.encode(records.settings_record(state))
            txn.put(SETTINGS_KEY, value, db=tables.db(SETTINGS))

    def _write_names(self, txn: Transaction, changed: _Changed) -> None:
        """Write records of queues and addresses; a named one without an object is unchanged."""
        state, tables, names = self.state, self._tables, self.names
        known, sums = self.levels.known, self.levels.sums
        named: dict[int, None] = {}
        rows: list[tuple[bytes, bytes]] = []
        for queue_id in sorted(changed.queues):
            queue = state.queues.get(queue_id)
            if queue is not None:
                named[queue.address.id] = None
                levels = self.levels.of(queue_id) if queue_id in known else []
                told = records.queue_record(queue, levels, sums.get(queue_id, 0))
                rows.append((ID_KEY.pack(queue_id), records.encode(told)))
                if queue.latest is not None:
                    self._last_values.write(txn, queue)
            elif queue_id in names.queues.deleted:
                txn.delete(ID_KEY.pack(queue_id), db=tables.db(QUEUES))
                self._last_values.forget(txn, queue_id)
        txn.put_all(rows, db=tables.db(QUEUES))
        rows = []
        for number in sorted(changed.addresses):
            address = state.addresses.get(number)
            if address is not None:
                rows.append((ID_KEY.pack(number), records.encode(records.address_record(address))))
                self._ids.write(txn, number, address.ids)
            elif number in names.addresses.deleted:
                txn.delete(ID_KEY.pack(number), db=tables.db(ADDRESSES))
                self._ids.write(txn, number, None)
        txn.put_all(rows, db=tables.db(ADDRESSES))
        names.note(named)
        names.note(changed.addresses)


def _tally(queues: Ids) -> Iterator[tuple[int, int]]:
    """How often each queue occurs."""
    distinct, rank = ranks(queues)
    counts = np.bincount(rank, minlength=len(distinct))
    yield from zip(distinct.tolist(), counts.tolist(), strict=True)


def _put(txn: Transaction, tables: Tables, name: bytes, number: int, value: bytes) -> None:
    """Put the record of an id, or delete it if it no longer exists."""
    key = ID_KEY.pack(number)
    if value:
        txn.put(key, value, db=tables.db(name))
    else:
        txn.delete(key, db=tables.db(name))


def _row_of(entry: Entry) -> Row:
    message = entry.message
    return (
        message.id, min(message.size, SIZE_MAX), message.address_id, entry.delivery_count,
        records.flags_of(entry), message.expires, entry.due, hash_of(message.annotations),
    )  # fmt: skip
