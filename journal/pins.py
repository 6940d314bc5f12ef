"""Pins: readers say which part of a journal they hold, so that retention leaves it alone.

A pin is a file in the folder `pins` of the data directory, named by the lowest LSN that its reader
needs, and locked by the reader with flock: the lock goes with the process, also by kill -9, and the
file that is left then counts for nothing. The folder itself is locked, too: shared while a pin is
made or moved, exclusively while somebody looks for the lowest one, so that no pin is half-made then
and none is made while segments are being removed.

A reader that works in several processes, one after the other, has no process that could hold a
lock. It leaves a lease: a file in the same folder that tells, instead, when it ends, and that any
process which knows its name may renew.

Fault model: a reader may not be allowed to write, or the file system may be read-only. Then there
is no pin and no lease; the reader goes on and may see history leave under it, which readers report
as such. A clock that is wrong by more than CLOCKS_DIFFER_US ends leases too soon or too late.

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

from daybook.journal.data_directory import LOCK, PINS
from daybook.journal.format import FIRST_LSN, NAME_DIGITS
from daybook.journal.pin_folder import PinFolder

PIN_SUFFIX: Final = ".pin"
LEASE_SUFFIX: Final = ".lease"
LEASE_US_MAX: Final = 24 * 3600 * 1_000_000
"""The longest that a lease may last from its making, or from the last time it was renewed."""
CLOCKS_DIFFER_US: Final = 3600 * 1_000_000
"""How far the clock of a reader may be from that of the broker."""
NO_PIN: Final = (1 << 64) - 1
"""The lowest pinned LSN where nothing is pinned: above every LSN."""

_LEASE: Final = re.compile(
    rf"(\d{{{NAME_DIGITS}}})-(\d{{{NAME_DIGITS}}})-(\w+){LEASE_SUFFIX}", re.ASCII
)
_LEASE_NAME: Final = re.compile(r"\w{1,100}", re.ASCII)


class Pin:
    """Holds the journal from an LSN on, from its making to `release`; a context manager.

    `held` says whether it does: not in a directory that no broker ever served, for nothing removes
    segments there, and not where this process may not write.
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
        # Whatever keeps us from pinning keeps a reader from nothing else.
        with suppress(OSError), closing(PinFolder(directory, make=True)) as folder:
            folder.lock(fcntl.LOCK_SH)
            self._create(folder)

    @property
    def held(self) -> bool:
        """Whether retention can see the pin."""
        return self._descriptor >= 0

    @property
    def path(self) -> Path:
        """The file that stands for the pin."""
        return self._directory / PINS / self._name

    @property
    def _name(self) -> str:
        return f"{self.lsn:0{NAME_DIGITS}d}-{os.getpid()}-{self._number}{PIN_SUFFIX}"

    def advance(self, lsn: int) -> None:
        """Give up what lies before the LSN; a lower one than before changes nothing.

        Never waits: while somebody looks at the pins it stays where it is, which does no harm.
        """
        if not self.held or lsn <= self.lsn:
            return
        with suppress(OSError), closing(PinFolder(self._directory, make=False)) as folder:
            folder.lock(fcntl.LOCK_SH | fcntl.LOCK_NB)
            old, lsn_before = self._name, self.lsn
            self.lsn = lsn
            try:
                folder.rename(old, self._name)
            except OSError:
                self.lsn = lsn_before
                raise

    def release(self) -> None:
        """Give everything up; may be called again."""
        if not self.held:
            return
        with suppress(OSError), closing(PinFolder(self._directory, make=False)) as folder:
            folder.remove(self._name)
        os.close(self._descriptor)
        self._descriptor = -1

    def _create(self, folder: PinFolder) -> None:
        while True:
            try:
                descriptor = folder.create(self._name)
                break
            except FileExistsError:
                # Another pin of ours, or one that a killed process of the same pid left.
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
    """Holds the journal of a data directory from an LSN on until a time, by a name.

    Whoever knows directory and name has the same lease: an object of this class is nothing but the
    two. Times are microseconds since 1970 UTC, by the caller's clock, and at most LEASE_US_MAX
    ahead; what ends later counts for nothing.
    """

    def __init__(self, directory: Path | str, name: str) -> None:
        """`name` is the maker's choice and must be unlike all others: a UUID in hex, say.

        Raises ValueError if it has more than letters, digits and underscores.
        """
        if not _LEASE_NAME.fullmatch(name):
            raise ValueError(f"'{name}' cannot name a lease: use up to 100 of a-z, A-Z, 0-9 and _")
        self.directory: Final = str(directory)
        self.name: Final = name

    @property
    def until(self) -> int:
        """When it ends, 0 if there is no such lease, or none any more."""
        with suppress(OSError), closing(PinFolder(self.directory, make=False)) as folder:
            return max((until for _, until, _ in self._files(folder)), default=0)
        return 0

    def take(self, lsn: int, until: int) -> bool:
        """Hold the journal from this LSN on; a lease of this name that there is becomes this one.

        Waits while segments are being removed; what it holds is there if it is read after that.
        Answers whether retention can see the lease: not in a directory that no broker ever served,
        and not where this process may not write.
        """
        assert lsn >= FIRST_LSN
        if not (Path(self.directory) / LOCK).exists():
            return False
        name = self._file(lsn, until)
        with suppress(OSError), closing(PinFolder(self.directory, make=True)) as folder:
            folder.lock(fcntl.LOCK_SH)
            before = [found for _, _, found in self._files(folder) if found != name]
            with suppress(FileExistsError):
                os.close(folder.create(name))
            for found in before:
                folder.remove(found)
            return True
        return False

    def renew(self, until: int) -> bool:
        """Have the lease last until then, or longer if it does already.

        Answers whether there still was one: else it ended, and what it held may have left. Waits
        as `take` does.
        """
        with suppress(OSError), closing(PinFolder(self.directory, make=False)) as folder:
            folder.lock(fcntl.LOCK_SH)
            # Others may renew the same one this moment; each attempt that fails means one did.
            while files := self._files(folder):
                lsn, before, name = max(files, key=lambda file: file[1])
                if before >= until:
                    return True
                with suppress(FileNotFoundError):
                    folder.rename(name, self._file(lsn, until))
                    return True
        return False

    def release(self) -> None:
        """Give everything up; may be called again, and of a lease that ended."""
        with suppress(OSError), closing(PinFolder(self.directory, make=False)) as folder:
            for _, _, name in self._files(folder):
                folder.remove(name)

    def _file(self, lsn: int, until: int) -> str:
        return f"{lsn:0{NAME_DIGITS}d}-{until:0{NAME_DIGITS}d}-{self.name}{LEASE_SUFFIX}"

    def _files(self, folder: PinFolder) -> list[tuple[int, int, str]]:
        """LSN, end and name of what stands for the lease: one file, but for moments."""
        return [
            (int(match[1]), int(match[2]), match[0])
            for match in map(_LEASE.fullmatch, folder.names())
            if match is not None and match[3] == self.name
        ]


def lowest_pinned_lsn(directory: Path | str, now: int | None = None) -> int:
    """The lowest LSN that a living reader holds in a data directory; NO_PIN if there is none.

    `now` is the time in microseconds since 1970; leases that have ended then hold nothing. Who does
    not know the time counts them all. FIRST_LSN, which holds everything, while a pin is being made:
    ask again later. Raises OSError if the pins cannot be looked at.
    """
    with holding_off_pins(directory, now) as lowest:
        return lowest


@contextmanager
def holding_off_pins(directory: Path | str, now: int | None = None) -> Iterator[int]:
    """As `lowest_pinned_lsn`; and until the end of the context nobody makes a pin.

    To be held while segments are removed, and not for longer: readers wait.
    """
    with closing(PinFolder(directory, make=True)) as folder:
        yield _lowest(folder, now) if _is_ours(folder) else FIRST_LSN


def _is_ours(folder: PinFolder) -> bool:
    """Lock the folder for ourselves; False if somebody makes or moves a pin this moment."""
    try:
        folder.lock(fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _lowest(folder: PinFolder, now: int | None) -> int:
    """The lowest LSN of a locked pin or a lease; removes those whose holders or time are gone."""
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
    """Whether a lease has not ended; one that nobody could have made has."""
    return now < until <= now + LEASE_US_MAX + CLOCKS_DIFFER_US


def _lsn_of(name: str) -> int | None:
    digits, _, rest = name.partition("-")
    if len(digits) != NAME_DIGITS or not digits.isdecimal() or not rest.endswith(PIN_SUFFIX):
        return None
    return int(digits)


def _is_alive(folder: PinFolder, name: str) -> bool:
    """Whether somebody holds the pin; one that nobody holds is removed."""
    try:
        descriptor = folder.open(name)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ELOOP):
            # Released this moment, or a link, which is no pin.
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
