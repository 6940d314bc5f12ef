"""Snapshots: taken when they are due, passed over when they are not sound."""

import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import pytest

from daybook.journal.data_directory import INDEX, JOURNAL, SNAPSHOTS
from daybook.journal.disk import RealDisk
from daybook.paging.fold.batches import batches
from daybook.paging.fold.index import Index
from daybook.paging.snapshots import snapshots
from daybook.paging.snapshots.snapshots import (
    Snapshots,
    known_snapshots,
    remove_before,
    restore_nearest,
)
from tests.support.histories import HISTORY_ID, some_history, write_history

EVERY = 1


class Scene(NamedTuple):
    """A data directory with an index and snapshots at three events."""

    data: Path
    index: Index
    lsns: tuple[int, ...]
    last_lsn: int

    @property
    def disk(self) -> RealDisk:
        return RealDisk(self.data / JOURNAL)

    @property
    def folder(self) -> Path:
        return self.data / SNAPSHOTS

    def nearest(self, lsn: int, target: Path) -> tuple[int, list[str]]:
        """Restore the nearest snapshot; return its event, and what was noted."""
        notes: list[str] = []
        found = restore_nearest(self.folder, self.disk, HISTORY_ID, lsn, target, notes.append)
        return found, notes


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    monkeypatch.setattr(snapshots, "SHARE", 0)
    events = some_history(1, 300)
    last = len(events)
    cuts = [last // 4, last // 2, 3 * last // 4]
    data = write_history(tmp_path / "data", events, cuts=cuts, segment_bytes=1 << 14)
    disk = RealDisk(data / JOURNAL)
    taken = Snapshots(data / SNAPSHOTS, HISTORY_ID)
    with closing(Index(data / INDEX, HISTORY_ID)) as index:
        for batch in batches(disk, 0, cuts[-1], set(cuts)):
            index.advance(batch)
            assert taken.follow(index, disk, 1, EVERY)
        yield Scene(data, index, tuple(cuts), last)


def lsns_of(scene: Scene) -> list[int]:
    return sorted(each.lsn for each in known_snapshots(scene.folder, HISTORY_ID))


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def test_the_nearest_is_the_newest_that_is_not_behind(scene: Scene, tmp_path: Path) -> None:
    first, second, third = scene.lsns
    for asked, found in [(first - 1, 0), (first, first), (third - 1, second), (1 << 40, third)]:
        assert scene.nearest(asked, tmp_path / f"i{asked}") == (found, [])
    with closing(Index(tmp_path / f"i{first}", HISTORY_ID)) as restored:
        assert restored.lsn == first


def test_without_snapshots_there_is_none(scene: Scene, tmp_path: Path) -> None:
    shutil.rmtree(scene.folder)
    assert scene.nearest(1 << 40, tmp_path / "i") == (0, [])


@pytest.mark.parametrize("what", ["flipped", "short", "gone"])
def test_a_damaged_one_is_passed_over_and_said(scene: Scene, tmp_path: Path, what: str) -> None:
    path = scene.folder / f"{scene.lsns[2]:020}.mdb"
    if what == "flipped":
        flip(path)
    elif what == "short":
        path.write_bytes(path.read_bytes()[:4096])
    else:
        path.unlink()
    found, notes = scene.nearest(1 << 40, tmp_path / "i")
    assert found == scene.lsns[1]
    assert len(notes) == 1
    assert str(path) in notes[0]
    assert "is passed over" in notes[0]


@pytest.mark.parametrize("content", [b"", b"{", b"{}", b'{"lsn":3}', b"\xff\xfe", b"[1]"])
def test_a_description_that_is_none(scene: Scene, tmp_path: Path, content: bytes) -> None:
    (scene.folder / f"{scene.lsns[2]:020}.json").write_bytes(content)
    assert scene.nearest(1 << 40, tmp_path / "i") == (scene.lsns[1], [])


def test_every_flipped_bit_of_a_description_is_harmless(scene: Scene, tmp_path: Path) -> None:
    path = scene.folder / f"{scene.lsns[2]:020}.json"
    whole = path.read_bytes()
    for position in range(len(whole)):
        content = bytearray(whole)
        content[position] ^= 1 << position % 8
        path.write_bytes(content)
        found, _ = scene.nearest(1 << 40, tmp_path / f"i{position}")
        assert found in scene.lsns


def test_one_of_another_journal_is_passed_over(scene: Scene, tmp_path: Path) -> None:
    other = write_history(
        tmp_path / "other", some_history(7, 300), cuts=list(scene.lsns),
        segment_bytes=1 << 14,
    )  # fmt: skip
    notes: list[str] = []
    disk = RealDisk(other / JOURNAL)
    found = restore_nearest(scene.folder, disk, HISTORY_ID, 1 << 40, tmp_path / "i", notes.append)
    assert found == 0
    assert "it is of another journal" in notes[0]
    assert not list(known_snapshots(scene.folder, b"another data id!"))


def test_it_waits_for_its_share_of_the_journal(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshots, "SHARE", 10)
    monkeypatch.setattr(snapshots, "EVENT_BYTES", 0)
    (size,) = [
        each.bytes for each in known_snapshots(scene.folder, HISTORY_ID)
        if each.lsn == scene.lsns[2]
    ]  # fmt: skip
    taken = Snapshots(scene.folder, HISTORY_ID)
    rest = [
        block for batch in batches(scene.disk, scene.index.lsn, scene.last_lsn) for block in batch
    ]
    scene.index.advance(rest)
    assert not taken.follow(scene.index, scene.disk, 10 * size - 1, EVERY)
    assert lsns_of(scene) == list(scene.lsns)
    assert taken.follow(scene.index, scene.disk, 1, EVERY)
    assert lsns_of(scene) == [*scene.lsns, scene.last_lsn]


def test_events_of_few_bytes_count_for_more(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """They take as long to fold, also those of before this process began."""
    since = scene.index.lsn - scene.lsns[1]
    monkeypatch.setattr(snapshots, "EVENT_BYTES", 10)
    for path in scene.folder.glob(f"*{scene.lsns[2]}.*"):
        path.unlink()
    taken = Snapshots(scene.folder, HISTORY_ID)
    assert not taken.follow(scene.index, scene.disk, 1, 10 * since + 1)
    assert not taken.follow(scene.index, scene.disk, 0, 10 * since + 1)
    assert taken.follow(scene.index, scene.disk, 1, 10 * since + 1)
    assert lsns_of(scene) == list(scene.lsns)


def test_none_is_taken_with_zero_or_twice_at_one_event(scene: Scene) -> None:
    taken = Snapshots(scene.folder, HISTORY_ID)
    assert not taken.follow(scene.index, scene.disk, 1 << 40, 0)
    assert not taken.follow(scene.index, scene.disk, 1 << 40, EVERY)
    assert lsns_of(scene) == list(scene.lsns)


def test_a_full_disk_leaves_nothing_behind(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    taken = Snapshots(scene.folder, HISTORY_ID)
    rest = [
        block for batch in batches(scene.disk, scene.index.lsn, scene.last_lsn) for block in batch
    ]
    scene.index.advance(rest)
    monkeypatch.setattr(snapshots, "FREE_TIMES", 1 << 50)
    assert taken.follow(scene.index, scene.disk, 1, EVERY)
    assert "times its size of free space" in taken.trouble
    assert lsns_of(scene) == list(scene.lsns)
    assert not list(scene.folder.glob("work-*"))
    monkeypatch.setattr(snapshots, "FREE_TIMES", 0)
    assert taken.follow(scene.index, scene.disk, 1, EVERY)
    assert not taken.trouble
    assert taken.lsn == scene.last_lsn


def test_what_a_killed_process_left_goes(scene: Scene) -> None:
    (scene.folder / "work-x").mkdir()
    (scene.folder / "work-x" / "data.mdb").write_bytes(b"half")
    Snapshots(scene.folder, HISTORY_ID).follow(scene.index, scene.disk, 0, EVERY)
    assert not list(scene.folder.glob("work-*"))


def test_an_index_that_begins_again_keeps_those_of_its_journal(
    scene: Scene, tmp_path: Path
) -> None:
    with closing(Index(tmp_path / "again", HISTORY_ID)) as index:
        taken = Snapshots(scene.folder, HISTORY_ID)
        for batch in batches(scene.disk, 0, scene.lsns[0], set(scene.lsns)):
            index.advance(batch)
            assert not taken.follow(index, scene.disk, 1 << 40, EVERY)
    assert lsns_of(scene) == list(scene.lsns)


def test_those_before_an_event_are_removed(scene: Scene) -> None:
    remove_before(scene.folder, scene.lsns[1])
    assert lsns_of(scene) == list(scene.lsns[1:])
    assert sorted(path.suffix for path in scene.folder.iterdir()) == [
        ".json",
        ".json",
        ".mdb",
        ".mdb",
    ]
