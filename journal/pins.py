"""Pins: readers mark the part of a journal that they need, so that retention does not remove it.

A pin is a file in the folder `pins` of the data directory, named by the lowest LSN that its reader
needs, and locked by the reader with flock. The lock ends with the process, also after kill -9; the
file that remains then has no effect. The folder itself is locked too: shared while a pin is created
or moved, exclusively while retention looks for the lowest pin. So retention never sees an
unfinished pin, and no pin is created while segments are being removed.

A reader that works in several processes, one after the other, has no process that could hold a lock
for it. It uses a lease: a file in the same folder with a time at which it ends. Every process that
knows its name may renew it.

Fault model: a reader may not be allowed to write, or the file system may be read-only. Then no pin
and no lease exist; the reader continues, and reports an error if its history is removed meanwhile.
A clock that is wrong by more than CLOCKS_DIFFER_US ends leases too early or too late.

Must never know: what is in a segment, what time it is.
"""

import errno
import fcntl
import os
import re
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Final

from daybook.journal.blocks.format import FIRST_LSN, NAME_DIGITS
from daybook.journal.data_directory import LOCK, PINS
from daybook.journal.reader_folder import ReaderFolder

PIN_SUFFIX: Final = ".pin"
LEASE_SUFFIX: Final = ".lease"
LEASE_US_MAX: Final = 24 * 3600 * 1_000_000
"""The longest duration of a lease, from its creation or last renewal."""
CLOCKS_DIFFER_US: Final = 3600 * 1_000_000
"""How much the clocks of a reader and the broker may differ."""
NO_PIN: Final = (1 << 64) - 1
"""The lowest pinned LSN without any pin: above every LSN."""

_LEASE: Final = re.compile(
    rf"(\d{{{NAME_DIGITS}}})-(\d{{{NAME_DIGITS}}})-(\w+){LEASE_SUFFIX}", re.ASCII
)
_LEASE_NAME: Final = re.compile(r"\w{1,100}", re.ASCII)


class Pin:
    """Keeps the journal from an LSN on until `release`; a context manager.

    `is_set` is False in a directory that no broker ever used, because no process removes segments
    there, and where this process may not write.
    """

    def __init__(self, directory: Path | str, lsn: int = FIRST_LSN) -> None:
        """Pin the journal of a data directory. Waits while segments are being removed."""
        assert lsn >= FIRST_LSN
        self.lsn = lsn
        self._directory: Final = Path(directory)
        self._descriptor = -1
        self._number = 0
        if not (Path(directory) / LOCK).exists():
            return
        # A reader works without a pin if it cannot create one.
        with suppress(OSError), closing(ReaderFolder(directory, PINS, make=True)) as folder:
            folder.lock(fcntl.LOCK_SH)
            self._create(folder)

    @property
    def is_set(self) -> bool:
        """Whether retention can see the pin."""
        return self._descriptor >= 0

    @property
    def path(self) -> Path:
        """The file of the pin."""
        return self._directory / PINS / self._name

    @property
    def _name(self) -> str:
        return f"{self.lsn:0{NAME_DIGITS}d}-{os.getpid()}-{self._number}{PIN_SUFFIX}"

    def advance(self, lsn: int) -> None:
        """Release segments before the LSN; a lower LSN than before has no effect.

        Never waits: while retention reads the pins, the pin stays where it is, which does no harm.
        """
        if not self.is_set or lsn <= self.lsn:
            return
        with suppress(OSError), closing(ReaderFolder(self._directory, PINS, make=False)) as folder:
            folder.lock(fcntl.LOCK_SH | fcntl.LOCK_NB)
            old, lsn_before = self._name, self.lsn
            self.lsn = lsn
            try:
                folder.rename(old, self._name)
            except OSError:
                self.lsn = lsn_before
                raise

    def release(self) -> None:
        """Release everything; may be called again."""
        if not self.is_set:
            return
        with suppress(OSError), closing(ReaderFolder(self._directory, PINS, make=False)) as folder:
            folder.remove(self._name)
        os.close(self._descriptor)
        self._descriptor = -1

    def _create(self, folder: ReaderFolder) -> None:
        while True:
            try:
                descriptor = folder.create(self._name)
                break
            except FileExistsError:
                # The name is that of another pin of this process, or of a killed one with the same
                # pid.
                self._number += 1
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
            raise
        self._descriptor = descriptor

    def __enter__(self) -> "Pin":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.release()


class Lease:
    """Keeps the journal of a data directory from an LSN on until a time; known by a name.

    Objects with the same directory and name are the same lease; an object has no other state. Times
    are microseconds since 1970 UTC, by the caller's clock, and at most LEASE_US_MAX ahead; a lease
    that ends later has no effect.
    """

    def __init__(self, directory: Path | str, name: str) -> None:
        """`name` is chosen by the caller and must be unique, for example a UUID in hex.

        Raises ValueError if it contains anything but letters, digits and underscores.
        """
        if not _LEASE_NAME.fullmatch(name):
            raise ValueError(f"'{name}' cannot name a lease: use up to 100 of a-z, A-Z, 0-9 and _")
        self.directory: Final = str(directory)
        self.name: Final = name

    @property
    def until(self) -> int:
        """The time at which the lease ends, 0 if it does not exist (any more)."""
        with suppress(OSError), closing(ReaderFolder(self.directory, PINS, make=False)) as folder:
            return max((until for _, until, _ in self._files(folder)), default=0)
        return 0

    def take(self, lsn: int, until: int) -> bool:
        """Keep the journal from this LSN on; replaces an existing lease of this name.

        Waits while segments are being removed; look for the segments only after this call. Returns
        whether retention can see the lease: not in a directory that no broker ever used, and not
        where this process may not write.
        """
        assert lsn >= FIRST_LSN
        if not (Path(self.directory) / LOCK).exists():
            return False
        name = self._file(lsn, until)
        with suppress(OSError), closing(ReaderFolder(self.directory, PINS, make=True)) as folder:
            folder.lock(fcntl.LOCK_SH)
            before = [found for _, _, found in self._files(folder) if found != name]
            with suppress(FileExistsError):
                os.close(folder.create(name))
            for found in before:
                folder.remove(found)
            return True
        return False

    def renew(self, until: int) -> bool:
        """Extend the lease to this time; it is never shortened.

        Returns False if the lease has already ended; its segments may have been removed. Waits as
        `take` does.
        """
        with suppress(OSError), closing(ReaderFolder(self.directory, PINS, make=False)) as folder:
            folder.lock(fcntl.LOCK_SH)
            # Others may renew the lease at the same time; each failed attempt means that one did.
            while files := self._files(folder):
                lsn, before, name = max(files, key=lambda file: file[1])
                if before >= until:
                    return True
                with suppress(FileNotFoundError):
                    folder.rename(name, self._file(lsn, until))
                    return True
        return False

    def release(self) -> None:
        """Release everything; may be called again, also after the lease ended."""
        with suppress(OSError), closing(ReaderFolder(self.directory, PINS, make=False)) as folder:
            for _, _, name in self._files(folder):
                folder.remove(name)

    def _file(self, lsn: int, until: int) -> str:
        return f"{lsn:0{NAME_DIGITS}d}-{until:0{NAME_DIGITS}d}-{self.name}{LEASE_SUFFIX}"

    def _files(self, folder: ReaderFolder) -> list[tuple[int, int, str]]:
        """Return LSN, end and name of the lease's files; more than one only for moments."""
        return [
            (int(match[1]), int(match[2]), match[0])
            for match in map(_LEASE.fullmatch, folder.names())
            if match is not None and match[3] == self.name
        ]


def lowest_pinned_lsn(directory: Path | str, now: int | None = None) -> int:
    """Return the lowest LSN that running readers need in a data directory, else NO_PIN.

    `now` is the time in microseconds since 1970 UTC; leases that ended before it are ignored. With
    None all leases count. Returns FIRST_LSN, which keeps everything, while a pin is being created:
    retry later. Raises OSError if the pins cannot be read.
    """
    with holding_off_pins(directory, now) as lowest:
        return lowest


@contextmanager
def holding_off_pins(directory: Path | str, now: int | None = None) -> Iterator[int]:
    """As `lowest_pinned_lsn`; no pin can be created until the end of the context.

    Use it only while segments are removed, because readers wait meanwhile.
    """
    with closing(ReaderFolder(directory, PINS, make=True)) as folder:
        yield _lowest(folder, now) if _is_ours(folder) else FIRST_LSN


def _is_ours(folder: ReaderFolder) -> bool:
    """Lock the folder exclusively; return False if a pin is being created or moved."""
    try:
        folder.lock(fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _lowest(folder: ReaderFolder, now: int | None) -> int:
    """Return the lowest LSN of pins and leases in use; removes those that are not."""
    lowest = NO_PIN
    for name in folder.names():
        lease = _LEASE.fullmatch(name)
        if lease is not None:
            if now is None or _lasts(int(lease[2]), now):
                lowest = min(lowest, int(lease[1]))
            else:
                with suppress(OSError):
                    folder.remove(name)
            continue
        lsn = _lsn_of(name)
        if lsn is not None and _is_alive(folder, name):
            lowest = min(lowest, lsn)
    return lowest


def _lasts(until: int, now: int) -> bool:
    """Return whether a lease still counts; one that ends impossibly late does not."""
    return now < until <= now + LEASE_US_MAX + CLOCKS_DIFFER_US


def _lsn_of(name: str) -> int | None:
    digits, _, rest = name.partition("-")
    if len(digits) != NAME_DIGITS or not digits.isdecimal() or not rest.endswith(PIN_SUFFIX):
        return None
    return int(digits)


def _is_alive(folder: ReaderFolder, name: str) -> bool:
    """Return whether a process holds the pin; removes the pin if none does."""
    try:
        descriptor = folder.open(name)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ELOOP):
            # Just released, or a link, which is not a pin.
            return False
        raise
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with suppress(OSError):
            folder.remove(name)
        return False
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
