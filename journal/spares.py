"""Spare descriptors: journal files can be opened even when sockets have used up all descriptors.

A process holds some unused descriptors in reserve. When the process (EMFILE) or the whole machine
(ENFILE) has none left, opening a file closes some of these and retries, so a lack of descriptors
delays new connections and never fails a read. `refill` takes them again when possible; until then
`is_short` says that no new connections should be accepted.

Invariant: only this module retries on EMFILE and ENFILE. It must never know the use of the other
descriptors.
"""

import errno
import os
from typing import Final

OUT_OF_DESCRIPTORS: Final = (errno.EMFILE, errno.ENFILE)
"""Error numbers that mean that the process or the machine has no descriptor left."""

AT_ONCE: Final = 4
"""How many spare descriptors are closed after one failed open."""


class Spares:
    """The spare descriptors of a process; none until `reserve` is called."""

    def __init__(self) -> None:
        self._open: list[int] = []
        self._wanted: int = 0

    @property
    def is_short(self) -> bool:
        """Whether some spares were closed and not opened again yet."""
        return len(self._open) < self._wanted

    def reserve(self, count: int) -> bool:
        """Reserve `count` spares, as far as possible; return whether all are open."""
        self._wanted = count
        while len(self._open) > count:
            os.close(self._open.pop())
        try:
            while len(self._open) < count:
                self._open.append(os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC))
        except OSError as error:
            if error.errno not in OUT_OF_DESCRIPTORS:
                raise
        return not self.is_short

    def refill(self) -> bool:
        """Open spares again that were closed; return whether all are open."""
        return not self.is_short or self.reserve(self._wanted)

    def give(self) -> bool:
        """Close some spare descriptors; return whether there were any."""
        given = 0
        while self._open and given < AT_ONCE:
            os.close(self._open.pop())
            given += 1
        return given > 0

    def release(self) -> None:
        """Close all spares and reserve no more."""
        self._wanted = 0
        while self.give():
            pass


SPARES: Final = Spares()
"""The spares of this process; descriptors belong to a process, so there is one object for each."""


def open_descriptor(path: os.PathLike[str] | str, flags: int, mode: int = 0o777) -> int:
    """Open a file as `os.open` does; frees spare descriptors if there are no others."""
    while True:
        try:
            return os.open(path, flags | os.O_CLOEXEC, mode)
        except OSError as error:
            if error.errno not in OUT_OF_DESCRIPTORS or not SPARES.give():
                raise
