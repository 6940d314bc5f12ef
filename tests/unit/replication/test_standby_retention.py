"""Segments that left the leader leave a follower, behind a base of its own, unless a reader holds
them."""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from daybook.history.moments import last_lsn
from daybook.journal.data_directory import BASE, JOURNAL, LOCK
from daybook.journal.disk import RealDisk
from daybook.journal.pins import Pin
from daybook.journal.segments.segment import (
    data_id_of,
    first_lsn_of,
    segment_first_lsn,
    segment_names,
)
from daybook.paging.snapshots.base import describe
from daybook.recovery.directory import open_directory
from daybook.replication.standby_retention import StandbyRetention
from tests.support.histories import some_history, write_history
from tests.support.process import wait_for


def history(tmp_path: Path) -> tuple[Path, RealDisk, list[int]]:
    """Return a directory, its journal, and the first events of its segments."""
    data = write_history(tmp_path / "data", some_history(5, 3_000), segment_bytes=1 << 15)
    (data / LOCK).touch()
    disk = RealDisk(data / JOURNAL)
    firsts = [segment_first_lsn(name) or 0 for name in segment_names(disk)]
    assert len(firsts) > 3
    return data, disk, firsts


@contextmanager
def retention(data: Path, said: list[str]) -> Iterator[StandbyRetention]:
    found = StandbyRetention(
        data, said.append, lambda: time.time_ns() // 1000, period_seconds=0.01, again_seconds=0.01
    )
    found.start()
    try:
        yield found
    finally:
        found.stop()


def test_segments_leave_behind_a_base(tmp_path: Path) -> None:
    data, disk, firsts = history(tmp_path)
    said: list[str] = []
    with retention(data, said) as found:
        found.indexed = last_lsn(disk)
        found.first = firsts[2]
        wait_for(lambda: first_lsn_of(disk) == firsts[2], "two segments to leave")
    assert said == [f"2 segments, up to event {firsts[2] - 1}, left as on the leader"]
    base = describe(data / BASE, data_id_of(disk))
    assert base is not None
    assert base.lsn == firsts[2] - 1
    # An index begins there.
    opened = open_directory(data)
    try:
        assert opened.recovered.indexed >= base.lsn
        assert opened.recovered.journal.durable_lsn >= last_lsn(disk)
    finally:
        opened.close()


def test_what_is_not_indexed_or_is_read_stays(tmp_path: Path) -> None:
    data, disk, firsts = history(tmp_path)
    said: list[str] = []
    with Pin(data, firsts[1]), retention(data, said) as found:
        found.first = firsts[3]
        found.indexed = firsts[2] - 2
        wait_for(lambda: first_lsn_of(disk) == firsts[1], "what nobody holds to leave")
        found.indexed = firsts[3]
        wait_for(lambda: _base_lsn(data, disk) == firsts[3] - 1, "the base")
        assert first_lsn_of(disk) == firsts[1]
    with retention(data, said) as found:
        found.first, found.indexed = firsts[3], firsts[3]
        wait_for(lambda: first_lsn_of(disk) == firsts[3], "the rest to leave")


def test_a_base_that_cannot_be_made_keeps_all(tmp_path: Path) -> None:
    data, disk, firsts = history(tmp_path)
    (data / BASE).write_text("in the way")
    said: list[str] = []
    with retention(data, said) as found:
        found.first = found.indexed = firsts[2]
        wait_for(lambda: found.trouble, "the trouble")
        assert first_lsn_of(disk) == 1
        (data / BASE).unlink()
        wait_for(lambda: first_lsn_of(disk) == firsts[2], "two segments to leave")
        wait_for(lambda: not found.trouble, "the end of the trouble")
    assert "stays here for now" in said[0]


def test_a_killed_process_is_followed_by_another(tmp_path: Path) -> None:
    data, disk, firsts = history(tmp_path)
    said: list[str] = []
    others = set(_children())
    with retention(data, said) as found:
        found.first = found.indexed = firsts[2]
        killed = wait_for(lambda: _kill_child(others), "a process")
        assert killed
        wait_for(lambda: first_lsn_of(disk) == firsts[2], "two segments to leave")


def test_the_end_does_not_wait_for_a_base(tmp_path: Path) -> None:
    data, _, firsts = history(tmp_path)
    said: list[str] = []
    others = set(_children())
    with retention(data, said) as found:
        found.first = found.indexed = firsts[2]
        wait_for(lambda: set(_children()) - others, "a process")
    assert not set(_children()) - others


def _base_lsn(data: Path, disk: RealDisk) -> int:
    base = describe(data / BASE, data_id_of(disk))
    return base.lsn if base is not None else 0


def _children() -> list[int]:
    found = []
    for task in Path("/proc/self/task").iterdir():
        found += [int(each) for each in (task / "children").read_text().split()]
    return found


def _kill_child(others: set[int]) -> bool:
    for child in set(_children()) - others:
        os.kill(child, signal.SIGKILL)
        return True
    return False
