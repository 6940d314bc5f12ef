"""The file `tag-key`: kept as long as it is sound, and made again otherwise."""

from pathlib import Path

import pytest

from daybook.journal.data_directory import TAG_KEY
from daybook.recovery.tag_key import KEY_BYTES, tag_key


def test_it_is_kept_and_for_its_owner_alone(tmp_path: Path) -> None:
    key = tag_key(tmp_path)
    assert len(key) == KEY_BYTES
    assert tag_key(tmp_path) == key
    assert (tmp_path / TAG_KEY).stat().st_mode & 0o777 == 0o600
    assert [each.name for each in tmp_path.iterdir()] == [TAG_KEY]


@pytest.mark.parametrize("content", [b"", b"short", bytes(KEY_BYTES + 1)])
def test_a_key_that_is_none_is_replaced(tmp_path: Path, content: bytes) -> None:
    (tmp_path / TAG_KEY).write_bytes(content)
    key = tag_key(tmp_path)
    assert key != content
    assert tag_key(tmp_path) == key


def test_it_follows_no_link(tmp_path: Path) -> None:
    (tmp_path / "other").write_bytes(b"k" * KEY_BYTES)
    (tmp_path / TAG_KEY).symlink_to(tmp_path / "other")
    key = tag_key(tmp_path)
    assert key != b"k" * KEY_BYTES
    assert not (tmp_path / TAG_KEY).is_symlink()
    assert tag_key(tmp_path) == key


def test_without_room_it_lasts_as_long_as_the_process(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    assert len(tag_key(gone)) == KEY_BYTES
    assert tag_key(gone) != tag_key(gone)
    (tmp_path / TAG_KEY).mkdir()
    assert len(tag_key(tmp_path)) == KEY_BYTES
