"""The writers: order, durability, failure, a full disk, closing."""

import errno
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from journal.disk import Disk, MemoryDisk, RealDisk
from journal.errors import DiskFull, JournalFailed
from journal.format import RESERVE_NAME
from journal.journal import Journal
from journal.reader import read_blocks
from journal.verify import verify
from journal.writer import InlineWriter, ThreadWriter
from tests.simulation.disk import FaultyDisk
from tests.suites.journal_rows import (
    DATA_ID,
    LAYOUT,
    SEGMENT_BYTES,
    append_some,
    create,
    make_batch,
    noise,
    read_all,
    some_contents,
)

PATIENCE_SECONDS = 30.0


class Heard:
    """What a writer told, and waiting for it."""

    def __init__(self) -> None:
        self.durable: list[int] = []
        self.failures: list[Exception] = []
        self.full: list[DiskFull] = []
        self.free = 0
        self.threads: set[str] = set()
        self._changed = threading.Condition()

    def on_durable(self, last_lsn: int) -> None:
        with self._changed:
            self.threads.add(threading.current_thread().name)
            self.durable.append(last_lsn)
            self._changed.notify_all()

    def on_failure(self, error: Exception) -> None:
        with self._changed:
            self.failures.append(error)
            self._changed.notify_all()

    def on_disk_full(self, full: DiskFull) -> None:
        with self._changed:
            self.full.append(full)
            self._changed.notify_all()

    def on_disk_free(self) -> None:
        with self._changed:
            self.free += 1
            self._changed.notify_all()

    def wait_for_more(self, durable_before: int) -> None:
        self.wait(lambda heard: len(heard.durable) > durable_before or bool(heard.full))

    def wait(self, condition: Callable[["Heard"], bool]) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: condition(self), PATIENCE_SECONDS)


class RefusingDisk(FaultyDisk):
    """Counts how often there was no room."""

    refusals = 0

    def take_room(self, count: int, name: str) -> None:
        try:
            super().take_room(count, name)
        except OSError:
            self.refusals += 1
            raise

    def wait_for_refusals(self, count: int) -> None:
        """Wait until so many more reservations were refused."""
        wanted = self.refusals + count
        pause = threading.Event()
        for _ in range(int(PATIENCE_SECONDS * 1000)):
            if self.refusals >= wanted:
                return
            pause.wait(0.001)
        raise AssertionError("nobody tried to reserve room")


def threaded(journal: Journal, heard: Heard, retry_seconds: float = 0.01) -> ThreadWriter:
    return ThreadWriter(
        journal,
        on_durable=heard.on_durable,
        on_failure=heard.on_failure,
        on_disk_full=heard.on_disk_full,
        on_disk_free=heard.on_disk_free,
        retry_seconds=retry_seconds,
    )


def inline(journal: Journal, heard: Heard) -> InlineWriter:
    return InlineWriter(
        journal,
        on_durable=heard.on_durable,
        on_failure=heard.on_failure,
        on_disk_full=heard.on_disk_full,
        on_disk_free=heard.on_disk_free,
    )


WRITERS = pytest.mark.parametrize("make_writer", [threaded, inline])
MakeWriter = Callable[[Journal, Heard], ThreadWriter | InlineWriter]


@WRITERS
def test_batches_are_written_in_order(make_writer: MakeWriter, tmp_path: Path) -> None:
    disk = RealDisk(tmp_path)
    heard = Heard()
    writer = make_writer(create(disk), heard)
    for first_lsn in range(1, 200, 4):
        writer.submit(make_batch(first_lsn, some_contents(first_lsn, 4)))
    writer.mark(5)
    writer.close()
    assert heard.durable == list(range(4, 201, 4))
    assert heard.failures == []
    assert writer.pending_bytes == 0
    assert writer.idle
    assert not writer.failed
    assert [event[0] for event in read_all(disk)] == list(range(1, 201))
    assert [*read_blocks(disk)][-1].is_mark
    assert verify(disk).ok


def test_the_thread_calls_back_and_closes_once() -> None:
    heard = Heard()
    writer = threaded(create(MemoryDisk()), heard)
    writer.submit(make_batch(1, some_contents(1, 4)))
    writer.close()
    writer.close()
    assert heard.threads == {"journal-writer"}
    with pytest.raises(AssertionError):
        writer.submit(make_batch(5, some_contents(5, 4)))


@WRITERS
def test_sync_times_are_measured(make_writer: MakeWriter) -> None:
    ticks = iter(range(1000))
    journal = Journal.create(
        MemoryDisk(), LAYOUT, data_id=DATA_ID, clock=lambda: next(ticks) * 0.25
    )
    writer = make_writer(journal, Heard())
    for first_lsn in (1, 5, 9):
        writer.submit(make_batch(first_lsn, some_contents(first_lsn, 4)))
    writer.close()
    stats = writer.stats()
    assert (stats.blocks, stats.events, stats.pending_bytes) == (3, 12, 0)
    assert stats.sync_seconds_last == stats.sync_seconds_max == 0.25
    assert stats.sync_seconds_average == pytest.approx(0.25)
    assert stats.disk_full == ""


@WRITERS
@pytest.mark.parametrize("call", ["pwrite", "fdatasync"])
def test_an_error_of_the_disk_is_told_once_and_stops_everything(
    make_writer: MakeWriter, call: str
) -> None:
    disk = FaultyDisk(3)
    heard = Heard()
    writer = make_writer(create(disk), heard)
    writer.submit(make_batch(1, some_contents(1, 4)))
    heard.wait(lambda heard: heard.durable == [4])
    disk.fail_next(call)
    for first_lsn in (5, 9, 13):
        writer.submit(make_batch(first_lsn, some_contents(first_lsn, 4)))
    writer.mark(1)
    heard.wait(lambda heard: len(heard.failures) > 0)
    calls = disk.calls
    assert writer.failed
    writer.close()
    assert disk.calls == calls
    assert heard.durable == [4]
    assert [type(error) for error in heard.failures] == [JournalFailed]
    assert writer.pending_bytes > 0


@WRITERS
def test_a_failing_mark_is_told(make_writer: MakeWriter) -> None:
    disk = FaultyDisk(3)
    heard = Heard()
    journal = create(disk)
    append_some(journal, 1)
    writer = make_writer(journal, heard)
    disk.fail_next("fdatasync")
    writer.mark(1)
    heard.wait(lambda heard: len(heard.failures) == 1)
    writer.close()


def fill(writer: ThreadWriter | InlineWriter, heard: Heard, start: int) -> int:
    """Submit large batches until the disk is told to be full; answers the next LSN."""
    lsn = start
    while not heard.full:
        before = len(heard.durable)
        writer.submit(make_batch(lsn, [((1, 1, 1, lsn, lsn), b"", noise(1500))]))
        lsn += 1
        heard.wait_for_more(before)
    return lsn


@WRITERS
def test_a_full_disk_is_told_while_there_is_room_and_nothing_is_lost(
    make_writer: MakeWriter,
) -> None:
    disk = RefusingDisk(3, capacity_bytes=3 * SEGMENT_BYTES)
    heard = Heard()
    writer = make_writer(create(disk), heard)
    lsn = fill(writer, heard, 1)
    assert "free disk space" in str(heard.full[0])
    assert "free disk space" in writer.stats().disk_full
    heard.wait(lambda heard: heard.durable[-1:] == [lsn - 1])
    # The reserved room still takes what consumers have to say.
    writer.submit(make_batch(lsn, some_contents(lsn, 4)))
    heard.wait(lambda heard: heard.durable[-1] == lsn + 3)
    last = lsn + 3
    for first_lsn in range(last + 1, last + 4):
        writer.submit(make_batch(first_lsn, [((1, 1, 1, 1, 1), b"", noise(1500))]))
    writer.mark(1)
    if isinstance(writer, ThreadWriter):
        # More than one for the batch that waits, and one for looking ahead before it.
        disk.wait_for_refusals(4)
    assert heard.free == 0
    assert writer.pending_bytes > 0
    assert not writer.idle
    disk.capacity_bytes = None
    writer.retry()
    heard.wait(lambda heard: heard.durable[-1] == last + 3)
    heard.wait(lambda heard: heard.free == 1)
    writer.close()
    assert (len(heard.full), heard.failures) == (1, [])
    assert [event[0] for event in read_all(disk)] == list(range(1, last + 4))
    assert verify(disk).ok


def test_the_thread_looks_for_room_by_itself() -> None:
    disk = FaultyDisk(3, capacity_bytes=2 * SEGMENT_BYTES)
    heard = Heard()
    writer = threaded(create(disk), heard)
    fill(writer, heard, 1)
    disk.capacity_bytes = None
    heard.wait(lambda heard: heard.free == 1)
    writer.close()


@WRITERS
def test_closing_on_a_full_disk_gives_up(make_writer: MakeWriter) -> None:
    disk = FaultyDisk(3, capacity_bytes=2 * SEGMENT_BYTES)
    heard = Heard()
    writer = make_writer(create(disk), heard)
    lsn = fill(writer, heard, 1)
    for first_lsn in range(lsn, lsn + 6):
        writer.submit(make_batch(first_lsn, [((1, 1, 1, 1, 1), b"", noise(1500))]))
    writer.close()
    assert writer.pending_bytes > 0
    assert [type(error) for error in heard.failures] == [DiskFull]
    assert heard.durable[-1] < lsn + 5


def test_callbacks_for_a_full_disk_may_be_left_out() -> None:
    disk: Disk = FaultyDisk(3, capacity_bytes=2 * SEGMENT_BYTES)
    heard = Heard()
    writer = InlineWriter(create(disk), on_durable=heard.on_durable, on_failure=heard.on_failure)
    for lsn in range(1, 9):
        writer.submit(make_batch(lsn, [((1, 1, 1, lsn, lsn), b"", noise(1500))]))
    assert not writer.idle
    assert isinstance(disk, FaultyDisk)
    disk.capacity_bytes = None
    writer.retry()
    assert writer.idle


def test_a_mistake_of_ours_is_a_failure_too() -> None:
    heard = Heard()
    writer = threaded(create(MemoryDisk()), heard)
    writer.submit(make_batch(99, some_contents(99, 1)))
    heard.wait(lambda heard: len(heard.failures) == 1)
    assert isinstance(heard.failures[0], AssertionError)
    writer.close()


def test_an_error_while_looking_for_room_is_fatal() -> None:
    disk = FaultyDisk(3, capacity_bytes=2 * SEGMENT_BYTES)
    heard = Heard()
    writer = threaded(create(disk), heard)
    fill(writer, heard, 1)
    disk.fail_next("allocate", errno.EIO)
    heard.wait(lambda heard: len(heard.failures) == 1)
    assert isinstance(heard.failures[0], JournalFailed)
    writer.close()


@WRITERS
def test_a_mark_for_which_there_is_no_room_is_left_out(make_writer: MakeWriter) -> None:
    disk = FaultyDisk(3)
    journal = create(disk)
    # A segment just large enough for this block, and a full disk behind it.
    journal.append(make_batch(1, [((1, 1, 1, 1, 1), b"", noise(9000))]))
    disk.remove(RESERVE_NAME)
    disk.capacity_bytes = 0
    heard = Heard()
    writer = make_writer(journal, heard)
    writer.mark(1)
    writer.close()
    assert heard.failures == []
    assert not any(block.is_mark for block in read_blocks(disk))
