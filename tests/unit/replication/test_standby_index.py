"""The index of a node that follows is as new as what is confirmed, and begun again when damaged."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from daybook.history.moments import last_lsn
from daybook.journal.data_directory import INDEX, JOURNAL
from daybook.journal.disk import RealDisk
from daybook.paging.tables.tables import open_for_reading
from daybook.recovery.directory import open_directory
from daybook.replication.standby_index import StandbyIndex
from tests.support.histories import some_history, write_history
from tests.support.process import wait_for


def history(tmp_path: Path) -> Path:
    data = write_history(tmp_path / "data", some_history(3, 400))
    shutil.rmtree(data / INDEX, ignore_errors=True)
    return data


@contextmanager
def following(data: Path, said: list[str]) -> Iterator[StandbyIndex]:
    index = StandbyIndex(data, said.append, period_seconds=0.01, again_seconds=0.01)
    index.start()
    try:
        yield index
    finally:
        index.stop()


def indexed_lsn(data: Path) -> int:
    tables = open_for_reading(data / INDEX)
    try:
        with tables.read() as txn:
            return tables.position(txn)[0]
    finally:
        tables.close()


def test_what_is_confirmed_is_indexed_and_no_more(tmp_path: Path) -> None:
    data = history(tmp_path)
    last = last_lsn(RealDisk(data / JOURNAL))
    said: list[str] = []
    with following(data, said) as index:
        index.confirmed = last // 2
        wait_for(lambda: index.indexed, "the first half")
        half = index.indexed
        assert half <= last // 2 + 50
        index.confirmed = last
        wait_for(lambda: index.indexed == last, "the rest")
    assert said == []
    opened = open_directory(data)
    assert opened.recovered.indexed == last
    opened.close()


def test_a_killed_indexer_is_followed_by_another(tmp_path: Path) -> None:
    data = history(tmp_path)
    last = last_lsn(RealDisk(data / JOURNAL))
    said: list[str] = []
    with following(data, said) as index:
        index.confirmed = last // 2
        wait_for(lambda: index.indexed, "the beginning")
        assert index._indexer is not None
        index._indexer.kill()
        index.confirmed = last
        wait_for(lambda: index.indexed == last, "the rest")
    assert "behind" in said[0]


def test_a_damaged_index_is_begun_again(tmp_path: Path) -> None:
    data = history(tmp_path)
    last = last_lsn(RealDisk(data / JOURNAL))
    said: list[str] = []
    with following(data, said) as index:
        index.confirmed = last
        wait_for(lambda: index.indexed == last, "the index")
    (data / INDEX / "data.mdb").write_bytes(b"rubbish" * 1000)
    with following(data, said) as index:
        index.confirmed = last
        wait_for(lambda: index.indexed == last, "another index")
    assert indexed_lsn(data) == last
    assert "rebuilt" in said[0]
