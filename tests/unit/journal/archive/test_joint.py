"""Whether an archive and a live journal are one history: the right one, and everything else."""

import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from daybook.journal.archive.archive import Archive
from daybook.journal.archive.joint import Joint
from daybook.journal.data_directory import JOURNAL
from daybook.journal.disk import RealDisk
from daybook.journal.errors import ArchiveError
from daybook.journal.segments.segment import first_lsn_of, segment_names
from daybook.recovery.salvage.fork import fork
from tests.support import histories
from tests.support.histories import some_history, write_history
from tests.support.world import Event

NOW = 1_763_640_000_000_000
EVENTS = some_history(7, 300)
CUTS = range(20, len(EVENTS), 20)


def written(folder: Path, events: Sequence[Event] = EVENTS) -> Path:
    return write_history(folder, events, segment_bytes=1 << 14, cuts=CUTS)


def names(data: Path) -> list[str]:
    return segment_names(RealDisk(data / JOURNAL))


def joint(archive: Path, data: Path) -> Joint:
    """Compare the two as each reader does, and assert that readers refuse a mismatch."""
    live = RealDisk(data / JOURNAL)
    found = Archive(str(archive)).joint(live)
    report = Archive(str(archive)).verify(live)
    assert report.followed is not bool(found.wrong)
    if not found.wrong:
        with Archive(str(archive)).reading(live) as disk:
            assert {each.segment for each in found.entries} <= set(disk.names())
        assert report.ok, report.faults
        return found
    assert [each.what for each in report.faults] == [found.wrong]
    with (
        pytest.raises(ArchiveError, match=f"{archive}: it"),
        Archive(str(archive)).reading(live),
    ):
        pass
    return found


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return written(tmp_path / "data")


@pytest.fixture
def archive(data: Path, tmp_path: Path) -> Path:
    """The archive of all sealed segments of the data directory, which has them too."""
    for name in names(data)[:-1]:
        Archive(str(tmp_path / "archive")).put(RealDisk(data / JOURNAL), name, now=NOW)
    assert len(names(data)) > 4
    return tmp_path / "archive"


def leave(data: Path, count: int) -> None:
    for name in names(data)[:count]:
        (data / JOURNAL / name).unlink()


@pytest.mark.parametrize("left", [0, 1, 3, -1])
def test_the_archive_of_a_journal_is_its_own(archive: Path, data: Path, left: int) -> None:
    archived = segment_names(RealDisk(archive))
    leave(data, left if left >= 0 else len(archived))
    found = joint(archive, data)
    assert [each.segment for each in found.entries] == archived
    assert not found.departs


def test_that_of_another_directory_is_foreign(
    archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(histories, "HISTORY_ID", bytes(16))
    # Whether it has the same events, or ends long before the archive does.
    for count in (len(EVENTS), 25):
        other = written(tmp_path / str(count), EVENTS[:count])
        found = joint(archive, other)
        assert found.is_foreign
        assert "it is the archive of another data directory" in found.wrong


def test_a_fork_is_continued_only_from_before_it(archive: Path, data: Path, tmp_path: Path) -> None:
    archived = segment_names(RealDisk(archive))
    moment = int(archived[2][:20]) + 30
    live = RealDisk(data / JOURNAL)
    made = tmp_path / "fork"
    fork(data, live, moment, made, now=NOW, note=lambda _: None, shares=True)
    for left in (0, 1, 2):
        found = joint(archive, made)
        assert [each.segment for each in found.entries] == archived[:2]
        assert found.departs == int(archived[2][:20])
        with Archive(str(archive)).reading(RealDisk(made / JOURNAL)) as disk:
            assert segment_names(disk) == archived[:3]
            assert first_lsn_of(disk) == 1
        if left < 2:
            leave(made, 1)
    # The other way round, the archive of a fork is not that of its source.
    own = tmp_path / "own"
    again = tmp_path / "again"
    fork(data, live, moment, again, now=NOW, note=lambda _: None, shares=True)
    Archive(str(own)).put(RealDisk(again / JOURNAL), archived[0], now=NOW)
    assert not joint(own, again).wrong
    assert joint(own, data).is_foreign


def test_an_older_copy_of_the_journal_is_told(archive: Path, data: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(data, copy)
    for name in names(data)[2:]:
        (copy / JOURNAL / name).unlink()
    found = joint(archive, copy)
    assert "the data directory is an older copy, or lost its end" in found.wrong
    assert not found.is_foreign
    # The beginning of the segment that the archive has whole.
    newest = copy / JOURNAL / names(copy)[-1]
    newest.write_bytes(newest.read_bytes()[:4000])
    assert "older copy" in joint(archive, copy).wrong


def test_another_continuation_is_told(archive: Path, tmp_path: Path) -> None:
    changed = [*EVENTS[:200], *(event._replace(body=event.body + b".") for event in EVENTS[200:])]
    other = written(tmp_path / "other", changed)
    for left in (0, 2, 4):
        leave(other, left and 2)
        found = joint(archive, other)
        assert not found.is_foreign
        assert "is not a part of the live journal's history" in found.wrong


def test_what_was_fetched_may_be_followed_by_more(archive: Path, tmp_path: Path) -> None:
    target = RealDisk(tmp_path / "fetched" / JOURNAL)
    target.create()
    Archive(str(archive)).fetch(target, from_lsn=1, to_lsn=100)
    assert len(segment_names(target)) < len(segment_names(RealDisk(archive)))
    found = joint(archive, tmp_path / "fetched")
    assert [each.segment for each in found.entries] == segment_names(RealDisk(archive))


def test_damage_alone_makes_no_archive_foreign(archive: Path, data: Path) -> None:
    live = RealDisk(data / JOURNAL)
    for position in (20, -20):
        for name in names(data)[:-1]:
            path = data / JOURNAL / name
            content = bytearray(path.read_bytes())
            content[position] ^= 4
            path.write_bytes(content)
            assert not Archive(str(archive)).joint(live).wrong
            content[position] ^= 4
            path.write_bytes(content)
