"""The promises of a node: changed by two threads at once, and read by the next process."""

from collections.abc import Callable
from pathlib import Path
from threading import Barrier, Thread

import pytest

from daybook.journal.disk import RealDisk
from daybook.journal.places import BEFORE_ALL
from daybook.replication.epochs import Beginning
from daybook.replication.record import RecordFile
from tests.simulation.machine.disk import FaultyDisk

ROUNDS = 200


def test_two_threads_lose_no_change_of_each_other(tmp_path: Path) -> None:
    kept = RecordFile(RealDisk(tmp_path))
    together = Barrier(2)
    failed: list[Exception] = []

    def all_of(change: Callable[[int], None]) -> None:
        try:
            for number in range(1, ROUNDS + 1):
                together.wait(60)
                change(number)
                together.wait(60)
        except Exception as error:
            failed.append(error)
            together.abort()

    def promise(number: int) -> None:
        kept.promise(number, "a")

    def note(number: int) -> None:
        kept.set_epochs((Beginning(number, BEFORE_ALL, "b"),))
        written = RecordFile(RealDisk(tmp_path)).record
        assert written.epochs == (Beginning(number, BEFORE_ALL, "b"),)

    other = Thread(target=all_of, args=(promise,))
    other.start()
    all_of(note)
    other.join()
    assert failed == []
    assert RecordFile(RealDisk(tmp_path)).record == kept.record
    assert kept.record.promised == ROUNDS


@pytest.mark.parametrize("seed", range(10))
def test_what_the_next_process_reads_stays(seed: int) -> None:
    """A process ends before a change is on the disk; the next one finds it, and others count on it,
    though it changes nothing itself before the power is lost."""
    disk = FaultyDisk(seed)
    RecordFile(disk).promise(1, "a")
    disk.fail_next("sync_directory")
    with pytest.raises(OSError, match="directory"):
        RecordFile(disk).promise(2, "b")
    disk.survive_kill()
    found = RecordFile(disk).record
    assert RecordFile(disk.crash()).record == found
