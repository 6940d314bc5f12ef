"""Archived segments, fetched in parts: the same bytes, and no more of them than is read."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from daybook.journal.archive.archive import Archive
from daybook.journal.archive.ranges import PIECE_BYTES_MAX, PIECE_BYTES_MIN, RangedDisk, RangedFile
from daybook.journal.archive.store import Store, open_store
from daybook.journal.disk import RealDisk
from daybook.journal.errors import ArchiveError, Corruption
from daybook.journal.segments.segment import segment_names
from daybook.pipeline.decoding import read_plan, read_split
from daybook.pipeline.planning import Source, make_plan
from daybook.pipeline.selection import EVERYTHING, Selection
from tests.support.histories import some_history, write_history
from tests.support.stored.object_store import object_store

CONTENT = bytes(range(256)) * (5 * PIECE_BYTES_MIN // 256)


class Counted:
    """A store that remembers what was asked of it."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.ranges: list[tuple[int, int]] = []

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)

    def read_range(self, name: str, offset: int, count: int) -> bytes:
        self.ranges.append((offset, count))
        return self._store.read_range(name, offset, count)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Counted:
    """One object, `some`."""
    folder = tmp_path_factory.mktemp("store")
    (folder / "some").write_bytes(CONTENT)
    return Counted(open_store(str(folder), {}))


reads = st.lists(
    st.tuples(st.integers(0, len(CONTENT) + 10), st.integers(0, 2 * PIECE_BYTES_MIN)), max_size=12
)


@given(reads)
def test_it_reads_like_a_file(store: Counted, reads: list[tuple[int, int]]) -> None:
    file = RangedFile(store, "some", len(CONTENT))  # type: ignore[arg-type]
    for offset, count in reads:
        assert file.pread(count, offset)[:count] == CONTENT[offset : offset + count]
        assert len(file.pread(count, offset)) <= count


def test_who_reads_on_gets_more_at_a_time(store: Counted) -> None:
    store.ranges.clear()
    file = RangedFile(store, "some", len(CONTENT))  # type: ignore[arg-type]
    for offset in range(0, len(CONTENT), 1000):
        assert file.pread(1000, offset) == CONTENT[offset : offset + 1000]
    assert [count for _, count in store.ranges[:2]] == [PIECE_BYTES_MIN, 2 * PIECE_BYTES_MIN]
    assert len(store.ranges) <= 4
    # A jump is not reading on, and nothing beyond the end is asked for.
    file.pread(10, 5)
    assert store.ranges[-1] == (5, PIECE_BYTES_MIN)
    file.pread(10, len(CONTENT) - 3)
    assert store.ranges[-1] == (len(CONTENT) - 3, 3)
    asked = len(store.ranges)
    assert file.pread(10, len(CONTENT)) == b""
    assert len(store.ranges) == asked
    assert PIECE_BYTES_MIN <= max(count for _, count in store.ranges) <= PIECE_BYTES_MAX
    assert (file.size(), file.links()) == (len(CONTENT), 1)
    file.close()
    assert file.pread(4, 0) == CONTENT[:4]


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory with some sealed segments."""
    folder = tmp_path_factory.mktemp("history")
    return write_history(folder, some_history(4, 400), segment_bytes=8192)


def put_sealed(history: Path, archive: Archive) -> list[str]:
    disk = RealDisk(history / "journal")
    names = segment_names(disk)[:-1]
    for name in names:
        archive.put(disk, name, now=0)
    return names


def table(source: Source, selection: Selection = EVERYTHING) -> pa.Table:
    columns = ("lsn", "time", "kind", "queue", "headers", "detail", "body")
    return pa.Table.from_batches(read_plan(make_plan(source, selection), columns))


def test_only_what_is_archived_is_there_and_nothing_is_written(
    history: Path, tmp_path: Path
) -> None:
    archive = Archive(str(tmp_path / "archive"))
    names = put_sealed(history, archive)
    disk = archive.ranges()
    assert isinstance(disk, RangedDisk)
    assert disk.names() == names
    assert disk.holds(names[0])
    assert not disk.holds("x")
    with pytest.raises(FileNotFoundError):
        disk.open("x")
    file = disk.open(names[0])
    for write in (
        lambda: disk.open_for_writing("x"), lambda: disk.rename("x", "y"),
        lambda: disk.remove(names[0]), lambda: file.pwrite(b"x", 0), lambda: file.truncate(0),
        lambda: file.allocate(9),
    ):  # fmt: skip
        with pytest.raises(OSError, match="Read-only"):
            write()
    file.fdatasync()
    disk.sync_directory()
    file.close()


def test_an_object_cut_short_or_gone_is_told(history: Path, tmp_path: Path) -> None:
    archived = tmp_path / "archive"
    names = put_sealed(history, Archive(str(archived)))
    source = Source(archive=str(archived))
    plan = make_plan(source, EVERYTHING)
    path = archived / names[1]
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(Corruption, match="crc") as caught:
        list(read_plan(plan, ["lsn", "body"]))
    assert caught.value.segment == names[1]
    path.unlink()
    with pytest.raises(ArchiveError, match="the segment is missing, though"):
        list(read_plan(plan, ["lsn", "body"]))
    with pytest.raises(ArchiveError, match=names[1]):
        make_plan(source, EVERYTHING)


def test_history_in_s3_has_the_same_rows(
    history: Path, s3: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "k")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s")
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3)
    url = "s3://history/some"
    assert len(put_sealed(history, Archive(url))) > 2
    live = table(Source(str(history)))
    archived = table(Source(archive=url))
    assert archived.num_rows > 0
    assert archived == live.slice(0, archived.num_rows)
    assert table(Source(str(history), url)) == live
    source = Source(archive=url)
    plan = make_plan(source, EVERYTHING)
    for split in plan.splits:
        # As in another process, which lists nothing.
        disk = source.disk_of(split)
        assert disk.names() == [split.segment]
        batches = read_split(disk, split, EVERYTHING, ["lsn"], plan.names)
        assert sum(batch.num_rows for batch in batches) == split.rows
    some = Selection(("Acknowledged",), ("orders", "archive"), to_lsn=archived.num_rows)
    assert table(Source(archive=url), some) == table(Source(str(history)), some)


@pytest.fixture
def s3() -> Iterator[str]:
    """The address of a local server that speaks S3, with the bucket `history`."""
    with object_store("history") as url:
        yield url
