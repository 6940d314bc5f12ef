"""Changes of the promises of a node, made by two threads at once."""

from collections.abc import Callable
from pathlib import Path
from threading import Barrier, Thread

from daybook.journal.disk import RealDisk
from daybook.journal.places import BEFORE_ALL
from daybook.replication.epochs import Beginning
from daybook.replication.record import RecordFile

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
