"""The store: windows, views, the map, and what it says of an index or a journal that is damaged.

tests/property/paging/test_store.py compares its answers with a store in memory.
"""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from daybook.engine.messages.message import message_without_content
from daybook.engine.queues.entry import Entry
from daybook.engine.queues.queue import PAST_ALL, Queue, StoreError
from daybook.engine.queues.window import Window
from daybook.engine.state.digest import digest
from daybook.engine.state.timers import EXPIRY
from daybook.journal.disk import MemoryDisk
from daybook.journal.journal import Journal
from daybook.journal.segments.reader import read_blocks
from daybook.journal.segments.segment import segment_names
from daybook.paging.content.store import SUM_PAGES, IndexStore
from daybook.paging.fold.index import Index
from daybook.paging.tables.layout import LAYOUT
from daybook.paging.tables.tables import PAGES, open_for_reading, open_for_writing, page_key
from tests.support.models.memory_store import MemoryStore
from tests.support.stored.stored_rows import flip
from tests.support.stored.written_index import DATA_ID, write_journal, write_tables
from tests.support.world import World

ROOT = Path(__file__).parents[4]
OVERHEAD = 128


class Indexed:
    """A world, and its journal and index on disk."""

    def __init__(self, path: Path, page: int = 3) -> None:
        self.path = path
        self.page = page
        self.world = World()
        self.disk = MemoryDisk()
        self.journal = Journal.create(self.disk, LAYOUT, data_id=DATA_ID, segment_bytes=8192)
        self.tables = open_for_writing(path, DATA_ID)
        self.store = IndexStore(self.tables, self.disk, map_bytes=0)

    def close(self) -> None:
        self.store.close()
        self.journal.close()

    def send(self, count: int, **values: object) -> list[int]:
        """Send messages to queue q; return their ids."""
        self.world.turn()
        first = self.world.broker.next_lsn
        for number in range(count):
            body = values.get("body", b"body %d" % number)
            assert isinstance(body, bytes)
            self.world.send(
                "q", body, routing_type="anycast",
                priority=values.get("priority", 4), expires=values.get("expires", 0),
            )  # fmt: skip
        return [e.lsn for e in self.world.events_named("Routed") if e.lsn >= first]

    def index(self) -> int:
        """Index everything there is; the store does not know yet."""
        reference = MemoryStore(self.world.journal)
        lsn = len(self.world.journal)
        reference.advance(lsn)
        write_journal(self.journal, self.world.journal)
        write_tables(self.tables, self.disk, reference.state, lsn, self.page)
        return lsn

    def queue(self) -> Queue:
        """The queue as a broker has it that has nothing of it in memory."""
        known = self.world.queue("q")
        queue = Queue(known.id, known.definition, known.address)
        paged = queue.level(4).open_paged(0, len(self.world.journal))
        paged.count = queue.paged_count = known.ready_count
        return queue


@pytest.fixture
def indexed(tmp_path: Path) -> Iterator[Indexed]:
    made = Indexed(tmp_path / "index")
    yield made
    made.close()


def ids_of(entries: list[Entry]) -> list[int]:
    return [entry.message.id for entry in entries]


def test_windows_by_messages(indexed: Indexed) -> None:
    sent = indexed.send(10)
    indexed.index()
    found = indexed.store.load(indexed.queue(), 4, 0, Window(4, 1 << 20))
    assert ids_of(found.entries) == sent[:4]
    assert found.reached == sent[3]
    assert [entry.message.body for entry in found.entries] == [b"body %d" % n for n in range(4)]
    found = indexed.store.load(indexed.queue(), 4, found.reached, Window(100, 1 << 20))
    assert ids_of(found.entries) == sent[4:]
    assert found.reached == PAST_ALL


def test_windows_by_bytes(indexed: Indexed) -> None:
    sent = indexed.send(10, body=b"x" * 100)
    indexed.index()
    size = 100 + OVERHEAD
    for room, count in ((5 * size, 5), (5 * size - 1, 4), (1, 1)):
        found = indexed.store.load(indexed.queue(), 4, 0, Window(100, room))
        assert ids_of(found.entries) == sent[:count]


def test_an_empty_window_takes_one(indexed: Indexed) -> None:
    sent = indexed.send(2)
    indexed.index()
    assert ids_of(indexed.store.load(indexed.queue(), 4, 0, Window(0, 0)).entries) == sent[:1]


def test_levels_and_queues_are_apart(indexed: Indexed) -> None:
    low = indexed.send(5)
    high = indexed.send(5, priority=9)
    indexed.world.send("other", b"", routing_type="anycast")
    indexed.index()
    queue = indexed.queue()
    assert ids_of(indexed.store.load(queue, 4, 0, Window()).entries) == low
    assert ids_of(indexed.store.load(queue, 9, 0, Window()).entries) == high
    assert indexed.store.load(queue, 5, 0, Window()) == ([], PAST_ALL)


def test_one_entry_has_no_content(indexed: Indexed) -> None:
    sent = indexed.send(7)
    indexed.index()
    for message_id in sent:
        entry = indexed.store.find(indexed.queue(), message_id)
        assert entry is not None
        assert entry.message.id == message_id
        assert not entry.message.resident
        assert entry.message.size == OVERHEAD + len(b"body n")
    for missing in (0, 1, sent[0] - 1, sent[-1] + 1):
        assert indexed.store.find(indexed.queue(), missing) is None


def test_the_index_moves_when_it_is_told(indexed: Indexed) -> None:
    indexed.send(3)
    lsn = indexed.index()
    assert indexed.store.indexed_lsn == 0
    assert indexed.store.refresh(lsn) == lsn
    more = indexed.send(3)
    later = indexed.index()
    assert indexed.store.indexed_lsn == lsn
    # A view may be later than the last report: the requested entries are there.
    assert indexed.store.find(indexed.queue(), more[-1]) is not None
    assert indexed.store.refresh(lsn) == later == indexed.store.indexed_lsn


def test_an_index_that_went_back(indexed: Indexed) -> None:
    indexed.send(3)
    lsn = indexed.index()
    with pytest.raises(StoreError, match=rf"is at event {lsn}, and was at {lsn + 1} before"):
        indexed.store.refresh(lsn + 1)


def test_many_pages_are_summed(tmp_path: Path) -> None:
    indexed = Indexed(tmp_path, page=1)
    indexed.send(SUM_PAGES + 30)
    lsn = indexed.index()
    queue = indexed.queue()
    reference = MemoryStore(indexed.world.journal)
    reference.advance(lsn)
    assert indexed.store.paged_sum(queue) == reference.paged_sum(queue)
    assert reference.paged_sum(queue)[0] == SUM_PAGES + 30
    indexed.close()


def test_what_is_due(indexed: Indexed) -> None:
    now = indexed.world.now // 1000
    late, soon = indexed.send(2, expires=now + 500), indexed.send(2, expires=now + 100)
    indexed.send(2)
    indexed.index()
    queue_id = indexed.queue().id
    every = [(now + 100, soon[0], queue_id), (now + 100, soon[1], queue_id)]
    every += [(now + 500, late[0], queue_id), (now + 500, late[1], queue_id)]
    due = partial(indexed.store.due, EXPIRY)
    assert due((0, 0, 0), now + 500, 10) == every
    assert due((0, 0, 0), now + 499, 10) == every[:2]
    assert due((0, 0, 0), now + 500, 3) == every[:3]
    for position, item in enumerate(every):
        assert due(item, now + 500, 10) == every[position + 1 :]


def test_blocks_are_located(indexed: Indexed) -> None:
    assert indexed.store.locate(1) is None
    indexed.send(40)
    lsn = indexed.index()
    last = indexed.store.locate(lsn)
    assert last == indexed.store.locate(lsn + 1000)
    assert last is not None
    assert indexed.store.locate(1) == indexed.store.locate(2)
    assert indexed.store.locate(0) is None
    places = {indexed.store.locate(number) for number in range(1, lsn + 1)}
    assert len(places) > lsn // 10


def test_a_map_that_was_looked_at_is_let_go(tmp_path: Path) -> None:
    indexed = Indexed(tmp_path)
    sent = indexed.send(30)
    indexed.index()
    indexed.tables.close()
    store = IndexStore(open_for_reading(tmp_path, DATA_ID), indexed.disk, map_bytes=1)
    seen = set()
    after = 0
    found: list[int] = []
    while after < PAST_ALL:
        loaded = store.load(indexed.queue(), 4, after, Window(4))
        found += ids_of(loaded.entries)
        after = loaded.reached
        seen.add(id(store.tables))
    assert found == sent
    assert len(seen) > 1
    store.close()
    indexed.journal.close()


def test_another_process_writes(tmp_path: Path) -> None:
    indexed = Indexed(tmp_path)
    sent = indexed.send(5)
    indexed.index()
    indexed.tables.close()
    store = IndexStore(open_for_reading(tmp_path, DATA_ID), indexed.disk)
    assert store.indexed_lsn == len(indexed.world.journal)
    # It makes the map larger than this process knows, and continues.
    script = (
        "import sys; from pathlib import Path; from daybook.paging.tables.tables import *;"
        "tables = open_for_writing(Path(sys.argv[1]), b'd' * 16);"
        "tables.grow();"
        "tables.write(lambda txn: tables.set_position(txn, 1000, b'h' * 16, 0));"
        "tables.write(lambda txn: txn.put(b'filler', bytes(40_000_000), db=tables.db(META)))"
    )
    subprocess.run([sys.executable, "-c", script, str(tmp_path)], cwd=ROOT, check=True)
    assert store.refresh(1000) == 1000
    assert ids_of(store.load(indexed.queue(), 4, 0, Window()).entries) == sent
    store.close()
    indexed.journal.close()


def test_a_damaged_page(indexed: Indexed) -> None:
    sent = indexed.send(9)
    indexed.index()
    queue = indexed.queue()
    key = page_key(queue.id, 4, sent[3])

    indexed.tables.write(lambda txn: flip(txn, indexed.tables.db(PAGES), key, 240))
    what = "of a row of table 'pages' .* Stop the broker, delete the directory .*index, and"
    assert ids_of(indexed.store.load(queue, 4, 0, Window(3)).entries) == sent[:3]
    for ask in (
        lambda: indexed.store.load(queue, 4, 0, Window()),
        lambda: indexed.store.find(queue, sent[4]),
        lambda: indexed.store.paged_sum(queue),
    ):
        with pytest.raises(StoreError, match=what):
            ask()


def test_an_index_that_does_not_agree_with_the_journal(indexed: Indexed) -> None:
    sent = indexed.send(3)
    indexed.index()
    message = message_without_content(sent[1], 1, 4, 1, 0, 5000)
    with pytest.raises(StoreError, match=f"message {sent[1]} has .* and 5000 as the index says"):
        indexed.store.fill([message])


def test_a_damaged_journal(indexed: Indexed) -> None:
    sent = indexed.send(200)
    indexed.index()
    name = segment_names(indexed.disk)[0]
    content = indexed.disk.files[name]
    for offset in range(4096, len(content)):
        content[offset] ^= 0x10
    with pytest.raises(StoreError, match=f"segment {name}"):
        indexed.store.load(indexed.queue(), 4, 0, Window())
    message = message_without_content(sent[0], 1, 4, 1, 0, 5000)
    with pytest.raises(StoreError, match=f"segment {name}"):
        indexed.store.fill([message])
    assert not message.resident


def test_a_state_to_start_from(tmp_path: Path) -> None:
    indexed = Indexed(tmp_path / "plain")
    sent = indexed.send(20)
    indexed.index()
    with closing(Index(tmp_path / "index", DATA_ID)) as index:
        index.advance(list(read_blocks(indexed.disk, LAYOUT)))
        store = IndexStore(index.tables, indexed.disk, map_bytes=0)
        state = store.checkpoint()
        assert store.indexed_lsn == len(indexed.world.journal)
        assert digest(state) == digest(indexed.world.state)
        assert ids_of(list(state.queue_by_name["q"].ready())) == sent
        store.content.close()
    indexed.close()
