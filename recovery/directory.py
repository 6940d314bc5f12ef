"""Opening a data directory: lock, journal, repair of a torn tail, checkpoint, fold, invariants.

Layout of a directory: `lock` (flock: one broker), `data-id`, `journal/` (the segments), `index/`
(derived), `users.toml`, `control.sock`. Everything is read before anything is changed; the one
thing that start-up changes is a torn tail, which was never durable, and the index, which is made
anew if it does not fit. What is damaged otherwise is refused with what, where and what to do.
"""

import os
from collections.abc import Callable
from pathlib import Path
from time import monotonic, perf_counter, sleep
from typing import Final, NamedTuple

from engine.invariants import check
from engine.queues import StoreError
from engine.state import State
from journal.disk import Disk, RealDisk, sync_directory
from journal.errors import JournalError, Locked
from journal.journal import SEGMENT_BYTES, Journal
from journal.lock import DirectoryLock
from journal.reader import read_blocks
from journal.repair import Repair
from journal.segment import segment_names
from paging.base import BaseDamaged
from paging.layout import LAYOUT
from paging.ownership import owning_index
from paging.process import IndexerFailed, IndexerProcess
from paging.store import IndexStore
from recovery.checkpoint import Checkpoint, known_durable_lsn, load_checkpoint, suspect
from recovery.fold import FoldError, fold_block

JOURNAL: Final = "journal"
DATA_ID: Final = "data-id"
LOCK_WAIT_SECONDS: Final = 5.0


class RecoveryError(Exception):
    """A data directory cannot be opened; the text says what, where and what to do."""


class Recovered(NamedTuple):
    """A journal ready to be appended to, the state it amounts to, and what was found.

    `events` is the number of events in the journal, `indexed` how many of them the checkpoint had.
    """

    journal: Journal
    state: State
    repair: Repair | None
    events: int
    created: bool
    indexed: int = 0
    store: IndexStore | None = None
    indexer: IndexerProcess | None = None


def recover(
    disk: Disk,
    *,
    data_id: bytes,
    segment_bytes: int = SEGMENT_BYTES,
    clock: Callable[[], float] = perf_counter,
    progress: Callable[[int, int], None] | None = None,
) -> Recovered:
    """Open or create the journal on a disk and fold all of it.

    `data_id` (16 bytes) is used if the journal is created. `progress` is called with events done
    and events in all. Raises JournalError and RecoveryError.
    """
    journal, repair = open_journal(disk, data_id=data_id, segment_bytes=segment_bytes, clock=clock)
    state = State()
    try:
        events = fold_journal(disk, journal.durable_lsn, state, progress)
    except BaseException:
        journal.close()
        raise
    return Recovered(journal, state, repair, events, created=repair is None)


def open_journal(
    disk: Disk,
    *,
    data_id: bytes,
    segment_bytes: int = SEGMENT_BYTES,
    known_durable_lsn: int = 0,
    clock: Callable[[], float] = perf_counter,
) -> tuple[Journal, Repair | None]:
    """Open the journal on a disk, or create it (then there is no Repair).

    `known_durable_lsn` is what a checkpoint knows to have been durable. Raises JournalError.
    """
    if segment_names(disk):
        return Journal.open(
            disk,
            LAYOUT,
            segment_bytes=segment_bytes,
            known_durable_lsn=known_durable_lsn,
            clock=clock,
        )
    created = Journal.create(
        disk, LAYOUT, data_id=data_id, segment_bytes=segment_bytes, clock=clock
    )
    return created, None


def fold_journal(
    disk: Disk,
    last_lsn: int,
    state: State,
    progress: Callable[[int, int], None] | None,
    after_lsn: int = 0,
) -> int:
    """Fold what a journal that ends with `last_lsn` has after `after_lsn`, and check the state.

    Return the number of events in the journal. Raises JournalError and RecoveryError.
    """
    applied = after_lsn
    try:
        for block in read_blocks(disk, LAYOUT, from_lsn=after_lsn + 1) if last_lsn else ():
            if block.last_lsn <= after_lsn:
                continue
            if block.first_lsn != applied + 1 and block.count:
                raise RecoveryError(
                    f"the journal begins with event {block.first_lsn}: the segments before "
                    f"{block.segment} are missing. Restore them from a copy."
                )
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
        """Close index and journal and let go of the lock."""
        if self.recovered.store is not None:
            self.recovered.store.close()
        if self.recovered.indexer is not None:
            self.recovered.indexer.close()
        self.recovered.journal.close()
        self._lock.release()


def _lock(path: Path) -> DirectoryLock:
    """Take the lock; a killed broker's writer may hold it a moment longer than the broker lived."""
    deadline = monotonic() + LOCK_WAIT_SECONDS
    while True:
        try:
            return DirectoryLock(path)
        except Locked as locked:
            if _is_alive(locked.pid) or monotonic() > deadline:
                raise
        sleep(0.01)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return pid > 0


def _open_known(disk: RealDisk, path: Path, segment_bytes: int) -> tuple[Journal, Repair | None]:
    """Open the journal that the directory is known to have, or create its first one.

    The file `data-id` is written when the journal exists: a directory that has it and no segments
    has lost them, and is not a new one.
    """
    marker = path / DATA_ID
    known = marker.read_text("ascii").strip() if marker.exists() else ""
    if known and not segment_names(disk):
        raise RecoveryError(
            f"the data directory {path} has lost its journal: '{DATA_ID}' says that there was one, "
            f"and '{JOURNAL}' has no segments. Restore them from a copy, or begin with an empty "
            "directory."
        )
    journal, repair = open_journal(
        disk,
        data_id=os.urandom(16),
        segment_bytes=segment_bytes,
        known_durable_lsn=known_durable_lsn(path),
    )
    data_id = journal.data_id.hex()
    if known and known != data_id:
        journal.close()
        raise RecoveryError(
            f"the journal in {path} belongs to another data directory: its id is {data_id}, and "
            f"'{DATA_ID}' says {known}. Restore the right segments from a copy."
        )
    if not known:
        _write_durably(marker, data_id + "\n")
    return journal, repair


def _write_durably(path: Path, text: str) -> None:
    with path.open("w", encoding="ascii") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    sync_directory(path.parent)


def _say_nothing(_: str) -> None:
    """For callers who do not want to know."""


def _restored(
    path: Path,
    disk: Disk,
    journal: Journal,
    repair: Repair | None,
    progress: Callable[[int, int], None] | None,
    on_journal: Callable[[Journal], None] | None,
    notice: Callable[[str], None],
) -> Recovered:
    """Load the checkpoint of a journal that was just opened, and fold the rest.

    Closes everything if that fails.
    """
    last_lsn = journal.durable_lsn
    checkpoint: Checkpoint | None = None
    try:
        if on_journal is not None:
            on_journal(journal)
        checkpoint = load_checkpoint(
            path, disk, journal.data_id, last_lsn, progress=progress, notice=notice
        )
        fold_journal(disk, last_lsn, checkpoint.state, progress, checkpoint.lsn)
    except BaseException as error:
        if checkpoint is not None:
            checkpoint.close()
        journal.close()
        if isinstance(error, BaseDamaged | IndexerFailed | StoreError):
            raise RecoveryError(str(error)) from error
        raise
    return Recovered(
        journal, checkpoint.state, repair, last_lsn, repair is None,
        checkpoint.lsn, checkpoint.store, checkpoint.indexer,
    )  # fmt: skip


def open_directory(
    path: Path,
    *,
    segment_bytes: int = SEGMENT_BYTES,
    progress: Callable[[int, int], None] | None = None,
    on_journal: Callable[[Journal], None] | None = None,
    notice: Callable[[str], None] = _say_nothing,
) -> DataDirectory:
    """Lock a data directory (made if it does not exist), and recover what is in it.

    `on_journal` is called when the journal is open and nothing is folded yet: the moment to start
    who will write it. `notice` is told what takes long, or is made anew. Raises JournalError and
    RecoveryError.
    """
    disk = RealDisk(path / JOURNAL)
    try:
        # Messages are nobody else's business.
        path.mkdir(mode=0o750, parents=True, exist_ok=True)
    except OSError as error:
        raise RecoveryError(
            f"the data directory {path} cannot be created: {error.strerror}"
        ) from error
    lock = _lock(path)
    try:
        disk.create()
        with owning_index(path):
            # A killed broker's indexer is gone when this can be had, and no other can begin.
            wrong = suspect(path)
        if wrong:
            notice(f"the index is deleted: {wrong}")
        journal, repair = _open_known(disk, path, segment_bytes)
        recovered = _restored(path, disk, journal, repair, progress, on_journal, notice)
    except OSError as error:
        lock.release()
        raise RecoveryError(f"the data directory {path} cannot be used: {error}") from error
    except (JournalError, RecoveryError):
        lock.release()
        raise
    return DataDirectory(path, lock, recovered)
