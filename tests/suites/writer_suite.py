"""The contract of every writer of a journal. Mix in, and say how to make one and wait for it."""

from collections.abc import Callable
from pathlib import Path
from typing import Generic, Protocol, TypeVar

import pytest

from daybook.journal.blocks.batch import BatchLike
from daybook.journal.blocks.format import RESERVE_NAME
from daybook.journal.disk import MemoryDisk
from daybook.journal.errors import DiskFull, JournalFailed
from daybook.journal.journal import Journal
from daybook.journal.segments.reader import read_blocks
from daybook.journal.segments.verify import verify
from daybook.journal.writing.writer import WriterStats
from tests.suites.journal_rows import (
    DATA_ID,
    LAYOUT,
    create,
    make_batch,
    noise,
    read_all,
    some_contents,
)
from tests.suites.switched_disk import SwitchedDisk


class Writer(Protocol):
    """The methods that the tests call."""

    @property
    def pending_bytes(self) -> int: ...

    @property
    def idle(self) -> bool: ...

    @property
    def failed(self) -> bool: ...

    def submit(self, batch: BatchLike) -> None: ...

    def mark(self, time: int) -> None: ...

    def close(self) -> None: ...

    def stats(self) -> WriterStats: ...


class Heard:
    """The reports of a writer."""

    def __init__(self) -> None:
        self.durable: list[int] = []
        self.failures: list[Exception] = []
        self.full: list[DiskFull] = []
        self.free = 0

    def on_durable(self, last_lsn: int) -> None:
        self.durable.append(last_lsn)

    def on_failure(self, error: Exception) -> None:
        self.failures.append(error)

    def on_disk_full(self, full: DiskFull) -> None:
        self.full.append(full)

    def on_disk_free(self) -> None:
        self.free += 1


def large_batch(lsn: int) -> BatchLike:
    """A batch of one event, of which a segment of the tests takes a few."""
    return make_batch(lsn, [((1, 1, 1, lsn, lsn), b"", noise(1500))])


AnyWriter = TypeVar("AnyWriter", bound=Writer)


class WriterSuite(Generic[AnyWriter]):
    """Tests of a writer on a disk with switches."""

    def start(self, journal: Journal, heard: Heard) -> AnyWriter:
        """Make a writer that tells `heard`; it tries a full disk again at once."""
        raise NotImplementedError

    def wait(self, writer: AnyWriter, condition: Callable[[], bool]) -> None:
        """Let the writer work until the condition holds."""
        raise NotImplementedError

    @pytest.fixture
    def disk(self, tmp_path: Path) -> SwitchedDisk:
        return SwitchedDisk(tmp_path)

    def fill(self, writer: AnyWriter, heard: Heard, disk: SwitchedDisk) -> int:
        """Fill the disk and write until the writer says so; answers the next LSN."""
        disk.fill()
        lsn = 1
        while not heard.full:
            writer.submit(large_batch(lsn))
            self.wait(writer, lambda: heard.durable[-1:] == [lsn])  # noqa: B023
            lsn += 1
            assert lsn < 20
        return lsn

    def test_batches_are_written_in_order(self, disk: SwitchedDisk) -> None:
        heard = Heard()
        writer = self.start(create(disk), heard)
        for first_lsn in range(1, 200, 4):
            writer.submit(make_batch(first_lsn, some_contents(first_lsn, 4)))
        writer.mark(5)
        writer.close()
        assert heard.durable == list(range(4, 201, 4))
        assert heard.failures == []
        assert writer.pending_bytes == 0
        assert writer.idle
        assert not writer.failed
        events = [(lsn, *content) for lsn, content in enumerate(some_contents(1, 200), 1)]
        assert read_all(disk) == events
        assert [*read_blocks(disk)][-1].is_mark
        assert verify(disk).ok

    def test_what_is_told_to_be_durable_is_on_the_disk(self, disk: SwitchedDisk) -> None:
        heard = Heard()
        writer = self.start(create(disk), heard)
        writer.submit(make_batch(1, some_contents(1, 4)))
        self.wait(writer, lambda: heard.durable == [4])
        assert [event[0] for event in read_all(disk)] == [1, 2, 3, 4]
        assert writer.idle
        writer.close()

    def test_it_is_closed_once(self, disk: SwitchedDisk) -> None:
        heard = Heard()
        writer = self.start(create(disk), heard)
        writer.submit(make_batch(1, some_contents(1, 4)))
        writer.close()
        writer.close()
        assert (heard.durable, heard.failures) == ([4], [])

    def test_sync_times_are_measured(self) -> None:
        ticks = iter(range(1000))
        journal = Journal.create(
            MemoryDisk(), LAYOUT, data_id=DATA_ID, clock=lambda: next(ticks) * 0.25
        )
        writer = self.start(journal, Heard())
        for first_lsn in (1, 5, 9):
            writer.submit(make_batch(first_lsn, some_contents(first_lsn, 4)))
        writer.close()
        stats = writer.stats()
        assert (stats.blocks, stats.events, stats.pending_bytes) == (3, 12, 0)
        assert stats.sync_seconds_last == stats.sync_seconds_max == 0.25
        assert stats.sync_seconds_average == pytest.approx(0.25)
        assert stats.disk_full == ""

    @pytest.mark.parametrize(("call", "last_written"), [("pwrite", 4), ("fdatasync", 8)])
    def test_an_error_of_the_disk_is_told_once_and_stops_everything(
        self, disk: SwitchedDisk, call: str, last_written: int
    ) -> None:
        heard = Heard()
        writer = self.start(create(disk), heard)
        writer.submit(make_batch(1, some_contents(1, 4)))
        self.wait(writer, lambda: heard.durable == [4])
        disk.fail_next(call)
        for first_lsn in (5, 9, 13):
            writer.submit(make_batch(first_lsn, some_contents(first_lsn, 4)))
        writer.mark(1)
        self.wait(writer, lambda: len(heard.failures) > 0)
        assert writer.failed
        writer.submit(make_batch(17, some_contents(17, 4)))
        writer.close()
        assert heard.durable == [4]
        assert [type(error) for error in heard.failures] == [JournalFailed]
        assert "Input/output error" in str(heard.failures[0])
        assert writer.pending_bytes > 0
        assert read_all(disk)[-1][0] == last_written
        assert not any(block.is_mark for block in read_blocks(disk))

    def test_a_failing_mark_is_told(self, disk: SwitchedDisk) -> None:
        heard = Heard()
        writer = self.start(create(disk), heard)
        writer.submit(make_batch(1, some_contents(1, 4)))
        self.wait(writer, lambda: heard.durable == [4])
        disk.fail_next("fdatasync")
        writer.mark(1)
        self.wait(writer, lambda: len(heard.failures) > 0)
        writer.close()
        assert [type(error) for error in heard.failures] == [JournalFailed]

    def test_a_full_disk_is_told_while_there_is_room_and_nothing_is_lost(
        self, disk: SwitchedDisk
    ) -> None:
        heard = Heard()
        writer = self.start(create(disk), heard)
        lsn = self.fill(writer, heard, disk)
        assert "free disk space" in str(heard.full[0])
        assert "free disk space" in writer.stats().disk_full
        # The reserved room still takes what consumers have to say.
        writer.submit(make_batch(lsn, some_contents(lsn, 4)))
        self.wait(writer, lambda: heard.durable[-1] == lsn + 3)
        last = lsn + 9
        for first_lsn in range(lsn + 4, last + 1):
            writer.submit(large_batch(first_lsn))
        writer.mark(1)
        refused = disk.refusals()
        self.wait(writer, lambda: disk.refusals() > refused + 4)
        assert heard.free == 0
        assert writer.pending_bytes > 0
        assert not writer.idle
        disk.free()
        self.wait(writer, lambda: heard.durable[-1] == last and heard.free == 1)
        assert writer.stats().disk_full == ""
        writer.close()
        assert (len(heard.full), heard.failures) == (1, [])
        assert [event[0] for event in read_all(disk)] == list(range(1, last + 1))
        assert verify(disk).ok

    def test_room_is_looked_for_when_nothing_waits_too(self, disk: SwitchedDisk) -> None:
        heard = Heard()
        writer = self.start(create(disk), heard)
        self.fill(writer, heard, disk)
        disk.free()
        self.wait(writer, lambda: heard.free == 1)
        writer.close()
        assert heard.failures == []

    def test_closing_on_a_full_disk_gives_up(self, disk: SwitchedDisk) -> None:
        heard = Heard()
        writer = self.start(create(disk), heard)
        lsn = self.fill(writer, heard, disk)
        for first_lsn in range(lsn, lsn + 6):
            writer.submit(large_batch(first_lsn))
        writer.mark(1)
        writer.close()
        assert writer.pending_bytes > 0
        assert len(heard.failures) == 1
        assert "No space left" in str(heard.failures[0])
        # All reported events are there, and no others.
        assert heard.durable[-1] < lsn + 5
        assert read_all(disk)[-1][0] == heard.durable[-1]
        assert verify(disk).ok

    def test_an_error_while_looking_for_room_is_fatal(self, disk: SwitchedDisk) -> None:
        heard = Heard()
        writer = self.start(create(disk), heard)
        self.fill(writer, heard, disk)
        disk.fail_next("allocate")
        self.wait(writer, lambda: len(heard.failures) == 1)
        writer.close()
        assert [type(error) for error in heard.failures] == [JournalFailed]

    def test_a_mark_for_which_there_is_no_room_is_left_out(self, disk: SwitchedDisk) -> None:
        journal = create(disk)
        # A segment just large enough for this block, and a full disk behind it.
        journal.append(make_batch(1, [((1, 1, 1, 1, 1), b"", noise(9000))]))
        disk.remove(RESERVE_NAME)
        disk.fill()
        heard = Heard()
        writer = self.start(journal, heard)
        writer.mark(1)
        writer.close()
        assert heard.failures == []
        assert disk.refusals() > 0
        assert not any(block.is_mark for block in read_blocks(disk))
