"""The digest of the state in the tables: of a loaded state, or read one record at a time.

Must never know how the tables came to be.
"""

from collections.abc import Iterator

from daybook.engine.facts.definitions import AddressDefinition, QueueDefinition
from daybook.engine.queues.queue import Queue
from daybook.engine.state.digest import (
    U64,
    address_row,
    combine,
    digest_of_rows,
    entry_hash,
    peers,
    queue_row,
)
from daybook.engine.state.state import State
from daybook.paging.tables import records
from daybook.paging.tables.checked import Transaction
from daybook.paging.tables.tables import ADDRESSES, ID_KEY, QUEUES, Tables


def digest_of(state: State, sums: dict[int, int]) -> str:
    """Return the digest of a loaded state; `sums` has, by queue, the sum of the hashes of its ready
    entries."""
    return combine(state, {each.id: _sum_of(each, sums) for each in state.queues.values()})


def digest_of_tables(tables: Tables, txn: Transaction, state: State, sums: dict[int, int]) -> str:
    """Return the digest of the tables; the state need not have all names (`paging.tables.names`),
    `sums` are of all queues."""
    topology = [
        (txn.count(tables.db(ADDRESSES)), _addresses(tables, txn, state)),
        (txn.count(tables.db(QUEUES)), _queues(tables, txn, state)),
        *peers(state),
    ]
    return digest_of_rows(
        topology, state, (txn.count(tables.db(QUEUES)), _sums(tables, txn, state, sums))
    )


def _addresses(tables: Tables, txn: Transaction, state: State) -> Iterator[list[object]]:
    for _, value in txn.rows(tables.db(ADDRESSES)):
        record = records.decode(records.AddressRecord, value, "an address")
        definition = records.definition_of(AddressDefinition, record, state.texts)
        known = state.addresses.get(record.id)
        bound = (record.anycast, record.multicast)
        ids = known.ids if known is not None else None
        times = record.created_at, record.emptied_at
        yield address_row(record.id, definition, bound, record.paging, ids, times)


def _queues(tables: Tables, txn: Transaction, state: State) -> Iterator[list[object]]:
    for _, value in txn.rows(tables.db(QUEUES)):
        record = records.decode(records.QueueRecord, value, "a queue")
        definition = records.definition_of(QueueDefinition, record, state.texts)
        known = state.queues.get(record.id)
        figures = (
            record.paused, record.added, record.acknowledged, record.dead_lettered, record.expired,
        )  # fmt: skip
        consumers = [each.id for each in known.consumers] if known is not None else []
        times = record.created_at, record.left_at
        counts = record.replaced, record.evicted
        yield queue_row(
            record.id, record.address, definition, figures, consumers, record.deleting, times,
            counts, record.waits_since, record.recalls,
        )  # fmt: skip


def _sums(
    tables: Tables, txn: Transaction, state: State, sums: dict[int, int]
) -> Iterator[tuple[int, tuple[int, int]]]:
    for key, value in txn.rows(tables.db(QUEUES)):
        number = ID_KEY.unpack(key)[0]
        known = state.queues.get(number)
        if known is not None:
            yield number, _sum_of(known, sums)
            continue
        record = records.decode(records.QueueRecord, value, "a queue")
        yield number, (sum(level.count for level in record.levels), sums.get(number, 0))


def _sum_of(queue: Queue, sums: dict[int, int]) -> tuple[int, int]:
    """How many entries a queue has, and the sum of their hashes."""
    total = sums.get(queue.id, 0)
    for entry in queue.entries.values():
        total += entry_hash(queue.id, entry)
    return len(queue.entries) + queue.paged_count, total & U64
