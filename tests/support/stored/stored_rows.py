"""Rows of tables as stored in LMDB, below the layer that checks them, for tests of damage."""

from collections.abc import Callable

import lmdb

from daybook.paging.tables.checked import Table, Transaction


def stored(txn: Transaction) -> lmdb.Transaction:
    """The transaction of LMDB."""
    return txn._txn


def respell(txn: Transaction, table: Table, key: bytes, change: Callable[[bytes], bytes]) -> None:
    """Change a row as it is stored, with its crc."""
    raw = stored(txn)
    row = raw.get(key, db=table.dbi)
    assert row is not None
    raw.put(key, change(bytes(row)), db=table.dbi)


def flip(txn: Transaction, table: Table, key: bytes, bit: int) -> None:
    """Flip a bit of a row as it is stored; from the end if negative."""

    def flipped(row: bytes) -> bytes:
        changed = bytearray(row)
        changed[bit // 8] ^= 1 << bit % 8
        return bytes(changed)

    respell(txn, table, key, flipped)


def flip_key(txn: Transaction, table: Table, key: bytes, bit: int) -> None:
    """Move a row to a key with a flipped bit."""
    raw = stored(txn)
    row = raw.get(key, db=table.dbi)
    assert row is not None
    changed = bytearray(key)
    changed[bit // 8] ^= 1 << bit % 8
    raw.delete(key, db=table.dbi)
    raw.put(bytes(changed), bytes(row), db=table.dbi)
