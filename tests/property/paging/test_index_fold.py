"""The index is what `apply` makes, however the journal was cut into blocks and batches."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from daybook.engine.facts import events
from daybook.engine.messages.annotations import hash_of
from daybook.engine.messages.message import PRIORITIES
from daybook.engine.queues.entry import RETAINED, Entry
from daybook.engine.queues.queue import Queue
from daybook.engine.state.apply import apply
from daybook.engine.state.digest import digest
from daybook.engine.state.invariants import check as check_invariants
from daybook.engine.state.state import State
from daybook.engine.state.timers import DELIVERY, EXPIRY
from daybook.journal.disk import MemoryDisk
from daybook.paging.checks.index_check import check
from daybook.paging.content import cluster_writer
from daybook.paging.content.store import IndexStore
from daybook.paging.fold import fold
from daybook.paging.fold.index import Index
from daybook.paging.tables import id_pages
from daybook.paging.tables.last_values import last_value
from daybook.paging.tables.levels import Levels
from daybook.paging.tables.tables import ANNOTATION_KEY, ANNOTATIONS, TIMERS, timer_of
from tests.support.scenario import Step, play, steps
from tests.support.stored.blocks import DATA_ID, Chain, blocks_of
from tests.support.stored.index_state import state_of
from tests.support.world import Event, World, address_counts
from tests.support.world import fold as fold_events

cuts = st.lists(st.integers(1, 400), max_size=12)
sizes = st.lists(st.integers(1, 4), min_size=1, max_size=12)


def known_of(entry: Entry) -> tuple[int, ...]:
    message = entry.message
    flags = message.flags | events.REDELIVERED * entry.redelivered
    if entry.level >= PRIORITIES:
        # The priority is where the format of others is, and the format above it.
        upper = flags & ~15
        flags = flags & 15 | message.priority << 4 | upper << 4
    flags |= RETAINED * entry.retained
    return (
        message.id, message.size, message.address_id, entry.delivery_count, flags, message.expires,
        entry.due, hash_of(message.annotations),
    )  # fmt: skip


def ready_of(queue: Queue) -> dict[int, list[tuple[int, ...]]]:
    """The entries that are not in flight, by level, with all columns of pages."""
    levels: dict[int, list[tuple[int, ...]]] = {}
    for entry in queue.standing():
        levels.setdefault(entry.level, []).append(known_of(entry))
    return levels


def paged_of(index: Index, queue_id: int) -> dict[int, list[tuple[int, ...]]]:
    """The entries of the pages, in the same form."""
    levels: dict[int, list[tuple[int, ...]]] = {}
    with index.tables.read() as txn:
        for priority, rows in Levels(index.tables).each_page(txn, queue_id):
            columns = [column.tolist() for column in rows]
            levels.setdefault(priority, []).extend(zip(*columns, strict=True))
    return levels


def books_of(queue: Queue) -> tuple[Any, ...]:
    return (
        queue.ready_count, queue.held_count, queue.scheduled_count, queue.message_count,
        queue.bytes, queue.transient_count, queue.newest, queue.added, queue.acknowledged,
        queue.dead_lettered, queue.expired, queue.paused, queue.replaced, queue.evicted,
    )  # fmt: skip


def compare(index: Index, state: State) -> None:
    """The index is this state, by every entry and every count."""
    assert index.digest() == digest(state)
    assert state_of(index).queues.keys() == state.queues.keys()
    assert address_counts(state_of(index)) == address_counts(state)
    for queue in state.queues.values():
        found = state_of(index).queues[queue.id]
        assert books_of(found) == books_of(queue)
        assert paged_of(index, queue.id) == ready_of(queue)
        flying = {n: known_of(e) for n, e in queue.entries.items() if e.consumer is not None}
        assert {n: known_of(e) for n, e in found.entries.items()} == flying
        assert not any(level and level.paged and len(level.head) for level in found.levels)
    with index.tables.read() as txn:
        for queue in state.queues.values():
            for key, message_id, _ in queue.latest.items() if queue.latest is not None else ():
                if message_id in queue.entries:
                    assert last_value(index.tables, txn, queue.id, key) == message_id
    expected = sorted(
        (reason, (time, entry.message.id, queue.id))
        for queue in state.queues.values()
        for entry in queue.standing()
        for reason, time in ((EXPIRY, entry.message.expires), (DELIVERY, entry.due))
        if time and not entry.held
    )
    with index.tables.read() as txn:
        rows = txn.rows(index.tables.db(TIMERS))
        assert [timer_of(key) for key, _ in rows] == expected
    noted = sorted(
        (ANNOTATION_KEY.pack(queue.id, entry.message.id), entry.message.annotations)
        for queue in state.queues.values()
        for entry in queue.standing()
        if entry.message.annotations
    )
    with index.tables.read() as txn:
        assert list(txn.rows(index.tables.db(ANNOTATIONS))) == noted


def fold_in_batches(
    path: Path, journal: list[Event], cuts: list[int], sizes: list[int], **options: Any
) -> None:
    blocks = blocks_of(journal, cuts)
    index = Index(path, DATA_ID, **options)
    state, applied, turn = State(), 0, 0
    while blocks:
        size = sizes[turn % len(sizes)]
        index.advance(blocks[:size])
        blocks = blocks[size:]
        for event in journal[applied : index.lsn]:
            apply(state, *event)
        applied = index.lsn
        compare(index, state)
        if turn % 3 == 1:
            index.close()
            assert check(path) == applied
            index = Index(path, DATA_ID, **options)
            compare(index, state)
        turn += 1
    assert applied == len(journal)
    index.close()
    assert check(path) == applied


def scene(scenario: list[Step]) -> World:
    world = World()
    play(world, scenario)
    world.turn()
    return world


@given(scenario=steps, cuts=cuts, sizes=sizes, idle_max=st.sampled_from((0, 1, 1000)))
def test_any_batches_make_what_apply_makes(
    scenario: list[Step], cuts: list[int], sizes: list[int], idle_max: int
) -> None:
    """However short a run is: in scenarios of this size few would be taken for long.

    And however little content there is for a cluster, and few of them are merged.
    """
    journal = scene(scenario).journal
    with (
        TemporaryDirectory() as directory,
        patch.object(fold, "PLAIN_MIN", 1),
        patch.object(id_pages, "PAGE_KEYS", 2),
        patch.object(cluster_writer, "CLUSTER_BYTES_MIN", 0),
        patch.object(cluster_writer, "SPARSE", 0),
        patch.object(cluster_writer, "MERGED_COUNT", 3),
    ):
        fold_in_batches(Path(directory) / "index", journal, cuts, sizes, idle_max=idle_max)


@given(scenario=steps, cuts=cuts, sizes=sizes)
def test_without_what_is_plain_it_is_the_same(
    scenario: list[Step], cuts: list[int], sizes: list[int]
) -> None:
    journal = scene(scenario).journal
    with TemporaryDirectory() as directory:
        fold_in_batches(Path(directory) / "index", journal, cuts, sizes, plain=False)


@given(scenario=steps, cut=st.integers(0, 400))
def test_the_state_of_the_tables_goes_on_with_the_tail(scenario: list[Step], cut: int) -> None:
    """Load the tables and apply every event behind them, as a start does."""
    journal = scene(scenario).journal
    cut = min(cut, len(journal))
    with TemporaryDirectory() as directory, patch.object(fold, "PLAIN_MIN", 1):
        index = Index(Path(directory), DATA_ID)
        if cut:
            index.advance([Chain().block(journal[:cut])])
        assert index.lsn == cut
        store = IndexStore(index.tables, MemoryDisk(), map_bytes=0)
        state = store.checkpoint()
        assert digest(state) == digest(fold_events(journal[:cut])) == index.digest()
        assert check_invariants(state) == []
        fold_events(journal[cut:], state)
        assert check_invariants(state) == []
        expected = fold_events(journal)
        assert digest(state) == digest(expected)
        assert address_counts(state) == address_counts(expected)
        for queue in expected.queues.values():
            assert books_of(state.queues[queue.id]) == books_of(queue)
        store.content.close()
        index.close()
