"""Faults that the simulation found in the journal, each reduced to a few calls."""

import errno

import pytest

from daybook.journal.errors import JournalFailed
from daybook.journal.journal import Journal
from daybook.journal.segments.verify import verify
from tests.simulation.machine.disk import FaultyDisk
from tests.suites.journal_rows import append_some, create, make_batch, noise, read_all, reopen

SEEDS = range(20)


def append_large(journal: Journal, size: int) -> None:
    """Append a block of one event that takes so many bytes on the disk."""
    lsn = journal.next_lsn
    journal.append(make_batch(lsn, [((1, 1, 1, lsn, 1), b"", noise(size))]))


@pytest.mark.parametrize("seed", SEEDS)
def test_what_a_failed_sync_dropped_is_written_again(seed: int) -> None:
    """A restart reads the block from the cache, and no sync writes what the kernel holds clean."""
    disk = FaultyDisk(seed)
    journal = create(disk)
    append_some(journal, 1)
    disk.fail_next("fdatasync", errno.EIO)
    with pytest.raises(JournalFailed):
        append_large(journal, 2_000)
    disk.survive_kill()
    again = reopen(disk)
    append_some(again, 1)
    assert reopen(disk.crash()).durable_lsn == again.durable_lsn == 9


@pytest.mark.parametrize("seed", SEEDS)
def test_name_given_by_a_process_that_died_is_synced(seed: int) -> None:
    """A segment was named, the directory not synced; then comes a power cut after the restart."""
    disk = FaultyDisk(seed)
    journal = create(disk)
    append_some(journal, 1)
    disk.fail_next("sync_directory", errno.EIO)
    with pytest.raises(JournalFailed):
        append_large(journal, 9_000)
    disk.survive_kill()
    again = reopen(disk)
    append_some(again, 1)
    assert reopen(disk.crash()).durable_lsn == again.durable_lsn == 8


@pytest.mark.parametrize("size", range(6_500, 7_000, 20))
def test_segment_without_events_can_be_replaced(size: int) -> None:
    """The next segment has the same name, so a mark in this one would break the chain.

    For one of the sizes a mark is what does not fit any more.
    """
    disk = FaultyDisk(1)
    journal = create(disk)
    append_large(journal, size)
    journal.mark(7)
    append_large(journal, 30_000)
    assert verify(disk).faults == []
    assert len(read_all(disk)) == journal.durable_lsn
    assert reopen(disk).durable_lsn == journal.durable_lsn
