"""The state to start from: the checkpoint in the index, brought up to the end of the journal.

Data flow (ADR 8): the index is judged, and discarded if it does not fit the journal; its process is
started; if it is far behind, the start waits for it; then queues, peers and what is in flight are
loaded and the rest of the journal is folded. Fault model: the index may be missing, damaged, of
another journal, or not to be written for now. None of that costs more than time.
"""

import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from engine import events
from engine.events import KIND
from engine.queues import StoreError
from engine.state import State
from journal.disk import Disk
from journal.reader import read_blocks
from journal.segment import first_lsn_of, segment_names
from paging.base import BaseDamaged, describe, restore
from paging.judging import check_apart, judge
from paging.layout import LAYOUT
from paging.process import IndexerFailed, IndexerProcess
from paging.retiring import BASE
from paging.store import IndexStore
from paging.tables import (
    DATA_FILE,
    IndexDamaged,
    IndexUnwritable,
    open_for_reading,
    open_for_writing,
)

INDEX: Final = "index"
STARTING: Final = "index-starting"
"""File that is there from the opening of the index until it has served for a while."""
CATCH_UP_EVENTS: Final = 200_000
"""How many events a start folds itself; for more it waits for the indexer, which is faster."""

Progress = Callable[[int, int], None]
Notice = Callable[[str], None]


class Checkpoint(NamedTuple):
    """A state, the LSN that it stands for, who reads the rest of it, and who keeps the index."""

    state: State
    lsn: int
    store: IndexStore | None
    indexer: IndexerProcess | None

    def close(self) -> None:
        """Let go of store and process."""
        if self.store is not None:
            self.store.close()
        if self.indexer is not None:
            self.indexer.close()


def suspect(path: Path) -> str:
    """What is wrong with an index that may have killed who looked at it; it is discarded then.

    To be called before anything else looks at the index. Until `trust` is called, a death makes it
    suspect to the next start, which has it read in full by a process apart: what is wrong with the
    structure of a map may kill whoever looks at it. Empty if there is nothing to be said.
    """
    if not (path / INDEX / DATA_FILE).exists():
        return ""
    starting = path / STARTING
    wrong = check_apart(path / INDEX) if starting.exists() else ""
    if wrong:
        discard(path)
    else:
        # A disk without room for an empty file has none for an index either, and that is told.
        with suppress(OSError):
            starting.touch()
    return wrong


def known_durable_lsn(path: Path) -> int:
    """What the index of a data directory knows to have been durable; 0 if it knows nothing."""
    try:
        tables = open_for_reading(path / INDEX)
    except (IndexDamaged, IndexUnwritable):
        return 0
    try:
        with tables.read() as txn:
            return tables.position(txn)[0]
    except (IndexDamaged, IndexUnwritable):
        return 0
    finally:
        tables.close()


def load_checkpoint(
    path: Path,
    disk: Disk,
    data_id: bytes,
    durable_lsn: int,
    *,
    progress: Progress | None,
    notice: Notice,
) -> Checkpoint:
    """Start the indexer of a data directory and load the state to fold the journal's end into.

    `notice` is told in a sentence what takes time or went wrong. Raises RecoveryError's cause as
    IndexerFailed if the journal cannot be indexed, and BaseDamaged.
    """
    try:
        why = _why_not(path, disk, data_id)
        for _ in range(2):
            if why:
                _renew(path, disk, data_id, why if durable_lsn else "", notice)
            try:
                open_for_writing(path / INDEX, data_id).close()
                # A disk without room for an empty file is no reason not to start.
                with suppress(OSError):
                    (path / STARTING).touch()
                return _load(path, disk, data_id, durable_lsn, progress, notice)
            except (IndexDamaged, StoreError) as error:
                why = str(error)
            except IndexerFailed as error:
                if not error.index:
                    raise
                why = str(error)
    except IndexUnwritable as error:
        why = str(error)
    first = first_lsn_of(disk)
    if first > 1:
        raise BaseDamaged(
            f"{why}; the journal begins with event {first}, so the broker cannot start "
            "without an index"
        )
    notice(f"no index for now, so everything stays in memory: {why}")
    return Checkpoint(State(), 0, None, None)


def _renew(path: Path, disk: Disk, data_id: bytes, why: str, notice: Notice) -> None:
    discard(path)
    if why:
        notice(f"the index is made anew: {why}")
    _begin_index(path, disk, data_id)


def _begin_index(path: Path, disk: Disk, data_id: bytes) -> None:
    """Have a new index begin with the base if segments left; raises BaseDamaged."""
    first = first_lsn_of(disk)
    if first == 1:
        return
    if describe(path / BASE, data_id) is None:
        raise BaseDamaged(
            f"the journal begins with event {first}: the segments before {segment_names(disk)[0]} "
            f"are missing, and so is '{BASE}', which retention leaves in their place. Restore them "
            "from a copy or the archive."
        )
    restore(path / BASE, data_id, path / INDEX, first)


def _is_behind(disk: Disk, lsn: int, durable_lsn: int) -> bool:
    """Whether the indexer should go first: for its speed, or because content was carried.

    Only the index knows where to, and what was there before may have left: an index that was made
    anew from the base must not serve before it has got there.
    """
    if durable_lsn - lsn > CATCH_UP_EVENTS:
        return True
    return first_lsn_of(disk) > 1 and any(
        events.CARRIED in block.columns()[KIND]
        for block in read_blocks(disk, LAYOUT, from_lsn=lsn + 1, heaps=False)
        if block.count
    )


def _load(
    path: Path,
    disk: Disk,
    data_id: bytes,
    durable_lsn: int,
    progress: Progress | None,
    notice: Notice,
) -> Checkpoint:
    indexer = IndexerProcess(path)
    store: IndexStore | None = None
    try:
        indexed = known_durable_lsn(path)
        if _is_behind(disk, indexed, durable_lsn):
            behind = durable_lsn - indexed
            notice(f"the index is {behind} events behind the journal and catches up first")
            indexer.catch_up(durable_lsn, progress)
        store = IndexStore(open_for_reading(path / INDEX, data_id), disk)
        return Checkpoint(store.checkpoint(), store.indexed_lsn, store, indexer)
    except BaseException:
        if store is not None:
            store.close()
        indexer.close()
        raise


def discard(path: Path) -> None:
    """Delete the index of a data directory: it is derived."""
    shutil.rmtree(path / INDEX, ignore_errors=True)
    (path / STARTING).unlink(missing_ok=True)


def trust(path: Path) -> None:
    """The index has served for a while, so a death from here on does not make it suspect."""
    (path / STARTING).unlink(missing_ok=True)


def _why_not(path: Path, disk: Disk, data_id: bytes) -> str:
    """Why the index cannot be used, empty if it can."""
    judgement = judge(path / INDEX, data_id, disk)
    if judgement.usable and judgement.lsn + 1 < first_lsn_of(disk):
        return (
            f"it ends with event {judgement.lsn}, and the journal begins with {first_lsn_of(disk)}"
        )
    return "" if judgement.usable else judgement.why
