"""The base: what is left of what left, whole or refused."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from journal.archive import Archive
from paging.base import DESCRIPTION, BaseDamaged, advance, describe, restore
from paging.index import Index
from paging.retiring import retire
from tests.support.leaving import Leaving
from tests.support.world import World
from tests.support.written_index import DATA_ID


@pytest.fixture
def leaving(tmp_path: Path) -> Iterator[Leaving]:
    """A directory that segments have left."""
    world = World()
    with closing(Leaving(tmp_path / "data", world, tmp_path / "archive")) as made:
        for number in range(20):
            world.send("q", b"%d" % number * 100, routing_type="anycast")
            made.world.turn()
        assert made.round(1)
        yield made


def base_of(leaving: Leaving) -> Path:
    return leaving.data / "base"


def damage(leaving: Leaving) -> None:
    (file,) = base_of(leaving).glob("*.mdb")
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


def test_it_ends_where_the_journal_begins(leaving: Leaving, tmp_path: Path) -> None:
    first = leaving.removed_lsn + 1
    assert restore(base_of(leaving), DATA_ID, tmp_path / "i", first) == leaving.removed_lsn
    with closing(Index(tmp_path / "i", DATA_ID)) as index:
        assert index.lsn == leaving.removed_lsn


def test_one_that_is_too_old_is_refused(leaving: Leaving, tmp_path: Path) -> None:
    with pytest.raises(BaseDamaged, match="and the journal begins with 99999"):
        restore(base_of(leaving), DATA_ID, tmp_path / "i", 99_999)


def test_damage_is_found(leaving: Leaving, tmp_path: Path) -> None:
    damage(leaving)
    with pytest.raises(BaseDamaged, match=r"its SHA-256 is not .*journal archive fetch"):
        restore(base_of(leaving), DATA_ID, tmp_path / "i", leaving.removed_lsn + 1)
    assert not any((tmp_path / "i").iterdir())


@pytest.mark.parametrize(
    ("content", "says"),
    [(None, "it is missing"), (b"{", "it cannot be read"), (b'{"lsn":1}', "it cannot be read")],
)
def test_a_description_that_is_none(
    leaving: Leaving, tmp_path: Path, content: bytes | None, says: str
) -> None:
    path = base_of(leaving) / DESCRIPTION
    if content is None:
        path.unlink()
    else:
        path.write_bytes(content)
    with pytest.raises(BaseDamaged, match=says):
        restore(base_of(leaving), DATA_ID, tmp_path / "i", leaving.removed_lsn + 1)


def test_that_of_another_journal_is_refused(leaving: Leaving) -> None:
    with pytest.raises(BaseDamaged, match="it is of journal"):
        describe(base_of(leaving), bytes(16))


def test_a_missing_file_is_told(leaving: Leaving, tmp_path: Path) -> None:
    for file in base_of(leaving).glob("*.mdb"):
        file.unlink()
    with pytest.raises(BaseDamaged, match="it is missing"):
        restore(base_of(leaving), DATA_ID, tmp_path / "i", leaving.removed_lsn + 1)


def test_a_damaged_base_is_made_anew_from_the_index(leaving: Leaving, tmp_path: Path) -> None:
    damage(leaving)
    expected = leaving.index()
    last = leaving.world.broker.lsn
    said = advance(base_of(leaving), leaving.disk, DATA_ID, last, leaving.data / "index")
    assert "It was made anew" in said
    assert restore(base_of(leaving), DATA_ID, tmp_path / "i", last + 1) == last
    with closing(Index(tmp_path / "i", DATA_ID)) as index:
        assert index.digest() == expected


def test_what_a_killed_process_left_is_cleared(leaving: Leaving) -> None:
    left = base_of(leaving) / "work-x"
    left.mkdir()
    (left / "copy").write_bytes(b"half")
    assert leaving.round(1)
    assert sorted(path.suffix for path in base_of(leaving).iterdir()) == [".json", ".mdb"]


def test_nothing_is_archived_while_something_is_left(leaving: Leaving) -> None:
    leaving.write()
    archived = len(Archive(str(leaving.archive)).entries())
    last = leaving.world.broker.lsn
    known = describe(base_of(leaving), DATA_ID)
    assert retire(leaving.data, last, str(leaving.archive)) == 20
    assert len(Archive(str(leaving.archive)).entries()) == archived
    assert describe(base_of(leaving), DATA_ID) == known
