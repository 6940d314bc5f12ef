"""A folder that is to become a data directory must be empty, or be one."""

from pathlib import Path

import pytest

from daybook.journal.data_directory import DATA_ID, JOURNAL
from daybook.paging.indexer.indexers import ThreadIndexers
from daybook.recovery.directory import RecoveryError, open_directory
from daybook.recovery.strangers import strangers


def names(path: Path) -> list[str]:
    return strangers(path, data_id=DATA_ID, journal=JOURNAL)


def test_other_files_are_left_alone(tmp_path: Path) -> None:
    for name in ("thesis.tex", "photos", ".bashrc", "music", "letters"):
        (tmp_path / name).mkdir()
    with pytest.raises(RecoveryError, match=r"'.bashrc', 'letters', 'music' and 2 more") as refused:
        open_directory(tmp_path, indexers=ThreadIndexers())
    assert "Nothing was changed" in str(refused.value)
    assert len(list(tmp_path.iterdir())) == 5


@pytest.mark.parametrize("name", ["lost+found", "users.toml", "broker.toml", ".gitkeep", "lock"])
def test_what_is_there_before_a_first_start(tmp_path: Path, name: str) -> None:
    (tmp_path / name).touch()
    assert names(tmp_path) == []
    open_directory(tmp_path, indexers=ThreadIndexers()).close()
    (tmp_path / "notes.txt").touch()
    assert names(tmp_path) == []


def test_a_first_start_that_was_killed(tmp_path: Path) -> None:
    open_directory(tmp_path, indexers=ThreadIndexers()).close()
    (tmp_path / DATA_ID).unlink()
    assert names(tmp_path) == []


def test_a_journal_of_somebody_else(tmp_path: Path) -> None:
    (tmp_path / JOURNAL).mkdir()
    assert names(tmp_path) == []
    (tmp_path / JOURNAL / "dear diary.txt").touch()
    assert names(tmp_path) == [JOURNAL]
