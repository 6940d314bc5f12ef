"""Transactions and cursors that check every row: the only way to read tables.

A row is the crc32c (u32, little endian) of the table's name, its key and the rest of the value,
followed by that rest. It is written here and checked here, at every row that a cursor reaches, so
no row is used that was not written like this: none whose key or value has a changed bit, and none
that belongs to another table. Raises IndexDamaged. Must never know the meaning of rows.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, cast

import lmdb
from crc32c import crc32c

from daybook.errors import DaybookError

CRC_BYTES: Final = 4


class IndexDamaged(DaybookError):
    """The index cannot be trusted; the text names the fault and its place. It must be rebuilt."""


class Table:
    """A table of an open environment; the crcs of its rows begin with `seed`."""

    __slots__ = ("dbi", "name", "path", "seed")

    def __init__(self, path: Path, name: bytes, dbi: "lmdb._Database") -> None:
        self.path: Final = path
        self.name: Final = name
        self.dbi: Final = dbi
        self.seed: Final = crc32c(name)

    def damaged(self, key: bytes) -> IndexDamaged:
        """Return the error for a damaged row with this key."""
        return IndexDamaged(
            f"the index in {self.path} is damaged: the crc of a row of table "
            f"'{self.name.decode()}' does not fit (its key is {key.hex() or 'empty'})"
        )


def packed(table: Table, key: bytes, value: bytes) -> bytes:
    """The row of a key and a value, as it is stored."""
    return crc32c(value, crc32c(key, table.seed)).to_bytes(CRC_BYTES, "little") + value


def unpacked(table: Table, key: bytes, row: bytes) -> bytes:
    """The value of a row as it was stored; raises IndexDamaged."""
    value = row[CRC_BYTES:]
    crc = crc32c(value, crc32c(key, table.seed))
    if crc != int.from_bytes(row[:CRC_BYTES], "little") or len(row) < CRC_BYTES:
        raise table.damaged(key)
    return value


class Transaction:
    """A transaction of LMDB whose callers see values only, without crcs."""

    __slots__ = ("_txn",)

    def __init__(self, txn: lmdb.Transaction) -> None:
        self._txn: Final = txn

    def get(self, key: bytes, *, db: Table) -> bytes | None:
        """The value of a key, None if there is none."""
        row = self.as_stored(key, db=db)
        return unpacked(db, key, row) if row is not None else None

    def as_stored(self, key: bytes, *, db: Table) -> bytes | None:
        """The row of a key, unchecked: only for detecting formats."""
        # Transactions return bytes because they are begun without `buffers`.
        return cast(bytes | None, self._txn.get(key, db=db.dbi))

    def put(self, key: bytes, value: bytes, *, db: Table) -> None:
        """Set the value of a key."""
        self._txn.put(key, packed(db, key, value), db=db.dbi)

    def put_all(
        self, items: Iterable[tuple[bytes, bytes]], *, db: Table, append: bool = False
    ) -> None:
        """Set the values of many keys; with `append` they must be sorted, and above all others."""
        rows = [(key, packed(db, key, value)) for key, value in items]
        with self._txn.cursor(db.dbi) as cursor:
            cursor.putmulti(rows, append=append)

    def delete(self, key: bytes, *, db: Table) -> bool:
        """Delete a key, whatever its value; return whether it existed."""
        return self._txn.delete(key, db=db.dbi)

    def clear(self, db: Table) -> None:
        """Delete all rows of a table."""
        self._txn.drop(db.dbi, delete=False)

    def count(self, db: Table) -> int:
        """How many rows a table has."""
        return int(self._txn.stat(db.dbi)["entries"])

    def cursor(self, db: Table) -> "Cursor":
        """Return a cursor without a position."""
        return Cursor(self._txn.cursor(db.dbi), db)

    def rows(self, db: Table) -> Iterator[tuple[bytes, bytes]]:
        """Key and value of all rows of a table, in the order of their keys."""
        # A start reads the rows of all names.
        found = cast(Iterator[tuple[bytes, bytes]], self._txn.cursor(db.dbi).iternext())
        for key, row in found:
            yield key, unpacked(db, key, row)


class Cursor:
    """A position in a table; the row there has been checked."""

    __slots__ = ("_cursor", "_key", "_table", "_value")

    def __init__(self, cursor: lmdb.Cursor, table: Table) -> None:
        self._cursor: Final = cursor
        self._table: Final = table
        self._key = b""
        self._value = b""

    def _stand(self, found: bool) -> bool:
        """Check and keep the row that LMDB found, if any."""
        if found:
            key, row = cast(tuple[bytes, bytes], self._cursor.item())
            self._value = unpacked(self._table, key, row)
            self._key = key
        return found

    def first(self) -> bool:
        """Go to the first row; return whether there is one."""
        return self._stand(self._cursor.first())

    def last(self) -> bool:
        """Go to the last row; return whether there is one."""
        return self._stand(self._cursor.last())

    def next(self) -> bool:
        """Go to the next row; return whether there is one."""
        return self._stand(self._cursor.next())

    def prev(self) -> bool:
        """Go to the previous row; return whether there is one."""
        return self._stand(self._cursor.prev())

    def set_range(self, key: bytes) -> bool:
        """Go to the first row whose key is at least this one; return whether there is one."""
        return self._stand(self._cursor.set_range(key))

    def set_key(self, key: bytes) -> bool:
        """Go to the row of a key; return whether there is one."""
        return self._stand(self._cursor.set_key(key))

    def key(self) -> bytes:
        """The key of the current row."""
        return self._key

    def value(self) -> bytes:
        """The value of the current row."""
        return self._value

    def delete(self) -> None:
        """Delete the current row, and move to the next one, which is not checked."""
        self._cursor.delete()

    def close(self) -> None:
        """Close the cursor."""
        self._cursor.close()
