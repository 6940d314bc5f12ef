"""The lock of a data directory."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from daybook.journal.data_directory import LOCK
from daybook.journal.errors import Locked
from daybook.journal.lock import DirectoryLock, holder_pid


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
        "import sys; from daybook.journal.lock import DirectoryLock; "
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
    (tmp_path / LOCK).write_bytes(b"\xff\xfe")
    assert holder_pid(tmp_path) == 0
    (tmp_path / LOCK).write_text("nobody")
    assert holder_pid(tmp_path) == 0


def test_a_file_that_was_removed_lets_nobody_in(tmp_path: Path) -> None:
    folder = tmp_path / "journal"
    folder.mkdir()
    with DirectoryLock(tmp_path) as first:
        first.hold(folder)
        (tmp_path / LOCK).unlink()
        second = DirectoryLock(tmp_path)
        with pytest.raises(Locked, match=f"process {os.getpid()}"):
            second.hold(folder)
        assert first.renew()
        assert holder_pid(tmp_path) == os.getpid()
        assert not first.renew()
        with pytest.raises(Locked):
            DirectoryLock(tmp_path)
    again = DirectoryLock(tmp_path)
    again.hold(folder)
    again.release()


def test_whoever_tries_does_not_keep_the_file_from_its_holder(tmp_path: Path) -> None:
    first = DirectoryLock(tmp_path)
    (tmp_path / LOCK).unlink()
    second = DirectoryLock(tmp_path)
    assert not first.renew()
    second.release()
    assert first.renew()
    first.release()
