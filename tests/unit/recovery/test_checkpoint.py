"""The index at a start: another process checks a suspect one first, and no start fails."""

from pathlib import Path
from typing import Any

import pytest

from daybook.engine.state.state import State
from daybook.journal.blocks.format import segment_name
from daybook.journal.data_directory import INDEX, TABLES
from daybook.journal.disk import MemoryDisk
from daybook.paging.checks.usability import Judgement
from daybook.paging.indexer.indexers import ProcessIndexers
from daybook.paging.snapshots.base import BaseDamaged
from daybook.paging.tables.tables import IndexDamaged, open_for_writing
from daybook.recovery import checkpoint
from daybook.recovery.checkpoint import Checkpoint, known_durable_lsn, load_checkpoint, suspect
from daybook.recovery.last_words import LastWords

DATA_ID = bytes(range(16))
NOTHING = LastWords("")


def make_index(data: Path, lsn: int = 7) -> None:
    tables = open_for_writing(data / INDEX, DATA_ID)
    tables.write(lambda txn: tables.set_position(txn, lsn, bytes(16), 0))
    tables.close()


def asked(path: Path, words: LastWords = NOTHING) -> tuple[str, list[str]]:
    """The fault of the index of a directory, and the reports meanwhile."""
    said: list[str] = []
    return suspect(path, path / "journal", words, said.append), said


def test_no_index_is_not_suspect(tmp_path: Path) -> None:
    assert asked(tmp_path, LastWords("Fatal Python error: Aborted")) == ("", [])
    assert known_durable_lsn(tmp_path) == 0


def test_a_sound_index_is_not_read_in_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_index(tmp_path)
    monkeypatch.setattr(checkpoint, "check_apart", lambda *_: "nobody asks")
    assert asked(tmp_path) == ("", [])
    assert known_durable_lsn(tmp_path) == 7


def test_a_page_that_is_none_is_found_before_anybody_looks(tmp_path: Path) -> None:
    make_index(tmp_path)
    file = tmp_path / INDEX / TABLES
    with file.open("r+b") as opened:
        opened.seek(2 * 4096)
        opened.write(bytes(file.stat().st_size - 2 * 4096))
    wrong, said = asked(tmp_path)
    assert "is not the one that should be there" in wrong
    assert said == []
    # The start may be refused for another reason, and leaves everything as it is.
    assert file.exists()


def test_after_last_words_all_of_the_index_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_index(tmp_path)
    words = LastWords("Fatal Python error: Aborted")
    wrong, said = asked(tmp_path, words)
    assert wrong == ""
    assert said == [
        f"the last run ended with '{words.text}': the whole index is read first (0 MiB)"
    ]
    assert "one broker after the other" in asked(tmp_path, words._replace(again=True))[0]
    monkeypatch.setattr(checkpoint, "check_apart", lambda *_: "its reader dies")
    assert asked(tmp_path, words)[0] == "its reader dies"


def test_an_index_is_kept_until_its_successor_can_begin(tmp_path: Path) -> None:
    """Without the base a new index cannot begin, so the start is refused: nothing is deleted."""
    make_index(tmp_path)
    disk = MemoryDisk()
    disk.open_for_writing(segment_name(8)).close()
    with pytest.raises(BaseDamaged, match="and so is 'base'"):
        load_checkpoint(
            tmp_path, disk, DATA_ID, 9,
            indexers=ProcessIndexers(), progress=None, notice=print, wrong="its reader dies",
        )  # fmt: skip
    assert known_durable_lsn(tmp_path) == 7


@pytest.mark.parametrize("times", [1, 2])
def test_an_index_that_cannot_even_be_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    """It is rebuilt; if that does not help, the broker starts without an index."""
    make_index(tmp_path)
    opened: list[Path] = []

    class Failing(ProcessIndexers):
        def prepare(self, data: Path, data_id: bytes) -> None:
            opened.append(data)
            if len(opened) <= times:
                raise IndexDamaged("its list of free pages is wrong")
            super().prepare(data, data_id)

    def load(*arguments: Any) -> Checkpoint:
        failing.prepare(tmp_path, DATA_ID)
        return Checkpoint(State(), 3, None, None)

    failing = Failing()
    monkeypatch.setattr(checkpoint, "judge", lambda *_: Judgement(True, 7, ""))
    monkeypatch.setattr(checkpoint, "_load", load)
    told: list[str] = []
    loaded = load_checkpoint(
        tmp_path, MemoryDisk(), DATA_ID, 9, indexers=failing, progress=None, notice=told.append
    )
    assert told[0] == "the index is rebuilt: its list of free pages is wrong"
    if times == 1:
        assert loaded.lsn == 3
        assert known_durable_lsn(tmp_path) == 0
    else:
        assert loaded.lsn == 0
        assert told[1].startswith("no index for now, so everything stays in memory: its list")
