"""An archive lies apart from the data directory, whatever either is called."""

from pathlib import Path

import pytest

from daybook.journal.archive.place import local_folder, overlap


@pytest.fixture
def data(tmp_path: Path) -> Path:
    (tmp_path / "var" / "data" / "journal").mkdir(parents=True)
    return tmp_path / "var" / "data"


@pytest.mark.parametrize(
    ("place", "how"),
    [
        ("var/data", "is"),
        ("var/data/journal", "is"),
        ("var/data/archive", "is inside"),
        ("var/data/journal/old/er", "is inside"),
        ("var/elsewhere/../data/archive", "is inside"),
        ("var", "contains"),
        ("link/archive", "is inside"),
        ("link/journal", "is"),
        ("links/journal", "is"),
        ("var/archive", ""),
        ("var/data-archive", ""),
    ],
)
@pytest.mark.parametrize("prefix", ["", "file://", "file:", "local://", "simplecache::file://"])
def test_overlap(data: Path, tmp_path: Path, place: str, how: str, prefix: str) -> None:
    (tmp_path / "link").symlink_to(data)
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "journal").symlink_to(data / "journal")
    said = overlap(f"{prefix}{tmp_path}/{place}", data)
    if how:
        assert f" {how} the data directory {data}" in said
    else:
        assert said == ""


def test_a_journal_that_lies_elsewhere(data: Path, tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (data / "journal").rmdir()
    (data / "journal").symlink_to(tmp_path / "disk")
    assert " is the data directory" in overlap(str(tmp_path / "disk"), data)
    assert "is inside" in overlap(str(tmp_path / "disk" / "old"), data)


def test_what_is_relative(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(data.parent)
    assert "is inside" in overlap("data/archive", data)
    monkeypatch.setenv("HOME", str(data))
    assert "is inside" in overlap("~/archive", data)


@pytest.mark.parametrize("url", ["", "s3://bucket/data", "ftp://joe:secret@host/a", "memory://a"])
def test_other_stores_lie_apart(data: Path, url: str) -> None:
    assert overlap(url, data) == ""
    assert not url or local_folder(url) is None
