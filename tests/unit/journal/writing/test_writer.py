"""The writer that does everything at once, as every writer should; and what is its alone."""

from collections.abc import Callable
from pathlib import Path

import pytest

from daybook.journal.disk import MemoryDisk
from daybook.journal.errors import DiskFull
from daybook.journal.journal import Journal
from daybook.journal.writing.writer import InlineWriter
from tests.suites.journal_rows import create, make_batch, some_contents
from tests.suites.switched_disk import SwitchedDisk
from tests.suites.writer_suite import Heard, WriterSuite, large_batch


class TestInlineWriter(WriterSuite[InlineWriter]):
    def start(self, journal: Journal, heard: Heard) -> InlineWriter:
        return InlineWriter(
            journal,
            on_durable=heard.on_durable,
            on_failure=heard.on_failure,
            on_disk_full=heard.on_disk_full,
            on_disk_free=heard.on_disk_free,
        )

    def wait(self, writer: InlineWriter, condition: Callable[[], bool]) -> None:
        for _ in range(10):
            if condition():
                return
            writer.retry()
        assert condition()

    def test_what_is_given_up_at_close_is_a_full_disk(self, disk: SwitchedDisk) -> None:
        heard = Heard()
        writer = self.start(create(disk), heard)
        disk.fill()
        for lsn in range(1, 20):
            writer.submit(large_batch(lsn))
        writer.close()
        assert [type(error) for error in heard.failures] == [DiskFull]


def test_callbacks_for_a_full_disk_may_be_left_out(tmp_path: Path) -> None:
    disk = SwitchedDisk(tmp_path)
    heard = Heard()
    writer = InlineWriter(create(disk), on_durable=heard.on_durable, on_failure=heard.on_failure)
    disk.fill()
    for lsn in range(1, 20):
        writer.submit(large_batch(lsn))
    assert not writer.idle
    disk.free()
    writer.retry()
    writer.close()
    assert heard.durable == list(range(1, 20))


def test_a_mistake_of_ours_is_raised() -> None:
    heard = Heard()
    writer = InlineWriter(
        create(MemoryDisk()), on_durable=heard.on_durable, on_failure=heard.on_failure
    )
    with pytest.raises(AssertionError, match="a batch must begin with the next LSN"):
        writer.submit(make_batch(99, some_contents(99, 1)))
