"""An archive as a disk is for reading, and one segment of it is kept at a time."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from daybook.journal.archive.archive import Archive
from daybook.journal.archive.disk import ArchiveDisk, JoinedDisk
from daybook.journal.archive.store import LocalStore, Store
from daybook.journal.blocks.format import manifest_name
from daybook.journal.disk import Disk, MemoryDisk
from daybook.journal.errors import JournalError
from daybook.journal.segments.segment import segment_names
from tests.suites.archive_suite import NOW, put_all, some_journal
from tests.suites.journal_rows import file_bytes


class CountingStore:
    """A store in memory that counts how often each object is read."""

    def __init__(self) -> None:
        self._store = LocalStore(MemoryDisk(), "/a")
        self.url = self._store.url
        self.url_of = self._store.url_of
        self.sizes = self._store.sizes
        self.read_small = self._store.read_small
        self.write = self._store.write
        self.reads: list[str] = []

    def read(self, name: str) -> Iterator[bytes]:
        self.reads.append(name)
        return self._store.read(name)


@pytest.fixture
def live() -> MemoryDisk:
    return some_journal()


@pytest.fixture
def store(live: MemoryDisk) -> CountingStore:
    store = CountingStore()
    put_all(Archive(store), live)
    store.reads.clear()
    return store


@pytest.fixture
def archived(store: Store) -> Iterator[ArchiveDisk]:
    archived = ArchiveDisk(store, Archive(store).entries())
    yield archived
    archived.close()


def test_a_segment_is_fetched_once_as_long_as_no_other_is_asked_for(
    archived: ArchiveDisk, store: CountingStore, live: MemoryDisk
) -> None:
    one, two = segment_names(live)[:2]
    store.reads.clear()
    first = archived.open(one)
    assert file_bytes(archived, one) == file_bytes(live, one)
    assert file_bytes(archived, two) == file_bytes(live, two)
    # The file that was opened before is still there.
    assert first.pread(first.size(), 0) == file_bytes(live, one)
    assert first.links() == 1
    first.close()
    assert store.reads == [one, two]


def test_names_are_those_of_segments_and_manifests(archived: ArchiveDisk, live: MemoryDisk) -> None:
    sealed = segment_names(live)[:-1]
    assert archived.names() == sorted([*sealed, *map(manifest_name, sealed)])
    joined = JoinedDisk(archived, live, archive_first=False)
    assert segment_names(joined) == segment_names(live)
    with pytest.raises(FileNotFoundError):
        archived.open(segment_names(live)[-1])
    with pytest.raises(FileNotFoundError):
        joined.open("other")


def test_who_comes_first_is_asked_first(
    archived: ArchiveDisk, store: CountingStore, live: MemoryDisk
) -> None:
    name = segment_names(live)[0]
    store.reads.clear()
    JoinedDisk(archived, live, archive_first=False).open(name).close()
    assert store.reads == []
    JoinedDisk(archived, live, archive_first=True).open(name).close()
    assert store.reads == [name]


def test_history_cannot_be_written(archived: ArchiveDisk, live: MemoryDisk) -> None:
    disks: list[Disk] = [archived, JoinedDisk(archived, live, archive_first=True)]
    for disk in disks:
        with pytest.raises(OSError, match="Read-only"):
            disk.open_for_writing("a")
        with pytest.raises(OSError, match="Read-only"):
            disk.rename("a", "b")
        with pytest.raises(OSError, match="Read-only"):
            disk.remove("a")
        disk.sync_directory()


def test_where_nothing_can_be_kept_it_is_said(
    archived: ArchiveDisk, live: MemoryDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    with pytest.raises(JournalError, match=r"cannot be stored for reading.*TMPDIR"):
        archived.open(segment_names(live)[0])


def test_it_is_put_with_the_time_given(live: MemoryDisk, store: Store) -> None:
    assert {entry.archived_at for entry in Archive(store).entries()} == {NOW}
