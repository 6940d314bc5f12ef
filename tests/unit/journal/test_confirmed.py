"""Readers of the journal of a node stop behind the last confirmed event, and resume there."""

from pathlib import Path

import pytest

from daybook.journal.archive.disk import JoinedDisk
from daybook.journal.blocks.format import segment_first_lsn
from daybook.journal.confirmed import (
    UNBOUNDED,
    ConfirmedDisk,
    ConfirmedMark,
    forget_mark,
    is_bounded,
)
from daybook.journal.cutting import decide_cut, finish_cut
from daybook.journal.data_directory import CUT, JOURNAL, NODE
from daybook.journal.disk import MemoryDisk, RealDisk
from daybook.journal.errors import JournalError
from daybook.journal.journal import Journal
from daybook.journal.segments.reader import read_blocks
from daybook.journal.segments.segment import segment_names
from daybook.recovery.readonly import journal_disk
from tests.suites.journal_rows import DATA_ID, LAYOUT, SEGMENT_BYTES, make_batch, some_contents


def written(tmp_path: Path, count: int) -> tuple[Path, Journal]:
    """Return a data directory, and its journal with so many blocks of an event."""
    for folder in (JOURNAL, NODE, CUT):
        RealDisk(tmp_path / folder).create()
    disk = RealDisk(tmp_path / JOURNAL)
    journal = Journal.create(disk, LAYOUT, data_id=DATA_ID, segment_bytes=SEGMENT_BYTES)
    for lsn in range(1, count + 1):
        journal.append(make_batch(lsn, some_contents(lsn, 1)))
    return tmp_path, journal


def lsns(disk: RealDisk | JoinedDisk) -> list[int]:
    return [block.first_lsn for block in read_blocks(disk, LAYOUT)]


def test_readers_stop_behind_what_is_confirmed(tmp_path: Path) -> None:
    data, journal = written(tmp_path, 200)
    assert len(journal_disk(data).names()) > 3
    assert lsns(journal_disk(data))[-1] == 200
    mark = ConfirmedMark(data)
    disk = journal_disk(data)
    assert isinstance(disk, ConfirmedDisk)
    assert lsns(disk) == []
    for confirmed in (1, 40, 199):
        mark.raise_to(confirmed)
        assert lsns(disk) == list(range(1, confirmed + 1))
        newest = segment_names(disk)[-1]
        assert segment_first_lsn(newest) in range(1, confirmed + 1)
    mark.raise_to(7)
    assert mark.lsn == 199
    assert list(read_blocks(disk, LAYOUT, from_lsn=200)) == []
    # Also of an archive that the journal continues.
    assert lsns(JoinedDisk(_NoArchive(), disk, archive_first=False))[-1] == 199
    assert ConfirmedMark(data).lsn == 199
    journal.close()


def test_a_broker_alone_has_no_bound(tmp_path: Path) -> None:
    data, journal = written(tmp_path, 3)
    ConfirmedMark(data).raise_to(2)
    disk = journal_disk(data)
    assert lsns(disk) == [1, 2]
    forget_mark(data)
    assert not is_bounded(data)
    assert lsns(disk) == [1, 2, 3]
    assert isinstance(disk, ConfirmedDisk)
    assert disk.confirmed_lsn == UNBOUNDED
    journal.close()


def test_who_follows_does_not_see_what_is_cut(tmp_path: Path) -> None:
    data, journal = written(tmp_path, 10)
    fork = journal.place
    for lsn in (11, 12):
        journal.append(make_batch(lsn, some_contents(lsn, 1)))
    mark = ConfirmedMark(data)
    mark.raise_to(10)
    waits = 0

    def follow() -> bool:
        nonlocal waits
        waits += 1
        if waits == 1:
            journal.close()
            disk = RealDisk(data / JOURNAL)
            decide_cut(disk, fork)
            finish_cut(disk, RealDisk(data / CUT))
            again, _ = Journal.open(disk, LAYOUT, segment_bytes=SEGMENT_BYTES)
            # One block with both, as another leader wrote it.
            again.append(make_batch(11, some_contents(500, 2)))
            again.close()
            mark.raise_to(12)
        return waits < 3

    found = list(read_blocks(journal_disk(data), LAYOUT, follow=follow))
    assert [block.first_lsn for block in found] == list(range(1, 12))
    assert found[-1].last_lsn == 12


class _NoArchive(MemoryDisk):
    def holds(self, name: str) -> bool:
        return False


def test_a_mark_that_was_cut_short_is_refused(tmp_path: Path) -> None:
    data, _ = written(tmp_path, 3)
    ConfirmedMark(data).raise_to(2)
    (data / NODE / "confirmed").write_bytes(b"\2")
    with pytest.raises(JournalError, match="has 1 bytes and needs 16: start the node"):
        journal_disk(data).names()


@pytest.mark.parametrize("place", range(16))
def test_a_flipped_bit_never_shows_what_is_not_confirmed(tmp_path: Path, place: int) -> None:
    data, journal = written(tmp_path, 5)
    ConfirmedMark(data).raise_to(2)
    path = data / NODE / "confirmed"
    content = bytearray(path.read_bytes())
    content[place] ^= 1 << place % 8
    path.write_bytes(content)
    with pytest.raises(JournalError, match="is damaged: start the node"):
        journal_disk(data).names()
    mark = ConfirmedMark(data)
    assert mark.lsn == 0, "what is confirmed is said again"
    mark.raise_to(3)
    assert lsns(journal_disk(data)) == [1, 2, 3]
    journal.close()


def test_a_reader_waits_for_a_node_between_the_two_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, journal = written(tmp_path, 5)
    mark = ConfirmedMark(data)
    path = data / NODE / "confirmed"
    content = bytearray(path.read_bytes())
    content[:8] = (4).to_bytes(8, "little")
    path.write_bytes(content)
    monkeypatch.setattr("daybook.journal.confirmed.time.sleep", lambda seconds: mark.raise_to(5))
    assert lsns(journal_disk(data)) == [1, 2, 3, 4, 5]
    journal.close()
