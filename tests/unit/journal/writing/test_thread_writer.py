"""The writer in a thread of the broker: it does what the process does, and holds up nobody."""

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from daybook.journal.disk import MemoryDisk, MemoryFile
from daybook.journal.journal import Journal
from daybook.journal.writing.thread_writer import ThreadWriter
from tests.suites.journal_rows import create, make_batch, some_contents
from tests.suites.switched_disk import SwitchedDisk
from tests.suites.writer_suite import Heard, WriterSuite
from tests.support.process import wait_for
from tests.unit.journal.writing.test_process_writer import descriptors, wait


def start(journal: Journal, heard: Heard) -> ThreadWriter:
    """A writer that tells `heard`, and tries a full disk again at once."""
    writer = ThreadWriter(journal, retry_seconds=0.001)
    writer.on_durable = heard.on_durable
    writer.on_failure = heard.on_failure
    writer.on_disk_full = heard.on_disk_full
    writer.on_disk_free = heard.on_disk_free
    return writer


class TestThreadWriter(WriterSuite[ThreadWriter]):
    def start(self, journal: Journal, heard: Heard) -> ThreadWriter:
        return start(journal, heard)

    def wait(self, writer: ThreadWriter, condition: Callable[[], bool]) -> None:
        wait(writer, condition)


class HangingFile(MemoryFile):
    """A file whose disk answers when the test says so."""

    def __init__(self, content: bytearray, answers: threading.Event) -> None:
        super().__init__(content)
        self._answers = answers

    def fdatasync(self) -> None:
        assert self._answers.wait(60.0)


class HangingDisk(MemoryDisk):
    """A disk that may hang."""

    def __init__(self) -> None:
        super().__init__()
        self.answers = threading.Event()
        self.answers.set()

    def open_for_writing(self, name: str) -> MemoryFile:
        return HangingFile(super().open_for_writing(name).content, self.answers)


@pytest.fixture
def hanging() -> Iterator[HangingDisk]:
    disk = HangingDisk()
    yield disk
    disk.answers.set()


def test_a_disk_that_hangs_holds_up_neither_a_batch_nor_the_end(hanging: HangingDisk) -> None:
    heard = Heard()
    writer = start(create(hanging), heard)
    hanging.answers.clear()
    writer.submit(make_batch(1, some_contents(1, 4)))
    writer.submit(make_batch(5, some_contents(5, 4)))
    writer.receive()
    assert heard.durable == []
    assert not writer.idle
    writer.close(0.2)
    (failure,) = heard.failures
    assert "the thread that writes the journal did not answer" in str(failure)
    assert "given up" in str(failure)


def test_what_a_slow_disk_answers_late_is_durable_after_all(hanging: HangingDisk) -> None:
    heard = Heard()
    writer = start(create(hanging), heard)
    hanging.answers.clear()
    writer.submit(make_batch(1, some_contents(1, 4)))
    hanging.answers.set()
    wait(writer, lambda: writer.idle)
    assert heard.durable == [4]
    writer.close()
    assert heard.failures == []


def test_it_is_no_process_and_leaves_nothing_behind(tmp_path: Path) -> None:
    # The threads of other tests may be at their end still.
    wait_for(lambda: not writers(), "the end of other writers")
    before, others = descriptors(), children()
    writer = start(create(SwitchedDisk(tmp_path)), Heard())
    assert writer.pid == os.getpid()
    # Children of other tests may end meanwhile.
    assert children() <= others
    writer.submit(make_batch(1, some_contents(1, 4)))
    writer.close()
    assert not writers()
    assert descriptors() == before


def children() -> set[str]:
    return set(Path(f"/proc/self/task/{os.getpid()}/children").read_text().split())


def writers() -> list[threading.Thread]:
    return [each for each in threading.enumerate() if each.name == "journal-writer"]


def test_a_mistake_of_ours_is_a_failure_too() -> None:
    heard = Heard()
    writer = start(create(MemoryDisk()), heard)
    writer.submit(make_batch(99, some_contents(99, 1)))
    wait(writer, lambda: writer.failed)
    assert "a bug of Daybook" in str(heard.failures[0])
    writer.close()
    assert len(heard.failures) == 1
