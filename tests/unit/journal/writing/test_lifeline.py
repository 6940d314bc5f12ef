"""A child process ends with its parent."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.support.process import wait_for

START = """
import os, subprocess, sys
child = subprocess.Popen([sys.executable, "-c", sys.argv[1], str(os.getpid())])
print(child.pid, flush=True)
sys.stdin.read()
"""
END_WITH = """
import sys, time
from daybook.journal.writing.lifeline import end_with
if end_with(int(sys.argv[1])):
    open(sys.argv[1] + ".lives", "w").close()
    time.sleep(1000)
"""


def run(code: str, *arguments: str, cwd: Path | None = None) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", code, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        text=True, cwd=cwd, env=os.environ | {"PYTHONPATH": str(Path.cwd())},
    )  # fmt: skip


def test_a_child_dies_with_its_parent(tmp_path: Path) -> None:
    with run(START, END_WITH, cwd=tmp_path) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        wait_for((tmp_path / f"{parent.pid}.lives").exists, "the child")
        parent.send_signal(signal.SIGKILL)
    wait_for(lambda: not _runs(child), "the end of the child")


def _runs(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"
