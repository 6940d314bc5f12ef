"""The simulated disk keeps to the fault model that it states."""

import errno

import pytest

from daybook.tools.drills.disks.fault_model import SECTOR_BYTES
from tests.simulation.machine.disk import Faults, FaultyDisk, FaultyFile, PowerCut


def durable_file(disk: FaultyDisk, content: bytes) -> FaultyFile:
    file = disk.open_for_writing("a")
    file.pwrite(content, 0)
    file.fdatasync()
    disk.sync_directory()
    return file


def content_of(disk: FaultyDisk, name: str = "a") -> bytes:
    file = disk.open(name)
    return file.pread(file.size(), 0)


def outcomes(seeds: int, content: bytes, change: bytes, offset: int) -> set[bytes]:
    """The possible content of a file after a cut that followed an unsynced write."""
    found = set()
    for seed in range(seeds):
        disk = FaultyDisk(seed)
        durable_file(disk, content).pwrite(change, offset)
        found.add(content_of(disk.crash()))
    return found


def test_what_was_synced_survives() -> None:
    for seed in range(20):
        disk = FaultyDisk(seed)
        durable_file(disk, b"x" * 3000)
        assert content_of(disk.crash()) == b"x" * 3000


def test_what_was_not_synced_is_lost_kept_or_torn_at_sectors() -> None:
    sectors = 3
    old, new = b"o" * SECTOR_BYTES, b"n" * SECTOR_BYTES
    found = outcomes(200, old * sectors, new * sectors, 0)
    assert found == {
        b"".join(new if bits >> sector & 1 else old for sector in range(sectors))
        for bits in range(1 << sectors)
    }


def test_a_sector_written_twice_keeps_either_version() -> None:
    found = set()
    for seed in range(100):
        disk = FaultyDisk(seed)
        file = durable_file(disk, b"0")
        file.pwrite(b"1", 0)
        file.pwrite(b"2", 0)
        found.add(content_of(disk.crash()))
    assert found == {b"0", b"1", b"2"}


def test_a_size_that_was_not_synced_may_be_lost() -> None:
    found = {len(content) for content in outcomes(50, b"old", b"n" * 600, 3)}
    assert found == {3, 603}


def test_a_cut_that_was_not_synced_may_be_lost_and_nothing_comes_back_through_it() -> None:
    found = set()
    for seed in range(60):
        disk = FaultyDisk(seed)
        file = durable_file(disk, b"a" * 700)
        file.pwrite(b"b" * 700, 0)
        file.truncate(10)
        file.allocate(700)
        assert content_of(disk) == b"b" * 10 + bytes(690)
        if seed % 2:
            file.fdatasync()
            assert content_of(disk.crash()) == b"b" * 10 + bytes(690)
        else:
            found.add(len(content_of(disk.crash())))
    assert {700, 10} <= found


def test_names_need_a_sync_of_the_directory() -> None:
    found = set()
    for seed in range(60):
        disk = FaultyDisk(seed)
        durable_file(disk, b"content")
        disk.open_for_writing("new").fdatasync()
        disk.rename("a", "b")
        found.add(tuple(disk.crash().names()))
    assert found == {("a",), ("b",), ("a", "new"), ("b", "new")}


def test_removals_need_a_sync_of_the_directory() -> None:
    found = set()
    for seed in range(30):
        disk = FaultyDisk(seed)
        durable_file(disk, b"content")
        disk.remove("a")
        assert disk.names() == []
        found.add(tuple(disk.crash().names()))
    assert found == {("a",), ()}


def test_a_failed_sync_drops_data_for_good_though_it_can_be_read() -> None:
    found = set()
    for seed in range(40):
        disk = FaultyDisk(seed)
        file = durable_file(disk, b"old")
        file.pwrite(b"new", 0)
        disk.fail_next("fdatasync")
        with pytest.raises(OSError, match="Input/output"):
            file.fdatasync()
        assert content_of(disk) == b"new"
        file.fdatasync()
        found.add(content_of(disk.crash()))
    assert found == {b"old", b"new"}


def test_the_power_goes_within_the_call_that_was_named() -> None:
    disk = FaultyDisk(1)
    file = durable_file(disk, b"old")
    disk.crash_after(2)
    file.pwrite(b"1", 0)
    with pytest.raises(PowerCut):
        file.pwrite(b"2", 0)
    for use in (disk.names, disk.sync_directory, file.size, file.fdatasync):
        with pytest.raises(PowerCut):
            use()
    assert disk.crash().names() == ["a"]


@pytest.mark.parametrize("call", ["truncate", "allocate", "fdatasync", "rename", "sync_directory"])
def test_the_power_goes_in_every_kind_of_call(call: str) -> None:
    disk = FaultyDisk(1)
    file = durable_file(disk, b"old")
    disk.crash_after(1)
    calls = {
        "truncate": lambda: file.truncate(1),
        "allocate": lambda: file.allocate(9),
        "fdatasync": file.fdatasync,
        "rename": lambda: disk.rename("a", "b"),
        "sync_directory": disk.sync_directory,
    }
    with pytest.raises(PowerCut):
        calls[call]()
    assert len(disk.crash().names()) == 1


def test_room_is_bounded() -> None:
    disk = FaultyDisk(1, capacity_bytes=1000)
    file = durable_file(disk, bytes(400))
    with pytest.raises(OSError, match="No space") as refused:
        file.allocate(1001)
    assert refused.value.errno == errno.ENOSPC
    file.allocate(1000)
    assert disk.used_bytes() == 1000
    disk.capacity_bytes = None
    file.allocate(2000)


def test_errors_by_chance_come_as_often_as_told() -> None:
    disk = FaultyDisk(1, faults=Faults(write_error=0.5, read_error=0.5))
    file = disk.open_for_writing("a")
    failures = {"pwrite": 0, "pread": 0}
    for _ in range(200):
        for call, use in (
            ("pwrite", lambda: file.pwrite(b"x", 0)),
            ("pread", lambda: file.pread(1, 0)),
        ):
            try:
                use()
            except OSError:
                failures[call] += 1
    assert 60 < failures["pwrite"] < 140
    assert 60 < failures["pread"] < 140


def test_a_flipped_bit_is_read_and_stays() -> None:
    disk = FaultyDisk(1)
    durable_file(disk, b"\0\0")
    disk.flip("a", 9)
    assert content_of(disk) == b"\0\2"
    assert content_of(disk.crash()) == b"\0\2"


def test_the_same_seed_gives_the_same_disk() -> None:
    assert [outcomes(30, b"a" * 2000, b"b" * 2000, 0)] * 2 == [
        outcomes(30, b"a" * 2000, b"b" * 2000, 0) for _ in range(2)
    ]
