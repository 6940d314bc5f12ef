"""The disk that notes what a power cut takes away, and what is done with its notes."""

import errno
import random
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import Any

import pytest

from daybook.tools.drills.campaigns.hardships import DiskFull
from daybook.tools.drills.clients.ledger import Ledger
from daybook.tools.drills.clients.witness import Wrong
from daybook.tools.drills.disks.undo_log import DiskPlan, NotingDisk, cut_power

SECTOR = 512
OLD, NEW = b"o" * 8 * SECTOR, b"n" * 8 * SECTOR


@pytest.fixture
def disk(tmp_path: Path) -> NotingDisk:
    disk = NotingDisk(tmp_path / "journal", DiskPlan(log=str(tmp_path / "log")))
    disk.create()
    file = disk.open_for_writing("a")
    file.pwrite(OLD, 0)
    file.fdatasync()
    disk.sync_directory()
    file.close()
    return disk


def cut(disk: NotingDisk, seed: int) -> bytes:
    cut_power(disk.path, disk.path.parent / "log", random.Random(seed))
    return (disk.path / "a").read_bytes()


def test_what_was_synced_stays(disk: NotingDisk) -> None:
    file = disk.open_for_writing("a")
    file.pwrite(NEW, 0)
    file.fdatasync()
    assert all(cut(disk, seed) == NEW for seed in range(20))


def test_what_was_not_synced_is_lost_by_sectors(disk: NotingDisk) -> None:
    seen = set()
    for seed in range(40):
        disk.open_for_writing("a").pwrite(NEW, 0)
        content = cut(disk, seed)
        sectors = {content[start : start + SECTOR] for start in range(0, len(content), SECTOR)}
        assert sectors <= {OLD[:SECTOR], NEW[:SECTOR]}
        seen.add(content)
        file = disk.open_for_writing("a")
        file.pwrite(OLD, 0)
        file.fdatasync()
    assert len(seen) > 5
    assert OLD in seen


def test_a_write_within_a_sector_is_undone_alone(disk: NotingDisk) -> None:
    for seed in range(20):
        disk.open_for_writing("a").pwrite(b"nn", 510)
        assert cut(disk, seed)[509:513] in (b"oooo", b"onoo", b"oono", b"onno")
        file = disk.open_for_writing("a")
        file.pwrite(OLD, 0)
        file.fdatasync()


def test_names_that_were_not_synced_are_lost_in_order(disk: NotingDisk) -> None:
    seen = set()
    for seed in range(30):
        disk.open_for_writing("b").close()
        disk.rename("b", "c")
        cut(disk, seed)
        names = tuple(disk.names())
        seen.add(names)
        for name in names[1:]:
            disk.remove(name)
        disk.sync_directory()
    assert seen == {("a",), ("a", "b"), ("a", "c")}


def test_a_note_that_was_cut_short_is_of_no_change(disk: NotingDisk) -> None:
    log = disk.path.parent / "log"
    before = len(log.read_bytes())
    disk.open_for_writing("a").pwrite(NEW, 0)
    log.write_bytes(log.read_bytes()[: before + 20])
    assert cut(disk, 1) == NEW


def test_a_disk_without_room(tmp_path: Path) -> None:
    (tmp_path / "room").write_text("10000")
    disk = NotingDisk(tmp_path / "journal", DiskPlan(room=str(tmp_path / "room")))
    disk.create()
    file = disk.open_for_writing("a")
    file.allocate(9000)
    with pytest.raises(OSError, match="No space") as full:
        file.allocate(12_000)
    assert full.value.errno == errno.ENOSPC
    (tmp_path / "room").write_text("20000")
    file.allocate(12_000)


def broker(words: str, *, runs: bool) -> Any:
    return SimpleNamespace(
        launch=lambda: None, wait_a_moment=lambda seconds: None, kill=lambda: None,
        is_running=runs, is_ready=lambda: runs, last_words=lambda: words, port=0,
        serving=SimpleNamespace(data="data"),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("words", "is_right"),
    [
        ("the broker cannot start: No space left on device. Free disk space", True),
        ("the broker cannot start: KeyError 17", False),
        ("Traceback", False),
    ],
)
def test_a_start_on_a_full_disk_names_it(words: str, is_right: bool) -> None:
    room: Any = SimpleNamespace(enlarge=lambda count: None)
    full = DiskFull(room)
    full._is_full = True
    one = broker(words, runs=False)
    if is_right:
        full.aftermath(one, Ledger())
        assert full.starts_while_full == 1
    else:
        with pytest.raises(Wrong, match="does not say"):
            full.aftermath(one, Ledger())


def test_a_sync_waits_while_the_disk_hangs(tmp_path: Path) -> None:
    hang = tmp_path / "hang"
    hang.touch()
    disk = NotingDisk(tmp_path / "journal", DiskPlan(hang=str(hang)))
    disk.create()
    file = disk.open_for_writing("a")
    syncing = Thread(target=file.fdatasync)
    syncing.start()
    syncing.join(0.1)
    assert syncing.is_alive()
    hang.unlink()
    syncing.join()
