"""Tables must agree with the journal, whatever their crcs say."""

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from daybook.paging.checks.index_check import check
from daybook.paging.checks.usability import check_apart
from daybook.paging.tables.checked import Transaction
from daybook.paging.tables.tables import (
    CARRIED,
    ID_KEY,
    LARGE,
    LARGE_KEY,
    IndexDamaged,
    Tables,
    open_for_writing,
)
from tests.support.scenario import play
from tests.support.stored.retention_world import RetentionWorld
from tests.support.stored.written_index import DATA_ID
from tests.support.world import World


@pytest.fixture
def retention(tmp_path: Path) -> Iterator[RetentionWorld]:
    """A directory that segments have left, with messages that were carried, and large ones."""
    world = World()
    with closing(RetentionWorld(tmp_path / "data", world)) as made:
        world.connect()
        for number in range(6):
            world.send("orders", b"%d" % number * 50, routing_type="anycast")
        play(world, [(0, 0, 6, 13)] * 3, made.write)
        assert made.round(2)
        assert made.carried > 6
        yield made


def test_what_is_so_is_found_sound(retention: RetentionWorld) -> None:
    assert check(retention.data / "index", journal=retention.disk) == len(retention.world.journal)
    assert check_apart(retention.data / "index", retention.data / "journal") == ""


def swap(tables: Tables, txn: Transaction) -> None:
    """Two messages have each other's content."""
    (one, first), (other, second), *_ = txn.rows(tables.db(CARRIED))
    txn.put(one, second, db=tables.db(CARRIED))
    txn.put(other, first, db=tables.db(CARRIED))


def lead_elsewhere(tables: Tables, txn: Transaction) -> None:
    """The event is not a message."""
    (key, _), *_ = txn.rows(tables.db(CARRIED))
    txn.put(key, ID_KEY.pack(tables.position(txn)[0]), db=tables.db(CARRIED))


def another_chunk(tables: Tables, txn: Transaction) -> None:
    """A body begins with a chunk of another message."""
    *_, (key, _) = txn.rows(tables.db(LARGE))
    chunk, message = LARGE_KEY.unpack(key)
    txn.delete(key, db=tables.db(LARGE))
    txn.put(LARGE_KEY.pack(chunk + 1, message), b"", db=tables.db(LARGE))


@pytest.mark.parametrize(
    ("spoil", "what"),
    [
        (swap, "is not the content of"),
        (lead_elsewhere, "is not the content of"),
        (another_chunk, "does not begin with chunk"),
    ],
)
def test_what_is_not_so_is_named(
    retention: RetentionWorld, spoil: Callable[[Tables, Transaction], None], what: str
) -> None:
    index = retention.data / "index"
    with closing(open_for_writing(index, DATA_ID)) as tables:
        tables.write(lambda txn: spoil(tables, txn))
    assert check(index) == len(retention.world.journal)
    with pytest.raises(IndexDamaged, match=f"it does not agree with the journal: .*{what}"):
        check(index, journal=retention.disk)
    assert what in check_apart(index, retention.data / "journal")
