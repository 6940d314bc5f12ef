"""Spare descriptors, in a process that has no others."""

import errno
import gc
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from daybook.journal.disk import RealDisk
from daybook.journal.spares import AT_ONCE, SPARES, Spares, open_descriptor


@contextmanager
def nothing_left() -> Iterator[None]:
    """A process whose descriptors are all in use."""
    # Descriptors that other tests left to be collected must not come free in between.
    gc.collect()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken: list[int] = []
    # The limit is one of numbers, not of how many are open: a spare above it would free nothing.
    limit = 1 + max(int(each.name) for each in Path("/proc/self/fd").iterdir())
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
        with suppress(OSError):
            taken += iter(lambda: os.open("/dev/null", os.O_RDONLY), -1)
        yield
    finally:
        for descriptor in taken:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.fixture
def spares() -> Iterator[Spares]:
    SPARES.reserve(2 * AT_ONCE)
    yield SPARES
    SPARES.release()


def test_a_file_opens_with_a_spare_descriptor(spares: Spares, tmp_path: Path) -> None:
    (tmp_path / "segment").write_bytes(b"content")
    with nothing_left():
        assert not spares.is_short
        assert RealDisk(tmp_path).names() == ["segment"]
        file = RealDisk(tmp_path).open("segment")
        assert file.pread(7, 0) == b"content"
        assert spares.is_short
        assert not spares.refill()
        file.close()
    assert spares.refill()
    assert not spares.is_short


def test_without_spares_it_is_an_error(tmp_path: Path) -> None:
    with nothing_left(), pytest.raises(OSError, match=os.strerror(errno.EMFILE)):
        open_descriptor(tmp_path, os.O_RDONLY)


def test_other_errors_cost_no_spares(spares: Spares, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        open_descriptor(tmp_path / "missing", os.O_RDONLY)
    assert not spares.is_short


def test_what_was_released_is_not_wanted(spares: Spares) -> None:
    spares.release()
    assert not spares.is_short
    assert not spares.give()
    assert spares.refill()
