"""The addresses and queues that a fold keeps as objects: not all that exist (ADR 38).

An *idle* name is one that stays unchanged unless an event names it: its queues are durable,
empty and without consumers, no session will end with effect on them, and it remembers no ids. The
tables have its record, and an object is created from that when an event names it. Some idle names,
those that were named last, keep their objects, so that few are created again and again. So the
memory of a fold depends on the names in use, not on all names that exist. The time it takes to
begin depends on fewer still: of what is not idle, queues that only have persistent messages to
deliver are not loaded before an event names them, either. An address and the queues bound to it are
loaded and dropped together.
"""

from collections.abc import Callable, Iterable
from typing import Final, TypeVar

from daybook.engine.facts.definitions import BEYOND_CONSUMERS
from daybook.engine.messages.message import PRIORITIES
from daybook.engine.queues.queue import Address, Queue
from daybook.engine.state.state import State
from daybook.paging.tables import records
from daybook.paging.tables.checked import Transaction
from daybook.paging.tables.loading import add_address, add_queue, lacking, load_peers, load_settings
from daybook.paging.tables.tables import ADDRESSES, ID_KEY, QUEUES, Tables

IDLE_MAX: Final = 10_000
"""How many idle addresses keep their objects: about ten megabytes."""

KEYING: Final = frozenset(("last_value", "last_value_key"))
"""The attributes that make a last value queue."""

_T = TypeVar("_T")


class _Objects(dict[int, _T]):
    """Objects by id, created at the first access by `[]`; knows which were deleted."""

    def __init__(self, make: Callable[[int], None]) -> None:
        super().__init__()
        self._make: Final = make
        self.deleted: Final[set[int]] = set()

    def __missing__(self, number: int) -> _T:
        if number in self.deleted:
            raise KeyError(number)
        self._make(number)
        # Not by `[]` of this class: an id without a record must not be looked up again.
        return dict.__getitem__(self, number)

    def __delitem__(self, number: int) -> None:
        super().__delitem__(number)
        self.deleted.add(number)


class Names:
    """Adds the needed addresses and queues to a state, and removes them again."""

    def __init__(self, tables: Tables, state: State, until: int, idle_max: int = IDLE_MAX) -> None:
        """Each level of a queue is one paged range up to `until`."""
        self._tables: Final = tables
        self._state: Final = state
        # Whether there may be last value queues, in memory or not.
        self.has_keyed = False
        self._until: Final = until
        self._idle_max: Final = idle_max
        self._txn: Transaction | None = None
        # The record of a queue that is being loaded, so that it is not looked up again.
        self._decoded: records.QueueRecord | None = None
        self.addresses: Final[_Objects[Address]] = _Objects(self._make_address)
        self.queues: Final[_Objects[Queue]] = _Objects(self._make_queue)
        state.addresses, state.queues = self.addresses, self.queues
        # Addresses that were named since the last batch, and idle ones, the most recent last.
        self._named: dict[int, None] = {}
        self._idle: Final[dict[int, None]] = {}

    def load(self, txn: Transaction, note: Callable[[records.QueueRecord], None]) -> None:
        """Load the state without idle names, and others that only events about them change.

        `note` is called with the record of each queue that has entries in pages. Raises
        IndexDamaged.
        """
        self.begin(txn)
        self.has_keyed = False
        load_settings(self._tables, txn, self._state)
        for _, value in txn.rows(self._tables.db(QUEUES)):
            record = records.decode(records.QueueRecord, value, "a queue")
            if record.levels or record.sum:
                note(record)
            self.has_keyed |= not KEYING.isdisjoint(record.more)
            if is_affected(record):
                self._decoded = record
                self.queue(record.id)
        self._decoded = None
        for _, value in txn.rows(self._tables.db(ADDRESSES)):
            address = records.decode(records.AddressRecord, value, "an address")
            if address.ids_recorded:
                self.address(address.id)
        load_peers(self._tables, txn, self._state)
        self.end()

    def begin(self, txn: Transaction) -> None:
        """Read records as a transaction sees them."""
        self._txn = txn

    def end(self) -> None:
        """The records are written: drop the objects of idle names."""
        self.addresses.deleted.clear()
        self.queues.deleted.clear()
        named, self._named = self._named, {}
        for number in named:
            address = self.addresses.get(number)
            self._idle.pop(number, None)
            if address is not None and is_idle(address):
                self._idle[number] = None
        while len(self._idle) > self._idle_max:
            number = next(iter(self._idle))
            del self._idle[number]
            self._let_go(self.addresses[number])
        self._txn = None

    def queue(self, number: int) -> Queue | None:
        """Return a queue; None if there is none."""
        return _found(self.queues, number)

    def address(self, number: int) -> Address | None:
        """Return an address; None if there is none."""
        return _found(self.addresses, number)

    def note_created(self, number: int) -> None:
        """Record that a queue was created."""
        self.has_keyed |= bool(self.queues[number].definition.keyed_by)

    def note(self, addresses: Iterable[int]) -> None:
        """Record that a batch names addresses."""
        self._named.update(dict.fromkeys(addresses))

    # ---- creating and dropping

    def _make_address(self, number: int) -> None:
        record = self._record(records.AddressRecord, ADDRESSES, number, "address")
        if record is None:
            raise KeyError(number)
        address, bound = add_address(self._tables, self._transaction, self._state, record)
        for queue_id in bound:
            known = self._queue_record(queue_id)
            if known is None:
                raise lacking(self._tables, KeyError(queue_id))
            address.bind(add_queue(self._state, known, self._until))
        self._named[number] = None

    def _make_queue(self, number: int) -> None:
        record = self._queue_record(number)
        if record is None:
            raise KeyError(number)
        if self.address(record.address) is None:
            raise lacking(self._tables, KeyError(record.address))
        if number not in self.queues:
            # It is being deleted, and not bound to any address.
            add_queue(self._state, record, self._until)

    @property
    def _transaction(self) -> Transaction:
        assert self._txn is not None, "names are looked up within a batch"
        return self._txn

    def _queue_record(self, number: int) -> records.QueueRecord | None:
        decoded = self._decoded
        if decoded is not None and decoded.id == number:
            return decoded
        return self._record(records.QueueRecord, QUEUES, number, "queue")

    def _record(
        self, kind: type[records.R], table: bytes, number: int, what: str
    ) -> records.R | None:
        value = self._transaction.get(ID_KEY.pack(number), db=self._tables.db(table))
        return records.decode(kind, value, f"{what} {number}") if value is not None else None

    def _let_go(self, address: Address) -> None:
        state = self._state
        for queue in address.queues():
            state.remove_queue(queue)
        state.remove_address(address)
        self.addresses.deleted.clear()
        self.queues.deleted.clear()


def is_idle(address: Address) -> bool:
    """Whether an address and its queues stay unchanged unless an event names them."""
    return address.ids is None and all(
        queue.definition.durable
        and not queue.message_count
        and not queue.is_used
        and not queue.is_owned
        for queue in address.queues()
    )


def is_affected(record: records.QueueRecord) -> bool:
    """Whether an event that does not name a queue without consumers may change it: the start of a
    broker, or one that must know which of its messages are set aside."""
    return (
        not record.durable
        or record.deleting
        or any(level.transients or level.priority >= PRIORITIES for level in record.levels)
        or (not record.left_at and record.more.get("expiry_policy") in BEYOND_CONSUMERS)
    )


def _found(objects: _Objects[_T], number: int) -> _T | None:
    try:
        return objects[number]
    except KeyError:
        return None
