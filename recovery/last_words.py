"""What a broker left behind that had a reason to distrust its index: the next one reads all of it.

Damage of a map ends the process that looks at it, by a signal (SIGSEGV, SIGBUS, SIGABRT). So while
a broker runs there is a file, which has its room on the disk already, and to which Python's
faulthandler writes the last words of a process that dies so. A broker that found the index to be
wrong and could still speak writes there, too. One that was killed, or ended by itself, says nothing
there: what could kill the next one is seen in the structure of the tables, at each start. Fault
model: the file may be missing or have anything in it, and there may be no room for it: then the
structure alone is looked at. Must never know what is done about it.
"""

import faulthandler
import os
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from daybook.journal.data_directory import LAST_WORDS

ROOM_BYTES: Final = 4096

# The first byte: whether the index was found sound after such words, and has not served since.
_FIRST: Final = b"."
_AGAIN: Final = b"!"


class LastWords(NamedTuple):
    """What the last broker said, empty if nothing: why the index is to be read in full.

    `again`: so did the one before, after whom all of the index was read and found sound, and it has
    not served for a while since.
    """

    text: str
    again: bool = False


def last_words(path: Path) -> LastWords:
    """Read what the last broker on a data directory said."""
    try:
        with (path / LAST_WORDS).open("rb") as file:
            found = file.read(ROOM_BYTES)
    except OSError:
        return LastWords("")
    text = found[1:].rstrip(b"\0").decode("utf-8", "replace")
    line = next(iter(text.splitlines()), "").strip()
    return LastWords(line, bool(line) and found[:1] == _AGAIN)


class Watch:
    """Has this process leave its last words, until `close`."""

    def __init__(self, path: Path, before: LastWords) -> None:
        """`before` is what the last broker said, if its index is used all the same."""
        self._path: Final = path / LAST_WORDS
        self._descriptor = -1
        mark = _AGAIN if before.text else _FIRST
        # A disk without room for a page has none for an index either, and that is told.
        with suppress(OSError):
            flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
            self._descriptor = os.open(self._path, flags, 0o600)
            os.pwrite(self._descriptor, mark + bytes(ROOM_BYTES - 1), 0)
            os.lseek(self._descriptor, 1, os.SEEK_SET)
            faulthandler.enable(self._descriptor, all_threads=False)

    def close(self) -> None:
        """The process ends by itself: what it did not say it will not say."""
        if self._descriptor < 0:
            return
        faulthandler.disable()
        os.close(self._descriptor)
        self._descriptor = -1
        if not last_words(self._path.parent).text:
            with suppress(OSError):
                self._path.unlink()


def trust(path: Path) -> None:
    """The index has served for a while: the next reason to distrust it is the first one."""
    _write(path, _FIRST, 0, os.O_WRONLY)


def distrust(path: Path, why: str) -> None:
    """Have the next start read all of the index, because this one found it wrong."""
    text = " ".join(why.split()).encode()[: ROOM_BYTES - 2]
    _write(path, text + b"\n", 1, os.O_WRONLY | os.O_CREAT)


def _write(path: Path, data: bytes, offset: int, flags: int) -> None:
    with suppress(OSError):
        descriptor = os.open(path / LAST_WORDS, flags | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            os.pwrite(descriptor, data, offset)
        finally:
            os.close(descriptor)
