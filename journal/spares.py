"""Spare descriptors: a file of the journal opens even when sockets have used up all descriptors.

A process holds some descriptors that stand for nothing. When the process (EMFILE) or the whole
machine (ENFILE) has none left, opening a file gives these back and tries again, so that running out
of descriptors delays whoever asks for a socket and never fails a read. `hold` takes them again when
there is room; until then `is_short` says that no new connections should be accepted.

Invariant: only this module retries on EMFILE and ENFILE. It must never know who holds the others.
"""

import errno
import os
from typing import Final

OUT_OF_DESCRIPTORS: Final = (errno.EMFILE, errno.ENFILE)
"""What the kernel says when the process or the machine has no descriptor left."""

AT_ONCE: Final = 4
"""How many spare descriptors one failed open gives back."""


class Spares:
    """The spare descriptors of a process; none until `hold` is called."""

    def __init__(self) -> None:
        self._held: list[int] = []
        self._wanted: int = 0

    @property
    def is_short(self) -> bool:
        """Whether some were given back and could not be taken again yet."""
        return len(self._held) < self._wanted

    def hold(self, count: int) -> bool:
        """Hold so many descriptors, as far as there are any; return whether they are held."""
        self._wanted = count
        while len(self._held) > count:
            os.close(self._held.pop())
        try:
            while len(self._held) < count:
                self._held.append(os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC))
        except OSError as error:
            if error.errno not in OUT_OF_DESCRIPTORS:
                raise
        return not self.is_short

    def refill(self) -> bool:
        """Take again what was given back; return whether all are held."""
        return not self.is_short or self.hold(self._wanted)

    def give(self) -> bool:
        """Close some spare descriptors; return whether there were any."""
        given = 0
        while self._held and given < AT_ONCE:
            os.close(self._held.pop())
            given += 1
        return given > 0

    def release(self) -> None:
        """Close all of them and want none."""
        self._wanted = 0
        while self.give():
            pass


SPARES: Final = Spares()
"""Those of this process: descriptors belong to the process, and so do its spares."""


def open_descriptor(path: os.PathLike[str] | str, flags: int, mode: int = 0o777) -> int:
    """Open a file as `os.open` does, with a spare descriptor if there is no other."""
    while True:
        try:
            return os.open(path, flags | os.O_CLOEXEC, mode)
        except OSError as error:
            if error.errno not in OUT_OF_DESCRIPTORS or not SPARES.give():
                raise
