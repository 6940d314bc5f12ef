"""The keeper of catalogs: makes what is missing in slices, and nothing that is not durable."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from daybook.history.catalogs import Catalogs
from daybook.journal.blocks.block import Block
from daybook.journal.data_directory import CATALOGS, JOURNAL
from daybook.journal.disk import RealDisk
from daybook.journal.segments.reader import read_blocks
from daybook.journal.segments.segment import segment_names
from daybook.paging.catalogs import catalog_keeper, catalog_making
from daybook.paging.catalogs.catalog_file import CatalogFile
from daybook.paging.catalogs.catalog_keeper import CatalogKeeper
from daybook.paging.tables.layout import LAYOUT
from tests.support.compiled import replaces_parts
from tests.support.histories import HISTORY_ID, some_history, write_history

PIECE = 2000


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(catalog_making, "PIECE_BYTES", PIECE)
    monkeypatch.setattr(catalog_keeper, "REST", 0)
    events = some_history(1, 300)
    cuts = range(25, len(events), 25)
    return write_history(tmp_path / "data", events, cuts=cuts, segment_bytes=1 << 14)


def blocks_of(data: Path) -> list[Block]:
    return [each for each in read_blocks(RealDisk(data / JOURNAL), LAYOUT) if each.count]


def work(keeper: CatalogKeeper) -> None:
    while keeper.work() is not None:
        pass


def covered(data: Path) -> Iterator[tuple[int, int, bool]]:
    for path in sorted((data / CATALOGS).glob("*.catalog")):
        told = CatalogFile(path).told
        yield told.first_lsn, told.last_lsn, told.whole


def keeper_of(data: Path) -> CatalogKeeper:
    return CatalogKeeper(data / CATALOGS, RealDisk(data / JOURNAL), HISTORY_ID)


def test_sealed_segments_have_one_and_the_newest_has_pieces(data: Path) -> None:
    keeper = keeper_of(data)
    blocks = blocks_of(data)
    keeper.note(blocks[-1], "*")
    work(keeper)
    names = segment_names(RealDisk(data / JOURNAL))
    found = list(covered(data))
    assert sum(whole for *_, whole in found) == len(names) - 1
    assert [first for first, *_ in found][1:] == [last + 1 for _, last, _ in found][:-1]
    # The last block is not covered: nothing behind it says that it is the one.
    assert found[-1][1] < blocks[-1].last_lsn
    catalogs = Catalogs(data, RealDisk(data / JOURNAL))
    assert catalogs.any
    assert not catalogs.uncatalogued()
    assert not catalogs.notes
    assert not keeper.trouble


def test_pieces_cover_all_but_less_than_one(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Though nothing more is written, and however few bytes the events take."""
    monkeypatch.setattr(catalog_making, "PIECE_BYTES", 1 << 30)
    monkeypatch.setattr(catalog_making, "PIECE_EVENTS", 30)
    keeper = keeper_of(data)
    blocks = blocks_of(data)
    keeper.note(blocks[-1], "*")
    work(keeper)
    pieces = [(first, last) for first, last, whole in covered(data) if not whole]
    assert len(pieces) > 1
    # A block has 25 events, or those at the end of a segment.
    assert all(30 <= last + 1 - first < 30 + 25 for first, last in pieces)
    assert blocks[-1].last_lsn - pieces[-1][1] < 30 + 25
    assert not keeper.trouble


def test_nothing_is_made_where_none_are_wanted(data: Path) -> None:
    keeper = keeper_of(data)
    keeper.note(blocks_of(data)[-1], None)
    assert keeper.work() is None
    assert not (data / CATALOGS).exists()


@replaces_parts
def test_a_sealed_segment_replaces_its_pieces(data: Path, tmp_path: Path) -> None:
    whole = data / JOURNAL
    journal = RealDisk(whole)
    names = segment_names(journal)
    blocks = blocks_of(data)
    later = tmp_path / "later"
    later.mkdir()
    for name in names[1:]:
        shutil.move(whole / name, later / name)
    keeper = keeper_of(data)
    keeper.note([each for each in blocks if each.segment == names[0]][-1], "*")
    work(keeper)
    assert list(covered(data))
    assert not any(is_whole for *_, is_whole in covered(data))
    for name in names[1:]:
        shutil.move(later / name, whole / name)
    keeper.note(blocks[-1], "*")
    work(keeper)
    firsts = [first for first, *_ in covered(data)]
    assert len(firsts) == len(set(firsts))
    assert next(covered(data))[2]


@replaces_parts
def test_damage_and_a_full_disk_are_said_and_stop_nothing(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = segment_names(RealDisk(data / JOURNAL))
    path = data / JOURNAL / names[0]
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    blocks = [each for each in blocks_after(data, names[1])]
    keeper = keeper_of(data)
    keeper.note(blocks[-1], "*")
    work(keeper)
    assert sum(whole for *_, whole in covered(data)) == len(names) - 2
    shutil.rmtree(data / CATALOGS)
    monkeypatch.setattr(catalog_keeper, "FREE_TIMES", 1 << 60)
    keeper = keeper_of(data)
    keeper.note(blocks[-1], "*")
    rest = keeper.work()
    assert rest is not None
    while not keeper.trouble and rest is not None:
        rest = keeper.work()
    assert rest is not None
    assert rest > 1
    assert "free space" in keeper.trouble
    assert not list(covered(data))


def blocks_after(data: Path, name: str) -> list[Block]:
    first = int(name.partition(".")[0])
    return [
        each for each in read_blocks(RealDisk(data / JOURNAL), LAYOUT, from_lsn=first) if each.count
    ]


def test_what_left_the_journal_has_no_catalogs(data: Path) -> None:
    keeper = keeper_of(data)
    blocks = blocks_of(data)
    keeper.note(blocks[-1], "*")
    work(keeper)
    names = segment_names(RealDisk(data / JOURNAL))
    (data / JOURNAL / names[0]).unlink()
    (data / CATALOGS / "work-0-7").write_bytes(b"half")
    again = keeper_of(data)
    again.note(blocks[-1], "*")
    work(again)
    assert next(covered(data))[0] == int(names[1].partition(".")[0])
    assert not list((data / CATALOGS).glob("work-*"))
