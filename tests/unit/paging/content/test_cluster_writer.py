"""Content of sparse queues gets clusters, which live as long as anything in their range."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from unittest.mock import patch

import pytest

from daybook.engine.messages.message import DEFAULT_PRIORITY
from daybook.engine.queues.queue import Queue
from daybook.engine.queues.window import Window
from daybook.engine.state.digest import digest
from daybook.journal.blocks.block import Block
from daybook.journal.data_directory import CLUSTERS_DIRECTORY
from daybook.journal.disk import MemoryDisk
from daybook.journal.journal import Journal
from daybook.journal.segments.reader import read_blocks
from daybook.paging.checks.index_check import check
from daybook.paging.content import cluster_writer
from daybook.paging.content.cluster_writer import known_of, ranges_of
from daybook.paging.content.clusters import Range, write_cluster
from daybook.paging.content.store import IndexStore
from daybook.paging.fold.index import Index
from daybook.paging.tables import tables
from daybook.paging.tables.checked import Transaction
from daybook.paging.tables.layout import LAYOUT
from daybook.paging.tables.tables import (
    CLUSTER_VALUE,
    CLUSTERS,
    ID_KEY,
    IndexDamaged,
    open_for_reading,
    open_for_writing,
)
from tests.support.compiled import replaces_parts
from tests.support.stored.blocks import DATA_ID, blocks_of
from tests.support.stored.written_index import write_journal
from tests.support.world import World
from tests.unit.paging.fold.test_index import no_file_above

BODY = b"all that there is to say about an order. " * 8
QUEUES = 9


@pytest.fixture(autouse=True)
def _small_clusters() -> Iterator[None]:
    with patch.object(cluster_writer, "CLUSTER_BYTES_MIN", 1000):
        yield


def filled(messages: int, queues: int = QUEUES) -> World:
    world = World()
    for number in range(messages):
        world.send(f"queue.{number % queues}", b"%d " % number + BODY)
    world.turn()
    return world


def blocks_by(world: World, first_lsn: int = 1, each: int = 50) -> list[Block]:
    journal = world.journal[first_lsn - 1 :]
    return blocks_of(journal, range(each, len(journal), each))


def indexed(path: Path, world: World) -> Index:
    index = Index(path, DATA_ID)
    index.advance(blocks_by(world))
    return index


def files_in(path: Path) -> list[str]:
    directory = path / CLUSTERS_DIRECTORY
    return sorted(file.name for file in directory.iterdir()) if directory.exists() else []


def clusters_in(index: Index) -> list[tuple[Range, int]]:
    with index.tables.read() as txn:
        return [(known, live) for known, live in known_of(index.tables, txn) if known.bytes]


def bodies_of(world: World, path: Path, queue: Queue) -> list[tuple[int, bytes]]:
    """Messages of a queue as the store has them, without a journal to look into."""
    with closing(IndexStore(open_for_reading(path, DATA_ID), MemoryDisk())) as store:
        stranger = Queue(queue.id, queue.definition, queue.address)
        loaded = store.load(stranger, DEFAULT_PRIORITY, 0, Window(10_000, 1 << 30))
        return [(entry.message.id, entry.message.body) for entry in loaded.entries]


def right_of(queue: Queue) -> list[tuple[int, bytes]]:
    return [(entry.message.id, entry.message.body) for entry in queue.ready()]


def drain(world: World, name: str, count: int) -> None:
    consumer = world.attach(world.connect(), name, credit_messages=count, credit_bytes=0)
    for delivery in world.taken(consumer):
        world.ack(consumer, delivery.message)
    world.detach(consumer)
    world.turn()


def test_many_queues_are_read_without_the_journal(tmp_path: Path) -> None:
    world = filled(300)
    indexed(tmp_path, world).close()
    for number in range(QUEUES):
        queue = world.queue(f"queue.{number}")
        assert bodies_of(world, tmp_path, queue) == right_of(queue)
    assert check(tmp_path) == len(world.journal)


def test_one_queue_is_left_to_the_journal(tmp_path: Path) -> None:
    world = filled(300, queues=1)
    with patch.object(cluster_writer, "_heaps", side_effect=AssertionError("a heap was read")):
        index = indexed(tmp_path, world)
    assert clusters_in(index) == []
    index.close()
    assert files_in(tmp_path) == []


@replaces_parts
def test_of_two_the_one_that_fills_its_blocks_is_left_to_the_journal(tmp_path: Path) -> None:
    world = World()
    for number in range(400):
        world.send("small" if number % 10 == 0 else "large", BODY)
    world.turn()
    index = indexed(tmp_path, world)
    index.close()
    assert bodies_of(world, tmp_path, world.queue("small")) == right_of(world.queue("small"))
    large = world.queue("large")
    with closing(IndexStore(open_for_reading(tmp_path, DATA_ID), MemoryDisk())) as store:
        ids = [number for number, _ in right_of(large)]
        assert store._clusters.fetch(large.id, ids) == [None] * len(ids)


def test_what_comes_and_goes_costs_nothing(tmp_path: Path) -> None:
    world = World()
    connection = world.connect()
    for number in range(5):
        world.attach(connection, f"queue.{number}", credit_messages=1000)
    index = Index(tmp_path, DATA_ID)
    index.advance(blocks_by(world))
    first_lsn = len(world.journal) + 1
    consumers = list(world.state.consumers)
    for number in range(200):
        world.send(f"queue.{number % 5}", BODY)
        consumer = consumers[number % 5]
        for delivery in world.taken(consumer):
            world.ack(consumer, delivery.message)
    world.turn()
    with patch.object(cluster_writer, "_heaps", side_effect=AssertionError("a heap was read")):
        index.advance(blocks_by(world, first_lsn))
    assert index.lsn == len(world.journal)
    assert clusters_in(index) == []
    index.close()
    assert check(tmp_path) == len(world.journal)


def test_a_cluster_goes_with_the_last_message_of_its_range(tmp_path: Path) -> None:
    world = filled(200)
    index = indexed(tmp_path, world)
    ((known, live),) = clusters_in(index)
    assert (known.first, known.last, live) == (1, len(world.journal), 200)
    assert files_in(tmp_path) == [known.name]
    for number in range(QUEUES):
        lsn = len(world.journal)
        drain(world, f"queue.{number}", 1000)
        index.advance(blocks_by(world, lsn + 1))
        left = sum(world.queue(f"queue.{n}").message_count for n in range(QUEUES))
        assert clusters_in(index) == ([(known, left)] if left else [])
        assert files_in(tmp_path) == ([known.name] if left else [])
    index.close()
    assert check(tmp_path) == len(world.journal)


@replaces_parts
def test_what_is_returned_is_live_again(tmp_path: Path) -> None:
    world = filled(100)
    index = indexed(tmp_path, world)
    lsn = len(world.journal)
    consumer = world.attach(world.connect(), "queue.1", credit_messages=4, credit_bytes=0)
    index.advance(blocks_by(world, lsn + 1))
    assert [live for _, live in clusters_in(index)] == [96]
    lsn = len(world.journal)
    world.detach(consumer)
    world.turn()
    index.advance(blocks_by(world, lsn + 1))
    assert [live for _, live in clusters_in(index)] == [100]
    index.close()
    assert check(tmp_path) == len(world.journal)
    queue = world.queue("queue.1")
    assert bodies_of(world, tmp_path, queue) == right_of(queue)


@replaces_parts
def test_large_bodies_and_several_queues_are_left_to_the_journal(tmp_path: Path) -> None:
    world = World()
    connection = world.connect()
    for number in range(2):
        world.attach(connection, "news", routing_type="multicast", credit_messages=0)
        world.send("news", b"%d" % number + BODY, routing_type="multicast")
    for number in range(90):
        size = cluster_writer.CONTENT_BYTES_MAX + 1 if number == 4 else 100
        world.send(f"queue.{number % QUEUES}", b"x" * size)
        world.send("news", BODY, routing_type="multicast")
    world.turn()
    index = indexed(tmp_path, world)
    index.close()
    with closing(IndexStore(open_for_reading(tmp_path, DATA_ID), MemoryDisk())) as store:
        for queue in world.state.queues.values():
            ids = [number for number, _ in right_of(queue)]
            found = store._clusters.fetch(queue.id, ids)
            for entry, content in zip(queue.ready(), found, strict=True):
                is_in = queue.name.startswith("queue.") and len(entry.message.body) == 100
                assert (content is not None) == is_in
                assert content in (None, (entry.message.headers, entry.message.body))
    assert check(tmp_path) == len(world.journal)


@replaces_parts
def test_much_content_is_cut_into_several_clusters(tmp_path: Path) -> None:
    world = filled(400)
    with patch.object(cluster_writer, "CLUSTER_BYTES_MAX", 20_000):
        index = indexed(tmp_path, world)
    found = clusters_in(index)
    assert len(found) > 3
    assert [known.first for known, _ in found[1:]] == [known.last + 1 for known, _ in found[:-1]]
    index.close()
    assert check(tmp_path) == len(world.journal)
    for number in range(QUEUES):
        queue = world.queue(f"queue.{number}")
        assert bodies_of(world, tmp_path, queue) == right_of(queue)


def test_files_that_a_death_left_behind_are_removed(tmp_path: Path) -> None:
    """Written before the commit that would name it, or named until a commit that went through."""
    world = filled(200)
    index = indexed(tmp_path, world)
    ((known, _),) = clusters_in(index)
    index.close()
    left = tmp_path / CLUSTERS_DIRECTORY / Range(5000, 6000, 0, 0).name
    left.write_bytes(b"half a clust")
    Index(tmp_path, DATA_ID).close()
    assert files_in(tmp_path) == [known.name]


@replaces_parts
def test_a_death_between_file_and_commit_costs_nothing(tmp_path: Path) -> None:
    world = filled(200)
    index = Index(tmp_path, DATA_ID)
    with (
        patch.object(tables.Tables, "set_position", side_effect=KeyboardInterrupt),
        pytest.raises(KeyboardInterrupt),
    ):
        index.advance(blocks_by(world))
    index.close()
    assert len(files_in(tmp_path)) == 1
    index = indexed(tmp_path, world)
    assert len(clusters_in(index)) == len(files_in(tmp_path)) == 1
    index.close()
    assert check(tmp_path) == len(world.journal)


@replaces_parts
def test_a_full_disk_makes_no_cluster_and_no_failure(tmp_path: Path) -> None:
    world = filled(300)
    index = Index(tmp_path, DATA_ID)
    with patch.object(cluster_writer, "write_cluster", wraps=write_cluster) as tried:
        # LMDB's file is longer than that by now, and needs no more.
        index.advance(blocks_by(world)[:1])
        with no_file_above(1000), patch.object(tables.Tables, "_extend"):
            _commit_without_lmdb(index, blocks_by(world)[1:])
        assert tried.called
    assert files_in(tmp_path) == []
    index.close()


def _commit_without_lmdb(index: Index, blocks: list[Block]) -> None:
    """Advance as far as the commit, which the limit on files would break as well."""
    with (
        patch.object(tables.Tables, "set_position", side_effect=KeyboardInterrupt),
        pytest.raises(KeyboardInterrupt),
    ):
        index.advance(blocks)


def test_a_directory_that_cannot_be_made(tmp_path: Path) -> None:
    world = filled(200)
    index = Index(tmp_path, DATA_ID)
    (tmp_path / CLUSTERS_DIRECTORY).write_bytes(b"in the way")
    index.advance(blocks_by(world))
    assert index.lsn == len(world.journal)
    assert clusters_in(index) == []
    index.close()


@pytest.mark.parametrize("harm", ["missing", "short", "flipped"])
def test_a_damaged_cluster_is_found_by_a_check_and_passed_over(tmp_path: Path, harm: str) -> None:
    world = filled(300)
    disk = MemoryDisk()
    with closing(Journal.create(disk, LAYOUT, data_id=DATA_ID)) as journal:
        write_journal(journal, world.journal)
    index = Index(tmp_path, DATA_ID)
    index.advance(list(read_blocks(disk, LAYOUT)))
    ((known, _),) = clusters_in(index)
    index.close()
    file = tmp_path / CLUSTERS_DIRECTORY / known.name
    data = bytearray(file.read_bytes())
    if harm == "missing":
        file.unlink()
    elif harm == "short":
        file.write_bytes(data[:-1])
    else:
        data[100] ^= 4
        file.write_bytes(data)
    if harm == "missing":
        # A start removes what is damaged, so a cluster may be gone; content comes from the journal.
        assert check(tmp_path) == len(world.journal)
    else:
        with pytest.raises(IndexDamaged, match=known.name):
            check(tmp_path)
    with closing(IndexStore(open_for_reading(tmp_path, DATA_ID), disk)) as store:
        for number in range(QUEUES):
            queue = world.queue(f"queue.{number}")
            stranger = Queue(queue.id, queue.definition, queue.address)
            loaded = store.load(stranger, DEFAULT_PRIORITY, 0, Window(10_000, 1 << 30))
            assert [(e.message.id, e.message.body) for e in loaded.entries] == right_of(queue)
        store.refresh(0)
        (note,) = store.take_notes()
        assert known.name in note


@pytest.mark.parametrize(
    ("key", "value", "what"),
    [
        (ID_KEY.pack(16), b"short", "8 and 5 bytes"),
        (b"short", CLUSTER_VALUE.pack(1, 2, 3, 4), "5 and 32 bytes"),
        (ID_KEY.pack(16), CLUSTER_VALUE.pack(15, 100, 300, 3), "does not follow event 15"),
        (ID_KEY.pack(17), CLUSTER_VALUE.pack(20, 100, 300, 3), "does not follow event 15"),
    ],
)
def test_a_table_that_cannot_be_right(tmp_path: Path, key: bytes, value: bytes, what: str) -> None:
    opened = open_for_writing(tmp_path, DATA_ID)
    table = opened.db(CLUSTERS)

    def spoil(txn: Transaction) -> None:
        txn.put(ID_KEY.pack(0), CLUSTER_VALUE.pack(15, 100, 300, 3), db=table)
        txn.put(key, value, db=table)

    opened.write(spoil)
    with opened.read() as txn, pytest.raises(IndexDamaged, match=what):
        ranges_of(opened, txn)
    opened.close()


def test_counts_that_do_not_fit(tmp_path: Path) -> None:
    world = filled(200)
    index = indexed(tmp_path, world)
    ((known, live),) = clusters_in(index)
    value = CLUSTER_VALUE.pack(*known[1:], live - 180)
    table = index.tables.db(CLUSTERS)
    index.tables.write(lambda txn: txn.put(ID_KEY.pack(known.first), value, db=table))
    index.close()
    with pytest.raises(IndexDamaged, match=r"20 messages are counted from 1 to .*, not 200"):
        check(tmp_path)
    lsn = len(world.journal)
    drain(world, "queue.0", 1000)
    index = Index(tmp_path, DATA_ID)
    with pytest.raises(IndexDamaged, match="more messages with ids from 1 to"):
        index.advance(blocks_by(world, lsn + 1))
    index.close()


@replaces_parts
def test_small_clusters_are_merged(tmp_path: Path) -> None:
    world = filled(50)
    index = Index(tmp_path, DATA_ID)
    index.advance(blocks_by(world))
    with patch.object(cluster_writer, "MERGED_COUNT", 3):
        for turn in range(5):
            lsn = len(world.journal)
            for number in range(100 + turn):
                world.send(f"queue.{number % QUEUES}", b"%d " % number + BODY)
            if turn == 2:
                # In between nothing stays, which must not keep neighbours apart.
                world.turn()
                index.advance(blocks_by(world, lsn + 1))
                lsn = len(world.journal)
                drain(world, "queue.3", 5)
            world.turn()
            index.advance(blocks_by(world, lsn + 1))
            assert len(clusters_in(index)) == len(files_in(tmp_path)) < 3
            index.close()
            for number in range(QUEUES):
                queue = world.queue(f"queue.{number}")
                assert bodies_of(world, tmp_path, queue) == right_of(queue)
            index = Index(tmp_path, DATA_ID)
    assert index.digest() == digest(world.state)
    index.close()
    assert check(tmp_path) == len(world.journal)


@replaces_parts
def test_a_damaged_cluster_is_not_merged(tmp_path: Path) -> None:
    world = filled(100)
    index = indexed(tmp_path, world)
    ((known, _),) = clusters_in(index)
    (tmp_path / CLUSTERS_DIRECTORY / known.name).write_bytes(b"nonsense")
    with patch.object(cluster_writer, "MERGED_COUNT", 2):
        for _ in range(3):
            lsn = len(world.journal)
            for number in range(100):
                world.send(f"queue.{number % QUEUES}", BODY)
            world.turn()
            index.advance(blocks_by(world, lsn + 1))
    assert len(clusters_in(index)) == 4
    assert index.digest() == digest(world.state)
    index.close()


@replaces_parts
def test_large_clusters_are_left_alone_and_small_ones_between_them_are_not(tmp_path: Path) -> None:
    world = World()
    index = Index(tmp_path, DATA_ID)
    with patch.object(cluster_writer, "FINAL_BYTES", 100_000):
        for count in (100, 100, 900, 100):
            lsn = index.lsn
            for number in range(count):
                world.send(f"queue.{number % QUEUES}", b"%d " % (number * 7919) + BODY)
            world.turn()
            index.advance(blocks_by(world, lsn + 1))
    found = [live for _, live in clusters_in(index)]
    assert found == [200, 900, 100]
    index.close()
    assert check(tmp_path) == len(world.journal)


def test_tables_without_ranges_get_one_for_all_that_there_is(tmp_path: Path) -> None:
    world = filled(100)
    index = Index(tmp_path, DATA_ID, clusters=False)
    index.advance(blocks_by(world))
    assert files_in(tmp_path) == []
    table = index.tables.db(CLUSTERS)
    index.tables.write(lambda txn: txn.clear(table))
    index.close()
    index = Index(tmp_path, DATA_ID)
    lsn = len(world.journal)
    drain(world, "queue.1", 3)
    index.advance(blocks_by(world, lsn + 1))
    with index.tables.read() as txn:
        assert known_of(index.tables, txn) == [(Range(0, len(world.journal), 0, 0), 97)]
    index.close()
    assert check(tmp_path) == len(world.journal)
