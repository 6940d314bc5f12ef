"""Whatever is sent, taken and returned: clusters change how messages are read, and nothing else."""

import random
from contextlib import ExitStack, closing
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

from hypothesis import given, settings
from hypothesis import strategies as st

from daybook.engine.messages.message import DEFAULT_PRIORITY
from daybook.engine.queues.queue import Queue
from daybook.engine.queues.window import Window
from daybook.engine.state.digest import digest
from daybook.journal.data_directory import CLUSTERS_DIRECTORY
from daybook.journal.disk import MemoryDisk
from daybook.journal.journal import Journal
from daybook.journal.segments.reader import read_blocks
from daybook.paging.checks.index_check import check
from daybook.paging.content import cluster_writer, clusters
from daybook.paging.content.cluster_writer import ranges_of
from daybook.paging.content.store import IndexStore
from daybook.paging.fold import fold
from daybook.paging.fold.index import Index
from daybook.paging.tables.layout import LAYOUT
from daybook.paging.tables.tables import open_for_reading
from tests.support.stored.written_index import DATA_ID, write_journal
from tests.support.world import World

LIMITS = (
    (cluster_writer, "CLUSTER_BYTES_MIN", 200),
    (cluster_writer, "CLUSTER_BYTES_MAX", 6000),
    (cluster_writer, "FINAL_BYTES", 5000),
    (cluster_writer, "MERGED_BYTES", 8000),
    (cluster_writer, "MERGED_COUNT", 3),
    (cluster_writer, "CONTENT_BYTES_MAX", 900),
    (clusters, "UNIT_BYTES", 700),
    (fold, "PLAIN_MIN", 1),
)


class Clustered:
    """A world, its journal and its index, with limits so low that everything comes to pass."""

    def __init__(self, path: Path, source: random.Random) -> None:
        self.path = path
        self.source = source
        self.world = World()
        self.disk = MemoryDisk()
        self.journal = Journal.create(self.disk, LAYOUT, data_id=DATA_ID)
        self.index = Index(path, DATA_ID)
        self.connection = self.world.connect()

    def send(self, count: int, queues: int) -> None:
        for number in range(count):
            body = b"%d:" % number + b"x" * self.source.choice((0, 20, 300, 1200))
            priority = self.source.choice((DEFAULT_PRIORITY, DEFAULT_PRIORITY, 7))
            self.world.send(f"q{self.source.randrange(queues)}", body, priority=priority)
        self.world.turn()

    def take(self, queue: str, count: int) -> None:
        """Deliver some, acknowledge some of these, and return the others."""
        world = self.world
        consumer = world.attach(self.connection, queue, credit_messages=count, credit_bytes=0)
        for delivery in world.taken(consumer):
            if self.source.random() < 0.8:
                world.ack(consumer, delivery.message)
        if self.source.random() < 0.7:
            world.detach(consumer)
        world.turn()

    def advance(self) -> None:
        """Bring the index up in one commit, from time to time with another process's memory."""
        write_journal(self.journal, self.world.journal)
        blocks = read_blocks(self.disk, LAYOUT, from_lsn=self.index.lsn + 1)
        self.index.advance(list(blocks))
        if self.source.random() < 0.3:
            self.index.close()
            self.index = Index(self.path, DATA_ID)

    def compare(self) -> None:
        assert self.index.digest() == digest(self.world.state)
        self.index.close()
        with closing(IndexStore(open_for_reading(self.path, DATA_ID), self.disk)) as store:
            with store.tables.read() as txn:
                named = {known.name for known in ranges_of(store.tables, txn)}
            directory = self.path / CLUSTERS_DIRECTORY
            files = directory.iterdir() if directory.exists() else ()
            assert {file.name for file in files} == named
            for queue in self.world.state.queues.values():
                self._compare_queue(store, queue)
            assert store.take_notes() == []
        assert check(self.path) == len(self.world.journal)
        self.index = Index(self.path, DATA_ID)

    def _compare_queue(self, store: IndexStore, queue: Queue) -> None:
        stranger = Queue(queue.id, queue.definition, queue.address)
        found = [
            (entry.message.id, entry.message.headers, entry.message.body)
            for priority in (7, DEFAULT_PRIORITY)
            for entry in store.load(stranger, priority, 0, Window(10_000, 1 << 30)).entries
        ]
        assert found == [
            (entry.message.id, entry.message.headers, entry.message.body) for entry in queue.ready()
        ]


@given(
    seed=st.integers(0, 1 << 32), queues=st.integers(2, 12),
    turns=st.lists(st.tuples(st.integers(0, 60), st.integers(0, 3)), min_size=1, max_size=8),
)  # fmt: skip
@settings(max_examples=settings().max_examples // 4)
def test_what_is_read_is_what_was_sent(
    seed: int, queues: int, turns: list[tuple[int, int]]
) -> None:
    with TemporaryDirectory() as directory, ExitStack() as limits:
        for module, name, value in LIMITS:
            limits.enter_context(patch.object(module, name, value))
        clustered = Clustered(Path(directory), random.Random(seed))
        for sent, taken in turns:
            clustered.send(sent, queues)
            for _ in range(taken):
                name = f"q{clustered.source.randrange(queues)}"
                clustered.take(name, clustered.source.randrange(1, 40))
            clustered.advance()
        clustered.compare()
        for queue in list(clustered.world.state.queues.values()):
            clustered.take(queue.name, 1000)
            clustered.advance()
        clustered.compare()
        clustered.index.close()
        clustered.journal.close()
