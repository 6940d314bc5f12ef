"""The real disk and the one in memory do the same."""

import errno
import os
from pathlib import Path

import pytest

from daybook.journal.disk import Disk, MemoryDisk, RealDisk, write_all
from tests.simulation.machine.disk import Faults, FaultyDisk


@pytest.fixture(params=["real", "memory", "simulated"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Disk:
    if request.param == "real":
        return RealDisk(tmp_path)
    return MemoryDisk() if request.param == "memory" else FaultyDisk(0)


def test_what_is_written_is_read(disk: Disk) -> None:
    file = disk.open_for_writing("a")
    assert file.pwrite(b"hello", 3) == 5
    file.fdatasync()
    assert file.size() == 8
    assert file.pread(99, 0) == b"\0\0\0hello"
    assert file.pread(2, 4) == b"el"
    assert file.pread(5, 99) == b""
    other = disk.open("a")
    file.pwrite(b"J", 3)
    assert other.pread(5, 3) == b"Jello"
    other.close()
    file.close()
    file.close()


def test_sizes(disk: Disk) -> None:
    file = disk.open_for_writing("a")
    file.pwrite(b"hello", 0)
    file.allocate(10)
    assert file.pread(99, 0) == b"hello" + bytes(5)
    file.allocate(3)
    assert file.size() == 10
    file.truncate(2)
    assert file.pread(99, 0) == b"he"
    file.truncate(4)
    assert file.pread(99, 0) == b"he\0\0"
    file.close()


def test_names(disk: Disk) -> None:
    assert disk.names() == []
    for name in ("b", "a", "c"):
        file = disk.open_for_writing(name)
        file.pwrite(name.encode(), 0)
        file.close()
    assert disk.names() == ["a", "b", "c"]
    disk.rename("a", "c")
    disk.remove("b")
    disk.sync_directory()
    assert disk.names() == ["c"]
    file = disk.open("c")
    assert file.pread(9, 0) == b"a"
    file.close()


def test_what_is_not_there(disk: Disk) -> None:
    with pytest.raises(FileNotFoundError):
        disk.open("a")
    with pytest.raises(FileNotFoundError):
        disk.remove("a")
    with pytest.raises(FileNotFoundError):
        disk.rename("a", "b")


def test_a_directory_that_is_not_there_holds_nothing_until_it_is_created(tmp_path: Path) -> None:
    disk = RealDisk(tmp_path / "one" / "two")
    assert disk.names() == []
    disk.create()
    disk.create()
    disk.sync_directory()
    assert (tmp_path / "one" / "two").is_dir()


def test_short_writes_are_gone_on_with() -> None:
    disk = FaultyDisk(5, faults=Faults(short_write=1.0))
    file = disk.open_for_writing("a")
    data = bytes(range(256)) * 4
    assert file.pwrite(data, 0) < len(data)
    disk.faults = Faults(short_write=0.7)
    write_all(file, data, 0)
    assert file.pread(2000, 0) == data


def test_a_disk_that_takes_nothing_is_an_error() -> None:
    class Stuck:
        def pwrite(self, data: bytes, offset: int) -> int:
            return 0

    with pytest.raises(OSError, match="no bytes") as refused:
        write_all(Stuck(), b"x", 0)  # type: ignore[arg-type]
    assert refused.value.errno == errno.EIO


def test_reads_that_come_in_parts_are_put_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = RealDisk(tmp_path).open_for_writing("a")
    file.pwrite(b"0123456789", 0)
    whole = os.pread
    monkeypatch.setattr(os, "pread", lambda fd, count, offset: whole(fd, min(count, 3), offset))
    assert file.pread(8, 1) == b"12345678"
    assert file.pread(99, 4) == b"456789"
    monkeypatch.undo()
    file.close()
