"""Creating, rolling over, reserving room; the rest is in the suite and in the crash tests."""

import errno

import pytest

from daybook.journal.blocks.format import RESERVE_NAME, SegmentHeader, unpack_segment_header
from daybook.journal.disk import MemoryDisk
from daybook.journal.errors import DiskFull, JournalFailed
from daybook.journal.journal import SEGMENT_BYTES_MIN, Journal
from daybook.journal.segments.segment import segment_names
from tests.simulation.machine.disk import FaultyDisk
from tests.suites.journal_rows import (
    DATA_ID,
    LAYOUT,
    SEGMENT_BYTES,
    append_some,
    create,
    file_bytes,
    make_batch,
    noise,
    read_all,
    reopen,
    some_contents,
)


def test_a_segment_explains_itself() -> None:
    disk = MemoryDisk()
    journal = create(disk)
    append_some(journal, 30, count=20)
    headers = [unpack_segment_header(file_bytes(disk, name)[:4096]) for name in segment_names(disk)]
    assert headers[0] == SegmentHeader(1, DATA_ID, bytes(16), SEGMENT_BYTES, 4096, LAYOUT.encode())
    assert all(header.data_id == DATA_ID for header in headers)
    assert all(header.previous_hash != bytes(16) for header in headers[1:])
    assert journal.segment == segment_names(disk)[-1]


def test_segments_may_not_be_tiny() -> None:
    with pytest.raises(ValueError, match=f"it must be at least {SEGMENT_BYTES_MIN}"):
        create(MemoryDisk(), segment_bytes=SEGMENT_BYTES_MIN - 1)


def test_a_batch_must_go_on_where_the_last_ended() -> None:
    journal = create(MemoryDisk())
    with pytest.raises(AssertionError, match="a batch must begin with the next LSN"):
        journal.append(make_batch(2, some_contents(2, 1)))


def test_a_closed_journal_takes_nothing() -> None:
    journal = create(MemoryDisk())
    journal.close()
    journal.close()
    with pytest.raises(AssertionError, match="closed"):
        journal.mark(1)


def test_no_room_for_a_journal_at_all() -> None:
    disk = FaultyDisk(1, capacity_bytes=100)
    with pytest.raises(DiskFull, match="8192 bytes"):
        create(disk)
    disk.capacity_bytes = None
    assert append_some(create(disk), 1) == read_all(disk)


def test_creating_fails_clearly() -> None:
    disk = FaultyDisk(1)
    disk.fail_next("fdatasync")
    with pytest.raises(JournalFailed, match="writing the journal failed in segment one"):
        create(disk)


def test_opening_fails_clearly() -> None:
    disk = FaultyDisk(1)
    append_some(create(disk), 1)
    for call in ("pread", "fdatasync"):
        disk.fail_next(call)
        with pytest.raises(JournalFailed, match="cannot be opened"):
            reopen(disk)
    assert reopen(disk).next_lsn == 5


def test_room_is_reserved_ahead() -> None:
    disk = FaultyDisk(1, capacity_bytes=3 * SEGMENT_BYTES)
    journal = create(disk)
    assert disk.names() == [segment_names(disk)[0], RESERVE_NAME]
    lsn = 1
    while journal.disk_full is None:
        journal.append(make_batch(lsn, [((1, 1, 1, 1, 1), b"", noise(1500))]))
        lsn += 1
    # The reserve is gone into the newest segment, which still takes something.
    journal.append(make_batch(lsn, some_contents(lsn, 1)))
    written = journal.durable_lsn
    assert not journal.reserve()
    too_large = make_batch(journal.next_lsn, [((1, 1, 1, 1, 1), b"", noise(9000))])
    with pytest.raises(DiskFull):
        journal.append(too_large)
    assert journal.durable_lsn == written
    disk.capacity_bytes = None
    assert journal.reserve()
    append_some(journal, 1)
    assert len(read_all(disk)) == journal.durable_lsn


def test_a_full_disk_does_not_keep_a_journal_from_opening() -> None:
    disk = FaultyDisk(1)
    append_some(create(disk), 1)
    disk.remove(RESERVE_NAME)
    disk.capacity_bytes = 0
    journal = reopen(disk)
    assert journal.disk_full is not None
    append_some(journal, 1)
    assert journal.durable_lsn == 8


def test_an_error_while_reserving_is_fatal() -> None:
    disk = FaultyDisk(1)
    journal = create(disk, segment_bytes=SEGMENT_BYTES)
    disk.remove(RESERVE_NAME)
    disk.fail_next("allocate", errno.EIO)
    with pytest.raises(JournalFailed):
        journal.reserve()
    with pytest.raises(JournalFailed, match="already failed"):
        journal.reserve()


def test_a_quota_is_a_full_disk() -> None:
    disk = FaultyDisk(1)
    journal = create(disk)
    disk.remove(RESERVE_NAME)
    disk.fail_next("allocate", errno.EDQUOT)
    assert not journal.reserve()
    assert "Disk quota exceeded" in str(journal.disk_full)
    assert journal.reserve()
    assert journal.disk_full is None


def test_the_sync_is_measured_by_the_clock_given() -> None:
    ticks = iter([1.0, 3.5])
    journal = Journal.create(MemoryDisk(), LAYOUT, data_id=DATA_ID, clock=lambda: next(ticks))
    assert journal.sync_seconds == 0.0
    append_some(journal, 1)
    assert journal.sync_seconds == 2.5
