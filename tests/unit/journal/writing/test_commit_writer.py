"""The writer that chooses for each block where it is written, as every writer should; and hangs."""

import os
import select
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event
from typing import Final

import pytest

from daybook.journal.blocks.format import FOOTER_ENTRY_BYTES
from daybook.journal.disk import Disk, File, RealDisk
from daybook.journal.errors import JournalFailed
from daybook.journal.journal import Journal
from daybook.journal.places import Place
from daybook.journal.segments.reader import read_blocks
from daybook.journal.segments.segment import segment_names
from daybook.journal.segments.verify import verify
from daybook.journal.writing.commit_choice import CALM_BLOCKS
from daybook.journal.writing.commit_writer import UNSHARED_BYTES_MAX, WAIT_SECONDS, CommitWriter
from tests.suites.journal_rows import (
    DATA_ID,
    LAYOUT,
    create,
    make_batch,
    noise,
    read_all,
    reopen,
    some_contents,
)
from tests.suites.switched_disk import SwitchedDisk
from tests.suites.writer_suite import Heard, WriterSuite
from tests.support.process import wait_for

pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded")

PATIENCE_SECONDS = 20.0


class Way:
    """A choice that is known before; `near` is what it says for each block, over and over."""

    def __init__(self, *near: bool) -> None:
        self.near = near
        self.asked = self.taken = 0

    def choose(self, raw_bytes: int, *, is_alone: bool) -> bool:
        self.asked += 1
        is_near = is_alone and self.near[self.asked % len(self.near)]
        self.taken += is_near
        return is_near

    def note(self, seconds: float) -> None:
        """It makes no difference."""


def start(journal: Journal, heard: Heard, way: Way | None = None) -> CommitWriter:
    """A writer that tells `heard`, and tries a full disk again at once."""
    writer = CommitWriter(journal, retry_seconds=0.001, choice=way)
    writer.on_durable = heard.on_durable
    writer.on_failure = heard.on_failure
    writer.on_disk_full = heard.on_disk_full
    writer.on_disk_free = heard.on_disk_free
    return writer


def wait(writer: CommitWriter, condition: Callable[[], bool]) -> None:
    """Be the event loop of the writer's owner until the condition holds."""
    give_up = time.monotonic() + PATIENCE_SECONDS
    poll = select.poll()
    while not condition():
        assert time.monotonic() < give_up, "waited in vain for the writer"
        poll.register(writer, select.POLLIN)
        if poll.poll(1):
            writer.receive()
        writer.look()


class OneWay(WriterSuite[CommitWriter]):
    """The suite with a choice of its own."""

    near: tuple[bool, ...] = ()

    @pytest.fixture(autouse=True)
    def way(self) -> None:
        self.chosen = Way(*self.near)

    def start(self, journal: Journal, heard: Heard) -> CommitWriter:
        return start(journal, heard, self.chosen)

    def wait(self, writer: CommitWriter, condition: Callable[[], bool]) -> None:
        wait(writer, condition)


class TestAllNear(OneWay):
    near = (True,)


class TestAllFar(OneWay):
    near = (False,)


class TestInTurn(OneWay):
    near = (True, False)


class TestTwoOfThreeNear(OneWay):
    near = (False, True, True)


class TestAsChosen(WriterSuite[CommitWriter]):
    def start(self, journal: Journal, heard: Heard) -> CommitWriter:
        return start(journal, heard)

    def wait(self, writer: CommitWriter, condition: Callable[[], bool]) -> None:
        wait(writer, condition)


@pytest.fixture
def disk(tmp_path: Path) -> SwitchedDisk:
    return SwitchedDisk(tmp_path)


def write(writer: CommitWriter, heard: Heard, lsn: int, blocks: int = 1) -> int:
    """Let blocks of four events become durable, one after the other; return the next LSN."""
    for _ in range(blocks):
        writer.submit(make_batch(lsn, some_contents(lsn, 4)))
        lsn += 4
        wait(writer, lambda: heard.durable[-1:] == [lsn - 1])  # noqa: B023
    return lsn


# ---- two copies of the journal


@pytest.mark.parametrize("device_block_bytes", [0, 512])
@pytest.mark.parametrize(
    "near", [(True,), (True, False), (False, True, True), (True,) * 9 + (False,)]
)
def test_segments_that_both_wrote_are_as_one_wrote_them(
    tmp_path: Path, near: tuple[bool, ...], device_block_bytes: int
) -> None:
    disk, heard = RealDisk(tmp_path), Heard()
    journal = create(disk, 16_384, device_block_bytes=device_block_bytes)
    way = Way(*near)
    writer = start(journal, heard, way)
    lsn = write(writer, heard, 1, 195)
    writer.mark(5)
    lsn = write(writer, heard, lsn, 3)
    stats = writer.stats()
    writer.close()
    assert (stats.blocks, stats.events) == (198, 792)
    assert sum(stats.sync_counts) == 198
    assert way.taken >= 60
    assert way.taken - 20 < stats.near_blocks <= way.taken
    assert len(segment_names(disk)) >= 2
    assert [event[0] for event in read_all(disk)] == list(range(1, lsn))
    assert [block.first_lsn for block in read_blocks(disk) if block.is_mark] == [781]
    report = verify(disk)
    assert report.ok, report.faults
    again = reopen(disk)
    assert again.next_lsn == lsn
    again.close()


def test_what_is_written_here_needs_no_process(disk: SwitchedDisk) -> None:
    heard = Heard()
    writer = start(create(disk), heard, Way(True))
    os.kill(writer.pid, signal.SIGSTOP)
    for lsn in (1, 5, 9):
        writer.submit(make_batch(lsn, some_contents(lsn, 4)))
        wait(writer, lambda: heard.durable[-1:] == [lsn + 3])  # noqa: B023
    os.kill(writer.pid, signal.SIGCONT)
    writer.mark(1)
    writer.close()
    assert (heard.durable, heard.failures) == ([4, 8, 12], [])
    assert verify(disk).ok


class Shared:
    """Others who get each second block at once."""

    def __init__(self, writer: CommitWriter) -> None:
        self.writer = writer
        self.sent: list[tuple[Place, bytes]] = []
        self.asked: list[tuple[Place, int]] = []
        self.on_disk: list[Place] = []

    def takes(self, place: Place, size: int) -> bool:
        self.asked.append((place, size))
        return len(self.asked) % 2 == 0

    def send(self, place: Place, data: bytes) -> None:
        # It is not durable yet.
        assert self.writer.place == place
        self.sent.append((place, data))

    def written(self, place: Place) -> None:
        self.on_disk.append(place)


def test_others_get_blocks_before_they_are_synced(disk: SwitchedDisk) -> None:
    heard = Heard()
    writer = start(create(disk), heard, Way(True))
    shared = Shared(writer)
    writer.share(shared)
    ends = []
    for lsn in (1, 5, 9, 13):
        writer.submit(make_batch(lsn, some_contents(lsn, 4)))
        wait(writer, lambda: heard.durable[-1:] == [lsn + 3])  # noqa: B023
        ends.append(writer.place)
    writer.close()
    begins = [place for place, _ in shared.asked]
    assert begins[1:] == ends[:-1]
    assert [place for place, _ in shared.sent] == [begins[1], begins[3]]
    # The others are asked to read the rest from the disk.
    assert shared.on_disk == [ends[0], ends[2]]
    file = disk.open(segment_names(disk)[0])
    for place, data in shared.sent:
        assert file.pread(len(data), place.offset) == data


def test_the_process_is_told_now_and_then_what_was_written_here(tmp_path: Path) -> None:
    disk, heard = RealDisk(tmp_path), Heard()
    writer = start(create(disk, 1 << 20), heard, Way(True))
    most = 0
    lsn = 1
    for _ in range(UNSHARED_BYTES_MAX // FOOTER_ENTRY_BYTES + 100):
        lsn = write(writer, heard, lsn)
        most = max(most, writer._near.journal.unshared_bytes)
    assert most < UNSHARED_BYTES_MAX
    assert writer._near.journal.unshared_bytes == 100 * FOOTER_ENTRY_BYTES
    writer.close()
    assert verify(disk).ok


def test_a_broker_that_dies_leaves_what_it_wrote_last(disk: SwitchedDisk) -> None:
    """The process was not told of it, and must write nothing at the place that it knows."""
    heard = Heard()
    writer = start(create(disk), heard, Way(True))
    write(writer, heard, 1, 3)
    writer._socket.close()
    os.waitpid(writer.pid, 0)
    assert [event[0] for event in read_all(disk)] == list(range(1, 13))
    assert verify(disk).ok
    writer._patience.close()
    writer._near.close()


def test_a_large_first_event_replaces_an_empty_segment(tmp_path: Path) -> None:
    disk, heard = RealDisk(tmp_path), Heard()
    way = Way(True)
    writer = start(create(disk, 8192), heard, way)
    writer.submit(make_batch(1, [((1, 1, 1, 1, 1), b"", noise(20_000))]))
    wait(writer, lambda: heard.durable == [1])
    assert writer._asked == 0
    write(writer, heard, 2, 3)
    writer.close()
    assert [event[0] for event in read_all(disk)] == list(range(1, 14))
    assert verify(disk).ok


def test_a_segment_that_was_deleted_is_not_made_again(tmp_path: Path) -> None:
    disk, heard = RealDisk(tmp_path), Heard()
    writer = start(create(disk), heard, Way(True))
    (name,) = segment_names(disk)
    disk.remove(name)
    writer.submit(make_batch(1, some_contents(1, 4)))
    wait(writer, lambda: bool(heard.failures))
    assert "No such file" in str(heard.failures[0])
    writer.close()
    assert segment_names(disk) == []
    assert (heard.durable, len(heard.failures)) == ([], 1)


def test_a_segment_that_is_deleted_later_is_noticed(tmp_path: Path) -> None:
    disk, heard = RealDisk(tmp_path), Heard()
    writer = start(create(disk), heard, Way(True))
    write(writer, heard, 1)
    disk.remove(segment_names(disk)[0])
    writer.submit(make_batch(5, some_contents(5, 4)))
    wait(writer, lambda: bool(heard.failures))
    assert "deleted under the broker" in str(heard.failures[0])
    writer.close()
    assert heard.durable == [4]


def test_a_mistake_of_ours_is_a_failure_too(disk: SwitchedDisk) -> None:
    heard = Heard()
    writer = start(create(disk), heard, Way(True))
    writer.submit(make_batch(99, some_contents(99, 1)))
    text = str(heard.failures[0])
    assert "a bug of Daybook" in text
    assert "a batch must begin with the next LSN" in text
    writer.close()
    assert len(heard.failures) == 1


def threads() -> int:
    """How many threads this process has, as the system sees it."""
    return len(os.listdir("/proc/self/task"))  # noqa: PTH208 - names are wanted, not paths


def test_without_choosing_it_begins_with_the_process(disk: SwitchedDisk) -> None:
    heard = Heard()
    writer = start(create(disk), heard)
    before = threads()
    lsn = write(writer, heard, 1, CALM_BLOCKS)
    assert threads() == before
    assert writer.stats().near_blocks == 0
    write(writer, heard, lsn)
    assert threads() == before + 1
    assert writer.stats().near_blocks == 1
    writer.close()
    # The system may see a thread for a moment after it has ended.
    wait_for(lambda: threads() == before, "the end of the thread")


# ---- a disk that hangs


class HangingFile:
    """An open file of a HangingDisk."""

    def __init__(self, disk: "HangingDisk", file: File) -> None:
        self._disk: Final = disk
        self._file: Final = file

    def __getattr__(self, name: str) -> object:
        return getattr(self._file, name)

    def fdatasync(self) -> None:
        if not self._disk.answers.is_set():
            self._disk.hangs.set()
        self._disk.answers.wait()
        self._file.fdatasync()


class HangingDisk:
    """A disk whose syncs wait in this process until it answers."""

    def __init__(self, disk: Disk) -> None:
        self._disk: Final = disk
        self.answers: Final = Event()
        self.answers.set()
        self.hangs: Final = Event()

    def __getattr__(self, name: str) -> object:
        return getattr(self._disk, name)

    def open_for_writing(self, name: str) -> HangingFile:
        return HangingFile(self, self._disk.open_for_writing(name))


@pytest.fixture
def hanging(tmp_path: Path) -> Iterator[HangingDisk]:
    disk = HangingDisk(RealDisk(tmp_path))
    yield disk
    disk.answers.set()


def created(disk: HangingDisk) -> Journal:
    return Journal.create(disk, LAYOUT, data_id=DATA_ID, segment_bytes=65_536)  # type: ignore[arg-type]


def test_a_sync_that_hangs_holds_nobody_up_and_keeps_the_order(hanging: HangingDisk) -> None:
    heard, woken = Heard(), Event()
    writer = start(created(hanging), heard, Way(True))
    lsn = write(writer, heard, 1, 2)
    hanging.answers.clear()
    begun = time.monotonic()
    writer.submit(make_batch(lsn, some_contents(lsn, 4)))
    assert WAIT_SECONDS <= time.monotonic() - begun < PATIENCE_SECONDS / 2
    # The blocks before may have been late on a busy machine, and may have woken somebody.
    assert hanging.hangs.wait(PATIENCE_SECONDS)
    writer.set_wake(woken.set)
    # New blocks wait behind it, whatever the choice says.
    writer.submit(make_batch(lsn + 4, some_contents(lsn + 4, 4)))
    writer.mark(3)
    writer.submit(make_batch(lsn + 8, some_contents(lsn + 8, 4)))
    writer.look()
    assert heard.durable == [4, 8]
    assert writer.pending_bytes > 0
    assert not writer.idle
    assert not woken.is_set()
    hanging.answers.set()
    assert woken.wait(PATIENCE_SECONDS)
    writer.look()
    assert heard.durable == [4, 8, 12]
    wait(writer, lambda: writer.idle)
    assert heard.durable == [4, 8, 12, 16, 20]
    assert writer.pending_bytes == 0
    write(writer, heard, 21, 2)
    writer.close()
    assert heard.failures == []
    disk = hanging._disk
    assert [event[0] for event in read_all(disk)] == list(range(1, 29))
    assert [block.first_lsn for block in read_blocks(disk) if block.is_mark] == [17]
    assert verify(disk).ok


def test_closing_waits_for_a_slow_sync(hanging: HangingDisk) -> None:
    heard = Heard()
    writer = start(created(hanging), heard, Way(True))
    writer.set_wake(lambda: None)
    write(writer, heard, 1)
    hanging.answers.clear()
    writer.submit(make_batch(5, some_contents(5, 4)))
    writer.submit(make_batch(9, some_contents(9, 4)))
    hanging.answers.set()
    writer.close()
    assert (heard.durable, heard.failures) == ([4, 8, 12], [])
    assert verify(hanging._disk).ok


def test_closing_gives_up_a_disk_that_never_answers(hanging: HangingDisk) -> None:
    heard = Heard()
    writer = start(created(hanging), heard, Way(True))
    write(writer, heard, 1)
    hanging.answers.clear()
    writer.submit(make_batch(5, some_contents(5, 4)))
    writer.submit(make_batch(9, some_contents(9, 4)))
    begun = time.monotonic()
    writer.close(0.2)
    assert time.monotonic() - begun < PATIENCE_SECONDS / 2
    assert heard.durable == [4]
    assert [type(error) for error in heard.failures] == [JournalFailed]
    assert "the disk of the journal did not answer" in str(heard.failures[0])
    assert "none of them was confirmed" in str(heard.failures[0])
    assert not Path(f"/proc/{writer.pid}").exists()


def test_an_error_after_a_hang_is_a_failure(hanging: HangingDisk) -> None:
    heard = Heard()
    writer = start(created(hanging), heard, Way(True))
    write(writer, heard, 1)
    hanging.answers.clear()
    writer.submit(make_batch(5, some_contents(5, 4)))
    writer.submit(make_batch(9, some_contents(9, 4)))
    hanging._disk.remove(segment_names(hanging._disk)[0])
    hanging.answers.set()
    wait(writer, lambda: bool(heard.failures))
    assert "deleted under the broker" in str(heard.failures[0])
    writer.submit(make_batch(13, some_contents(13, 4)))
    writer.close()
    assert (heard.durable, len(heard.failures)) == ([4], 1)
