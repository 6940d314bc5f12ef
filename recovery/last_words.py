"""The file `last-words`: why a broker distrusted its index. The next broker then reads all of it.

The index is a memory-mapped file; damage in it can kill the process that reads it by a signal
(SIGSEGV, SIGBUS, SIGABRT). So a running broker keeps a file whose disk space is already allocated,
and Python's faulthandler writes the reason there when the process dies by such a signal. A broker
that finds the index damaged, and survives, writes there too. A broker that was killed from outside,
or that stopped, leaves no words: each start checks the structure of the tables anyway. Fault model:
the file may be missing, contain anything, or find no room on the disk; then the check of the
structure is all there is. Must never know the reaction to the words.
"""

import faulthandler
import os
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from daybook.journal.data_directory import LAST_WORDS

ROOM_BYTES: Final = 4096

# The first byte of the file: `!` if the index was already checked once after such words, and has
# not served for a while since.
_FIRST: Final = b"."
_AGAIN: Final = b"!"


class LastWords(NamedTuple):
    """Why the last broker distrusted the index, "" if it did not. With a reason, all of it is read.

    `again`: the broker before it did so too; the whole index was then read and found sound, and it
    has not served for a while since.
    """

    text: str
    again: bool = False


def last_words(path: Path) -> LastWords:
    """Read the last words of the last broker on a data directory."""
    try:
        with (path / LAST_WORDS).open("rb") as file:
            found = file.read(ROOM_BYTES)
    except OSError:
        return LastWords("")
    text = found[1:].rstrip(b"\0").decode("utf-8", "replace")
    line = next(iter(text.splitlines()), "").strip()
    return LastWords(line, bool(line) and found[:1] == _AGAIN)


class Watch:
    """Makes this process leave last words if it dies by a signal, until `close`."""

    def __init__(self, path: Path, before: LastWords) -> None:
        """`before` are the last words of the broker before, if its index is still used."""
        self._path: Final = path / LAST_WORDS
        self._descriptor = -1
        mark = _AGAIN if before.text else _FIRST
        # A disk without room for one page has none for the index either, which is reported
        # elsewhere.
        with suppress(OSError):
            flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
            self._descriptor = os.open(self._path, flags, 0o600)
            os.pwrite(self._descriptor, mark + bytes(ROOM_BYTES - 1), 0)
            os.lseek(self._descriptor, 1, os.SEEK_SET)
            faulthandler.enable(self._descriptor, all_threads=False)

    def close(self) -> None:
        """Stop watching, because the process ends regularly; remove the file if it has no words."""
        if self._descriptor < 0:
            return
        faulthandler.disable()
        os.close(self._descriptor)
        self._descriptor = -1
        if not last_words(self._path.parent).text:
            with suppress(OSError):
                self._path.unlink()


def trust(path: Path) -> None:
    """Note that the index has served for a while: the next distrust counts as the first one."""
    _write(path, _FIRST, 0, os.O_WRONLY)


def distrust(path: Path, why: str) -> None:
    """Make the next start read all of the index, because this broker found it damaged."""
    text = " ".join(why.split()).encode()[: ROOM_BYTES - 2]
    _write(path, text + b"\n", 1, os.O_WRONLY | os.O_CREAT)


def _write(path: Path, data: bytes, offset: int, flags: int) -> None:
    with suppress(OSError):
        descriptor = os.open(path / LAST_WORDS, flags | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            os.pwrite(descriptor, data, offset)
        finally:
            os.close(descriptor)
