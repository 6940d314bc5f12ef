"""The suite of arbiters on a file, and its faults."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from daybook.replication.arbiters import lease_file
from daybook.replication.arbiters.arbiter import ArbiterFault
from daybook.replication.arbiters.lease_file import LOCK, FileArbiter, since_start
from tests.suites.arbiter_suite import ArbiterSuite, Worlds

MICROSECONDS = 2_000_000


class FileWorld:
    """A file, and a clock that moves by hand."""

    microseconds = MICROSECONDS

    def __init__(self, path: Path) -> None:
        self.path = path
        self.now = 0

    def arbiter(self) -> FileArbiter:
        return FileArbiter(self.path, MICROSECONDS, 1.0, lambda: self.now)

    async def sleep(self, leases: float) -> None:
        self.now += int(leases * MICROSECONDS)


@pytest.fixture
def world(tmp_path: Path) -> Worlds:
    @asynccontextmanager
    async def make() -> AsyncIterator[FileWorld]:
        yield FileWorld(tmp_path / "lease")

    return make


class TestFileArbiter(ArbiterSuite):
    pass


HOLDS = """
import fcntl, sys
file = open(sys.argv[1], "w")
fcntl.flock(file, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""


def test_a_process_that_is_stopped_within_a_call_keeps_others_out(tmp_path: Path) -> None:
    path = tmp_path / "lease"
    arbiter = FileArbiter(path, MICROSECONDS, 0.2)
    with subprocess.Popen(
        [sys.executable, "-c", HOLDS, f"{path}{LOCK}"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as other:
        assert other.stdout is not None
        other.stdout.readline()
        other.send_signal(signal.SIGSTOP)
        begun = since_start()
        with pytest.raises(ArbiterFault, match=r"lease: no answer within 0\.2 s; is a process"):
            asyncio.run(arbiter.acquire("a", "", 0))
        assert since_start() - begun < 5_000_000
        assert asyncio.run(arbiter.holder()) is None
        other.kill()
    assert asyncio.run(arbiter.acquire("a", "", 0)) is not None


def test_a_disk_that_hangs_costs_no_more_than_the_time_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arbiter = FileArbiter(tmp_path / "lease", MICROSECONDS, 0.2)
    read, write = os.pipe()

    def hangs(descriptor: int) -> None:
        os.read(read, 1)

    async def scene() -> None:
        with pytest.raises(ArbiterFault, match="no answer within"):
            await arbiter.acquire("a", "", 0)
        os.write(write, b"..")

    monkeypatch.setattr(lease_file.os, "fsync", hangs)
    asyncio.run(scene())
    os.close(read)
    os.close(write)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"epoch": "one"}', b"\xff\xfe"])
def test_a_file_that_is_none_of_a_lease_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "lease"
    path.write_bytes(content)
    arbiter = FileArbiter(path, MICROSECONDS, 1.0)
    for call in (arbiter.holder(), arbiter.acquire("a", "", 0), arbiter.renew(1)):
        with pytest.raises(ArbiterFault, match=r"is not a lease .*: stop all nodes and remove it"):
            asyncio.run(call)
    assert path.read_bytes() == content


def test_a_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    arbiter = FileArbiter(tmp_path / "none" / "lease", MICROSECONDS, 1.0)
    assert asyncio.run(arbiter.holder()) is None
    with pytest.raises(
        ArbiterFault, match=r"none/lease, cannot be used: No such file .* a folder that exists"
    ):
        asyncio.run(arbiter.acquire("a", "", 0))


def test_a_restart_of_the_machine_ends_the_lease(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "lease"
    first = asyncio.run(FileArbiter(path, MICROSECONDS, 1.0).acquire("a", "", 0))
    assert first is not None
    boot = tmp_path / "boot"
    boot.write_text("another\n")
    monkeypatch.setattr(lease_file, "_BOOT", boot)
    arbiter = FileArbiter(path, MICROSECONDS, 1.0)
    assert asyncio.run(arbiter.holder()) is None
    later = asyncio.run(arbiter.acquire("b", "", 0))
    assert later is not None
    assert later.epoch > first.epoch


def test_a_lease_outlives_the_process_that_has_it(tmp_path: Path) -> None:
    """As with etcd: a process that was killed may have been slow only."""
    path = tmp_path / "lease"
    script = (
        "import asyncio, sys; from pathlib import Path;"
        " from daybook.replication.arbiters.lease_file import FileArbiter;"
        " print(asyncio.run(FileArbiter(Path(sys.argv[1]), 60_000_000, 1.0).acquire('a', '', 0)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(path)], capture_output=True, text=True, check=True
    )
    assert "epoch=1" in done.stdout
    arbiter = FileArbiter(path, 60_000_000, 1.0)
    assert asyncio.run(arbiter.acquire("b", "", 0)) is None
