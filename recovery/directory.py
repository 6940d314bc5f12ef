"""Opening a data directory: lock, journal, repair of a torn tail, checkpoint, fold, invariants.

Layout of a directory: `lock` (flock: one broker), `data-id`, `journal/` (the segments), `index/`
(derived), `last-words` (why the last broker distrusted it), `users.toml`, `control.sock`.
Everything is read before anything is changed. A start changes only two things: it cuts a torn tail,
which was never durable, and it rebuilds an index that does not match the journal. Any other damage
is refused with an error that names the damage, its place and the remedy.
"""

import errno
import os
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from time import monotonic, perf_counter, sleep
from typing import Final, NamedTuple

from daybook.engine.queues.queue import StoreError
from daybook.engine.state.invariants import check
from daybook.engine.state.state import State
from daybook.errors import DaybookError
from daybook.journal.data_directory import DATA_ID, INDEX, JOURNAL
from daybook.journal.disk import Disk, RealDisk, sync_directory
from daybook.journal.errors import Locked
from daybook.journal.journal import SEGMENT_BYTES, Journal
from daybook.journal.lock import DirectoryLock
from daybook.journal.segments.reader import read_blocks
from daybook.journal.segments.repair import Repair
from daybook.journal.segments.segment import segment_names
from daybook.paging.content.store import IndexStore
from daybook.paging.indexer.indexers import Indexers, ProcessIndexers
from daybook.paging.indexer.ownership import owning_index
from daybook.paging.indexer.process import IndexerFailed, IndexerHandle
from daybook.paging.snapshots.base import BaseDamaged
from daybook.paging.snapshots.derived_files import remove_damaged
from daybook.paging.tables.layout import LAYOUT
from daybook.paging.tables.tables import IndexUnwritable
from daybook.recovery.checkpoint import Checkpoint, known_durable_lsn, load_checkpoint, suspect
from daybook.recovery.fold import FoldError, fold_block
from daybook.recovery.last_words import LastWords, Watch, last_words
from daybook.recovery.strangers import wrong_folder

LOCK_WAIT_SECONDS: Final = 5.0
INDEX_WAIT_SECONDS: Final = 20.0
"""How long a start waits for the indexer of a killed broker; it ends soon unless its disk hangs."""


class RecoveryError(DaybookError):
    """A data directory cannot be opened; the text names the fault, its place and the remedy."""


class Recovered(NamedTuple):
    """An open journal, the state that it folds to, and the findings of recovery.

    `events` is the last LSN of the journal, `indexed` the LSN of the checkpoint.
    """

    journal: Journal
    state: State
    repair: Repair | None
    events: int
    created: bool
    indexed: int = 0
    store: IndexStore | None = None
    indexer: IndexerHandle | None = None


def open_journal(
    disk: Disk,
    *,
    data_id: bytes,
    segment_bytes: int = SEGMENT_BYTES,
    device_block_bytes: int = 0,
    known_durable_lsn: int = 0,
    clock: Callable[[], float] = perf_counter,
) -> tuple[Journal, Repair | None]:
    """Open the journal on a disk, or create it; a new one has no Repair.

    `known_durable_lsn` is the LSN that a checkpoint proves durable. Raises JournalError.
    """
    if segment_names(disk):
        return Journal.open(
            disk,
            LAYOUT,
            segment_bytes=segment_bytes,
            device_block_bytes=device_block_bytes,
            known_durable_lsn=known_durable_lsn,
            clock=clock,
        )
    created = Journal.create(
        disk,
        LAYOUT,
        data_id=data_id,
        segment_bytes=segment_bytes,
        device_block_bytes=device_block_bytes,
        clock=clock,
    )
    return created, None


def fold_journal(
    disk: Disk,
    last_lsn: int,
    state: State,
    progress: Callable[[int, int], None] | None,
    after_lsn: int = 0,
) -> int:
    """Fold the events from `after_lsn` + 1 to `last_lsn`, the end of the journal; check the state.

    Return the last LSN. Raises JournalError and RecoveryError.
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
            "the journal folds to an impossible state: "
            + "; ".join(wrong[:5])
            + ". This is a bug of Daybook; the journal is intact and was not changed."
        )
    return applied


class DataDirectory:
    """A data directory that this process has locked and opened."""

    def __init__(
        self,
        path: Path,
        lock: DirectoryLock,
        watch: Watch,
        recovered: Recovered,
        indexers: Indexers,
    ) -> None:
        self.path: Final = path
        self.recovered: Final = recovered
        self.indexers: Final = indexers
        self._lock: Final = lock
        self._watch: Final = watch

    def renew_lock(self) -> bool:
        """Restore the lock file if somebody removed it; return whether it was missing."""
        return self._lock.renew()

    def close(self) -> None:
        """Close the index and the journal, and release the lock."""
        if self.recovered.indexer is not None:
            self.recovered.indexer.close()
        if self.recovered.store is not None:
            self.recovered.store.close()
        self.indexers.close()
        self.recovered.journal.close()
        self._watch.close()
        self._lock.release()


def take_lock(path: Path, disk: RealDisk) -> DirectoryLock:
    """Take the lock; the writer of a killed broker may hold it a moment longer than the broker.
    Raises Locked and OSError."""
    deadline = monotonic() + LOCK_WAIT_SECONDS
    while True:
        try:
            lock = DirectoryLock(path)
            with ExitStack() as undoing:
                undoing.callback(lock.release)
                disk.create()
                lock.hold(disk.path)
                undoing.pop_all()
            return lock
        except Locked as locked:
            if _is_alive(locked.pid) or monotonic() > deadline:
                raise
        sleep(0.01)


def _patience(notice: Callable[[str], None]) -> Callable[[str], None]:
    """Return a callback that reports once the reason for waiting, and later refuses to start."""
    begun = monotonic()
    told: list[str] = []

    def wait(text: str) -> None:
        if not told:
            told.append(text)
            notice(text)
        if monotonic() - begun >= INDEX_WAIT_SECONDS:
            raise RecoveryError(f"{text}. End that process, and start again. Nothing was changed")

    return wait


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return pid > 0


def _open_known(
    disk: RealDisk, path: Path, segment_bytes: int, device_block_bytes: int, durable_lsn: int
) -> tuple[Journal, Repair | None]:
    """Open the journal of a data directory, or create it in a new one.

    The file `data-id` is written once the journal exists: a directory that has this file but no
    segments has lost them, and is not new.
    """
    known = _known_id(path)
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
        device_block_bytes=device_block_bytes,
        known_durable_lsn=durable_lsn,
    )
    data_id = journal.data_id.hex()
    if foreign := why_foreign(path, data_id):
        journal.close()
        raise RecoveryError(foreign)
    if not known:
        _write_durably(path / DATA_ID, data_id + "\n")
    return journal, repair


def why_foreign(path: Path, data_id: str) -> str:
    """Return why a start refuses a journal with this id in a data directory; "" if it does not."""
    known = _known_id(path)
    if known in ("", data_id):
        return ""
    return (
        f"the journal in {path} belongs to another data directory: its id is {data_id}, and "
        f"'{DATA_ID}' says {known!r}. Restore the right segments from a copy; if these are the "
        f"right ones, '{DATA_ID}' is damaged: delete that file, and the next start writes it "
        "again."
    )


def _known_id(path: Path) -> str:
    """Return the id in the file `data-id`, "" if there is no such file."""
    marker = path / DATA_ID
    return marker.read_bytes().decode("ascii", "replace").strip() if marker.exists() else ""


def _write_durably(path: Path, text: str) -> None:
    with path.open("w", encoding="ascii") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    sync_directory(path.parent)


def _say_nothing(_: str) -> None:
    """Ignore a notice."""


def _restored(
    path: Path,
    disk: Disk,
    journal: Journal,
    repair: Repair | None,
    indexers: Indexers,
    progress: Callable[[int, int], None] | None,
    on_journal: Callable[[Journal], None] | None,
    notice: Callable[[str], None],
    wrong: str,
) -> Recovered:
    """Load the checkpoint of a journal that was just opened, and fold the rest.

    `wrong` is the result of `suspect`. On failure it closes the journal and the checkpoint.
    """
    last_lsn = journal.durable_lsn
    checkpoint: Checkpoint | None = None
    try:
        remove_damaged(path, disk, journal.data_id, notice, has_index=not wrong)
        if on_journal is not None:
            on_journal(journal)
        checkpoint = load_checkpoint(
            path, disk, journal.data_id, last_lsn,
            indexers=indexers, progress=progress, notice=notice, wrong=wrong,
        )  # fmt: skip
        fold_journal(disk, last_lsn, checkpoint.state, progress, checkpoint.lsn)
    except BaseException as error:
        if checkpoint is not None:
            checkpoint.close()
        indexers.close()
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
    device_block_bytes: int = 0,
    progress: Callable[[int, int], None] | None = None,
    on_journal: Callable[[Journal], None] | None = None,
    notice: Callable[[str], None] = _say_nothing,
    indexers: Indexers | None = None,
    disk_of: Callable[[Path], RealDisk] = RealDisk,
) -> DataDirectory:
    """Lock a data directory (created if it does not exist), and recover its state.

    `indexers` start the indexer: processes, unless given. The directory closes them. `on_journal`
    is called when the journal is open and not folded yet: the moment to start the journal's writer.
    `disk_of` makes the disk that the journal is written to (drills have one that records unsynced
    writes). `notice` is called with a sentence about long work or rebuilt files. Raises
    JournalError and RecoveryError.
    """
    disk = disk_of(path / JOURNAL)
    indexers = indexers or ProcessIndexers()
    try:
        if wrong := wrong_folder(path):
            raise RecoveryError(wrong)
        # Only the broker's user may read messages.
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise RecoveryError(
            f"the data directory {path} cannot be created: {error.strerror}"
        ) from error
    try:
        with ExitStack() as undoing:
            lock = take_lock(path, disk)
            undoing.callback(lock.release)
            with owning_index(path, _patience(notice)):
                # While the index is owned here, the indexer of a killed broker is gone, and no
                # other can start.
                before = last_words(path)
                wrong = suspect(path, path / JOURNAL, before, notice)
            watch = Watch(path, LastWords("") if wrong else before)
            undoing.callback(watch.close)
            known = 0 if wrong else known_durable_lsn(path)
            journal, repair = _open_known(disk, path, segment_bytes, device_block_bytes, known)
            recovered = _restored(
                path, disk, journal, repair, indexers, progress, on_journal, notice, wrong
            )
            undoing.pop_all()
            return DataDirectory(path, lock, watch, recovered, indexers)
    except OSError as error:
        remedy = ""
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            remedy = ". Free disk space or raise the quota, and start again; nothing is lost"
        raise RecoveryError(f"the data directory {path} cannot be used: {error}{remedy}") from error
    except IndexUnwritable as error:
        raise RecoveryError(
            f"{error}. Nothing was changed: correct that and start again, or delete the folder "
            f"'{INDEX}'; the next start rebuilds it"
        ) from error
