"""The table of annotations: its content, look-ups, and an index without it."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from daybook.engine import commands as c
from daybook.engine.facts.settlements import FAILED, RELEASED
from daybook.engine.messages.annotations import packed
from daybook.engine.state.digest import digest
from daybook.journal.disk import MemoryDisk
from daybook.paging.checks.fold_comparison import different_rows
from daybook.paging.checks.index_check import check
from daybook.paging.content.store import IndexStore
from daybook.paging.fold.index import Index
from daybook.paging.tables.checked import IndexDamaged
from daybook.paging.tables.tables import ANNOTATION_KEY, ANNOTATIONS, NAMES, open_for_reading
from tests.support.compiled import replaces_parts
from tests.support.stored.blocks import DATA_ID, blocks_of
from tests.support.stored.index_state import state_of
from tests.support.world import World

COUNT = 40


@pytest.fixture
def indexed(tmp_path: Path) -> Iterator[tuple[World, Index]]:
    """Messages that returned with notes, and others: all of it in one run of events."""
    world = World()
    consumer = world.attach(world.connect(), "q", credit_messages=COUNT, credit_bytes=0)
    ids = [world.send("q", b"%d" % number) for number in range(COUNT)]
    for message in ids:
        said = {message: "noted"} if message % 3 else None
        world.ok(c.Settle(consumer, message, outcome=FAILED, annotations=said))
    for message in ids[:10]:
        world.ack(consumer, message)
    world.detach(consumer)
    world.turn()
    index = Index(tmp_path, DATA_ID)
    index.advance(blocks_of(world.journal, []))
    yield world, index
    index.close()


def rows_of(index: Index) -> dict[tuple[int, int], bytes]:
    with index.tables.read() as txn:
        rows = txn.rows(index.tables.db(ANNOTATIONS))
        return {ANNOTATION_KEY.unpack(key): value for key, value in rows}


def test_the_table_has_those_of_the_entries_in_pages(indexed: tuple[World, Index]) -> None:
    world, index = indexed
    queue = world.queue("q")
    assert rows_of(index) == {
        (queue.id, entry.message.id): packed({entry.message.id: "noted"})
        for entry in queue.standing()
        if entry.message.id % 3
    }
    index.close()
    assert check(index.path) == len(world.journal)


def test_a_row_that_is_another_is_damage(indexed: tuple[World, Index]) -> None:
    world, index = indexed
    queue = world.queue("q")
    chosen = next(iter(rows_of(index)))[1]
    store = IndexStore(index.tables, MemoryDisk(), map_bytes=0, owns_tables=False)
    bare = state_of(index).queues[queue.id]
    found = store.find(bare, chosen)
    assert found is not None
    assert found.message.annotations == packed({chosen: "noted"})
    assert found.message.size == queue.entries[chosen].message.size
    table, key = index.tables.db(ANNOTATIONS), ANNOTATION_KEY.pack(queue.id, chosen)
    index.tables.write(lambda txn: txn.put(key, packed({chosen: "other"}), db=table))
    with pytest.raises(Exception, match=f"annotations of message {chosen} in queue"):
        store.find(bare, chosen)
    index.close()
    with pytest.raises(IndexDamaged, match=f"annotations of message {chosen} in queue"):
        check(index.path)


def test_a_row_too_many_is_damage(indexed: tuple[World, Index], tmp_path: Path) -> None:
    world, index = indexed
    other = Index(tmp_path / "other", DATA_ID)
    other.advance(blocks_of(world.journal, []))
    assert list(different_rows(index.tables, other.tables)) == []
    key = ANNOTATION_KEY.pack(world.queue("q").id, 1)
    table = index.tables.db(ANNOTATIONS)
    index.tables.write(lambda txn: txn.put(key, b"x", db=table))
    (difference,) = different_rows(other.tables, index.tables)
    assert difference.startswith("table 'annotations' has ")
    other.close()
    index.close()
    with pytest.raises(IndexDamaged, match="entries are annotated, and others are listed"):
        check(index.path)


def test_what_is_not_for_its_consumer_is_known_when_all_came_at_once(tmp_path: Path) -> None:
    """Routed, delivered and returned in one run: the consumer's annotations stay."""
    world = World()
    consumer = world.attach(world.connect(), "q", credit_messages=COUNT, credit_bytes=0)
    ids = [world.send("q", b"%d" % number) for number in range(COUNT)]
    for message in ids:
        world.ok(c.Settle(consumer, message, outcome=RELEASED, not_here=True))
    index = Index(tmp_path, DATA_ID)
    index.advance(blocks_of(world.journal, []))
    assert list(state_of(index).consumers[consumer].refused) == ids
    assert index.digest() == digest(world.state)
    index.close()


@replaces_parts
def test_an_index_from_before_gets_the_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        names = tuple(name for name in NAMES if name != ANNOTATIONS)
        patch.setattr("daybook.paging.tables.tables.NAMES", names)
        Index(tmp_path, DATA_ID).close()
    assert check(tmp_path) == 0
    tables = open_for_reading(tmp_path, DATA_ID)
    store = IndexStore(tables, MemoryDisk(), map_bytes=0)
    # The indexer is another process, and opens the same tables later.
    code = (
        "from pathlib import Path; from daybook.paging.fold.index import Index; "
        f"Index(Path({str(tmp_path)!r}), {DATA_ID!r}).close()"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    store.refresh(0)
    with tables.read() as txn:
        assert txn.count(tables.db(ANNOTATIONS)) == 0
    store.close()
