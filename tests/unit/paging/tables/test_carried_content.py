"""The tables of places of content: removed rows, and the cost of a removal."""

from pathlib import Path
from random import Random

import pytest

from daybook.paging.tables import carried_content
from daybook.paging.tables.carried_content import SWEEP_KEY, _forget, _sweep, located
from daybook.paging.tables.checked import Transaction
from daybook.paging.tables.tables import CARRIED, ID_KEY, META, Tables, open_for_writing
from tests.support.compiled import replaces_parts
from tests.support.stored.written_index import DATA_ID


@pytest.fixture
def tables(tmp_path: Path) -> Tables:
    return open_for_writing(tmp_path / "index", DATA_ID)


def carry(tables: Tables, txn: Transaction, message: int, lsn: int) -> None:
    txn.put(ID_KEY.pack(message), ID_KEY.pack(lsn), db=tables.db(CARRIED))


@replaces_parts
@pytest.mark.parametrize("seed", range(5))
def test_what_left_is_swept_out_a_part_at_a_time(
    tables: Tables, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(carried_content, "SWEEP_ROWS", 7)
    draw = Random(seed)
    places = {message: draw.randrange(1000, 2000) for message in draw.sample(range(1, 999), 100)}
    removed = 0

    def batch(txn: Transaction) -> None:
        """More is carried, and segments leave now and then."""
        nonlocal removed
        message = draw.randrange(1, 999)
        places[message] = 2000 + draw.randrange(1000)
        carry(tables, txn, message, places[message])
        if draw.random() < 0.1:
            removed = max(removed, draw.randrange(1000, 1500))
            _forget(tables, txn, removed)
        before = txn.count(tables.db(CARRIED))
        _sweep(tables, txn)
        assert txn.count(tables.db(CARRIED)) >= before - 7

    def fill(txn: Transaction) -> None:
        for message, lsn in places.items():
            carry(tables, txn, message, lsn)

    tables.write(fill)
    for _ in range(100):
        tables.write(batch)
    removed = 1500
    tables.write(lambda txn: _forget(tables, txn, removed))
    turns = 0
    while turns < 99 and tables.write(lambda txn: txn.get(SWEEP_KEY, db=tables.db(META))):
        tables.write(lambda txn: _sweep(tables, txn))
        turns += 1
    assert 1 < turns <= len(places) // 7 + 1
    with tables.read() as txn:
        found = located(tables, txn, sorted(places))
        assert txn.count(tables.db(CARRIED)) == len(found)
    assert found == {message: lsn for message, lsn in places.items() if lsn > removed}
    tables.close()


def test_nothing_is_swept_where_nothing_was_carried(tables: Tables) -> None:
    tables.write(lambda txn: _forget(tables, txn, 99))
    tables.write(lambda txn: _sweep(tables, txn))
    with tables.read() as txn:
        assert txn.get(SWEEP_KEY, db=tables.db(META)) is None
    tables.close()
