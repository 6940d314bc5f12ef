"""The ids that addresses remember are in the tables, whatever happened, or are refused."""

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daybook.engine.queues.id_cache import IdCache, key_of
from daybook.engine.state.state import State
from daybook.paging.tables import id_pages
from daybook.paging.tables.checked import Transaction
from daybook.paging.tables.id_pages import PAGE_KEYS, IdPages, load, page_count
from daybook.paging.tables.tables import IDS, IDS_KEY, IndexDamaged, Tables, open_for_writing
from tests.support.stored.blocks import DATA_ID
from tests.support.topology import new_address

ADDRESS = 7


def state_of(ids: IdCache | None) -> State:
    state = State()
    address = new_address(ADDRESS, "q")
    address.ids = ids
    state.addresses[ADDRESS] = address
    return state


def filled(count: int, size: int) -> IdCache:
    ids = IdCache()
    for number in range(count):
        ids.add(key_of(str(number)), size)
    return ids


def write(tables: Tables, pages: IdPages, ids: IdCache | None) -> None:
    tables.write(lambda txn: pages.write(txn, ADDRESS, ids))


def read(tables: Tables, ids: IdCache) -> IdCache:
    with tables.read() as txn:
        return load(tables, txn, ADDRESS, ids.recorded, ids.count)


def stored(tables: Tables) -> list[tuple[int, int]]:
    """Address and number of each page."""
    with tables.read() as txn:
        return [IDS_KEY.unpack(key) for key, _ in txn.rows(tables.db(IDS))]


@pytest.fixture
def tables(tmp_path: Path) -> Tables:
    return open_for_writing(tmp_path, DATA_ID)


def test_only_the_pages_that_changed_are_written(tables: Tables) -> None:
    ids = filled(2 * PAGE_KEYS + 5, 10 * PAGE_KEYS)
    pages = IdPages(tables, state_of(None))
    write(tables, pages, ids)
    assert stored(tables) == [(ADDRESS, 0), (ADDRESS, 1), (ADDRESS, 2)]
    with tables.read() as txn:
        assert len(txn.get(IDS_KEY.pack(ADDRESS, 0), db=tables.db(IDS)) or b"") <= 4080
    tables.write(lambda txn: txn.put(IDS_KEY.pack(ADDRESS, 0), b"untouched", db=tables.db(IDS)))
    ids.add(key_of("new"), 10 * PAGE_KEYS)
    write(tables, pages, ids)
    with tables.read() as txn:
        assert txn.get(IDS_KEY.pack(ADDRESS, 0), db=tables.db(IDS)) == b"untouched"
        assert txn.count(tables.db(IDS)) == 3


def test_what_is_forgotten_leaves_with_its_page(tables: Tables) -> None:
    size = 2 * PAGE_KEYS
    ids = filled(size, size)
    pages = IdPages(tables, state_of(None))
    write(tables, pages, ids)
    for number in range(PAGE_KEYS):
        ids.add(key_of(f"new {number}"), size)
    write(tables, pages, ids)
    assert stored(tables) == [(ADDRESS, 1), (ADDRESS, 2)]
    assert read(tables, ids).joined() == ids.joined()
    ids.clear()
    write(tables, pages, ids)
    assert stored(tables) == []
    assert page_count(state_of(ids)) == 0


def test_an_address_that_is_gone_has_no_pages(tables: Tables) -> None:
    ids = filled(PAGE_KEYS + 1, 9 * PAGE_KEYS)
    write(tables, IdPages(tables, state_of(None)), ids)
    again = IdPages(tables, state_of(read(tables, ids)))
    write(tables, again, None)
    assert stored(tables) == []
    write(tables, again, None)


steps = st.lists(st.integers(-4, 9), max_size=30)


@given(st.lists(steps, max_size=12))
def test_any_batches_leave_what_is_remembered(batches: list[list[int]]) -> None:
    """Pages of three: negative steps clear, delete the address, or change the size."""
    size = 7
    with patch.object(id_pages, "PAGE_KEYS", 3), OwnTables() as tables:
        ids: IdCache | None = IdCache()
        pages = IdPages(tables, state_of(None))
        count = 0
        for batch in batches:
            for step in batch:
                if step >= 0:
                    ids = ids or IdCache()
                    for _ in range(step):
                        count += 1
                        ids.add(key_of(str(count)), size)
                elif step == -1 and ids is not None:
                    ids.clear()
                elif step < -1:
                    size = -3 * step - 5
                    if ids is not None:
                        ids.resize(size)
            write(tables, pages, ids)
            if ids is not None:
                found = read(tables, ids)
                assert (found.joined(), found.recorded) == (ids.joined(), ids.recorded)
                if count % 2:
                    pages = IdPages(tables, state_of(found))
            assert len(stored(tables)) == page_count(state_of(ids))
        write(tables, pages, None)
        assert stored(tables) == []


class OwnTables:
    """Tables in a directory of their own, for as long as an example takes."""

    def __enter__(self) -> Tables:
        self.directory = TemporaryDirectory()
        self.tables = open_for_writing(Path(self.directory.name), DATA_ID)
        return self.tables

    def __exit__(self, *_: object) -> None:
        self.tables.close()
        self.directory.cleanup()


Spoil = Callable[[bytes], bytes | None]
SPOILS: dict[str, tuple[Spoil, str]] = {
    "a page is gone": (lambda value: None, "lacks page 1 of the ids of address 7"),
    "too short": (lambda value: value[:-3], "page 1 of the ids of address 7 has"),
    "empty": (lambda value: b"", "page 1 of the ids of address 7 has 0 bytes"),
    "a key less": (lambda value: value[:-16], "it has 299 ids of 300"),
    "another number": (lambda value: b"\xff\xff" + value[2:], "begins with number 65535"),
    "a key twice": (lambda value: value[:-16] + value[8:24], "remembered twice"),
}


@pytest.mark.parametrize("what", SPOILS)
def test_pages_that_cannot_be_right_are_refused(tables: Tables, what: str) -> None:
    spoil, expected = SPOILS[what]
    ids = filled(300, 900)
    write(tables, IdPages(tables, state_of(None)), ids)
    key = IDS_KEY.pack(ADDRESS, 1)

    def work(txn: Transaction) -> None:
        value = spoil(bytes(txn.get(key, db=tables.db(IDS)) or b""))
        if value is None:
            txn.delete(key, db=tables.db(IDS))
        else:
            txn.put(key, value, db=tables.db(IDS))

    tables.write(work)
    with pytest.raises(IndexDamaged, match=expected):
        read(tables, ids)
