"""Temporary folders of killed processes go; those in use, and those of others, stay."""

import errno
import fcntl
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from daybook import scratch_folders
from daybook.scratch_folders import (
    FILES,
    LOCK,
    ScratchFolder,
    remove_abandoned,
    remove_for_another,
    scratch_folder,
)

USES_ONE = """
import os, signal
from daybook.scratch_folders import scratch_folder

with scratch_folder("read") as path:
    (path / "index").mkdir()
    (path / "index" / "data.mdb").write_bytes(bytes(100_000))
    print(path, flush=True)
    signal.pause()
"""


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder for temporary files, of this process and of those that it starts."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return tmp_path


def look() -> None:
    """Look as a process does for the first time."""
    scratch_folders._remove_abandoned_in.cache_clear()
    remove_abandoned()


@contextmanager
def using_one() -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """Yield a process that uses a folder, and the folder."""
    process = subprocess.Popen(
        [sys.executable, "-P", "-c", USES_ONE], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        yield process, Path(process.stdout.readline().strip()).parent
    finally:
        process.kill()
        process.communicate()


def abandoned(place: Path, kind: str = "read") -> Path:
    """Return a folder as a killed process leaves it."""
    folder = place / f"daybook-{kind}-0"
    (folder / FILES).mkdir(parents=True)
    (folder / FILES / "file").write_bytes(b"x")
    (folder / LOCK).touch()
    return folder


def test_a_folder_goes_with_its_files(place: Path) -> None:
    with scratch_folder("read") as path:
        (path / "file").touch()
        [folder] = place.iterdir()
        assert folder.name.startswith("daybook-read-")
        assert folder.stat().st_mode & 0o777 == 0o700
    assert not list(place.iterdir())


def test_what_a_killed_process_left_goes_with_the_next_one(place: Path) -> None:
    with using_one() as (process, folder):
        look()
        assert folder.parent == place
        assert (folder / FILES / "index").exists(), "it is in use"
        os.kill(process.pid, signal.SIGKILL)
        process.wait(60)
        assert (folder / FILES / "index").exists()
        with using_one() as (_, other):
            assert not folder.exists()
            assert other.exists()


def test_it_is_looked_for_once(place: Path) -> None:
    look()
    folder = abandoned(place)
    ScratchFolder("read").remove()
    assert folder.exists()
    look()
    assert not folder.exists()


def test_folders_of_others_stay(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = abandoned(place)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    look()
    assert (folder / FILES / "file").exists()


def test_what_is_no_folder_of_ours_stays(place: Path) -> None:
    """A folder without a lock is of an earlier release or of another program; and links and pipes
    lead nowhere."""
    elsewhere = abandoned(place / "elsewhere")
    unlocked, piped = place / "daybook-read-1", place / "daybook-read-2"
    (unlocked / "index").mkdir(parents=True)
    piped.mkdir()
    (piped / LOCK).symlink_to(elsewhere / LOCK)
    (place / "daybook-read-3").symlink_to(elsewhere)
    (place / "daybook-read-4").touch()
    other = place / "another-read-5"
    abandoned(place).rename(other)
    look()
    for each in (unlocked / "index", piped, elsewhere / FILES / "file", other / FILES / "file"):
        assert each.exists(), each
    assert (place / "daybook-read-3").is_symlink()
    assert (place / "daybook-read-4").exists()


def test_a_removal_that_was_interrupted_is_repeated(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = abandoned(place)
    with monkeypatch.context() as patched:
        patched.setattr(scratch_folders.shutil, "rmtree", lambda *_, **__: None)
        look()
    assert (folder / LOCK).exists()
    look()
    assert not folder.exists()


def test_where_files_cannot_be_locked_a_folder_is_used_all_the_same(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(descriptor: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", refuse)
    with scratch_folder("read") as path:
        look()
        assert path.is_dir()
        assert not (path.parent / LOCK).exists()
    assert not list(place.iterdir())


def test_a_process_removes_the_folder_of_another_one_that_was_killed(place: Path) -> None:
    folder = abandoned(place)
    remove_for_another(folder / FILES)
    assert not folder.exists()
