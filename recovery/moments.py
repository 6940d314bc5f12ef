"""The state of a data directory at any event of its history: for readers, without a lock (ADR 63).

Data flow: the newest sound snapshot that is not behind the event is copied, from the directory or
its archive, or the base, or nothing if the journal has its first event; the indexer's fold advances
the copy over all whole blocks; `apply` does the events of the last block up to the event. Works
while a broker runs on the directory. Writes only to a temporary directory.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from daybook.engine.state.state import State
from daybook.journal.blocks.block import Block
from daybook.journal.blocks.format import FIRST_LSN
from daybook.journal.data_directory import BASE, BASE_DESCRIPTION, INDEX, SNAPSHOTS
from daybook.journal.disk import Disk
from daybook.journal.errors import NoJournal
from daybook.journal.segments.segment import data_id_of, first_lsn_of
from daybook.paging.content.store import IndexStore
from daybook.paging.fold.batches import batches
from daybook.paging.fold.index import Index
from daybook.paging.snapshots.base import describe, restore
from daybook.paging.snapshots.snapshots import restore_nearest
from daybook.paging.tables.tables import open_for_reading
from daybook.recovery.fold import fold_block
from daybook.recovery.signing.export_proof import range_of


@contextmanager
def state_at(
    directory: Path,
    disk: Disk,
    lsn: int,
    *,
    note: Callable[[str], None],
    progress: Callable[[int, int], None] | None = None,
) -> Iterator[State]:
    """Yield the state after an event, whose queues read their entries from a temporary index.

    `disk` has the segments of the directory, maybe after those of its archive. `note` is called
    with a sentence about a damaged snapshot, `progress` with how many events of how many were
    folded. Raises JournalError, FoldError, BaseDamaged, IndexDamaged, IndexUnwritable, StoreError
    and OSError.
    """
    with TemporaryDirectory(prefix="daybook-read-") as folder:
        course = Course(directory, disk, lsn, Path(folder) / INDEX, note)
        with course.state_at(lsn, progress) as state:
            yield state


class Course:
    """States after later and later events, from one temporary index at a path.

    It begins with the nearest state at or before an event. Raises what `state_at` raises.
    """

    def __init__(
        self, directory: Path, disk: Disk, lsn: int, path: Path, note: Callable[[str], None]
    ) -> None:
        self._disk = disk
        self._path = path
        self._data_id = data_id_of(disk)
        begin_index(directory, disk, self._data_id, lsn, path, note)

    @contextmanager
    def state_at(
        self, lsn: int, progress: Callable[[int, int], None] | None = None
    ) -> Iterator[State]:
        """Yield the state after an event, which must not be before that of an earlier call."""
        rest = _advance(self._path, self._disk, self._data_id, lsn, progress)
        tables = open_for_reading(self._path, self._data_id)
        store = IndexStore(tables, self._disk, map_bytes=0)
        try:
            state = store.checkpoint()
            if rest is not None:
                fold_block(rest, state, lsn)
            yield state
        finally:
            store.close()


def index_at(
    directory: Path,
    disk: Disk,
    lsn: int,
    path: Path,
    *,
    note: Callable[[str], None],
    progress: Callable[[int, int], None] | None = None,
) -> Block | None:
    """Make an index at the path of the state after the last whole block up to an event.

    Return the block that has more events up to it, if any. Arguments and errors are those of
    `state_at`.
    """
    data_id = data_id_of(disk)
    begin_index(directory, disk, data_id, lsn, path, note)
    return _advance(path, disk, data_id, lsn, progress)


def begin_index(
    directory: Path, disk: Disk, data_id: bytes, lsn: int, path: Path, note: Callable[[str], None]
) -> None:
    """Put the nearest state at or before an event into a new index, which stays empty if there is
    none.

    Raises ExportError, and as `state_at`.
    """
    if restore_nearest(directory / SNAPSHOTS, disk, data_id, lsn, path, note):
        return
    path.mkdir(parents=True, exist_ok=True)
    first_lsn = first_lsn_of(disk)
    base = describe(directory / BASE, data_id) if _has_base(directory) else None
    if base is not None and base.lsn <= lsn and base.lsn + 1 >= first_lsn:
        restore(directory / BASE, data_id, path, first_lsn)
    elif first_lsn == FIRST_LSN:
        # All of history is here, maybe because the archive is: the fold begins with nothing.
        return
    elif base is not None and lsn >= first_lsn - 1:
        # Retention leaves a base that ends where the journal begins.
        raise NoJournal(
            f"the journal in {directory} begins with event {first_lsn}, and the first state that "
            f"is known is that after event {base.lsn}: that is so in a fork and after a salvage. "
            f"Name a moment from there on, or ask the directory that this one was made from about "
            f"event {lsn}"
        )
    else:
        exported = range_of(directory)
        if exported:
            raise NoJournal(f"{exported}: ask the journal that it was made from")
        raise NoJournal(
            f"the journal in {directory} begins with event {first_lsn}, and nothing here knows the "
            f"state at {lsn}: add --with-archive if the events before it were archived"
        )


def _has_base(directory: Path) -> bool:
    return (directory / BASE / BASE_DESCRIPTION).exists()


def _advance(
    path: Path,
    disk: Disk,
    data_id: bytes,
    lsn: int,
    progress: Callable[[int, int], None] | None,
) -> Block | None:
    """Fold all whole blocks up to an event into an index; return the block that has more, if
    any."""
    index = Index(path, data_id, clusters=False)
    try:
        begun = index.lsn
        for batch in batches(disk, begun, lsn):
            whole = [block for block in batch if block.last_lsn <= lsn]
            index.advance(whole)
            if progress is not None:
                progress(index.lsn - begun, lsn - begun)
            if len(whole) < len(batch):
                return batch[-1]
        return None
    finally:
        index.close()
