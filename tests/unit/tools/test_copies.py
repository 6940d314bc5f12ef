"""The commands `journal fork` and `journal salvage`: their output and exit codes."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from daybook.journal.archive.archive import Archive
from daybook.journal.disk import RealDisk
from daybook.journal.segments.segment import segment_names
from daybook.tools.history import salvage
from daybook.tools.journal_cli import cli


def journal(*words: object) -> Result:
    return CliRunner().invoke(cli, [str(word) for word in words])


def test_a_fork(history: Any, tmp_path: Path) -> None:
    done = journal("fork", history.data, tmp_path / "made", "--at", history["dead"])
    assert done.exit_code == 0, done.output
    assert f"forked {history.data} after event" in done.output
    assert f"daybook serve --data {tmp_path / 'made'}" in done.output
    again = journal("fork", history.data, tmp_path / "made")
    assert again.exit_code == 1
    assert "is not empty" in again.output
    told = json.loads(journal("fork", tmp_path / "made", tmp_path / "two", "--json").output)
    assert told["asked"] == told["lsn"]
    shown = journal("inspect", tmp_path / "two", "--kind", "Forked")
    assert shown.output.count("Forked") == 2
    assert str(history.data) in shown.output


def test_moments_that_cannot_be_forked(history: Any, tmp_path: Path) -> None:
    for at, why in (("999999", "ends with event"), ("2001-01-01", "begins with event")):
        done = journal("fork", history.data, tmp_path / "made", "--at", at)
        assert (done.exit_code, why in done.output) == (1, True), done.output
    assert journal("fork", history.data, "a", "b").exit_code == 2
    assert journal("fork", tmp_path / "none", tmp_path / "made").exit_code == 1
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("is_damaged", [False, True])
def test_a_salvage(history: Any, tmp_path: Path, *, is_damaged: bool) -> None:
    data = tmp_path / "data"
    shutil.copytree(history.data, data)
    if is_damaged:
        path = sorted((data / "journal").glob("*.seg"))[2]
        changed = bytearray(path.read_bytes())
        changed[5000] ^= 1
        path.write_bytes(changed)
    done = journal("salvage", data, tmp_path / "made")
    assert done.exit_code == int(is_damaged), done.output
    assert ("MISSING LSN" in done.output) == is_damaged
    assert ("no events are missing" in done.output) != is_damaged
    assert journal("verify", tmp_path / "made").exit_code == 0
    told = json.loads(journal("salvage", data, tmp_path / "two", "--json").output)
    assert told["whole"] != is_damaged
    assert bool(told["gaps"]) == is_damaged


def test_nothing_to_salvage(tmp_path: Path) -> None:
    done = journal("salvage", tmp_path, tmp_path / "made")
    assert done.exit_code == 1
    assert "is not a data directory" in done.output


def test_the_directory_of_a_running_broker_is_not_salvaged(
    history: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(salvage, "is_running", lambda _: True)
    done = journal("salvage", history.data, tmp_path / "made")
    assert done.exit_code == 1
    assert "a broker runs on" in done.output
    assert not list(tmp_path.iterdir())


def test_a_salvage_with_an_archive(
    history: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = tmp_path / "data"
    shutil.copytree(history.data, data)
    disk = RealDisk(data / "journal")
    for name in segment_names(disk)[:-1]:
        Archive(str(tmp_path / "archive")).put(disk, name, now=1)
    path = sorted((data / "journal").glob("*.seg"))[2]
    changed = bytearray(path.read_bytes())
    changed[5000] ^= 1
    path.write_bytes(changed)
    words = "salvage", data, tmp_path / "made", "--archive", tmp_path / "archive"
    done = journal(*words)
    assert done.exit_code == 0, done.output
    assert f"FROM THE ARCHIVE {path.name} (LSN" in done.output
    assert "no events are missing" in done.output
    assert journal("verify", tmp_path / "made").exit_code == 0
    told = json.loads(journal("salvage", data, tmp_path / "two", *words[3:], "--json").stdout)
    assert [each["segment"] for each in told["from_archive"]] == [path.name]
    nowhere = journal("salvage", data, tmp_path / "three", "--archive", tmp_path / "nowhere")
    assert nowhere.exit_code == 1
    assert "no segment is archived here" in nowhere.output
    assert not (tmp_path / "three").exists()
    inside = journal("salvage", data, tmp_path / "archive" / "made", *words[3:])
    assert inside.exit_code == 1
    assert f"lies in the archive {tmp_path / 'archive'}" in inside.output
    assert not (tmp_path / "archive" / "made").exists()
    # An archive that is not asked for is not read.
    monkeypatch.setenv("DAYBOOK_ARCHIVE", str(tmp_path / "archive"))
    assert "FROM THE ARCHIVE" not in journal("salvage", data, tmp_path / "four").output
