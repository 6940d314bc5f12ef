"""Space on the disk: the system's figures, and the limit."""

from pathlib import Path

import pytest

from daybook.server.process.disk_space import DiskSpace, Space, measure

HUNDRED = Space(total=1000, free=100)


def test_the_file_system_is_asked(tmp_path: Path) -> None:
    space = measure(tmp_path)
    assert space is not None
    assert 0 < space.free <= space.total
    assert 0 <= space.used_percent <= 100


def test_a_folder_that_is_gone_says_nothing(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    assert measure(gone) is None
    disk = DiskSpace(gone)
    assert disk.judge(max_disk_usage=0, min_disk_free=1 << 60) == ""
    assert disk.space is None


@pytest.mark.parametrize(
    ("usage", "free", "words"),
    [
        (-1, -1, ""),
        (90, -1, ""),
        (89, -1, "90.0 % are in use, and max-disk-usage is 89"),
        (-1, 100, ""),
        (-1, 101, "100 bytes are free, and min-disk-free is 101"),
        (10, 100, ""),  # min-disk-free goes first
        (100, 101, "100 bytes are free, and min-disk-free is 101"),
    ],
)
def test_limits(usage: int, free: int, words: str, tmp_path: Path) -> None:
    disk = DiskSpace(tmp_path, lambda _: HUNDRED)
    assert disk.judge(max_disk_usage=usage, min_disk_free=free) == words
    assert disk.space == HUNDRED


def test_what_was_seen_last_is_kept_when_nothing_is_known(tmp_path: Path) -> None:
    answers = [HUNDRED, None]
    disk = DiskSpace(tmp_path, lambda _: answers.pop(0))
    assert disk.judge(max_disk_usage=1, min_disk_free=-1)
    assert not disk.judge(max_disk_usage=1, min_disk_free=-1)
    assert disk.space == HUNDRED


def test_a_file_system_without_blocks_is_full() -> None:
    assert Space(0, 0).used_percent == 100.0
