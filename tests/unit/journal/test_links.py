"""The links of a file, by a call that does not ask for its times, or by one that does."""

import errno
import os
from pathlib import Path

import pytest

from daybook.journal import links
from daybook.journal.links import link_count
from tests.support.compiled import replaces_parts


@pytest.fixture(params=["statx", "refused", "missing"])
def call(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The facilities of the system."""
    if request.param == "refused":
        monkeypatch.setattr(links, "_STATX", lambda *_: -1)
    elif request.param == "missing":
        monkeypatch.setattr(links, "_STATX", None)


@replaces_parts
@pytest.mark.usefixtures("call")
def test_links_are_counted_until_the_last_is_gone(tmp_path: Path) -> None:
    path, other = tmp_path / "a", tmp_path / "b"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT)
    try:
        assert link_count(descriptor) == 1
        other.hardlink_to(path)
        assert link_count(descriptor) == 2
        path.unlink()
        other.unlink()
        assert link_count(descriptor) == 0
    finally:
        os.close(descriptor)
    with pytest.raises(OSError, match="Bad file descriptor") as caught:
        link_count(descriptor)
    assert caught.value.errno == errno.EBADF


def test_this_system_can_tell_without_the_times() -> None:
    assert links._STATX is not None
