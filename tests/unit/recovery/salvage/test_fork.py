"""Forks: the state of a moment in a data directory of its own, and what stops one."""

import errno
import hashlib
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from daybook.engine.state.digest import digest
from daybook.history.initial_state import before_the_first, what_is_missing
from daybook.journal.archive.archive import Archive
from daybook.journal.blocks.block import Block
from daybook.journal.blocks.format import FLAG_FORK
from daybook.journal.data_directory import (
    BASE,
    CLUSTERS_DIRECTORY,
    DATA_ID,
    INDEX,
    JOURNAL,
    SNAPSHOTS,
)
from daybook.journal.disk import RealDisk
from daybook.journal.errors import ArchiveError, NoJournal
from daybook.journal.journal import Journal
from daybook.journal.segments.reader import read_blocks
from daybook.journal.segments.segment import data_id_of, first_lsn_of, open_segment, segment_names
from daybook.journal.segments.verify import verify
from daybook.paging.checks.index_check import check
from daybook.paging.content import cluster_writer
from daybook.paging.fold.batches import batches
from daybook.paging.fold.index import Index
from daybook.paging.indexer.indexers import ThreadIndexers
from daybook.paging.retention.retirement import keep
from daybook.paging.snapshots.snapshots import Snapshots
from daybook.paging.tables.layout import LAYOUT
from daybook.recovery.directory import open_directory
from daybook.recovery.moments import state_at
from daybook.recovery.salvage import fork as forking
from daybook.recovery.salvage.fork import COPIED, Fork, ForkError, fork
from daybook.recovery.salvage.salvage import salvage
from tests.support.compiled import replaces_parts
from tests.support.histories import HISTORY_ID, some_history, write_history
from tests.support.world import Event, World, fold

NOW = 1_763_640_000_000_000
EVENTS = some_history(7, 400)


def silent(_: str) -> None:
    """Ignore a note."""


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("fork") / "data"
    write_history(made, EVENTS, segment_bytes=1 << 14, cuts=range(20, len(EVENTS), 20))
    (made / "users.toml").write_text("secret")
    return made


def forked(source: Path, lsn: int, target: Path, **options: Any) -> Fork:
    disk = options.pop("disk", RealDisk(source / JOURNAL))
    return fork(source, disk, lsn, target, now=NOW, note=silent, shares=True, **options)


def content_of(folder: Path) -> dict[str, str]:
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def blocks_of(folder: Path) -> Iterator[Block]:
    return read_blocks(RealDisk(folder / JOURNAL), LAYOUT)


@pytest.mark.parametrize("lsn", [20, 21, 333, 1000, len(EVENTS)])
def test_a_fork_is_the_state_of_the_moment(source: Path, tmp_path: Path, lsn: int) -> None:
    before = content_of(source)
    made = forked(source, lsn, tmp_path / "made")
    assert content_of(source) == before
    assert made.lsn == (lsn if lsn == len(EVENTS) else lsn - lsn % 20)
    disk = RealDisk(tmp_path / "made" / JOURNAL)
    assert verify(disk).ok
    assert data_id_of(disk).hex() == made.data_id != HISTORY_ID.hex() == made.source_id
    with state_at(source, RealDisk(source / JOURNAL), made.lsn, note=silent) as state:
        wanted = digest(state)
    opened = open_directory(tmp_path / "made", indexers=ThreadIndexers())
    try:
        assert digest(opened.recovered.state) == wanted
        assert opened.recovered.indexed == made.lsn
    finally:
        opened.close()
    kept = [event for block in blocks_of(source) for event in block.events()][: made.lsn]
    copied = [event for block in blocks_of(tmp_path / "made") for event in block.events()]
    assert copied[: made.lsn] == kept
    assert len(copied) == made.lsn + 1
    assert (tmp_path / "made" / "users.toml").read_text() == "secret"


def test_only_the_first_segment_of_its_own_is_marked(source: Path, tmp_path: Path) -> None:
    made = forked(source, len(EVENTS), tmp_path / "made")
    disk = RealDisk(tmp_path / "made" / JOURNAL)
    names = segment_names(disk)
    headers = [open_segment(disk, name).header for name in names]
    assert [header.flags for header in headers] == [0] * (len(names) - 1) + [FLAG_FORK]
    assert {header.data_id for header in headers[:-1]} == {HISTORY_ID}
    assert sum(made.segments.values()) == len(names) - 1 > 3
    for name in names[:-1]:
        assert (disk.path / name).read_bytes() == (source / JOURNAL / name).read_bytes()


def test_an_id_that_changes_without_the_mark_is_damage(source: Path, tmp_path: Path) -> None:
    forked(source, len(EVENTS), tmp_path / "made")
    folder = tmp_path / "made" / JOURNAL
    disk = RealDisk(folder)
    newest = segment_names(disk)[-1]
    before = open_segment(disk, newest).header
    (folder / newest).unlink()
    (folder / "next.reserve").unlink()
    # As `JournalCopy.begin` would, but without the flag.
    journal = Journal(disk, LAYOUT, bytes(16), before.segment_bytes, lambda: 0.0, 0)
    journal.next_lsn, journal._last_hash = before.first_lsn, before.previous_hash
    journal._roll(0)
    journal.close()
    assert [fault.what for fault in verify(disk).faults] == [
        "the segment belongs to another data directory"
    ]


def test_a_fork_of_a_fork(source: Path, tmp_path: Path) -> None:
    first = forked(source, 800, tmp_path / "first")
    opened = open_directory(tmp_path / "first", indexers=ThreadIndexers())
    opened.close()
    again = forked(tmp_path / "first", first.lsn + 1, tmp_path / "again")
    assert again.source_id == first.data_id
    assert verify(RealDisk(tmp_path / "again" / JOURNAL)).ok
    earlier = forked(tmp_path / "first", 400, tmp_path / "earlier")
    with state_at(source, RealDisk(source / JOURNAL), 400, note=silent) as state:
        wanted = digest(state)
    opened = open_directory(tmp_path / "earlier", indexers=ThreadIndexers())
    assert digest(opened.recovered.state) == wanted
    opened.close()
    assert earlier.lsn == 400


def without_the_oldest(data: Path, lsn: int, journal: list[Event] = EVENTS) -> None:
    """Copy a data directory, and archive and remove the segments that end at or before an event."""
    write_history(data, journal, segment_bytes=1 << 14, cuts=range(20, len(journal), 20))
    disk = RealDisk(data / JOURNAL)
    index = Index(data / INDEX, HISTORY_ID)
    for batch in batches(disk, 0, len(journal)):
        index.advance(batch)
    index.close()
    names = segment_names(disk)
    ends = [open_segment(disk, name).footer().last_lsn for name in names[:-1]]
    last = max(end for end in ends if end <= lsn)
    keep(disk, Archive(str(data / "archive")), data / BASE, data / INDEX, HISTORY_ID, last, now=NOW)
    for name, end in zip(names, ends, strict=False):
        if end <= last:
            (disk.path / name).unlink()


def test_the_beginning_of_a_journal_whose_older_segments_left(tmp_path: Path) -> None:
    world = World()
    for _ in range(2400):
        world.connect()
    without_the_oldest(tmp_path / "data", 1500, world.journal)
    first = first_lsn_of(RealDisk(tmp_path / "data" / JOURNAL))
    assert first > 1
    made = forked(tmp_path / "data", first, tmp_path / "made")
    assert (made.lsn, made.first_lsn, sum(made.segments.values())) == (first - 1, first, 0)
    assert verify(RealDisk(tmp_path / "made" / JOURNAL)).ok
    opened = open_directory(tmp_path / "made", indexers=ThreadIndexers())
    wanted = fold(world.journal[: first - 1])
    assert digest(opened.recovered.state) == digest(wanted)
    opened.close()


def test_the_past_of_a_copy_whose_beginning_left(tmp_path: Path) -> None:
    world = World()
    for _ in range(2400):
        world.connect()
    data = tmp_path / "data"
    without_the_oldest(data, 1500, world.journal)
    forked(data, 2400, tmp_path / "forked")
    salvage(data, tmp_path / "salvaged", note=silent)
    for name, word in (("forked", "is a fork"), ("salvaged", "was salvaged")):
        disk = RealDisk(tmp_path / name / JOURNAL)
        for told in (
            before_the_first(disk.path.parent, disk),
            what_is_missing(disk.path.parent, disk),
        ):
            assert word in told
            assert "--with-archive" not in told
    assert "--with-archive" in before_the_first(data, RealDisk(data / JOURNAL))
    disk = RealDisk(tmp_path / "forked" / JOURNAL)
    with (
        pytest.raises(NoJournal, match="the first known state is that after event 2400"),
        state_at(tmp_path / "forked", disk, 2000, note=silent),
    ):
        pass


def test_messages_whose_content_left_with_all_before_them(tmp_path: Path) -> None:
    without_the_oldest(tmp_path / "data", len(EVENTS) // 2)
    first = first_lsn_of(RealDisk(tmp_path / "data" / JOURNAL))
    with pytest.raises(ForkError, match=r"begins with event \d+\. [^.]*\. Name the archive"):
        forked(tmp_path / "data", first, tmp_path / "made")


@replaces_parts
@pytest.mark.parametrize("which", ["index", "snapshots"])
def test_a_fork_and_a_salvage_name_no_clusters_that_they_lack(
    source: Path, tmp_path: Path, which: str
) -> None:
    data = tmp_path / "data"
    shutil.copytree(source, data)
    disk = RealDisk(data / JOURNAL)
    with (
        patch.multiple(cluster_writer, CLUSTER_BYTES_MIN=200, SPARSE=0),
        closing(Index(data / INDEX, HISTORY_ID)) as index,
    ):
        for batch in batches(disk, 0, 800):
            index.advance(batch)
        assert list((data / INDEX / CLUSTERS_DIRECTORY).iterdir())
        assert Snapshots(data / SNAPSHOTS, HISTORY_ID).follow(index, disk, 1 << 40, 1)
    forked(data, 1000, tmp_path / "forked")
    (data / JOURNAL / segment_names(disk)[0]).unlink()
    if which == "snapshots":
        shutil.rmtree(data / INDEX)
    assert salvage(data, tmp_path / "salvaged", note=silent).state_lsn == 800
    for made in (tmp_path / "forked", tmp_path / "salvaged"):
        check(made / INDEX, journal=RealDisk(made / JOURNAL))


def test_what_left_since_must_come_from_the_archive(tmp_path: Path) -> None:
    without_the_oldest(tmp_path / "data", len(EVENTS) // 2)
    with pytest.raises(ForkError, match="--with-archive"):
        forked(tmp_path / "data", len(EVENTS), tmp_path / "made")
    assert not (tmp_path / "made").exists()
    assert not list(tmp_path.glob(".made*"))
    with Archive(str(tmp_path / "data" / "archive")).reading(
        RealDisk(tmp_path / "data" / JOURNAL)
    ) as disk:
        made = forked(tmp_path / "data", len(EVENTS), tmp_path / "made", disk=disk)
    assert made.first_lsn == 1
    assert made.segments[COPIED] > 0
    opened = open_directory(tmp_path / "made", indexers=ThreadIndexers())
    opened.close()


def test_a_fork_needs_an_archive_of_its_own(source: Path, tmp_path: Path) -> None:
    archive = Archive(str(tmp_path / "archive"))
    disk = RealDisk(source / JOURNAL)
    archive.put(disk, segment_names(disk)[0], now=NOW)
    forked(source, len(EVENTS), tmp_path / "made")
    ours = RealDisk(tmp_path / "made" / JOURNAL)
    first, second = segment_names(ours)[:2]
    for name in (first, second):
        with pytest.raises(ArchiveError, match="its own archive"):
            archive.put(ours, name, now=NOW)
    own = Archive(str(tmp_path / "own"))
    own.put(ours, first, now=NOW)
    assert own.put(ours, first, now=NOW + 1).archived_by == data_id_of(ours).hex()
    own.put(ours, second, now=NOW)
    # Nor may the source use that of the fork.
    with pytest.raises(ArchiveError, match="its own archive"):
        own.put(disk, segment_names(disk)[2], now=NOW)
    assert own.verify().ok


def test_the_target_must_be_new(source: Path, tmp_path: Path) -> None:
    used = tmp_path / "used"
    used.mkdir()
    (used / "notes").touch()
    for target, why in (
        (used, "not empty"),
        (used / "notes", "is not a folder"),
        (tmp_path / "a" / "b", "does not exist"),
        (Path("/proc"), "not empty"),
        (source, "is within"),
        (source / "copy", "is within"),
    ):
        with pytest.raises(ForkError, match=why):
            forked(source, 100, target)
    (used / "notes").unlink()
    assert forked(source, 100, used).lsn == 100


def test_the_target_is_not_in_a_journal_on_another_disk(source: Path, tmp_path: Path) -> None:
    data, other = tmp_path / "data", tmp_path / "other"
    shutil.copytree(source, data)
    (data / JOURNAL).rename(other)
    (data / JOURNAL).symlink_to(other)
    for target in (other / "made", data / JOURNAL / "made"):
        with pytest.raises(ForkError, match="is within"):
            forked(data, 100, target)
        with pytest.raises(ForkError, match="is within"):
            salvage(data, target, note=silent)


def test_nothing_is_there_before_the_first_block(source: Path, tmp_path: Path) -> None:
    with pytest.raises(ForkError, match="no whole block"):
        forked(source, 3, tmp_path / "made")


@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError(errno.ENOSPC, "No space left")])
@pytest.mark.parametrize("where", ["_bring", "_rewrite", "_take_over", "_finish", "sync_file"])
def test_what_is_cut_short_leaves_nothing(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str, error: BaseException
) -> None:
    real: Callable[..., Any] = getattr(forking, where)

    def fail(*given: Any, **named: Any) -> Any:
        real(*given, **named)
        raise error

    monkeypatch.setattr(forking, where, fail)
    # The error of a full disk names the target.
    expected = ForkError if isinstance(error, OSError) else type(error)
    with pytest.raises(expected):
        forked(source, 1000, tmp_path / "made")
    assert list(tmp_path.iterdir()) == []


def test_files_that_cannot_be_shared_are_copied(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> None:
        raise OSError(errno.EXDEV, "Invalid cross-device link")

    monkeypatch.setattr(Path, "hardlink_to", refuse)
    monkeypatch.setattr(forking.fcntl, "ioctl", refuse)
    made = forked(source, 1000, tmp_path / "made")
    assert made.segments[COPIED] == sum(made.segments.values()) > 0
    assert verify(RealDisk(tmp_path / "made" / JOURNAL)).ok
    assert (tmp_path / "made" / DATA_ID).read_text().strip() == made.data_id


def test_a_full_disk_is_named_with_the_target(source: Path, tmp_path: Path) -> None:
    full = OSError(errno.ENOSPC, "No space left on device")
    with (
        patch.object(forking, "_rewrite", side_effect=full),
        pytest.raises(ForkError, match=f"no space is left for {tmp_path / 'made'}"),
    ):
        forked(source, 200, tmp_path / "made")
    broken = OSError(errno.EIO, "Input/output error")
    with patch.object(forking, "_rewrite", side_effect=broken), pytest.raises(OSError, match="put"):
        forked(source, 200, tmp_path / "made")
    assert not list(tmp_path.iterdir())
