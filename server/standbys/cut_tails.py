"""Tails of journals that a cluster cut off: each is a data directory of its own for a while.

A cut copies a tail to the folder `next`, whatever interrupts that; then the folder gets a name of
its own, with the time and the first event. The oldest ones leave when all together are too large or
too old; the newest one stays for its age, whatever its size. Fault model: folders of other names
are left alone; one that cannot be removed costs a notice. Must never know why something was cut.
"""

import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple

from daybook.errors import describe
from daybook.journal.data_directory import JOURNAL
from daybook.journal.disk import RealDisk
from daybook.journal.segments.segment import first_lsn_of, segment_names
from daybook.recovery.signing.statements import StatementError, noted_in

NEXT: Final = "next"
US_PER_S: Final = 1_000_000
_FORM: Final = "%Y%m%dT%H%M%S.%fZ"
_DISK_BLOCK_BYTES: Final = 512


class Limits(NamedTuple):
    """How much is kept: bytes on the disk, and microseconds; 0 for no limit."""

    bytes: int
    age: int


class Tail(NamedTuple):
    """A tail that was cut, when that was in microseconds since 1970, and what it takes on disk."""

    folder: Path
    time: int
    bytes: int


class CutTails:
    """The folder of the tails; `kept` is where the next one is copied to. `notice` gets sentences,
    in other threads too; `now` returns the microseconds since 1970."""

    def __init__(
        self, folder: Path, limits: Limits, notice: Callable[[str], None], now: Callable[[], int]
    ) -> None:
        self.kept: Final = RealDisk(folder / NEXT / JOURNAL)
        self.bytes = self.count = self.removed = 0
        self._folder: Final = folder
        self._limits: Final = limits
        self._notice: Final = notice
        self._now: Final = now

    def create(self) -> None:
        """Make the folders. Raises OSError."""
        self.kept.create()

    def keep(self, notary: Path) -> None:
        """Give a tail that was copied its name, and let the oldest leave. The last statement of a
        notary goes along if it is about the tail. Raises OSError."""
        if segment_names(self.kept):
            time = datetime.fromtimestamp(self._now() / US_PER_S, UTC).strftime(_FORM)
            first = first_lsn_of(self.kept)
            name = f"{time}-{first}"
            (self._folder / NEXT).rename(self._folder / name)
            _take_statement(notary, self._folder / name, first)
            RealDisk(self._folder).sync_directory()
            self._notice(
                f"what only this node had was cut off, and is kept in {self._folder / name};"
                " none of it was confirmed, and 'journal inspect' shows it"
            )
            self.create()
        self.trim()

    def trim(self) -> None:
        """Remove the tails that are too old, and the oldest while all are too large."""
        tails = sorted(self._tails(), key=lambda each: each.time)
        size = sum(each.bytes for each in tails)
        limits, oldest_allowed = self._limits, self._now() - self._limits.age
        while tails:
            is_old = limits.age > 0 and tails[0].time < oldest_allowed
            is_much = 0 < limits.bytes < size and len(tails) > 1
            if not (is_old or is_much) or not self._remove(tails[0], is_old=is_old):
                break
            size -= tails.pop(0).bytes
        self.bytes, self.count = size, len(tails)

    def _remove(self, tail: Tail, *, is_old: bool) -> bool:
        try:
            shutil.rmtree(tail.folder)
        except OSError as error:
            self._notice(f"{tail.folder} should leave, and cannot: {describe(error)}; remove it")
            return False
        self.removed += 1
        why = "'cut-max-age'" if is_old else "'cut-max-bytes'"
        self._notice(
            f"{tail.folder}, a tail that was cut off, with {tail.bytes:,} bytes, was removed"
            f" because of {why} of [replication]"
        )
        return True

    def _tails(self) -> list[Tail]:
        found = []
        for each in self._folder.iterdir() if self._folder.is_dir() else ():
            time = _time_of(each.name)
            if time is not None:
                files = [path for path in each.rglob("*") if path.is_file()]
                size = sum(path.stat().st_blocks * _DISK_BLOCK_BYTES for path in files)
                found.append(Tail(each, time, size))
        return found


def _take_statement(notary: Path, tail: Path, first: int) -> None:
    """Move the statement of a notary to a tail, if the journal no longer has what it is about."""
    try:
        noted = noted_in(notary)
    except (OSError, StatementError):
        return
    if noted is not None and noted.statement.lsn >= first:
        notary.rename(tail / notary.name)


def _time_of(name: str) -> int | None:
    """Return when a tail of this name was cut, None if it is not one."""
    time, _, lsn = name.rpartition("-")
    if not lsn.isdigit():
        return None
    try:
        return int(datetime.strptime(time, _FORM).replace(tzinfo=UTC).timestamp() * US_PER_S)
    except ValueError:
        return None
