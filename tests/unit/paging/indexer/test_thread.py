"""The indexer in a thread of the broker, and the store that reads what it writes meanwhile."""

import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from daybook.engine.state.digest import digest
from daybook.journal.disk import RealDisk
from daybook.paging.content.store import IndexStore
from daybook.paging.indexer.indexers import ThreadIndexers
from daybook.paging.indexer.process import IndexerFailed
from daybook.paging.indexer.thread import IndexerThread
from daybook.paging.tables import tables
from daybook.paging.tables.checked import Transaction
from daybook.paging.tables.tables import IndexUnwritable, Tables, open_for_reading
from tests.support.compiled import replaces_parts
from tests.support.process import wait_for
from tests.unit.paging.indexer.test_process import DATA_ID, Writer, until


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[Writer]:
    writer = Writer(tmp_path / "data")
    yield writer
    writer.journal.close()


@pytest.fixture
def indexers() -> Iterator[ThreadIndexers]:
    with closing(ThreadIndexers()) as indexers:
        yield indexers


def opened(indexers: ThreadIndexers, data: Path) -> IndexStore:
    return indexers.open_store(data, DATA_ID, RealDisk(data / "journal"))


def test_what_it_commits_is_read_by_the_store_of_the_same_process(
    tmp_path: Path, writer: Writer, indexers: ThreadIndexers
) -> None:
    data = tmp_path / "data"
    indexers.prepare(data, DATA_ID)
    indexer = indexers.start(data, DATA_ID)
    with closing(opened(indexers, data)) as store:
        for _ in range(20):
            writer.send(50)
            indexer.tell(writer.broker.lsn)
            while not store.indexed_lsn:
                store.refresh(0)
            until(indexer, writer.broker.lsn)
            store.refresh(writer.broker.lsn)
        state = store.checkpoint()
        assert state.queue_by_name["orders"].ready_count == 1000
        assert digest(state) == digest(writer.broker.state)
        indexer.tell(writer.broker.lsn, digest=True)
        assert until(indexer, writer.broker.lsn).digest == digest(writer.broker.state)
    assert indexer.close()
    indexers.close()
    # Nothing keeps it open: it can be opened again in this process.
    open_for_reading(data / "index", DATA_ID).close()


def test_it_ends_when_the_line_is_closed_and_another_goes_on(
    tmp_path: Path, writer: Writer, indexers: ThreadIndexers
) -> None:
    data = tmp_path / "data"
    first = indexers.start(data, DATA_ID)
    writer.send(5)
    first.catch_up(writer.broker.lsn, None)
    assert first.close()
    writer.send(5)
    second = indexers.start(data, DATA_ID)
    second.catch_up(writer.broker.lsn, None)
    assert second.close()
    assert not [each for each in threading.enumerate() if each.name == "indexer"]


def test_damage_of_the_journal_is_told_and_ends_it(
    tmp_path: Path, writer: Writer, indexers: ThreadIndexers
) -> None:
    data = tmp_path / "data"
    for _ in range(3):
        writer.send(300)
    segment = sorted((data / "journal").glob("*.seg"))[0]
    content = bytearray(segment.read_bytes())
    content[2000] ^= 1
    segment.write_bytes(content)
    indexer = indexers.start(data, DATA_ID)
    with pytest.raises(IndexerFailed, match=segment.name) as failed:
        indexer.catch_up(writer.broker.lsn, None)
    assert failed.value.corrupt
    assert indexer.close()


@replaces_parts
def test_one_whose_disk_hangs_holds_up_nobody_and_keeps_its_tables(
    tmp_path: Path, writer: Writer, indexers: ThreadIndexers, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = tmp_path / "data"
    hangs, answers = threading.Event(), threading.Event()

    def hang(_: Tables, txn: Transaction, *__: object) -> None:
        hangs.set()
        assert answers.wait(60.0)

    indexer = indexers.start(data, DATA_ID)
    with monkeypatch.context() as patched:
        patched.setattr(Tables, "set_position", hang)
        patched.setattr("daybook.paging.indexer.process.CLOSE_SECONDS", 0.2)
        writer.send(5)
        indexer.tell(writer.broker.lsn)
        assert hangs.wait(60.0)
        store = opened(indexers, data)
        assert store.refresh(0) == 0
        indexer.kill()
        indexer.hang_up()
        assert indexer.fate() is None
        assert not indexer.close()
        store.close()
        # They stay open below the thread that writes.
        indexers.close()
        answers.set()
    wait_for(lambda: indexer.fate() is not None, "the end of the thread")


@replaces_parts
def test_a_map_that_is_shared_does_not_grow(
    tmp_path: Path, writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Growing it would take it away from below a reader."""
    monkeypatch.setattr(tables, "SHARED_MAP_BYTES", tables.MAP_BYTES_MIN)
    opened = tables.open_for_writing(tmp_path / "index", DATA_ID, shared=True)
    with closing(opened), pytest.raises(IndexUnwritable, match="processes = 3"):
        opened.write(lambda txn: fill(opened, txn))


def fill(opened: Tables, txn: Transaction) -> None:
    for number in range(20_000):
        txn.put(number.to_bytes(8, "big"), bytes(2000), db=opened.db(tables.BLOCKS))


def test_its_name_says_what_it_is(tmp_path: Path, writer: Writer, indexers: ThreadIndexers) -> None:
    indexer = indexers.start(tmp_path / "data", DATA_ID)
    assert isinstance(indexer, IndexerThread)
    assert indexer.name == "the indexer (a thread of the broker)"
    assert indexer.close()
