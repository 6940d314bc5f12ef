"""Busy neighbours use a core each, are as nice as asked for, and end whatever ends first."""

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bench.load.child import environment
from bench.load.frames import LoadError
from bench.machine.neighbours import Neighbours

PARENT = """
import multiprocessing, sys, time
from bench.machine.neighbours import Neighbours
neighbours = Neighbours(2, 0)
neighbours.start()
print(*(child.pid for child in multiprocessing.active_children()), flush=True)
time.sleep(60)
"""


@contextmanager
def started(count: int, niceness: int = 0) -> Iterator[tuple[Neighbours, list[int]]]:
    """Start neighbours; give them and their process ids."""
    before = children()
    neighbours = Neighbours(count, niceness)
    try:
        neighbours.start()
        yield neighbours, sorted(children() - before)
    finally:
        neighbours.stop()


def children() -> set[int]:
    return {child.pid for child in multiprocessing.active_children() if child.pid is not None}


def is_running(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"


def test_they_use_processor_time_until_they_are_stopped() -> None:
    with started(2) as (neighbours, pids):
        assert len(pids) == 2
        before, deadline = neighbours.cpu_s(), time.monotonic() + 30
        # On a crowded machine a second of two spinning processes takes as long as it takes.
        while neighbours.cpu_s() - before < 1.0:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert all(map(is_running, pids))
    assert not any(map(is_running, pids))


def test_none_cost_nothing() -> None:
    with started(0) as (neighbours, pids):
        assert (neighbours.cpu_s(), pids) == (0.0, [])


def test_each_is_a_stranger_with_its_niceness() -> None:
    with started(2, 7) as (_, pids):
        own = os.getpriority(os.PRIO_PROCESS, 0)
        assert [os.getpriority(os.PRIO_PROCESS, pid) for pid in pids] == [own + 7] * 2
        assert [os.getsid(pid) for pid in pids] == pids
        for group in (Path(f"/proc/{pid}/autogroup") for pid in pids):
            if group.exists():
                assert group.read_text().split()[-1] == "7"


def test_interrupts_are_their_parents_affair() -> None:
    with started(1) as (neighbours, pids):
        os.kill(pids[0], signal.SIGINT)
        before = neighbours.cpu_s()
        while neighbours.cpu_s() - before < 0.1:
            time.sleep(0.01)


def test_they_end_with_a_parent_that_is_killed() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True, env=environment()
    ) as parent:
        assert parent.stdout is not None
        pids = [int(text) for text in parent.stdout.readline().split()]
        assert len(pids) == 2
        assert all(map(is_running, pids))
        parent.kill()
        parent.wait()
        deadline = time.monotonic() + 30
        while any(map(is_running, pids)):
            assert time.monotonic() < deadline
            time.sleep(0.01)


def test_one_that_died_spoils_the_measurement() -> None:
    with started(1) as (neighbours, pids):
        os.kill(pids[0], signal.SIGKILL)
        os.waitid(os.P_PID, pids[0], os.WEXITED | os.WNOWAIT)
        with pytest.raises(LoadError, match="a busy neighbour died"):
            neighbours.cpu_s()


def test_one_that_cannot_start_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.machine.neighbours.end_with", lambda parent: False)
    with pytest.raises(LoadError, match="did not start"), started(1):
        pass
