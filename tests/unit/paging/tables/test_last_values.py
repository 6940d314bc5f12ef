"""The table of last values: lookups, sweeps, and indexes from before there was one."""

import subprocess
import sys
from pathlib import Path

import pytest

from daybook.engine import commands as c
from daybook.engine.queues.id_cache import key_of
from daybook.journal.disk import MemoryDisk
from daybook.paging.checks.index_check import check
from daybook.paging.content.store import IndexStore
from daybook.paging.fold.index import Index
from daybook.paging.tables import last_values
from daybook.paging.tables.tables import LAST_VALUES, NAMES, open_for_reading
from tests.support.compiled import replaces_parts
from tests.support.stored.blocks import DATA_ID, blocks_of
from tests.support.topology import create_queue
from tests.support.world import World


@pytest.fixture
def world() -> World:
    world = World()
    world.ok(create_queue("q", "q", last_value_key="k"))
    return world


def put(world: World, key: object, body: bytes = b"") -> int:
    return world.send("q", body, headers={"k": str(key)})


def indexed(world: World, path: Path, size: int = 40) -> Index:
    index = Index(path, DATA_ID)
    blocks = blocks_of(world.journal, range(size, len(world.journal), size))
    for block in blocks:
        index.advance([block])
    assert index.lsn == len(world.journal)
    return index


def rows_of(index: Index) -> int:
    with index.tables.read() as txn:
        return txn.count(index.tables.db(LAST_VALUES))


def found(index: Index, queue: int, key: object) -> int:
    with index.tables.read() as txn:
        return last_values.last_value(index.tables, txn, queue, key_of(str(key)))


def test_each_key_leads_to_its_newest_message(world: World, tmp_path: Path) -> None:
    ids = [put(world, number % 3) for number in range(100)]
    index = indexed(world, tmp_path)
    queue = world.queue("q").id
    assert [found(index, queue, key) for key in range(3)] == [ids[99], ids[97], ids[98]]
    assert found(index, queue, 5) == 0
    assert rows_of(index) == 3
    index.close()
    assert check(tmp_path) == len(world.journal)


@replaces_parts
def test_rows_of_messages_that_left_are_swept(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(last_values, "ROWS_MIN", 10)
    consumer = world.attach(world.connect(), "q")
    for number in range(300):
        world.ack(consumer, put(world, number))
    index = indexed(world, tmp_path)
    assert rows_of(index) < 60
    index.close()


@replaces_parts
def test_rows_after_a_message_that_may_return_are_not_swept(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(last_values, "ROWS_MIN", 10)
    put(world, "old")
    slow = world.attach(world.connect(), "q", credit_messages=1, credit_bytes=0)
    newer = put(world, "old")
    fast = world.attach(world.connect(), "q")
    world.ack(fast, newer)
    for number in range(100):
        world.ack(fast, put(world, number))
    index = indexed(world, tmp_path)
    assert found(index, world.queue("q").id, "old") == newer
    index.close()
    world.nack(slow, next(iter(world.state.consumers[slow].unacked)))
    assert world.bodies("q") == []


def test_a_deleted_queue_leaves_no_rows(world: World, tmp_path: Path) -> None:
    put(world, 1)
    world.ok(create_queue("other", "other", last_value=True))
    world.send("other", headers={"_AMQ_LVQ_NAME": "x"})
    world.ok(c.DeleteQueue("q", force=True))
    index = indexed(world, tmp_path, size=3)
    assert rows_of(index) == 1
    index.close()
    assert check(tmp_path) == len(world.journal)


@replaces_parts
def test_an_index_from_before_has_no_such_table(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        names = tuple(name for name in NAMES if name != LAST_VALUES)
        patch.setattr("daybook.paging.tables.tables.NAMES", names)
        patch.setattr("daybook.paging.fold.fold.LastValues", lambda *_: None)
        Index(tmp_path, DATA_ID).close()
    assert check(tmp_path) == 0
    tables = open_for_reading(tmp_path, DATA_ID)
    store = IndexStore(tables, MemoryDisk(), map_bytes=0)
    queue = world.queue("q")
    assert not tables.has(LAST_VALUES)
    assert store.last_value(queue, key_of("1")) == 0
    # The indexer is another process, and opens the same tables later.
    code = (
        "from pathlib import Path; from daybook.paging.fold.index import Index; "
        f"Index(Path({str(tmp_path)!r}), {DATA_ID!r}).close()"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    assert tables.has(LAST_VALUES)
    assert store.last_value(queue, key_of("1")) == 0
    store.close()
