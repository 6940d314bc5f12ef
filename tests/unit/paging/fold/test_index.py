"""The index moves by whole commits, and stays where it was when one fails."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from unittest.mock import patch

import pytest

from bench.load.child import environment
from daybook.engine.facts import events
from daybook.engine.state.digest import digest
from daybook.engine.state.state import State
from daybook.journal.blocks.block import Block
from daybook.journal.data_directory import TABLES
from daybook.paging.checks.index_check import check
from daybook.paging.fold import index as module
from daybook.paging.fold.index import Index
from daybook.paging.tables import tables as tables_module
from daybook.paging.tables.tables import (
    BLOCK_VALUE,
    BLOCKS,
    ID_KEY,
    IndexDamaged,
    IndexUnwritable,
    open_for_writing,
)
from tests.support.stored.blocks import DATA_ID, Chain, blocks_of
from tests.support.stored.full_disk import no_file_above
from tests.support.stored.index_state import state_of
from tests.support.topology import create_queue
from tests.support.world import World, fold

ROOT = Path(__file__).resolve().parents[4]


def world_of(messages: int, body: bytes = b"x" * 40) -> World:
    """Messages of some queues, a few of them in flight, some gone."""
    world = World()
    consumer = world.attach(world.connect(), "queue.0", credit_messages=5)
    for number in range(messages):
        world.send(f"queue.{number % 7}", body)
    for delivery in world.taken(consumer)[:3]:
        world.ack(consumer, delivery.message)
    world.turn()
    return world


def blocks_by(world: World, events_each: int) -> list[Block]:
    return blocks_of(world.journal, range(events_each, len(world.journal), events_each))


def test_a_new_index_stands_for_nothing(tmp_path: Path) -> None:
    index = Index(tmp_path / "index", DATA_ID)
    assert (index.lsn, index.last_hash) == (0, bytes(16))
    assert index.digest() == digest(State())
    index.close()
    index.close()


def test_marks_are_passed_over(tmp_path: Path) -> None:
    world, chain = world_of(5), Chain()
    index = Index(tmp_path, DATA_ID)
    assert index.advance([chain.mark(1)]) == 0
    first = chain.block(world.journal[:6])
    assert index.advance([first, chain.mark(7)]) == 6
    assert index.last_hash == first.hash
    last = chain.block(world.journal[6:])
    assert index.advance([chain.mark(7), last]) == len(world.journal)
    assert index.digest() == digest(world.state)
    index.close()


def test_it_goes_on_where_it_was(tmp_path: Path) -> None:
    world = world_of(50)
    blocks = blocks_by(world, 10)
    for position in range(0, len(blocks), 2):
        index = Index(tmp_path, DATA_ID)
        index.advance(blocks[position : position + 2])
        index.close()
    index = Index(tmp_path, DATA_ID)
    assert index.lsn == len(world.journal)
    assert index.last_hash == blocks[-1].hash
    assert index.digest() == digest(world.state)
    index.close()


def test_a_large_batch_is_folded_in_parts(tmp_path: Path) -> None:
    world = world_of(100)
    index = Index(tmp_path, DATA_ID)
    with patch.object(module, "PART_EVENTS", 25):
        index.advance(blocks_by(world, 10))
    assert index.digest() == digest(world.state)
    index.close()
    assert check(tmp_path) == len(world.journal)


def test_places_of_blocks_are_noted(tmp_path: Path) -> None:
    world = world_of(20)
    blocks = blocks_by(world, 10)
    index = Index(tmp_path, DATA_ID)
    index.advance(blocks)
    with index.tables.read() as txn:
        for block in blocks:
            inside = world.journal[block.first_lsn - 1 : block.last_lsn]
            times = [event.row[events.TIME] for event in inside]
            messages = [event.row[events.MESSAGE] for event in inside if event.row[events.MESSAGE]]
            value = txn.get(ID_KEY.pack(block.first_lsn), db=index.tables.db(BLOCKS))
            assert BLOCK_VALUE.unpack(value) == (
                1, block.offset, block.count, min(times), max(times),
                min(messages, default=0), max(messages, default=0),
            )  # fmt: skip
    index.close()


def test_blocks_that_do_not_follow_are_a_bug(tmp_path: Path) -> None:
    index = Index(tmp_path, DATA_ID)
    with pytest.raises(AssertionError, match="blocks follow the indexed LSN"):
        index.advance(blocks_by(world_of(20), 10)[1:])
    index.close()


@pytest.mark.parametrize("plain", [True, False])
def test_events_that_do_not_fit_are_damage_and_change_nothing(tmp_path: Path, plain: bool) -> None:
    world = world_of(100)
    index = Index(tmp_path, DATA_ID, plain=plain)
    nothing = events.row(events.DROPPED, time=1)
    without_queues = [
        event._replace(row=nothing, detail=b"") if event.name == "QueueCreated" else event
        for event in world.journal
    ]
    with pytest.raises(IndexDamaged, match=r"does not agree with the journal: (event \d+|it has)"):
        index.advance([Chain().block(without_queues)])
    assert index.lsn == 0
    index.advance(blocks_by(world, 10))
    assert index.digest() == digest(world.state)
    index.close()


def test_a_map_that_is_too_small_grows_and_the_batch_is_folded_again(tmp_path: Path) -> None:
    world = world_of(3000)
    blocks = blocks_by(world, 500)
    with (
        patch.object(tables_module, "MAP_BYTES_MIN", 128 * 1024),
        patch.object(tables_module, "ROOM_BYTES_MIN", 0),
        patch.object(tables_module, "ROOM_BYTES_PER_EVENT", 0),
    ):
        index = Index(tmp_path, DATA_ID)
        index.advance(blocks[:1])
        index.advance(blocks[1:])
    assert index.digest() == digest(world.state)
    index.close()
    assert (tmp_path / TABLES).stat().st_size > 128 * 1024
    assert check(tmp_path) == len(world.journal)


def test_a_full_disk_leaves_what_is_committed_and_is_tried_again(tmp_path: Path) -> None:
    world = world_of(3000)
    blocks = blocks_by(world, 1000)
    index = Index(tmp_path, DATA_ID)
    index.advance(blocks[:1])
    before = index.digest()
    with no_file_above((tmp_path / TABLES).stat().st_size):
        for _ in range(2):
            with pytest.raises(IndexUnwritable, match=r"cannot be used: .*large"):
                index.advance(blocks[1:])
            assert index.lsn == blocks[0].last_lsn
            assert index.digest() == before
    index.advance(blocks[1:])
    assert index.digest() == digest(world.state)
    index.close()
    assert check(tmp_path) == len(world.journal)


def test_an_index_that_cannot_be_created(tmp_path: Path) -> None:
    (tmp_path / TABLES).mkdir()
    with pytest.raises(IndexUnwritable, match="directory"):
        Index(tmp_path, DATA_ID)


def test_what_is_in_flight_is_loaded_in_its_order(tmp_path: Path) -> None:
    world = World()
    consumer = world.attach(world.connect(), "orders", credit_messages=9)
    for _ in range(4):
        world.send("orders", expires=world.now // 1000 + 100_000)
    world.nack(consumer, world.taken(consumer)[0].message)
    index = Index(tmp_path, DATA_ID)
    index.advance([Chain().block(world.journal)])
    index.close()
    index = Index(tmp_path, DATA_ID)
    live = world.state.consumers[consumer].unacked
    found = state_of(index).consumers[consumer].unacked
    assert list(found) == list(live)
    assert list(live) != sorted(live)
    for message_id, entry in live.items():
        assert found[message_id].delivery_count == entry.delivery_count
        assert found[message_id].message.expires == entry.message.expires
        assert found[message_id].message.size == entry.message.size
        assert not found[message_id].message.resident
    index.close()


def test_a_start_of_the_broker_drops_what_does_not_outlive_it(tmp_path: Path) -> None:
    world = World()
    connection = world.connect()
    world.attach(connection, "orders", credit_messages=2)
    for number in range(700):
        world.send("orders", persistent=number % 3 > 0)
    world.ok(create_queue("mails", "mails", "anycast", False))
    world.send("mails")
    lsn = world.broker.lsn
    world.restart()
    index = Index(tmp_path, DATA_ID)
    index.advance(blocks_of(world.journal[:lsn], [100, 500]))
    chain = Chain()
    index.advance([chain.block(world.journal[lsn:])])
    assert index.digest() == digest(fold(world.journal)) == digest(world.state)
    index.close()
    assert check(tmp_path) == len(world.journal)


WRITE = """
import sys
from pathlib import Path
from daybook.paging.fold.index import Index
from tests.support.stored.blocks import DATA_ID
from tests.unit.paging.fold.test_index import blocks_by, world_of
index = Index(Path(sys.argv[1]), DATA_ID)
for block in blocks_by(world_of(3000), 20):
    print(index.advance([block]), flush=True)
"""


def test_killed_at_any_moment_it_is_at_a_commit(tmp_path: Path) -> None:
    command = [sys.executable, "-c", WRITE, str(tmp_path)]
    child = subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, text=True, env=environment()
    )
    assert child.stdout is not None
    told = 0
    for _ in range(25):
        told = int(child.stdout.readline())
    child.send_signal(signal.SIGKILL)
    child.stdout.close()
    assert child.wait() == -signal.SIGKILL
    lsn = check(tmp_path)
    assert lsn >= told > 0
    index = Index(tmp_path, DATA_ID)
    assert index.digest() == digest(fold(world_of(3000).journal[:lsn]))
    index.close()


def test_the_file_is_as_long_as_its_last_page(tmp_path: Path) -> None:
    """Or what LMDB never wrote would be taken for a file that was cut."""
    tables = open_for_writing(tmp_path, DATA_ID)
    info = tables._env.info()
    os.truncate(tmp_path / TABLES, info["last_pgno"] * 4096)
    tables.write(lambda txn: None)
    assert (tmp_path / TABLES).stat().st_size == (info["last_pgno"] + 1) * 4096
    tables.close()
