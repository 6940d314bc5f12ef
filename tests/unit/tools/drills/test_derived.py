"""Damage to what is derived from the journal: each way makes a start rebuild the index."""

import random
import shutil
from pathlib import Path

import pytest

from daybook.journal import data_directory
from daybook.journal.data_directory import CATALOGS, DERIVED, INDEX, LAST_WORDS, SNAPSHOTS, TABLES
from daybook.paging.indexer.indexers import ThreadIndexers
from daybook.recovery.directory import open_directory
from daybook.tools.drills.campaigns import derived_files
from daybook.tools.drills.campaigns.derived_files import HARMS, OF_THE_INDEX, SAID, Wounds
from daybook.tools.drills.scratch.server import Serving
from tests.support.brokers.quick_broker import QuickBroker
from tests.support.histories import some_history, write_history


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory on which a broker ran, with an index."""
    folder = tmp_path_factory.mktemp("served")
    data = write_history(folder / "data", some_history(4, 300), segment_bytes=1 << 13)
    broker = QuickBroker(Serving("", str(data)), folder / "log")
    broker.start()
    broker.stop()
    assert (data / INDEX / TABLES).stat().st_size
    return data


def notices(data: Path) -> list[str]:
    """The output of a start."""
    said: list[str] = []
    open_directory(data, indexers=ThreadIndexers(0), notice=said.append).close()
    return said


@pytest.mark.parametrize("way", OF_THE_INDEX)
def test_a_start_says_that_it_rebuilds_the_index(
    served: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    data = tmp_path / "data"
    shutil.copytree(served, data)
    assert not any(SAID in each for each in notices(data))
    monkeypatch.setattr(derived_files, "OF_THE_INDEX", (way,))
    wounds = Wounds(1)
    assert wounds.inflict(data) == way
    tried = [each for each in wounds.tried if each.what == f"derived files, the index: {way}"]
    assert [(each.count, each.right) for each in tried] == [(1, 0)]
    assert any(SAID in each for each in notices(data))
    wounds.healed()
    assert [each.right for each in tried] == [1]


def test_each_kind_of_derived_file_is_damaged(tmp_path: Path) -> None:
    for name in DERIVED:
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_bytes(b"x" * 9000)
    (tmp_path / LAST_WORDS / "file").unlink()
    (tmp_path / LAST_WORDS).rmdir()
    (tmp_path / LAST_WORDS).write_bytes(b"words")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    wounds = Wounds(1)
    assert wounds.inflict(tmp_path) == ""
    for path, content in before.items():
        assert not path.exists() or path.read_bytes() != content, path
    assert len(wounds.tried) == len(DERIVED)
    assert all(name in str(wounds.tried) for name in (SNAPSHOTS, CATALOGS, "other files"))


@pytest.mark.parametrize("harm", HARMS)
def test_an_empty_file_can_be_damaged(tmp_path: Path, harm: str) -> None:
    (tmp_path / "file").touch()
    HARMS[harm](tmp_path / "file", random.Random(1))


def test_what_is_derived_is_no_part_of_the_history() -> None:
    """The journal, its id, the base and what an operator wrote cannot be made again."""
    kept = {
        data_directory.JOURNAL, data_directory.BASE, data_directory.DATA_ID, data_directory.USERS,
        data_directory.CONFIG, data_directory.NOTARY, data_directory.ARCHIVE, data_directory.PINS,
    }  # fmt: skip
    assert kept.isdisjoint(DERIVED)
