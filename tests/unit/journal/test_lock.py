"""The lock of a data directory."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from journal.errors import Locked
from journal.lock import LOCK_NAME, DirectoryLock, holder_pid


def test_a_second_holder_is_refused_and_told_who_holds_it(tmp_path: Path) -> None:
    with DirectoryLock(tmp_path):
        assert holder_pid(tmp_path) == os.getpid()
        with pytest.raises(Locked, match=f"process {os.getpid()}") as refused:
            DirectoryLock(tmp_path)
        assert refused.value.pid == os.getpid()
    lock = DirectoryLock(tmp_path)
    lock.release()
    lock.release()
    assert holder_pid(tmp_path) == 0


def test_a_killed_holder_leaves_no_lock(tmp_path: Path) -> None:
    program = (
        "import sys; from journal.lock import DirectoryLock; "
        "DirectoryLock(sys.argv[1]); print('held', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=Path(__file__).parents[3],
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        with pytest.raises(Locked, match=f"process {process.pid}"):
            DirectoryLock(tmp_path)
        process.kill()
        process.wait()
        assert holder_pid(tmp_path) == process.pid
        DirectoryLock(tmp_path).release()


def test_what_is_no_pid_is_no_pid(tmp_path: Path) -> None:
    assert holder_pid(tmp_path) == 0
    (tmp_path / LOCK_NAME).write_bytes(b"\xff\xfe")
    assert holder_pid(tmp_path) == 0
    (tmp_path / LOCK_NAME).write_text("nobody")
    assert holder_pid(tmp_path) == 0
