"""One process at a time, and none that outlives who started it."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from paging.ownership import owning_index
from tests.support.process import wait_for

OWN = """
import sys
from pathlib import Path
from paging.ownership import owning_index
with owning_index(Path(sys.argv[1])):
    print("mine", flush=True)
    sys.stdin.read()
"""
START = """
import os, subprocess, sys
child = subprocess.Popen([sys.executable, "-c", sys.argv[1], str(os.getpid())])
print(child.pid, flush=True)
sys.stdin.read()
"""
END_WITH = """
import sys, time
from paging.ownership import end_with
if end_with(int(sys.argv[1])):
    open(sys.argv[1] + ".lives", "w").close()
    time.sleep(1000)
"""


def run(code: str, *arguments: str, cwd: Path | None = None) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", code, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        text=True, cwd=cwd, env=os.environ | {"PYTHONPATH": str(Path.cwd())},
    )  # fmt: skip


def test_the_next_waits_for_the_one_before(tmp_path: Path) -> None:
    with run(OWN, str(tmp_path)) as first:
        assert first.stdout is not None
        assert first.stdout.readline() == "mine\n"
        with run(OWN, str(tmp_path)) as second:
            assert second.stdout is not None
            wait_for(lambda: _waits(second.pid), "the second to wait")
            first.kill()
            assert second.stdout.readline() == "mine\n"
            second.kill()
    with owning_index(tmp_path):
        assert (tmp_path / "index-lock").exists()


def test_a_child_dies_with_its_parent(tmp_path: Path) -> None:
    with run(START, END_WITH, cwd=tmp_path) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        wait_for((tmp_path / f"{parent.pid}.lives").exists, "the child")
        parent.send_signal(signal.SIGKILL)
    wait_for(lambda: not _runs(child), "the end of the child")


def _waits(pid: int) -> bool:
    locks = Path("/proc/locks").read_text("ascii").splitlines()
    return any("->" in line and str(pid) in line.split() for line in locks)


def _runs(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"
