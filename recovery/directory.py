"""Opening a data directory: lock, journal, repair of a torn tail, fold, invariants.

Layout of a directory: `lock` (flock: one broker), `journal/` (the segments), `users.toml`,
`control.sock`. Everything is read before anything is changed; the one thing that start-up changes
is a torn tail, which was never durable. What is damaged otherwise is refused with what, where and
what to do.
"""

import os
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Final, NamedTuple

from engine.invariants import check
from engine.state import State
from journal.disk import Disk, RealDisk
from journal.errors import JournalError
from journal.journal import SEGMENT_BYTES, Journal
from journal.lock import DirectoryLock
from journal.reader import read_blocks
from journal.repair import Repair
from journal.segment import segment_names
from recovery.fold import FoldError, fold_block
from recovery.layout import LAYOUT

JOURNAL: Final = "journal"


class RecoveryError(Exception):
    """A data directory cannot be opened; the text says what, where and what to do."""


class Recovered(NamedTuple):
    """A journal ready to be appended to, the state it amounts to, and what was found."""

    journal: Journal
    state: State
    repair: Repair | None
    events: int
    created: bool


def recover(
    disk: Disk,
    *,
    data_id: bytes,
    segment_bytes: int = SEGMENT_BYTES,
    clock: Callable[[], float] = perf_counter,
    progress: Callable[[int, int], None] | None = None,
) -> Recovered:
    """Open or create the journal on a disk and fold it.

    `data_id` (16 bytes) is used if the journal is created. `progress` is called with events done
    and events in all. Raises JournalError and RecoveryError.
    """
    state = State()
    if not segment_names(disk):
        journal = Journal.create(
            disk, LAYOUT, data_id=data_id, segment_bytes=segment_bytes, clock=clock
        )
        return Recovered(journal, state, None, 0, created=True)
    journal, repair = Journal.open(disk, LAYOUT, segment_bytes=segment_bytes, clock=clock)
    try:
        events = _fold(disk, journal.durable_lsn, state, progress)
    except BaseException:
        journal.close()
        raise
    return Recovered(journal, state, repair, events, created=False)


def _fold(
    disk: Disk, last_lsn: int, state: State, progress: Callable[[int, int], None] | None
) -> int:
    applied = 0
    try:
        for block in read_blocks(disk, LAYOUT):
            if block.count:
                applied = fold_block(block, state)
                if progress is not None:
                    progress(applied, last_lsn)
    except FoldError as error:
        raise RecoveryError(str(error)) from error
    if applied != last_lsn:
        raise RecoveryError(
            f"the journal ends with event {last_lsn}, but only {applied} could be read: run "
            "'journal verify' on the directory"
        )
    wrong = check(state)
    if wrong:
        raise RecoveryError(
            "the journal folds to a state that cannot be: "
            + "; ".join(wrong[:5])
            + ". This is a bug of Daybook; the journal is intact and was not changed."
        )
    return applied


class DataDirectory:
    """A data directory held open by this process."""

    def __init__(self, path: Path, lock: DirectoryLock, recovered: Recovered) -> None:
        self.path: Final = path
        self.recovered: Final = recovered
        self._lock: Final = lock

    def close(self) -> None:
        """Close the journal and let go of the lock."""
        self.recovered.journal.close()
        self._lock.release()


def open_directory(
    path: Path,
    *,
    segment_bytes: int = SEGMENT_BYTES,
    progress: Callable[[int, int], None] | None = None,
) -> DataDirectory:
    """Lock a data directory (made if it does not exist), and recover what is in it.

    Raises JournalError and RecoveryError.
    """
    disk = RealDisk(path / JOURNAL)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RecoveryError(
            f"the data directory {path} cannot be created: {error.strerror}"
        ) from error
    lock = DirectoryLock(path)
    try:
        disk.create()
        recovered = recover(
            disk, data_id=os.urandom(16), segment_bytes=segment_bytes, progress=progress
        )
    except OSError as error:
        lock.release()
        raise RecoveryError(f"the data directory {path} cannot be used: {error}") from error
    except (JournalError, RecoveryError):
        lock.release()
        raise
    return DataDirectory(path, lock, recovered)
