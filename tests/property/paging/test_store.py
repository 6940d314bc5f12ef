"""The index answers as a store in memory does that folds the same journal.

The engine pages by a store that asks both, plays random scenarios, and lives by what the index
says. Journal and tables are written anew for every LSN that the store is brought up to, the tables
in the plainest way, in pages of any size.
"""

import random
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st

from daybook.engine.messages.message import Message
from daybook.engine.queues.entry import READY, Entry
from daybook.engine.queues.level_scan import oldest_ready
from daybook.engine.queues.queue import PAST_ALL, Due, Loaded, Queue
from daybook.engine.queues.window import Window
from daybook.engine.state.digest import digest
from daybook.engine.state.invariants import check
from daybook.engine.state.timers import EXPIRY, NEVER, NOTHING
from daybook.journal.disk import MemoryDisk
from daybook.journal.journal import Journal
from daybook.paging.content.store import IndexStore
from daybook.paging.tables.layout import LAYOUT
from daybook.paging.tables.tables import open_for_writing
from tests.support.models.memory_store import MemoryStore
from tests.support.paged_world import PagedWorld
from tests.support.scenario import Step, play, steps
from tests.support.stored.written_index import DATA_ID, write_clusters, write_journal, write_tables
from tests.support.world import Event, World, fold


def known(entry: Entry | None) -> object:
    """Everything of an entry, to be compared."""
    if entry is None:
        return None
    m = entry.message
    assert entry.state == READY
    return (
        m.id, m.address_id, m.priority, m.flags, m.expires, m.size, m.resident, m.headers, m.body,
        m.chunks, entry.delivery_count, entry.changed, entry.linked, entry.consumer,
    )  # fmt: skip


class CheckedStore(MemoryStore):
    """Asks the index, and memory whether that is right."""

    def __init__(self, journal: list[Event], path: Path, page: int, cluster: int = 0) -> None:
        """Have clusters of `cluster` events each, or none."""
        super().__init__(journal)
        self.page = page
        self.cluster = cluster
        self.disk = MemoryDisk()
        self.written = Journal.create(self.disk, LAYOUT, data_id=DATA_ID, segment_bytes=8192)
        self.index = IndexStore(
            open_for_writing(path, DATA_ID), self.disk, cache_bytes=4000, map_bytes=0
        )

    def close(self) -> None:
        self.index.close()
        self.written.close()

    def advance(self, lsn: int) -> None:
        super().advance(lsn)
        write_journal(self.written, self.journal)
        write_tables(self.index.tables, self.disk, self.state, lsn, self.page)
        if self.cluster:
            write_clusters(self.index.tables, self.journal[:lsn], self.cluster)
        assert self.index.refresh(lsn) == self.index.indexed_lsn == lsn

    def load(self, queue: Queue, priority: int, after: int, window: Window) -> Loaded:
        right = super().load(queue, priority, after, window)
        found = self.index.load(queue, priority, after, window)
        assert [known(entry) for entry in found.entries] == [known(e) for e in right.entries]
        # That a full window was the last is found out by asking once more.
        assert found.reached in (right.reached, *[e.message.id for e in found.entries[-1:]])
        return found

    def firsts(self, wanted: Sequence[tuple[Queue, int, int]]) -> list[int]:
        found = self.index.firsts(wanted)
        assert found == super().firsts(wanted)
        return found

    def find(self, queue: Queue, message_id: int) -> Entry | None:
        found = self.index.find(queue, message_id)
        assert known(found) == known(super().find(queue, message_id))
        return found

    def fill(self, messages: list[Message]) -> None:
        super().fill(messages)
        right = [(m.headers, m.body, m.chunks, m.size) for m in messages]
        for message in messages:
            message.headers = message.body = b""
            message.chunks = ()
            message.resident = False
        self.index.fill(messages)
        assert [(m.headers, m.body, m.chunks, m.size) for m in messages] == right
        assert all(message.resident for message in messages)

    def paged_sum(self, queue: Queue) -> tuple[int, int]:
        found = self.index.paged_sum(queue)
        assert found == super().paged_sum(queue)
        return found

    def due(self, reason: int, after: Due, until: int, limit: int) -> list[Due]:
        found = self.index.due(reason, after, until, limit)
        assert found == super().due(reason, after, until, limit)
        return found


class CheckedWorld(PagedWorld):
    """Pages by an index."""

    def __init__(self, path: Path, page: int, window: int, lag: int, cluster: int) -> None:
        self.path = path
        self.page = page
        self.cluster = cluster
        self.incarnation = 0
        super().__init__(window, lag)

    def new_store(self) -> CheckedStore:
        if self.incarnation:
            self.store.close()
        self.incarnation += 1
        path = self.path / str(self.incarnation)
        return CheckedStore(self.journal, path, self.page, self.cluster)


@given(
    scenario=steps, page=st.integers(1, 5), window=st.integers(0, 3), lag=st.integers(0, 12),
    cluster=st.sampled_from((0, 9, 40, 1000)),
)  # fmt: skip
@settings(max_examples=settings().max_examples // 2)
def test_paging_by_an_index_is_invisible(
    scenario: list[Step], page: int, window: int, lag: int, cluster: int
) -> None:
    whole = World()
    play(whole, scenario)
    with TemporaryDirectory() as path:
        paged = CheckedWorld(Path(path), page, window, lag, cluster)

        def consistent() -> None:
            assert check(paged.state) == []
            assert digest(paged.state) == digest(fold(paged.journal))
            for queue in paged.state.queues.values():
                remembered, queue.oldest = oldest_ready(queue), 0
                assert oldest_ready(queue) == remembered

        play(paged, scenario, consistent)
        assert paged.journal == whole.journal
        assert paged.deliveries == whole.deliveries
        paged.store.close()


@given(
    seed=st.integers(0, 1 << 32), page=st.integers(1, 7), window=st.integers(1, 9),
    size=st.integers(1, 2000), cluster=st.sampled_from((0, 20, 1000)),
)  # fmt: skip
@settings(max_examples=20)
def test_a_queue_that_knows_more_than_the_index(
    seed: int, page: int, window: int, size: int, cluster: int
) -> None:
    """Entries that are resident, gone, or dropped at a start are skipped by every question."""
    source = random.Random(seed)
    world = World()
    for number in range(60):
        world.send(
            "q", b"x" * source.randrange(300), routing_type="anycast", headers={"n": str(number)},
            priority=source.choice((4, 4, 4, 9)), persistent=source.random() < 0.8,
            expires=source.choice((0, 0, world.now // 1000 + source.randrange(100))),
        )  # fmt: skip
    connection = world.connect()
    consumer = world.attach(connection, "q", credit_messages=source.randrange(40))
    for delivery in world.taken(consumer):
        if source.random() < 0.7:
            world.nack(consumer, delivery.message)
    world.detach(consumer)
    world.turn()
    with TemporaryDirectory() as path:
        store = CheckedStore(world.journal, Path(path), page, cluster)
        with closing(store):
            store.advance(len(world.journal) - source.randrange(5))
            stranger = Queue(
                world.queue("q").id, world.queue("q").definition, world.queue("q").address
            )
            for message_id, entry in world.queue("q").entries.items():
                if source.random() < 0.2:
                    stranger.entries[message_id] = entry
                elif source.random() < 0.2:
                    stranger.gone = {**stranger.gone, message_id: len(world.journal)}
            stranger.transients_from = source.choice((0, 0, len(world.journal) // 2))
            for priority in (4, 9):
                walk(store, stranger, priority, Window(window, size))
            for message_id in range(len(world.journal) + 2):
                store.find(stranger, message_id)
            assert store.due(EXPIRY, NOTHING, NEVER, 7)


def walk(store: CheckedStore, queue: Queue, priority: int, window: Window) -> None:
    """Load a level from its beginning to its end."""
    after = 0
    while after < PAST_ALL:
        store.firsts([(queue, priority, after), (queue, priority, 0)])
        loaded = store.load(queue, priority, after, window)
        after = loaded.reached
