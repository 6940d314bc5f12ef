"""The feature level of segments: it rises with the block that needs it, and never falls."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daybook.journal.blocks.batch import Batch
from daybook.journal.blocks.written import Written, pack_written, unpack_written
from daybook.journal.continuing import continue_journal
from daybook.journal.disk import Disk, MemoryDisk, RealDisk
from daybook.journal.segments.segment import open_segment, segment_names
from daybook.journal.segments.verify import verify
from daybook.journal.writing.commit_writer import CommitWriter
from daybook.levels import LEVEL
from tests.simulation.machine.disk import FaultyDisk
from tests.suites.journal_rows import create, make_batch, read_all, reopen, some_contents
from tests.support.process import wait_for

pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded")


def batch_of_level(first_lsn: int, level: int) -> Batch:
    batch = make_batch(first_lsn, some_contents(first_lsn, 2))
    batch.level = level
    return batch


def levels(disk: Disk) -> list[tuple[int, int]]:
    """First LSN and level of each segment."""
    found = []
    for name in segment_names(disk):
        segment = open_segment(disk, name)
        found.append((segment.header.first_lsn, segment.header.level))
        segment.close()
    return found


def test_a_journal_begins_at_level_1_and_stays_there() -> None:
    disk = MemoryDisk()
    journal = create(disk)
    for _ in range(3):
        journal.append(batch_of_level(journal.next_lsn, 1))
    assert levels(disk) == [(1, 1)]


def test_a_block_of_a_higher_level_begins_a_segment() -> None:
    disk = MemoryDisk()
    journal = create(disk)
    journal.append(batch_of_level(1, 1))
    journal.append(batch_of_level(3, 2))
    journal.append(batch_of_level(5, 1))
    assert levels(disk) == [(1, 1), (3, 2)]
    assert not verify(disk).faults
    assert len(read_all(disk)) == 6


def test_a_segment_without_events_is_replaced() -> None:
    disk = MemoryDisk()
    journal = create(disk)
    journal.append(batch_of_level(1, 2))
    assert levels(disk) == [(1, 2)]
    assert not verify(disk).faults
    journal.close()
    assert reopen(disk).level == 2


def test_the_level_outlives_a_start_and_a_rollover() -> None:
    disk = MemoryDisk()
    journal = create(disk)
    journal.append(batch_of_level(1, 2))
    journal.close()
    journal = reopen(disk)
    while len(segment_names(disk)) < 2:
        journal.append(batch_of_level(journal.next_lsn, 1))
    assert {level for _, level in levels(disk)} == {2}


def test_a_journal_that_is_continued_keeps_its_level() -> None:
    disk = MemoryDisk()
    journal = create(disk)
    journal.append(batch_of_level(1, 2))
    while len(segment_names(disk)) < 2:
        journal.append(batch_of_level(journal.next_lsn, 1))
    journal.close()
    disk.remove(segment_names(disk)[-1])
    last_lsn = continue_journal(disk)
    assert levels(disk) == [(1, 2), (last_lsn + 1, 2)]


def test_the_reserved_segment_takes_the_block_when_the_disk_is_full() -> None:
    disk = FaultyDisk(1, capacity_bytes=2 * 8192 + 100)
    journal = create(disk)
    journal.append(batch_of_level(1, 1))
    journal.append(batch_of_level(3, 2))
    assert journal.disk_full is not None
    assert levels(disk) == [(1, 1), (3, 2)]
    assert not verify(disk).faults


@given(wanted=st.lists(st.integers(1, LEVEL), min_size=1, max_size=12))
def test_no_block_stands_in_a_segment_of_a_lower_level(wanted: list[int]) -> None:
    disk = MemoryDisk()
    journal = create(disk)
    needed: dict[int, int] = {}
    for level in wanted:
        needed[journal.next_lsn] = level
        journal.append(batch_of_level(journal.next_lsn, level))
    found = levels(disk)
    assert [level for _, level in found] == sorted({level for _, level in found})
    for lsn, level in needed.items():
        assert max(each for first, each in found if first <= lsn) >= level
    assert not verify(disk).faults
    assert found[-1][1] == max(wanted)


@pytest.mark.parametrize("first", [1, 2])
def test_both_processes_that_write_follow_the_level(tmp_path: Path, first: int) -> None:
    """Small blocks are written here, the others and all new segments by the writer's process."""
    disk = RealDisk(tmp_path)
    writer = CommitWriter(create(disk), retry_seconds=0.001)
    try:
        for number, level in enumerate((first, 1, 2, 1, 2)):
            writer.submit(batch_of_level(1 + 2 * number, level))
            wait_for(lambda: _settled(writer), "the block")
    finally:
        writer.close()
    expected = [(1, 2)] if first == 2 else [(1, 1), (5, 2)]
    assert levels(disk) == expected
    assert len(read_all(disk)) == 10


def _settled(writer: CommitWriter) -> bool:
    writer.receive()
    writer.look()
    return writer.idle


def test_what_was_written_says_the_level() -> None:
    written = Written(7, 8192, 4096, 9, 2, True, bytes(range(16)), b"")
    assert unpack_written(pack_written(written)) == written
