"""Converts tables of formats 1 and 2 to the current format: for a base, which cannot be derived
again.

In format 1 only some tables had crcs, for their values alone: the value of such a row began with
one. In format 2 every row has the crc of the current format. In both the keys have four bytes for
an id of a queue or address, not eight. Crcs are checked once more here; otherwise the rows are
trusted, because a base is read only after a check of its SHA-256. Changes a copy, in place. Must
never know the meaning of the values of rows.
"""

import shutil
import sys
from collections.abc import Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from struct import Struct
from typing import Final

import lmdb
from crc32c import crc32c

from daybook.journal.data_directory import TABLES
from daybook.paging.tables.checked import CRC_BYTES, IndexDamaged, Table, Transaction, unpacked
from daybook.paging.tables.tables import (
    ADDRESSES,
    CONNECTIONS,
    CONSUMERS,
    DATA_ID_KEY,
    FLIGHTS,
    FORMAT_KEY,
    IDS,
    LATER,
    META,
    NAMES,
    PAGES,
    POSITION_KEY,
    POSITION_VALUE,
    QUEUES,
    SETTINGS,
    TIMERS,
    IndexUnwritable,
    open_for_writing,
    translated,
)

FIRST: Final = Struct("<I").pack(1)
"""The format number in tables of format 1."""
SECOND: Final = Struct("<I").pack(2)
"""The format number in tables of format 2, after the crc of the row."""
UPPER: Final = bytes(4)
"""The upper bytes of an id of four bytes."""
ID_PLACES: Final = {PAGES: 0, FLIGHTS: 0, IDS: 0, TIMERS: 16}
"""Where the keys of these tables have an id of four bytes."""
WITH_CRCS: Final = frozenset(
    (ADDRESSES, QUEUES, CONNECTIONS, CONSUMERS, SETTINGS, PAGES, FLIGHTS, IDS)
)
"""The tables of format 1 whose values begin with the crc32c of the rest."""
BATCH_ROWS: Final = 10_000
MAP_BYTES_MIN: Final = 1 << 20

_Row = tuple[bytes, bytes]


def format_of(directory: Path) -> int:
    """Return the older format of the tables in a directory; 0 if they are of none. Raises
    IndexDamaged, IndexUnwritable and OSError."""
    with translated(directory):
        env = lmdb.open(str(directory), max_dbs=len(NAMES), readonly=True, lock=False)
        try:
            with env.begin() as txn:
                said = bytes(txn.get(FORMAT_KEY, db=env.open_db(META, txn, create=False)) or b"")
        finally:
            env.close()
    if said == FIRST:
        return 1
    return 2 if said[CRC_BYTES:] == SECOND else 0


def main(arguments: list[str]) -> int:
    """Print the older format of the tables in a named directory, 0 for none; return the exit
    code. Damage may end the process."""
    try:
        print(format_of(Path(arguments[0])))
    except (IndexDamaged, IndexUnwritable, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def upgrade(directory: Path) -> bool:
    """Convert older tables in a directory to the current format; return whether they were older.

    All others stay as they are. Raises IndexDamaged and IndexUnwritable.
    """
    old, new = directory / TABLES, directory / "upgraded"
    with translated(directory):
        size = max(2 * old.stat().st_size, MAP_BYTES_MIN)
        env = lmdb.open(
            str(directory), map_size=size, max_dbs=len(NAMES), readonly=True, lock=False
        )
        try:
            with env.begin() as txn:
                meta = env.open_db(META, txn, create=False)
                said = bytes(txn.get(FORMAT_KEY, db=meta) or b"")
                if said == FIRST:
                    read, prefix = _first_rows, 0
                elif said[CRC_BYTES:] == SECOND:
                    read, prefix = _second_rows, CRC_BYTES
                else:
                    return False
                shutil.rmtree(new, ignore_errors=True)
                data_id = bytes(txn.get(DATA_ID_KEY, db=meta) or b"")[prefix:]
                _rewrite(new, data_id, {name: read(directory, env, txn, name) for name in NAMES})
        finally:
            env.close()
        (new / TABLES).replace(old)
        shutil.rmtree(new)
    return True


def _rewrite(directory: Path, data_id: bytes, found: dict[bytes, Iterator[_Row]]) -> None:
    """Create tables with these rows."""
    tables = open_for_writing(directory, data_id)
    try:
        for name, rows in found.items():
            while batch := list(islice(rows, BATCH_ROWS)):
                tables.write(partial(Transaction.put_all, items=batch, db=tables.db(name)))
    finally:
        tables.close()


def _key(name: bytes, key: bytes) -> bytes:
    """The current key for one with an id of four bytes."""
    place = ID_PLACES.get(name)
    return key if place is None else key[:place] + UPPER + key[place:]


def _second_rows(
    directory: Path, env: lmdb.Environment, txn: lmdb.Transaction, name: bytes
) -> Iterator[_Row]:
    """Key and value of all rows of a table of format 2."""
    try:
        table = Table(directory, name, env.open_db(name, txn, create=False))
    except lmdb.NotFoundError:
        if name not in LATER:
            raise
        return
    for key, row in txn.cursor(table.dbi):
        value = unpacked(table, bytes(key), bytes(row))
        if name != META or key != FORMAT_KEY:
            # New tables have crcs of their own.
            yield _key(name, bytes(key)), value


def _first_rows(
    directory: Path, env: lmdb.Environment, txn: lmdb.Transaction, name: bytes
) -> Iterator[_Row]:
    """Key and value of all rows of a table of format 1; none if the table is missing."""
    try:
        table = env.open_db(name, txn, create=False)
    except lmdb.NotFoundError:
        return
    for key, row in txn.cursor(table):
        value = bytes(row)
        if name in WITH_CRCS:
            value = value[CRC_BYTES:]
            if crc32c(value) != int.from_bytes(row[:CRC_BYTES], "little"):
                raise IndexDamaged(
                    f"the crc of a row of table '{name.decode()}' of format 1 does not fit"
                )
        if name == META and key == FORMAT_KEY:
            # New tables have crcs of their own.
            continue
        if name == META and key == POSITION_KEY:
            value = value[: POSITION_VALUE.size]
        yield _key(name, bytes(key)), value
