"""The index at a start: what is suspect is looked at by others first, and never stops the start."""

from pathlib import Path

import pytest

from engine.state import State
from journal.disk import MemoryDisk
from paging.judging import Judgement
from paging.tables import DATA_FILE, IndexDamaged, Tables, open_for_writing
from recovery import checkpoint
from recovery.checkpoint import (
    INDEX,
    STARTING,
    Checkpoint,
    known_durable_lsn,
    load_checkpoint,
    suspect,
    trust,
)

DATA_ID = bytes(range(16))


def make_index(data: Path, lsn: int = 7) -> None:
    tables = open_for_writing(data / INDEX, DATA_ID)
    tables.write(lambda txn: tables.set_position(txn, lsn, bytes(16), 0))
    tables.close()


def test_no_index_is_not_suspect(tmp_path: Path) -> None:
    assert suspect(tmp_path) == ""
    assert not (tmp_path / STARTING).exists()
    assert known_durable_lsn(tmp_path) == 0


def test_an_index_is_suspect_before_anybody_looks_at_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_index(tmp_path)
    monkeypatch.setattr(checkpoint, "check_apart", lambda path: "who reads it dies")
    assert suspect(tmp_path) == ""
    # Whoever dies of looking leaves this behind, and the next one does not look.
    assert (tmp_path / STARTING).exists()
    assert known_durable_lsn(tmp_path) == 7
    assert suspect(tmp_path) == "who reads it dies"
    assert not (tmp_path / INDEX / DATA_FILE).exists()
    assert not (tmp_path / STARTING).exists()


def test_an_index_that_served_is_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_index(tmp_path)
    suspect(tmp_path)
    trust(tmp_path)
    monkeypatch.setattr(checkpoint, "check_apart", lambda path: "nobody asks")
    assert suspect(tmp_path) == ""
    assert known_durable_lsn(tmp_path) == 7


@pytest.mark.parametrize("times", [1, 2])
def test_an_index_that_cannot_even_be_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    """It is made anew; if that does not help, the broker starts without one."""
    make_index(tmp_path)
    opened: list[Path] = []

    def fail(path: Path, data_id: bytes) -> Tables:
        opened.append(path)
        if len(opened) <= times:
            raise IndexDamaged("its list of free pages is wrong")
        return open_for_writing(path, data_id)

    monkeypatch.setattr(checkpoint, "open_for_writing", fail)
    monkeypatch.setattr(checkpoint, "judge", lambda *_: Judgement(True, 7, ""))
    monkeypatch.setattr(checkpoint, "_load", lambda *_: Checkpoint(State(), 3, None, None))
    told: list[str] = []
    loaded = load_checkpoint(tmp_path, MemoryDisk(), DATA_ID, 9, progress=None, notice=told.append)
    assert told[0] == "the index is made anew: its list of free pages is wrong"
    if times == 1:
        assert loaded.lsn == 3
        assert known_durable_lsn(tmp_path) == 0
    else:
        assert loaded.lsn == 0
        assert told[1].startswith("no index for now, so everything stays in memory: its list")
