"""The environment: created, opened, grown, and refused when it is not what it should be."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from daybook.journal.data_directory import TABLES
from daybook.paging.tables import tables as module
from daybook.paging.tables.checked import Transaction
from daybook.paging.tables.tables import (
    DATA_ID_KEY,
    FORMAT_KEY,
    META,
    PAGES,
    IndexDamaged,
    IndexUnwritable,
    level_of,
    level_prefix,
    open_for_reading,
    open_for_writing,
    page_key,
)
from tests.support.stored.stored_rows import flip

ROOT = Path(__file__).resolve().parents[4]
DATA_ID = bytes(range(16))
OTHER_ID = bytes(16)


def test_keys_of_pages_are_in_the_order_of_delivery() -> None:
    keys = [page_key(1, 9, 5), page_key(1, 4, 1), page_key(1, 4, 300), page_key(2, 9, 1)]
    assert keys == sorted(keys)
    assert all(key.startswith(level_prefix(*which)) for key, which in zip(keys, [
        (1, 9), (1, 4), (1, 4), (2, 9),
    ], strict=True))  # fmt: skip
    assert [level_of(priority) for priority in (9, 4, 0)] == [0, 5, 9]


def test_new_tables_are_empty_and_know_whose_they_are(tmp_path: Path) -> None:
    tables = open_for_writing(tmp_path / "index", DATA_ID)
    with tables.read() as txn:
        assert tables.position(txn) == (0, bytes(16), 0)
        assert tables.data_id(txn) == DATA_ID
    tables.close()


def test_what_was_committed_is_there_for_who_reads(tmp_path: Path) -> None:
    tables = open_for_writing(tmp_path, DATA_ID)
    tables.write(lambda txn: tables.set_position(txn, 7, b"h" * 16, 99))
    tables.close()
    tables = open_for_reading(tmp_path, DATA_ID)
    with tables.read() as txn:
        assert tables.position(txn) == (7, b"h" * 16, 99)
    tables.close()
    open_for_reading(tmp_path).close()


def test_work_that_fails_leaves_nothing(tmp_path: Path) -> None:
    tables = open_for_writing(tmp_path, DATA_ID)

    def work(txn: Transaction) -> None:
        tables.set_position(txn, 7, b"h" * 16, 99)
        raise ValueError("stop")

    with pytest.raises(ValueError, match="stop"):
        tables.write(work)
    with tables.read() as txn:
        assert tables.position(txn)[0] == 0
    tables.close()


def test_a_map_that_is_full_grows_and_the_work_is_done_again(tmp_path: Path) -> None:
    tables = open_for_writing(tmp_path, DATA_ID)
    times = 0

    def work(txn: Transaction) -> int:
        nonlocal times
        times += 1
        for number in range(6000):
            txn.put(page_key(1, 4, number), bytes(4000), db=tables.db(PAGES))
        return times

    assert tables.write(work) == 2
    with tables.read() as txn:
        assert txn.count(tables.db(PAGES)) == 6000
    assert (tmp_path / TABLES).stat().st_size > module.MAP_BYTES_MIN
    tables.close()
    # Opened again the map is large enough from the start.
    tables = open_for_writing(tmp_path, DATA_ID)
    assert tables.free_bytes > 6000 * 4096
    tables.close()


def test_room_is_made_before_it_is_needed(tmp_path: Path) -> None:
    tables = open_for_writing(tmp_path, DATA_ID)
    tables.make_room(1_000_000)
    assert tables.free_bytes >= 1_000_000 * module.ROOM_BYTES_PER_EVENT
    tables.close()


FILL = """
import sys
from pathlib import Path
from daybook.paging.tables.tables import PAGES, open_for_writing, page_key
tables = open_for_writing(Path(sys.argv[1]), bytes(range(16)))
def work(txn):
    for number in range(6000):
        txn.put(page_key(1, 4, number), bytes(4000), db=tables.db(PAGES))
tables.write(work)
"""


def test_a_reader_follows_a_map_that_another_process_made_larger(tmp_path: Path) -> None:
    open_for_writing(tmp_path, DATA_ID).close()
    reader = open_for_reading(tmp_path, DATA_ID)
    subprocess.run([sys.executable, "-c", FILL, str(tmp_path)], cwd=ROOT, check=True)
    with reader.read() as txn:
        assert txn.count(reader.db(PAGES)) == 6000
    reader.close()


def test_tables_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(IndexDamaged, match="there is no index in"):
        open_for_reading(tmp_path)


def test_a_file_without_tables(tmp_path: Path) -> None:
    (tmp_path / TABLES).touch()
    with pytest.raises(IndexDamaged, match="is not a file with tables"):
        open_for_reading(tmp_path)
    (tmp_path / TABLES).unlink()
    (tmp_path / TABLES).mkdir()
    with pytest.raises(IndexDamaged, match="is not a file with tables"):
        open_for_reading(tmp_path)


def test_tables_of_another_journal(tmp_path: Path) -> None:
    open_for_writing(tmp_path, DATA_ID).close()
    for opened in (open_for_reading, open_for_writing):
        with pytest.raises(IndexDamaged, match=f"its id is {DATA_ID.hex()}, not {OTHER_ID.hex()}"):
            opened(tmp_path, OTHER_ID)


@pytest.mark.parametrize(
    ("key", "value", "what"),
    [
        (FORMAT_KEY, b"\4\0\0\0", "not of format 3"),
        (DATA_ID_KEY, None, "does not say which journal"),
        (module.POSITION_KEY, b"short", "its position is invalid"),
    ],
)
def test_meta_that_cannot_be_right(
    tmp_path: Path, key: bytes, value: bytes | None, what: str
) -> None:
    tables = open_for_writing(tmp_path, DATA_ID)

    def work(txn: Transaction) -> None:
        if value is None:
            txn.delete(key, db=tables.db(META))
        else:
            txn.put(key, value, db=tables.db(META))

    tables.write(work)
    tables.close()
    with pytest.raises(IndexDamaged, match=what):
        read_position(tmp_path)


@pytest.mark.parametrize("bit", range(0, 8 * (module.POSITION_VALUE.size + 4), 13))
def test_a_position_with_a_flipped_bit(tmp_path: Path, bit: int) -> None:
    tables = open_for_writing(tmp_path, DATA_ID)
    tables.write(lambda txn: tables.set_position(txn, 7, b"h" * 16, 99))
    tables.write(lambda txn: flip(txn, tables.db(META), module.POSITION_KEY, bit))
    tables.close()
    with pytest.raises(IndexDamaged, match="the crc of a row of table 'meta'"):
        read_position(tmp_path)


def read_position(path: Path) -> None:
    tables = open_for_reading(path)
    try:
        with tables.read() as txn:
            tables.position(txn)
    finally:
        tables.close()


def test_a_file_that_is_no_environment(tmp_path: Path) -> None:
    (tmp_path / TABLES).write_bytes(b"nonsense" * 2000)
    for opened in (open_for_reading, open_for_writing):
        with pytest.raises(IndexDamaged, match="is damaged"):
            opened(tmp_path, DATA_ID)


def test_a_file_that_was_cut(tmp_path: Path) -> None:
    open_for_writing(tmp_path, DATA_ID).close()
    size = (tmp_path / TABLES).stat().st_size
    os.truncate(tmp_path / TABLES, size - 4096)
    with pytest.raises(IndexDamaged, match=rf"has {size - 4096} bytes of {size}"):
        open_for_writing(tmp_path, DATA_ID)


def test_a_directory_that_may_not_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(IndexUnwritable, match="may be written"):
        open_for_writing(tmp_path / "file" / "index", DATA_ID)


def test_an_environment_is_opened_once(tmp_path: Path) -> None:
    tables = open_for_writing(tmp_path, DATA_ID)
    with pytest.raises(IndexUnwritable, match="already open"):
        open_for_reading(tmp_path)
    tables.close()
