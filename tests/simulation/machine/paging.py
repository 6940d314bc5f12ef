"""The index of the simulated broker: the real tables and the real fold, some time behind.

It is what indexer process and `server.history.indexing` are for the real broker: blocks that the
hub knows to be durable are folded in batches of random size, and the hub hears of each commit some
time later. It survives kills and power cuts (its commits are synchronous), is sometimes deleted
between two lives, and sometimes comes only when the broker serves already. Its files are on a real
disk, which does not fail; what it reads of the journal is on the simulated one, which does.

All chance is its own, so that the rest of a seed is what it would be without paging.
"""

import errno
import os
import random
import shutil
import tempfile
import weakref
from bisect import bisect_right
from collections import deque
from pathlib import Path

from daybook.engine.broker import Broker
from daybook.engine.commands import Checkpoint
from daybook.engine.queues.queue import StoreError
from daybook.engine.state.digest import digest
from daybook.engine.state.state import State
from daybook.journal.data_directory import BASE
from daybook.journal.disk import Disk
from daybook.journal.segments.reader import read_blocks
from daybook.journal.segments.segment import first_lsn_of
from daybook.paging.content.store import IndexStore
from daybook.paging.fold.index import Index
from daybook.paging.snapshots.base import restore
from daybook.paging.tables.layout import LAYOUT
from daybook.paging.tables.tables import Tables
from daybook.recovery.checkpoint import must_catch_up
from daybook.recovery.directory import Recovered, fold_journal, open_journal
from daybook.server.hub.hub import Hub
from tests.simulation.judges.checkers import Judge
from tests.simulation.judges.violation import Violation

SHARED_MEMORY = Path("/dev/shm")
Settings = dict[str, dict[str, str | int | bool | float]]


class SimulatedIndex:
    """The index of a data directory, over all lives of its broker."""

    store_type: type[IndexStore] = IndexStore

    def __init__(self, seed: int, data_id: bytes, judge: Judge) -> None:
        self.chance = chance = random.Random(f"index {seed}")
        self.data_id = data_id
        self.judge = judge
        self.commit_chance = chance.choice((0.002, 0.01, 0.05))
        self.hear_chance = chance.choice((0.05, 0.5, 1.0))
        self.survives = chance.choice((0.5, 0.9, 1.0))
        self.max_unindexed_bytes = chance.choice((20_000, 1 << 25, 1 << 25))
        self.commits = self.evicted = self.checkpoints = self.deleted = self.read_errors = 0
        self.rebased = 0
        self._blocks = judge.blocks
        self._next = 0
        self._store: IndexStore | None = None
        self._news: deque[tuple[int, str]] = deque()
        self._told: deque[tuple[int, int]] = deque()
        where = SHARED_MEMORY if os.access(SHARED_MEMORY, os.W_OK) else None
        self._folder = Path(tempfile.mkdtemp(prefix="daybook-index-", dir=where))
        weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        self._index = Index(self._folder / "index", data_id)

    @property
    def base(self) -> Path:
        """Where retention keeps the state before the first segment."""
        return self._folder / BASE

    @property
    def path(self) -> Path:
        """Where the index is."""
        return self._index.path

    @property
    def tables(self) -> Tables:
        """The tables at the last commit, of which the hub may not have heard yet."""
        return self._index.tables

    @property
    def store(self) -> IndexStore | None:
        """The broker's view of the index; None while there is no index."""
        return self._store

    def page(self, settings: Settings) -> Settings:
        """Add to settings that nearly everything pages, and how little is read at a time."""
        chance = self.chance
        limits: dict[str, str | int | bool | float] = {
            "max-size-messages": chance.choice((0, 0, 1, 5)),
            "max-read-page-messages": chance.choice((1, 2, 5)),
            "prefetch-page-messages": chance.choice((1, 1, 3)),
        }
        return {**settings, "#": {**settings.get("#", {}), **limits}}

    # ---- the lives of the broker

    def recover(
        self, disk: Disk, *, data_id: bytes, segment_bytes: int, device_block_bytes: int
    ) -> Recovered:
        """Start from the checkpoint, as `recovery.directory` does, or sometimes from nothing."""
        self.forget_life()
        first_lsn = first_lsn_of(disk)
        if self.chance.random() > self.survives:
            self.discard()
        if self._index.lsn + 1 < first_lsn:
            self._begin_with_base(first_lsn)
        # Where history has left, only the index knows what was there.
        without = self.chance.random() < 0.1 and first_lsn == 1
        journal, repair = open_journal(
            disk,
            data_id=data_id,
            segment_bytes=segment_bytes,
            device_block_bytes=device_block_bytes,
            known_durable_lsn=self._index.lsn,
        )
        try:
            if must_catch_up(disk, self._index.lsn):
                self._catch_up(disk)
            state = State()
            if not without:
                self._store = self._open_store(disk)
                state = self._store.checkpoint()
            start = self._store.indexed_lsn if self._store is not None else 0
            fold_journal(disk, journal.durable_lsn, state, None, start)
        except BaseException:
            journal.close()
            raise
        return Recovered(journal, state, repair, journal.durable_lsn, repair is None, start)

    def _begin_with_base(self, first_lsn: int) -> None:
        """Rebuild the index from the base, as a start does when the oldest segments have left."""
        self.rebased += 1
        self._index.close()
        shutil.rmtree(self._folder / "index")
        restore(self.base, self.data_id, self._folder / "index", first_lsn)
        self._index = Index(self._folder / "index", self.data_id)

    def _catch_up(self, disk: Disk) -> None:
        """Index the journal before the start continues."""
        blocks = read_blocks(disk, LAYOUT, from_lsn=self._index.lsn + 1)
        self._index.advance([block for block in blocks if block.first_lsn > self._index.lsn])

    def _open_store(self, disk: Disk) -> IndexStore:
        # The tables are those of who writes them: LMDB opens them once in a process.
        return self.store_type(self._index.tables, disk, map_bytes=0)

    def forget_life(self) -> None:
        """The broker and its indexer end: committed tables stay."""
        self._news.clear()
        self._told.clear()
        self._store = None

    def discard(self) -> None:
        """Delete the index; the next start rebuilds it from the journal."""
        self.deleted += 1
        self._store = None
        self._index.close()
        shutil.rmtree(self._folder / "index")
        self._index = Index(self._folder / "index", self.data_id)

    def failed(self, error: StoreError) -> None:
        """A read of the journal failed: only because the simulated disk does."""
        if os.strerror(errno.EIO) not in str(error):
            raise error
        self.read_errors += 1

    # ---- while it serves

    def step(self, hub: Hub, broker: Broker, disk: Disk) -> None:
        """Perhaps commit a batch, perhaps let the hub hear of one."""
        if hub.failure is not None:
            return
        if self.chance.random() < self.commit_chance:
            self._commit(hub)
        if self._news and self.chance.random() < self.hear_chance:
            self._hear(hub, broker, disk)

    def _commit(self, hub: Hub) -> None:
        durable = hub.outbox.durable_lsn
        self._told.append((durable, hub.unindexed.journaled))
        self._next = bisect_right(self._blocks, self._index.lsn, key=lambda block: block.last_lsn)
        end = self._next
        while end < len(self._blocks) and self._blocks[end].last_lsn <= durable:
            end += 1
        if end == self._next:
            return
        end = self.chance.choice((end, self.chance.randint(self._next + 1, end)))
        lsn = self._index.advance(self._blocks[self._next : end])
        self.commits += 1
        told = ""
        if self.chance.random() < 0.3:
            told = self._index.digest()
            self._compare(lsn, told)
        self._news.append((lsn, told))

    def _compare(self, lsn: int, found: str) -> None:
        if lsn == self.judge.facts.lsn and digest(self.judge.folded) != found:
            raise Violation("P2", f"the index at {lsn} is not the fold of the platter")

    def _hear(self, hub: Hub, broker: Broker, disk: Disk) -> None:
        """Do as `server.history.indexing` when the indexer reports a commit."""
        lsn, found = self._news.popleft()
        indexed_bytes = None
        while self._told and self._told[0][0] <= lsn:
            indexed_bytes = self._told.popleft()[1]
        if self._store is None:
            self._store = self._open_store(disk)
            hub.attach_store(self._store)
        else:
            self._store.refresh(lsn)
        resident = self._resident(broker)
        hub.indexed(lsn, indexed_bytes)
        self.evicted += max(0, resident - self._resident(broker))
        if found and not hub.stopping:
            self.checkpoints += 1
            hub.request(Checkpoint(lsn, found))

    def _resident(self, broker: Broker) -> int:
        return sum(len(queue.entries) for queue in broker.state.queues.values())
