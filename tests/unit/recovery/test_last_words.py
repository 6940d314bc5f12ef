"""A process that dies of a signal says so in a file, and no other does."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from daybook.journal.data_directory import LAST_WORDS
from daybook.recovery.last_words import ROOM_BYTES, LastWords, Watch, distrust, last_words, trust
from tests.meta.tree import ROOT

NOTHING = LastWords("")
DEATH = """
import os, sys
from pathlib import Path
from daybook.recovery.last_words import *
watch = Watch(Path(sys.argv[1]), last_words(Path(sys.argv[1])))
os.kill(os.getpid(), int(sys.argv[2]))
"""


def die(path: Path, number: int) -> int:
    """Have a process that is watched kill itself; answers its exit code."""
    command = [sys.executable, "-c", DEATH, str(path), str(number)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, check=False).returncode


@pytest.mark.parametrize(
    ("number", "says"),
    [
        (signal.SIGABRT, "Fatal Python error: Aborted"),
        (signal.SIGSEGV, "Fatal Python error: Segmentation fault"),
        (signal.SIGBUS, "Fatal Python error: Bus error"),
    ],
)
def test_a_death_by_a_signal_is_told(tmp_path: Path, number: int, says: str) -> None:
    assert die(tmp_path, number) == -number
    assert last_words(tmp_path) == LastWords(says, again=False)
    assert die(tmp_path, number) == -number
    assert last_words(tmp_path) == LastWords(says, again=True)


def test_who_is_killed_says_nothing(tmp_path: Path) -> None:
    assert die(tmp_path, signal.SIGKILL) == -signal.SIGKILL
    assert last_words(tmp_path) == NOTHING
    assert (tmp_path / LAST_WORDS).stat().st_size == ROOM_BYTES
    assert (tmp_path / LAST_WORDS).stat().st_mode & 0o777 == 0o600


def test_who_ends_by_itself_leaves_nothing(tmp_path: Path) -> None:
    Watch(tmp_path, NOTHING).close()
    assert list(tmp_path.iterdir()) == []


def test_distrust_outlives_the_process(tmp_path: Path) -> None:
    watch = Watch(tmp_path, NOTHING)
    distrust(tmp_path, "the crc of a row\nof table 'carried' does not fit")
    watch.close()
    watch.close()
    found = last_words(tmp_path)
    assert found == LastWords("the crc of a row of table 'carried' does not fit")
    # The index was read then, and found sound; but the next one fails as well, or does not.
    watch = Watch(tmp_path, found)
    assert last_words(tmp_path) == NOTHING
    distrust(tmp_path, "once more")
    assert last_words(tmp_path) == LastWords("once more", again=True)
    trust(tmp_path)
    assert last_words(tmp_path) == LastWords("once more")
    watch.close()


@pytest.mark.parametrize("content", [b"", b".", b"!", bytes(ROOM_BYTES), b"\xff" * 9000])
def test_the_file_may_have_anything_in_it(tmp_path: Path, content: bytes) -> None:
    (tmp_path / LAST_WORDS).write_bytes(content)
    assert bool(last_words(tmp_path).text) == (len(content) > ROOM_BYTES)


def test_nobody_is_led_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("as it was")
    (tmp_path / LAST_WORDS).symlink_to(tmp_path / "precious")
    Watch(tmp_path, NOTHING).close()
    distrust(tmp_path, "why")
    trust(tmp_path)
    assert (tmp_path / "precious").read_text() == "as it was"
