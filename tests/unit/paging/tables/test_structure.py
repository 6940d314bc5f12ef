"""The structure of tables is judged without LMDB: what that wrote is sound, and damage is named."""

import random
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from daybook.journal.data_directory import TABLES
from daybook.paging.tables import structure
from daybook.paging.tables.checked import Transaction
from daybook.paging.tables.structure import check_structure
from daybook.paging.tables.tables import (
    CARRIED,
    ID_KEY,
    PAGE_KEY,
    PAGES,
    QUEUES,
    TIMER_KEY,
    TIMERS,
    IndexDamaged,
    Tables,
    open_for_reading,
    open_for_writing,
)

DATA_ID = bytes(16)
PAGE_BYTES = 4096
ROWS = 9000


@pytest.fixture
def tables(tmp_path: Path) -> Iterator[Tables]:
    """Trees of one, two and three levels, values with pages of their own, and free pages."""
    opened = open_for_writing(tmp_path, DATA_ID)
    opened.make_room(400_000)

    def fill(txn: Transaction) -> None:
        carried = [(ID_KEY.pack(number), ID_KEY.pack(number + 1)) for number in range(300)]
        txn.put_all(carried, db=opened.db(CARRIED))
        expiring = [(TIMER_KEY.pack(number * 7, number, 1), b"") for number in range(ROWS)]
        txn.put_all(expiring, db=opened.db(TIMERS))
        for number in range(200):
            txn.put(PAGE_KEY.pack(1, 4, number * 9), bytes(4000), db=opened.db(PAGES))
        txn.put(ID_KEY.pack(1), bytes(20_000), db=opened.db(QUEUES))

    opened.write(fill)
    for start in (0, 3):

        def thin_out(txn: Transaction, start: int = start) -> None:
            for number in range(start, ROWS, 4):
                txn.delete(TIMER_KEY.pack(number * 7, number, 1), db=opened.db(TIMERS))
            for number in range(start, 200, 3):
                txn.delete(PAGE_KEY.pack(1, 4, number * 9), db=opened.db(PAGES))
            txn.put(ID_KEY.pack(1), bytes(9000 + start), db=opened.db(QUEUES))

        opened.write(thin_out)
    yield opened
    opened.close()


def test_what_lmdb_wrote_is_sound(tables: Tables, tmp_path: Path) -> None:
    check_structure(tmp_path)
    tables.write(lambda txn: txn.clear(tables.db(TIMERS)))
    check_structure(tmp_path)


@pytest.mark.parametrize("seed", range(4))
def test_whatever_was_done_to_tables_they_are_sound(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    opened = open_for_writing(tmp_path, DATA_ID)
    opened.make_room(100_000)

    def work(txn: Transaction) -> None:
        for _ in range(chance.choice((3, 300))):
            number = chance.randrange(2000)
            name, key = chance.choice(
                (
                    (CARRIED, ID_KEY.pack(number)),
                    (TIMERS, TIMER_KEY.pack(number * 256, number, 0)),
                    (PAGES, PAGE_KEY.pack(1, 4, number)),
                    (QUEUES, ID_KEY.pack(number % 9)),
                )
            )
            if chance.random() < 0.4:
                txn.delete(key, db=opened.db(name))
            else:
                size = chance.choice((0, 8, 2000, 4070, 9000)) if name in (PAGES, QUEUES) else 8
                txn.put(key, bytes(size), db=opened.db(name))

    for _ in range(60):
        opened.write(work)
        check_structure(tmp_path)
    opened.close()


def page_of(file: bytes, kind: int, number: int = 0) -> int:
    """The number of a page with these flags that is in use; branches before leaves."""
    found = [
        page
        for page in range(2, len(file) // PAGE_BYTES)
        if int.from_bytes(file[page * PAGE_BYTES + 10 : page * PAGE_BYTES + 12], "little") == kind
        and int.from_bytes(file[page * PAGE_BYTES : page * PAGE_BYTES + 8], "little") == page
    ]
    return found[number]


def zeroed(kind: int) -> Callable[[bytearray], None]:
    """Zero each page of a kind in turn: one that is in use is among them."""

    def damage(file: bytearray) -> None:
        for number in range(1, 30):
            page = page_of(bytes(file), kind, 0) if number else 0
            file[page * PAGE_BYTES : (page + 1) * PAGE_BYTES] = bytes(PAGE_BYTES)
            if kind == structure.BRANCH and number >= 3:
                return

    return damage


def other_meta(offset: int) -> Callable[[bytearray], None]:
    """Flip a bit in both meta pages."""

    def damage(file: bytearray) -> None:
        for page in (0, 1):
            file[page * PAGE_BYTES + structure.HEADER_BYTES + offset] ^= 2

    return damage


DAMAGES: dict[str, tuple[Callable[[bytearray], None], str]] = {
    "leaves": (zeroed(structure.LEAF), "is not the one that should be there"),
    "branches": (zeroed(structure.BRANCH), "is not the one that should be there"),
    "magic": (other_meta(0), "meta page 0 is none"),
    "version": (other_meta(4), "meta page 0 is none"),
    "size of pages": (other_meta(24), "its pages have 4098 bytes"),
    "root of free pages": (other_meta(24 + 40), "free pages: "),
    "root of names": (other_meta(72 + 40), "damaged: "),
    "depth of names": (other_meta(72 + 6), "names: "),
    "entries of names": (other_meta(72 + 32), r"names: it counts \(0, 1, \d+\), and has"),
    "last page": (other_meta(120), "damaged: "),
}


@pytest.mark.parametrize("what", DAMAGES)
def test_damage_is_named(tables: Tables, tmp_path: Path, what: str) -> None:
    tables.close()
    file = tmp_path / TABLES
    content = bytearray(file.read_bytes())
    damage, expected = DAMAGES[what]
    damage(content)
    file.write_bytes(content)
    with pytest.raises(IndexDamaged, match=expected):
        check_structure(tmp_path)


def test_swapped_pages_are_found(tables: Tables, tmp_path: Path) -> None:
    tables.close()
    file = tmp_path / TABLES
    before = file.read_bytes()
    content = bytearray(before)
    for number in range(0, 60, 5):
        one, other = [
            slice(page * PAGE_BYTES, (page + 1) * PAGE_BYTES)
            for page in (page_of(before, structure.LEAF, number + more) for more in (0, 1))
        ]
        content[one], content[other] = before[other], before[one]
    file.write_bytes(content)
    with pytest.raises(IndexDamaged, match="is not the one that should be there"):
        check_structure(tmp_path)


@pytest.mark.parametrize("size", [0, 100, 4096, 9000, 40_960])
def test_a_file_that_was_cut_is_found(tables: Tables, tmp_path: Path, size: int) -> None:
    tables.close()
    file = tmp_path / TABLES
    file.write_bytes(file.read_bytes()[:size])
    with pytest.raises(IndexDamaged, match=f"{TABLES} has {size} bytes"):
        check_structure(tmp_path)


def test_a_flipped_bit_in_a_branch_key_hides_no_row(tables: Tables, tmp_path: Path) -> None:
    """Nothing else proves these: a search for a row would miss it."""
    with tables.read() as txn:
        keys = [key for key, _ in txn.rows(tables.db(TIMERS))]
    tables.close()
    file = tmp_path / TABLES
    content = file.read_bytes()
    refused = 0
    for number in range(2):
        page = page_of(content, structure.BRANCH, number) * PAGE_BYTES
        at = page + int.from_bytes(content[page + 18 : page + 20], "little")
        for bit in range(8 * 3, 8 * 12, 3):
            spoiled = bytearray(content)
            spoiled[at + 8 + bit // 8] ^= 1 << bit % 8
            file.write_bytes(spoiled)
            try:
                check_structure(tmp_path)
            except IndexDamaged:
                refused += 1
                continue
            reader = open_for_reading(tmp_path)
            with closing(reader), reader.read() as txn:
                assert all(txn.get(key, db=reader.db(TIMERS)) is not None for key in keys)
    assert refused > 9
