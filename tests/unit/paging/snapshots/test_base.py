"""The base, the remainder of removed segments: whole, or refused."""

import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from daybook.journal.archive.archive import Archive
from daybook.journal.data_directory import BASE_DESCRIPTION
from daybook.paging.fold.index import Index
from daybook.paging.retention.retirement import retire
from daybook.paging.snapshots.base import Base, BaseDamaged, advance, describe, restore
from daybook.paging.tables.tables import BLOCKS, ID_KEY, IndexDamaged
from tests.support.stored.retention_world import RetentionWorld
from tests.support.stored.stored_rows import flip
from tests.support.stored.written_index import DATA_ID
from tests.support.world import World


@pytest.fixture
def retention(tmp_path: Path) -> Iterator[RetentionWorld]:
    """A directory that segments have left."""
    world = World()
    with closing(RetentionWorld(tmp_path / "data", world, tmp_path / "archive")) as made:
        for number in range(20):
            world.send("q", b"%d" % number * 100, routing_type="anycast")
            made.world.turn()
        assert made.round(1)
        yield made


def base_of(retention: RetentionWorld) -> Path:
    return retention.data / "base"


def damage(retention: RetentionWorld) -> None:
    (file,) = base_of(retention).glob("*.mdb")
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


def test_it_ends_where_the_journal_begins(retention: RetentionWorld, tmp_path: Path) -> None:
    first = retention.removed_lsn + 1
    assert restore(base_of(retention), DATA_ID, tmp_path / "i", first) == retention.removed_lsn
    with closing(Index(tmp_path / "i", DATA_ID)) as index:
        assert index.lsn == retention.removed_lsn


def test_one_that_is_too_old_is_refused(retention: RetentionWorld, tmp_path: Path) -> None:
    with pytest.raises(BaseDamaged, match="and the journal begins with 99999"):
        restore(base_of(retention), DATA_ID, tmp_path / "i", 99_999)


def test_damage_is_found(retention: RetentionWorld, tmp_path: Path) -> None:
    damage(retention)
    with pytest.raises(BaseDamaged, match=r"its SHA-256 is not .*journal archive fetch"):
        restore(base_of(retention), DATA_ID, tmp_path / "i", retention.removed_lsn + 1)
    assert not any((tmp_path / "i").iterdir())


@pytest.mark.parametrize(
    ("content", "says"),
    [(None, "it is missing"), (b"{", "it cannot be read"), (b'{"lsn":1}', "it cannot be read")],
)
def test_a_description_that_is_none(
    retention: RetentionWorld, tmp_path: Path, content: bytes | None, says: str
) -> None:
    path = base_of(retention) / BASE_DESCRIPTION
    if content is None:
        path.unlink()
    else:
        path.write_bytes(content)
    with pytest.raises(BaseDamaged, match=says):
        restore(base_of(retention), DATA_ID, tmp_path / "i", retention.removed_lsn + 1)


def test_that_of_another_journal_is_refused(retention: RetentionWorld) -> None:
    with pytest.raises(BaseDamaged, match="it is of journal"):
        describe(base_of(retention), bytes(16))


def test_a_missing_file_is_told(retention: RetentionWorld, tmp_path: Path) -> None:
    for file in base_of(retention).glob("*.mdb"):
        file.unlink()
    with pytest.raises(BaseDamaged, match="it is missing"):
        restore(base_of(retention), DATA_ID, tmp_path / "i", retention.removed_lsn + 1)


def test_a_damaged_base_is_made_anew_from_the_index(
    retention: RetentionWorld, tmp_path: Path
) -> None:
    damage(retention)
    expected = retention.index()
    last = retention.world.broker.lsn
    said = advance(base_of(retention), retention.disk, DATA_ID, last, retention.data / "index")
    assert "It was rebuilt" in said
    assert restore(base_of(retention), DATA_ID, tmp_path / "i", last + 1) == last
    with closing(Index(tmp_path / "i", DATA_ID)) as index:
        assert index.digest() == expected


def test_one_that_a_killed_process_made_is_synced(
    retention: RetentionWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Segments leave next, and its names may be in the page cache alone."""
    synced: list[Path] = []
    monkeypatch.setattr("daybook.paging.snapshots.base.sync_directory", synced.append)
    base = base_of(retention)
    arguments = base, retention.disk, DATA_ID, retention.removed_lsn, retention.data / "index"
    assert not advance(*arguments)
    assert synced == [base]


def test_what_a_killed_process_left_is_cleared(retention: RetentionWorld) -> None:
    left = base_of(retention) / "work-x"
    left.mkdir()
    (left / "copy").write_bytes(b"half")
    assert retention.round(1)
    assert sorted(path.suffix for path in base_of(retention).iterdir()) == [".json", ".mdb"]


def test_nothing_is_archived_while_something_is_left(retention: RetentionWorld) -> None:
    retention.write()
    archived = len(Archive(str(retention.archive)).entries())
    last = retention.world.broker.lsn
    known = describe(base_of(retention), DATA_ID)
    assert retire(retention.data, last, str(retention.archive)) == 20
    assert len(Archive(str(retention.archive)).entries()) == archived
    assert describe(base_of(retention), DATA_ID) == known


def test_any_flipped_bit_of_the_description_is_found(retention: RetentionWorld) -> None:
    """Or retention would let segments leave that the base does not have."""
    path = base_of(retention) / BASE_DESCRIPTION
    sound, known = path.read_bytes(), describe(base_of(retention), DATA_ID)
    harmless = 0
    for bit in range(8 * len(sound)):
        spoiled = bytearray(sound)
        spoiled[bit // 8] ^= 1 << bit % 8
        path.write_bytes(spoiled)
        try:
            found = describe(base_of(retention), DATA_ID)
            # White space, or a hash or a size that the file does not have.
            assert found is not None
            assert (found.lsn, found.file, found.data_id) == (known.lsn, known.file, known.data_id)  # type: ignore[union-attr]
            if found == known:
                harmless += 1
                continue
            restore(base_of(retention), DATA_ID, retention.data / "i", retention.removed_lsn + 1)
        except BaseDamaged:
            continue
        raise AssertionError(f"bit {bit} was not seen")
    assert harmless < len(sound)


def test_a_description_of_another_event_is_refused(
    retention: RetentionWorld, tmp_path: Path
) -> None:
    base = base_of(retention)
    known = describe(base, DATA_ID)
    assert known is not None
    path = base / BASE_DESCRIPTION
    text, other = path.read_text(), f"{known.lsn + 5:020d}.mdb"
    (base / known.file).rename(base / other)
    path.write_text(
        text.replace(known.file, other).replace(f'"lsn": {known.lsn}', f'"lsn": {known.lsn + 5}')
    )
    with pytest.raises(BaseDamaged, match=f"it ends with event {known.lsn}, and its description"):
        restore(base, DATA_ID, tmp_path / "i", retention.removed_lsn + 1)


def test_a_damaged_base_that_is_far_enough_is_made_anew(
    retention: RetentionWorld, tmp_path: Path
) -> None:
    """Else segments would leave whose end nothing has."""
    damage(retention)
    said = advance(
        base_of(retention), retention.disk, DATA_ID, retention.removed_lsn, retention.data / "index"
    )
    assert "It was rebuilt" in said
    assert restore(base_of(retention), DATA_ID, tmp_path / "i", retention.removed_lsn + 1)


def test_a_base_is_not_made_of_a_damaged_index(retention: RetentionWorld) -> None:
    damage(retention)
    with closing(Index(retention.data / "index", DATA_ID)) as index:
        tables = index.tables
        table = tables.db(BLOCKS)
        key = ID_KEY.pack(retention.removed_lsn + 1)
        tables.write(lambda txn: flip(txn, table, key, 50))
    before = sorted(base_of(retention).iterdir())
    with pytest.raises(IndexDamaged, match="the crc of a row of table 'blocks'"):
        advance(base_of(retention), retention.disk, DATA_ID, 10_000, retention.data / "index")
    assert sorted(base_of(retention).iterdir()) == before


def test_what_is_published_is_on_disk_before(
    retention: RetentionWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A power cut at any moment leaves a description that names a whole copy.

    So the content of the copy, its name, and the content of the description are synced before the
    name of the description changes.
    """
    synced: dict[int, bytes] = {}
    folders: list[set[str]] = []
    published = []
    sync, replace = os.fsync, Path.replace

    def note_sync(descriptor: int) -> None:
        sync(descriptor)
        found = Path(f"/proc/self/fd/{descriptor}").resolve()
        if found.is_dir():
            folders.append({path.name for path in found.iterdir()})
        else:
            synced[found.stat().st_ino] = found.read_bytes()

    def note_replace(path: Path, target: Path) -> Path:
        if target.name == BASE_DESCRIPTION:
            told = msgspec.json.decode(path.read_bytes(), type=Base)
            copy = target.with_name(told.file)
            assert synced[path.stat().st_ino] == path.read_bytes()
            assert synced[copy.stat().st_ino] == copy.read_bytes()
            assert told.file in folders[-1]
            published.append(told.lsn)
            folders.clear()
        return replace(path, target)

    monkeypatch.setattr(os, "fsync", note_sync)
    monkeypatch.setattr(Path, "replace", note_replace)
    assert retention.round(1)
    assert published == [retention.removed_lsn]
    assert any(BASE_DESCRIPTION in names for names in folders), (
        "and then the description's own name"
    )
