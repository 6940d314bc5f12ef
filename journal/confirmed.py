"""How far a cluster has confirmed the journal of a node, for readers in other processes (ADR 118).

A file that the node maps into its memory, with one number, and behind it its complement: stores of
aligned words, each of which a reader sees whole. A reader that finds two that do not fit looks
again, since the node may be between the two; a node that finds them begins with 0. Confirmed events
stay confirmed, so a number that is too low, or from before a crash, is right as well. A broker that
no node started has no such file. Must never know who confirms.
"""

import mmap
import os
import time
from pathlib import Path
from struct import Struct
from typing import Final

from daybook.journal.blocks.format import segment_first_lsn
from daybook.journal.data_directory import CONFIRMED, JOURNAL, NODE
from daybook.journal.disk import RealDisk
from daybook.journal.errors import JournalError

UNBOUNDED: Final = 1 << 64
"""Above all LSNs: nothing but the end of the journal is the end."""
_WORDS: Final = Struct("<QQ")
_MASK: Final = (1 << 64) - 1
_LOOKS: Final = 50
_LOOK_SECONDS: Final = 0.002
"""So often, and with this pause, a reader looks for two words that fit."""


class ConfirmedMark:
    """The number of one node, which sets it."""

    def __init__(self, directory: Path) -> None:
        """Begin with what is there. Raises OSError."""
        path = directory / NODE / CONFIRMED
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.ftruncate(descriptor, mmap.PAGESIZE)
            self._word: Final = memoryview(mmap.mmap(descriptor, mmap.PAGESIZE)).cast("Q")
        finally:
            os.close(descriptor)
        if not _fit(self._word[0], self._word[1]):
            self._set(0)

    @property
    def lsn(self) -> int:
        """The last event that is known to be confirmed."""
        return int(self._word[0])

    def raise_to(self, lsn: int) -> None:
        """Note that everything up to an event is confirmed."""
        if lsn > self._word[0]:
            self._set(lsn)

    def lower_to(self, lsn: int) -> None:
        """Note that the journal has no event behind this one any more."""
        if lsn < self._word[0]:
            self._set(lsn)

    def _set(self, lsn: int) -> None:
        self._word[0] = lsn
        self._word[1] = lsn ^ _MASK


def _fit(word: int, complement: int) -> bool:
    return word ^ complement == _MASK


class ConfirmedDisk(RealDisk):
    """The journal of a node: readers of blocks stop behind `confirmed_lsn`, and later segments are
    not there. So all but the newest segment are confirmed, to the end."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory / JOURNAL)
        self._mark: Final = directory / NODE / CONFIRMED

    @property
    def confirmed_lsn(self) -> int:
        """The last event that is confirmed now. Raises JournalError and OSError."""
        for _ in range(_LOOKS):
            try:
                packed = self._mark.read_bytes()[: _WORDS.size]
            except FileNotFoundError:
                # A broker without a cluster runs here now.
                return UNBOUNDED
            if len(packed) < _WORDS.size:
                raise self._damaged(f"has {len(packed)} bytes and needs {_WORDS.size}")
            word, complement = _WORDS.unpack(packed)
            if _fit(word, complement):
                return int(word)
            time.sleep(_LOOK_SECONDS)
        raise self._damaged("is damaged")

    def _damaged(self, why: str) -> JournalError:
        return JournalError(
            f"{self._mark} {why}: start the node, which writes it again, or take the file away to"
            " read also what nobody confirmed"
        )

    def names(self) -> list[str]:
        """Names of all files, sorted, without the segments of which nothing is confirmed; the
        oldest segment is always there. Raises OSError."""
        # This comes first: segments may only be added meanwhile.
        confirmed, oldest = self.confirmed_lsn, 0
        found = []
        for name in super().names():
            first = segment_first_lsn(name)
            if first is not None:
                oldest = oldest or first
                if first > max(confirmed, oldest):
                    continue
            found.append(name)
        return found


def is_bounded(directory: Path) -> bool:
    """Return whether a node says how far the journal of a directory is confirmed."""
    return (directory / NODE / CONFIRMED).exists()


def forget_mark(directory: Path) -> None:
    """Let the broker alone say what counts: no node has started it. Raises OSError."""
    (directory / NODE / CONFIRMED).unlink(missing_ok=True)
