"""Ids of messages that addresses remember, in the tables: pages of keys by their numbers.

A page has the keys of up to PAGE_KEYS consecutive numbers, and takes one page of LMDB; so the ids
of an address are read in few pieces, and a batch that adds keys changes only the last page. Page n
has the numbers from n * PAGE_KEYS on. It lacks keys that were forgotten before it was written, but
still has those forgotten later: the record of the address says where the keys begin. A page is the
number of its first key (u64, little endian) and the keys. Must never know the meaning of the keys.
"""

from struct import Struct
from typing import Final

from daybook.engine.queues.id_cache import KEY_BYTES, IdCache
from daybook.engine.state.state import State
from daybook.paging.tables.checked import IndexDamaged, Table, Transaction
from daybook.paging.tables.tables import IDS, IDS_KEY, Tables

PAGE_KEYS: Final = 250
_HEAD: Final = Struct("<Q")


class IdPages:
    """The ids of each address in the tables, kept up to date address by address."""

    def __init__(self, tables: Tables, state: State) -> None:
        """Begin with the state in the tables."""
        self._tables: Final = tables
        # By address the number of its oldest key, and of its next one.
        self._written: Final = {
            address.id: (address.ids.first, address.ids.recorded)
            for address in state.addresses.values()
            if address.ids is not None
        }

    def write(self, txn: Transaction, address_id: int, ids: IdCache | None) -> None:
        """Write the ids that an address remembers; None if the address is gone or never had an
        id."""
        first, end = self._written.pop(address_id, (0, 0))
        table = self._tables.db(IDS)
        if ids is not None:
            if (ids.first, ids.recorded) != (first, end):
                _append(txn, table, address_id, ids, end)
            self._written[address_id] = (ids.first, ids.recorded)
        kept = _page_of(ids) if ids is not None else _pages(first, end).stop
        for number in _pages(first, end):
            if number < kept:
                txn.delete(IDS_KEY.pack(address_id, number), db=table)


def _pages(first: int, end: int) -> range:
    """The numbers of the pages with the keys from `first` to before `end`."""
    if first == end:
        return range(0)
    return range(first // PAGE_KEYS, (end - 1) // PAGE_KEYS + 1)


def _page_of(ids: IdCache) -> int:
    """The number of the first page that is needed; without keys, of the page for the next one."""
    if ids.count:
        return ids.first // PAGE_KEYS
    return -(-ids.recorded // PAGE_KEYS)


def _append(txn: Transaction, table: Table, address_id: int, ids: IdCache, end: int) -> None:
    """Write the pages that contain keys from number `end` on."""
    start = max(ids.first, end)
    if start == ids.recorded:
        return
    start = max(ids.first, start // PAGE_KEYS * PAGE_KEYS)
    keys = ids.newest(ids.recorded - start)
    for number in _pages(start, ids.recorded):
        low = max(start, number * PAGE_KEYS)
        part = keys[low - start : (number + 1) * PAGE_KEYS - start]
        value = _HEAD.pack(low) + b"".join(part)
        txn.put(IDS_KEY.pack(address_id, number), value, db=table)


def load(tables: Tables, txn: Transaction, address_id: int, recorded: int, count: int) -> IdCache:
    """Read the ids of an address: `count` of the `recorded` ids that it ever got. IndexDamaged."""
    ids = IdCache()
    first = recorded - count
    keys: list[bytes] = []
    for number in _pages(first, recorded):
        keys += _keys(tables, txn, address_id, number, first + len(keys))
    try:
        if len(keys) != count:
            raise ValueError(f"it has {len(keys)} ids of {count}")
        ids.restore(recorded, keys)
    except ValueError as error:
        raise _damaged(tables, f"address {address_id}: {error}") from error
    return ids


def _keys(
    tables: Tables, txn: Transaction, address_id: int, number: int, first: int
) -> list[bytes]:
    """The keys of a page from number `first` on."""
    what = f"page {number} of the ids of address {address_id}"
    value = txn.get(IDS_KEY.pack(address_id, number), db=tables.db(IDS))
    if value is None:
        raise _damaged(tables, f"it lacks {what}")
    if len(value) < _HEAD.size or (len(value) - _HEAD.size) % KEY_BYTES:
        raise _damaged(tables, f"{what} has {len(value)} bytes")
    (low,) = _HEAD.unpack_from(value)
    if low > first:
        raise _damaged(tables, f"{what} begins with number {low}, not {first}")
    start = _HEAD.size + (first - low) * KEY_BYTES
    return [value[at : at + KEY_BYTES] for at in range(start, len(value), KEY_BYTES)]


def page_count(state: State) -> int:
    """How many pages of ids a state needs."""
    return sum(
        len(_pages(address.ids.first, address.ids.recorded))
        for address in state.addresses.values()
        if address.ids is not None
    )


def _damaged(tables: Tables, what: str) -> IndexDamaged:
    return IndexDamaged(f"the index in {tables.path} is damaged: {what}")
