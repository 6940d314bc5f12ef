"""A power cut in any call of the disk loses no event that was reported durable."""

import errno
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daybook.journal.blocks.batch import BatchLike
from daybook.journal.errors import JournalFailed, NoJournal
from daybook.journal.journal import Journal
from daybook.journal.segments.segment import segment_names
from daybook.journal.segments.verify import verify
from tests.simulation.machine.disk import Faults, FaultyDisk, PowerCut
from tests.suites.journal_rows import (
    LAYOUT,
    SEGMENT_BYTES,
    Event,
    create,
    make_batch,
    noise,
    read_all,
    reopen,
    some_contents,
)

BLOCKS = 12

Ways = tuple[bool, ...]
FAR: Ways = (False,)
WAYS = pytest.mark.parametrize(
    "near",
    [FAR, (True,), (True, False), (True, True, False)],
    ids=["far", "near", "turns", "mixed"],
)
"""Which blocks are written near by."""


def contents_of(first_lsn: int) -> list[tuple[tuple[int, int, int, int, int], bytes, bytes]]:
    """Three events; every few blocks one with a body over several sectors."""
    contents = some_contents(first_lsn, 3)
    if first_lsn % 4 == 0:
        contents[1] = (contents[1][0], b"big", noise(1700 + first_lsn))
    return contents


def expected(last_lsn: int) -> list[Event]:
    """The events up to an LSN that ends a block."""
    events: list[Event] = []
    for first_lsn in range(1, last_lsn + 1, 3):
        events += [(first_lsn + i, *each) for i, each in enumerate(contents_of(first_lsn))]
    return events


class Copies:
    """A journal of which two copies write in turn, as in two processes (ADR 41)."""

    def __init__(self, journal: Journal) -> None:
        self.journal = journal
        self._near = journal.twin()

    def append(self, batch: BatchLike, *, near: bool) -> int:
        """Append a block by one of the copies, near by if there is room; return the durable LSN."""
        if near and self._put(batch):
            return self._near.durable_lsn
        self._share()
        self.journal.append(batch)
        self._near.follow(self.journal.take_written())
        return self.journal.durable_lsn

    def _put(self, batch: BatchLike) -> bool:
        block = self._near.prepare(batch)
        if block is None:
            return False
        try:
            self._near.put(block)
        except OSError as error:
            raise self._near.fail(error) from error
        self._near.advance(block, self._near.entry_of(block))
        return True

    def mark(self, time: int) -> None:
        """Append a mark."""
        self._share()
        self.journal.mark(time)
        self._near.follow(self.journal.take_written())

    def _share(self) -> None:
        if self._near.unshared_bytes:
            self.journal.follow(self._near.take_written())

    @property
    def next_lsn(self) -> int:
        """The LSN of the next event."""
        return max(self.journal.next_lsn, self._near.next_lsn)

    def close(self) -> None:
        """Close both."""
        self._near.close()
        self.journal.close()


def work(disk: FaultyDisk, durable: list[int], near: Ways = FAR) -> None:
    """Append blocks and marks; `durable` collects what was reported."""
    copies = Copies(create(disk) if not segment_names(disk) else reopen(disk))
    durable.append(copies.journal.durable_lsn)
    for block in range(BLOCKS):
        first_lsn = copies.next_lsn
        batch = make_batch(first_lsn, contents_of(first_lsn))
        durable.append(copies.append(batch, near=near[block % len(near)]))
        if block % 5 == 4:
            copies.mark(block)
    copies.close()


def calls_of_work(near: Ways) -> int:
    """How many changing calls `work` makes when nothing goes wrong."""
    disk = FaultyDisk(0)
    work(disk, [], near)
    assert len(segment_names(disk)) >= 3
    return disk.calls


def check_after(disk: FaultyDisk, durable_lsn: int) -> int:
    """Open after a power cut; everything reported durable must be there, nothing invented."""
    try:
        journal, repair = Journal.open(disk, LAYOUT, segment_bytes=SEGMENT_BYTES)
    except NoJournal:
        assert durable_lsn == 0
        return 0
    last_lsn = journal.durable_lsn
    assert durable_lsn <= last_lsn <= durable_lsn + 3
    assert read_all(disk) == expected(last_lsn)
    assert repair.cut_bytes >= 0
    journal.close()
    report = verify(disk)
    assert report.ok, report.faults
    assert report.tail is None
    return last_lsn


@WAYS
@pytest.mark.parametrize("seed", range(3))
def test_the_power_goes_in_any_call(seed: int, near: Ways) -> None:
    for call in range(1, calls_of_work(near) + 1):
        disk = FaultyDisk(seed * 1000 + call)
        disk.crash_after(call)
        durable = [0]
        with pytest.raises(PowerCut):
            work(disk, durable, near)
        disk = disk.crash()
        last_lsn = check_after(disk, durable[-1])
        # The journal goes on, and once more after a cut at rest.
        work(disk, durable, near)
        check_after(disk.crash(), last_lsn + 3 * BLOCKS)


CALLS_OF_A_START = 6


@pytest.mark.parametrize("seed", range(4))
def test_it_is_killed_in_any_call_and_the_power_goes_in_the_start_after(seed: int) -> None:
    """Writes of the killed process are in the cache: the start finds them, not yet durable."""
    for call in range(1, calls_of_work(FAR) + 1):
        for later in range(1, CALLS_OF_A_START + 1):
            disk = FaultyDisk(seed * 1000 + call)
            disk.crash_after(call)
            durable = [0]
            with pytest.raises(PowerCut):
                work(disk, durable)
            disk.survive_kill()
            disk.crash_after(later)
            with suppress(PowerCut, NoJournal):
                reopen(disk)
            check_after(disk.crash(), durable[-1])


@WAYS
@given(seed=st.integers(0, 2**32), cuts=st.lists(st.integers(1, 60), min_size=1, max_size=6))
def test_the_power_goes_again_and_again(seed: int, cuts: list[int], near: Ways) -> None:
    disk = FaultyDisk(seed, faults=Faults(short_write=0.3))
    last_lsn = 0
    for cut in cuts:
        disk.crash_after(cut)
        durable = [last_lsn]
        with suppress(PowerCut):
            work(disk, durable, near)
        disk = disk.crash()
        last_lsn = check_after(disk, durable[-1])


@WAYS
@given(seed=st.integers(0, 2**32))
def test_errors_of_the_disk_lose_nothing_that_was_durable(seed: int, near: Ways) -> None:
    disk = FaultyDisk(seed, faults=Faults(short_write=0.2, write_error=0.02, sync_error=0.02))
    durable = [0]
    with suppress(JournalFailed):
        work(disk, durable, near)
    disk.faults = Faults()
    check_after(disk.crash(), durable[-1])


@given(seed=st.integers(0, 2**32), call=st.sampled_from(["pwrite", "fdatasync"]))
def test_after_an_error_nothing_is_written_any_more(seed: int, call: str) -> None:
    disk = FaultyDisk(seed)
    journal = create(disk)
    journal.append(make_batch(1, contents_of(1)))
    disk.fail_next(call)
    with pytest.raises(JournalFailed, match="The content of the disk is unknown"):
        journal.append(make_batch(4, contents_of(4)))
    assert journal.durable_lsn == 3
    calls = disk.calls
    with pytest.raises(JournalFailed, match="has already failed"):
        journal.append(make_batch(4, contents_of(4)))
    with pytest.raises(JournalFailed):
        journal.mark(1)
    assert disk.calls == calls
    check_after(disk.crash(), 3)


@pytest.mark.parametrize("call", ["pwrite", "fdatasync", "rename", "sync_directory", "truncate"])
def test_an_error_while_a_segment_is_begun_is_fatal(call: str) -> None:
    failures = 0
    for after in range(1, BLOCKS + 1):
        disk = FaultyDisk(after)
        journal = create(disk)
        for _ in range(after):
            journal.append(make_batch(journal.next_lsn, contents_of(journal.next_lsn)))
        durable_lsn = journal.durable_lsn
        disk.fail_next(call, errno.EIO)
        try:
            journal.append(make_batch(journal.next_lsn, contents_of(journal.next_lsn)))
            durable_lsn = journal.durable_lsn
        except JournalFailed:
            failures += 1
            assert journal.durable_lsn == durable_lsn
        check_after(disk.crash(), durable_lsn)
    assert failures > 0
