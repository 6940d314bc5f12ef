"""Every row is proven where it is read, and there is no other way to read one."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daybook.paging.tables.checked import Cursor, IndexDamaged, Table, Transaction, packed, unpacked
from daybook.paging.tables.tables import CARRIED, LARGE, NAMES, Tables, open_for_writing
from tests.support.stored.stored_rows import flip, flip_key, respell, stored

DATA_ID = b"d" * 16
KEYS = (b"key.1", b"key.2", b"key.3")


@pytest.fixture
def tables(tmp_path: Path) -> Iterator[Tables]:
    opened = open_for_writing(tmp_path, DATA_ID)
    opened.write(lambda txn: txn.put_all([(key, b"v" * 9) for key in KEYS], db=opened.db(CARRIED)))
    yield opened
    opened.close()


def test_what_was_put_is_there(tables: Tables) -> None:
    table = tables.db(CARRIED)
    tables.write(lambda txn: txn.put(b"key.0", b"", db=table))
    with tables.read() as txn:
        assert list(txn.rows(table)) == [(b"key.0", b""), *((key, b"v" * 9) for key in KEYS)]
        assert txn.get(b"key.2", db=table) == b"v" * 9
        assert txn.get(b"key.9", db=table) is None
        assert txn.count(table) == 4
        cursor = txn.cursor(table)
        assert cursor.set_range(b"key.15")
        assert (cursor.key(), cursor.value()) == (b"key.2", b"v" * 9)
        assert not cursor.set_range(b"key.4")
        assert cursor.last()
        assert cursor.prev()
        assert cursor.key() == b"key.2"


@given(
    key=st.binary(min_size=1, max_size=30), value=st.binary(max_size=40), bit=st.integers(0),
    name=st.sampled_from(NAMES),
)  # fmt: skip
@settings(max_examples=200)
def test_any_flipped_bit_is_found(key: bytes, value: bytes, bit: int, name: bytes) -> None:
    table = Table(Path("i"), name, None)  # type: ignore[arg-type]
    row = packed(table, key, value)
    assert unpacked(table, key, row) == value
    spoiled = bytearray(key + row)
    bit %= 8 * len(spoiled)
    spoiled[bit // 8] ^= 1 << bit % 8
    with pytest.raises(IndexDamaged, match=f"the crc of a row of table '{name.decode()}'"):
        unpacked(table, bytes(spoiled[: len(key)]), bytes(spoiled[len(key) :]))


@given(length=st.integers(0, 12))
def test_a_row_that_was_cut_is_found(length: int) -> None:
    table = Table(Path("i"), CARRIED, None)  # type: ignore[arg-type]
    with pytest.raises(IndexDamaged):
        unpacked(table, b"key", packed(table, b"key", b"v" * 9)[:length])


WAYS: dict[str, Callable[[Transaction, Table, Cursor], object]] = {
    "get": lambda txn, table, cursor: txn.get(KEYS[1], db=table),
    "rows": lambda txn, table, cursor: list(txn.rows(table)),
    "next": lambda txn, table, cursor: cursor.set_key(KEYS[0]) and cursor.next(),
    "prev": lambda txn, table, cursor: cursor.set_key(KEYS[2]) and cursor.prev(),
    "set_key": lambda txn, table, cursor: cursor.set_key(KEYS[1]),
    "set_range": lambda txn, table, cursor: cursor.set_range(b"key.11"),
}


@pytest.mark.parametrize("way", WAYS)
def test_no_way_leads_to_a_damaged_row(tables: Tables, way: str) -> None:
    table = tables.db(CARRIED)
    tables.write(lambda txn: flip(txn, table, KEYS[1], 70))
    with tables.read() as txn, pytest.raises(IndexDamaged, match=KEYS[1].hex()):
        WAYS[way](txn, table, txn.cursor(table))


@pytest.mark.parametrize(("key", "way"), [(KEYS[0], "first"), (KEYS[2], "last")])
def test_nor_at_the_ends(tables: Tables, key: bytes, way: str) -> None:
    table = tables.db(CARRIED)
    tables.write(lambda txn: flip(txn, table, key, 1))
    with tables.read() as txn, pytest.raises(IndexDamaged):
        getattr(txn.cursor(table), way)()


def test_a_flipped_key_is_found(tables: Tables) -> None:
    table = tables.db(CARRIED)
    tables.write(lambda txn: flip_key(txn, table, KEYS[1], 33))
    with tables.read() as txn:
        assert txn.get(KEYS[1], db=table) is None
        with pytest.raises(IndexDamaged):
            list(txn.rows(table))


def test_a_row_of_another_table_is_found(tables: Tables) -> None:
    """As if a page of one table were in the place of a page of another."""
    other = tables.db(LARGE)

    def move(txn: Transaction) -> None:
        row = txn.as_stored(KEYS[1], db=tables.db(CARRIED))
        assert row is not None
        stored(txn).put(KEYS[1], row, db=other.dbi)

    tables.write(move)
    with tables.read() as txn, pytest.raises(IndexDamaged, match="of table 'large'"):
        txn.get(KEYS[1], db=other)


def test_the_row_of_another_key_is_found(tables: Tables) -> None:
    table = tables.db(CARRIED)

    def move(txn: Transaction) -> None:
        row = txn.as_stored(KEYS[0], db=table)
        assert row is not None
        respell(txn, table, KEYS[1], lambda _: row)

    tables.write(move)
    with tables.read() as txn, pytest.raises(IndexDamaged):
        txn.get(KEYS[1], db=table)
