"""Segments follow each other: exactly the events lost between two of them are named."""

import pytest

from daybook.journal.blocks.format import pack_segment_header, segment_first_lsn
from daybook.journal.disk import MemoryDisk
from daybook.journal.errors import Corruption
from daybook.journal.segments.segment import open_segment, segment_names
from daybook.journal.segments.succession import check_succession
from tests.suites.journal_rows import append_some, create


def made(count: int = 20) -> MemoryDisk:
    """A journal of several segments."""
    disk = MemoryDisk()
    journal = create(disk)
    append_some(journal, 60, count=count)
    journal.close()
    return disk


@pytest.fixture
def disk() -> MemoryDisk:
    return made()


def first(name: str) -> int:
    return segment_first_lsn(name) or 0


def test_what_is_whole_is_whole(disk: MemoryDisk) -> None:
    names = segment_names(disk)
    assert len(names) > 4
    check_succession(disk, names)
    check_succession(disk, names[2:])
    check_succession(disk, [])


def test_any_lost_segment_in_between_is_named(disk: MemoryDisk) -> None:
    names = segment_names(disk)
    for place in range(1, len(names) - 1):
        left = [*names[:place], *names[place + 1 :]]
        lost = f"events {first(names[place])} to {first(names[place + 1]) - 1} are missing"
        with pytest.raises(Corruption, match=lost) as refused:
            check_succession(disk, left)
        assert refused.value.segment == names[place + 1]
        assert refused.value.lsn == first(names[place])


def test_several_lost_in_a_row_are_one_gap(disk: MemoryDisk) -> None:
    names = segment_names(disk)
    lost = f"events {first(names[1])} to {first(names[4]) - 1} are missing"
    with pytest.raises(Corruption, match=lost):
        check_succession(disk, [names[0], *names[4:]])


def test_a_segment_of_another_history_does_not_follow(disk: MemoryDisk) -> None:
    """It has the right name, and checks out; its first block was not written behind this one."""
    names = segment_names(disk)
    header = open_segment(disk, names[2]).header
    packed = pack_segment_header(
        first_lsn=header.first_lsn,
        data_id=header.data_id,
        previous_hash=b"another history!",
        segment_bytes=header.segment_bytes,
        layout=header.layout,
        level=header.level,
    )
    disk.files[names[2]][: len(packed)] = packed
    with pytest.raises(Corruption, match="it does not follow segment"):
        check_succession(disk, names)


@pytest.mark.parametrize("at", [0, 5, 40, -1, -10])
def test_damage_is_left_to_who_reads_it(disk: MemoryDisk, at: int) -> None:
    names = segment_names(disk)
    disk.files[names[2]][at] ^= 1
    check_succession(disk, names)


def test_an_empty_file_is_damage_too(disk: MemoryDisk) -> None:
    names = segment_names(disk)
    del disk.files[names[2]][:]
    check_succession(disk, names)
