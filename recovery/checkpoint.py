"""The state to start from: the checkpoint in the index, brought up to the end of the journal.

Data flow (ADR 8): the index is judged, and discarded if it does not match the journal; the indexer
is started; if it is far behind, the start waits for it; then queues, peers and deliveries in flight
are loaded and the rest of the journal is folded. Fault model: the index may be missing, damaged, of
another journal, or not writable for now. None of that costs more than time, unless segments have
left the journal: then a start needs an index, or the base to rebuild it from.
"""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from daybook.engine.facts import events
from daybook.engine.facts.events import KIND
from daybook.engine.queues.queue import PAST_ALL, StoreError
from daybook.engine.state.state import State
from daybook.journal.data_directory import BASE, INDEX, TABLES
from daybook.journal.disk import Disk
from daybook.journal.segments.reader import read_blocks
from daybook.journal.segments.segment import first_lsn_of, segment_names
from daybook.paging.checks.usability import check_apart, judge, older_format
from daybook.paging.content.store import IndexStore
from daybook.paging.indexer.indexers import Indexers
from daybook.paging.indexer.process import IndexerFailed, IndexerHandle, IndexerStuck
from daybook.paging.snapshots.base import BaseDamaged, describe, restore
from daybook.paging.tables.layout import LAYOUT
from daybook.paging.tables.structure import check_structure
from daybook.paging.tables.tables import (
    BLOCKS,
    ID_KEY,
    IndexDamaged,
    IndexUnwritable,
    open_for_reading,
)
from daybook.recovery.last_words import LastWords

CATCH_UP_EVENTS: Final = 200_000
"""How many events a start folds itself; for more it waits for the indexer, which is faster."""

Progress = Callable[[int, int], None]
Notice = Callable[[str], None]


class Checkpoint(NamedTuple):
    """A state and its LSN, the store of entries that are not in memory, and the indexer."""

    state: State
    lsn: int
    store: IndexStore | None
    indexer: IndexerHandle | None

    def close(self) -> None:
        """End the indexer and close the store."""
        if self.indexer is not None:
            self.indexer.close()
        if self.store is not None:
            self.store.close()


def suspect(path: Path, journal: Path, words: LastWords, notice: Notice) -> str:
    """Return why an index may crash a process that reads it, or "" if it may be read.

    To be called before anything else reads the index, by a process that owns it. Its structure is
    checked at each start without LMDB, because a damaged file can crash a process that uses LMDB.
    If the last broker distrusted the index, or died by a signal, a separate process reads all of
    it; an index that passed this check, and soon after failed the next broker, is taken for
    damaged. Deletes nothing: the start may still be refused. Raises IndexUnwritable, and OSError if
    the index cannot be read.
    """
    file = path / INDEX / TABLES
    if not file.is_file():
        return ""
    try:
        check_structure(path / INDEX)
    except IndexDamaged as damage:
        older = older_format(path / INDEX)
        return f"it is of an older release (format {older})" if older else str(damage)
    if not words.text:
        return ""
    size = file.stat().st_size >> 20
    notice(f"the last run ended with '{words.text}': the whole index is read first ({size} MiB)")
    wrong = check_apart(path / INDEX, journal)
    if not wrong and words.again:
        return "one broker after the other fails with it, although all of it can be read"
    return wrong


def known_durable_lsn(path: Path) -> int:
    """Return the highest LSN that the index of a data directory proves durable; 0 if none."""
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
    indexers: Indexers,
    progress: Progress | None,
    notice: Notice,
    wrong: str = "",
) -> Checkpoint:
    """Start the indexer of a data directory and load the state to fold the journal's end into.

    `notice` is called with a sentence about long work or a fault; `wrong` is the result of
    `suspect`. Raises IndexerFailed if the journal cannot be indexed, and BaseDamaged.
    """
    try:
        why = wrong or _why_not(path, disk, data_id)
        _check_beginning(path, disk, data_id, usable=not why)
        for _ in range(2):
            if why:
                _renew(path, disk, data_id, why if durable_lsn else "", notice)
            try:
                return _load(path, disk, data_id, durable_lsn, indexers, progress, notice)
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


def _check_beginning(path: Path, disk: Disk, data_id: bytes, *, usable: bool) -> None:
    """Refuse a journal whose first segments are missing without having been removed by retention.

    The base has the state of the removed segments. A damaged or missing base does not prevent a
    start if a `usable` index no longer lists the segments: the indexer drops them when retention
    removes them.
    """
    first = first_lsn_of(disk)
    if first == 1:
        return
    try:
        base = describe(path / BASE, data_id)
    except BaseDamaged:
        return
    known = _first_block(path / INDEX, data_id) if base is None and usable else first
    missing = base.lsn + 1 if base is not None else known
    if missing < first:
        raise BaseDamaged(
            f"events {missing} to {first - 1} are missing: the journal begins with segment "
            f"{segment_names(disk)[0]}, and retention did not remove the events before it. "
            "Nothing was changed. Restore the missing segments from a copy."
        )


def _first_block(index: Path, data_id: bytes) -> int:
    """Return the first event of the oldest block that an index lists; PAST_ALL if it lists none."""
    tables = open_for_reading(index, data_id)
    try:
        with tables.read() as txn:
            cursor = txn.cursor(tables.db(BLOCKS))
            return int(ID_KEY.unpack(cursor.key())[0]) if cursor.first() else PAST_ALL
    finally:
        tables.close()


def _renew(path: Path, disk: Disk, data_id: bytes, why: str, notice: Notice) -> None:
    """Replace the index by an empty one, or by the base if segments left; raises BaseDamaged."""
    first = first_lsn_of(disk)
    # Check for the base before deleting anything: without it the start is refused, and the files
    # stay unchanged.
    if first > 1 and describe(path / BASE, data_id) is None:
        raise BaseDamaged(
            f"the journal begins with event {first}: the segments before {segment_names(disk)[0]} "
            f"are missing, and so is '{BASE}', which retention leaves in their place. Restore them "
            "from a copy or the archive."
        )
    discard(path)
    if why:
        notice(f"the index is rebuilt: {why}")
    if first > 1:
        restore(path / BASE, data_id, path / INDEX, first)


def begin_index(path: Path, disk: Disk, data_id: bytes, notice: Notice) -> None:
    """Make sure that an indexer can begin: replace an index that does not fit the journal.

    Raises BaseDamaged and IndexUnwritable.
    """
    why = _why_not(path, disk, data_id)
    _check_beginning(path, disk, data_id, usable=not why)
    if why:
        _renew(path, disk, data_id, why if (path / INDEX).exists() else "", notice)


def must_catch_up(disk: Disk, lsn: int) -> bool:
    """Return whether the index must catch up before it serves, because content was carried.

    Only an index that has caught up knows the new place of the content; the old one may have left.
    """
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
    indexers: Indexers,
    progress: Progress | None,
    notice: Notice,
) -> Checkpoint:
    # Before the index is opened here for longer.
    indexed = known_durable_lsn(path)
    indexer: IndexerHandle | None = None
    store: IndexStore | None = None
    try:
        indexers.prepare(path, data_id)
        indexer = indexers.start(path, data_id)
        behind = durable_lsn - indexed
        if behind > CATCH_UP_EVENTS or must_catch_up(disk, indexed):
            notice(f"the index is {behind} events behind the journal and catches up first")
            every = indexers.snapshot_every
            _catch_up(indexer, disk, indexed, durable_lsn, every, progress, notice)
        store = indexers.open_store(path, data_id, disk)
        return Checkpoint(store.checkpoint(), store.indexed_lsn, store, indexer)
    except BaseException:
        if indexer is not None:
            indexer.close()
        if store is not None:
            store.close()
        indexers.close()
        raise


def _catch_up(
    indexer: IndexerHandle,
    disk: Disk,
    indexed: int,
    durable_lsn: int,
    snapshot_every: int,
    progress: Progress | None,
    notice: Notice,
) -> None:
    """Wait for the indexer. If it is stuck, fold the rest here instead, where that is correct."""
    try:
        indexer.catch_up(durable_lsn, progress, snapshot_every)
    except IndexerStuck as stuck:
        if must_catch_up(disk, indexed):
            raise IndexerFailed(
                f"{stuck}. The broker cannot start before the index has caught up, because only "
                "the index knows where retention carried messages to. Free disk space, or find "
                "the reason why the indexer waits, and start again; the data was not changed",
                index=False,
            ) from stuck
        notice(
            "the index cannot catch up, so the events that it lacks are read into memory: "
            f"{stuck}. The indexer continues when it can"
        )


def discard(path: Path) -> None:
    """Delete the index of a data directory; it can be rebuilt from the journal."""
    shutil.rmtree(path / INDEX, ignore_errors=True)


def _why_not(path: Path, disk: Disk, data_id: bytes) -> str:
    """Return why the index cannot be used, "" if it can."""
    judgement = judge(path / INDEX, data_id, disk)
    if judgement.usable and judgement.lsn + 1 < first_lsn_of(disk):
        return (
            f"it ends with event {judgement.lsn}, and the journal begins with {first_lsn_of(disk)}"
        )
    return "" if judgement.usable else judgement.why
