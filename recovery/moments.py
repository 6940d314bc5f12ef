"""The state of a data directory at any event of its history: for readers, without a lock (ADR 63).

Data flow: the newest sound snapshot that is not behind the event is copied, from the directory or
its archive, or the base, or none if the journal has its first event; or the index of a moment
between them that the caller still has. The indexer's fold advances the copy over all whole blocks;
`apply` does the events of the last block up to the event, and all of them where they are few.
Works while a broker runs on the directory. Writes only to a temporary directory.
"""

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from daybook.engine.facts import life
from daybook.engine.facts.events import KIND
from daybook.engine.facts.kinds import changing
from daybook.engine.state.state import State
from daybook.journal.blocks.block import Block
from daybook.journal.blocks.format import FIRST_LSN
from daybook.journal.data_directory import BASE, BASE_DESCRIPTION, INDEX, SNAPSHOTS, TABLES
from daybook.journal.disk import Disk
from daybook.journal.errors import NoJournal
from daybook.journal.segments.reader import read_blocks
from daybook.journal.segments.segment import data_id_of, first_lsn_of
from daybook.paging.checks.usability import why_not_of
from daybook.paging.content.store import IndexStore
from daybook.paging.fold.batches import folded
from daybook.paging.fold.index import Index
from daybook.paging.snapshots.base import describe, restore
from daybook.paging.snapshots.snapshots import restore_nearest
from daybook.paging.tables.layout import LAYOUT
from daybook.paging.tables.tables import open_for_reading
from daybook.recovery.collector import collected_rarely, free_what_was_built
from daybook.recovery.fold import fold_block
from daybook.recovery.signing.export_proof import range_of
from daybook.scratch_folders import scratch_folder

FEW_EVENTS: Final = 20_000
"""So many events are applied to the loaded state itself: the fold of an index begins with reading
all names, and ends with a commit."""
NAME_EVENTS: Final = 4
"""So many more for each queue and address that they make. The fold of an index writes its records,
and they are read again for the state: that takes five times as long as to apply their events. A
state has all of its names in memory in both ways."""
FEW_BYTES: Final = 64 * 1024 * 1024
"""They have at most so much content, which stays in memory."""
_NAMES: Final = changing({life.ADDRESS, life.QUEUE}, {life.BEGINS})


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
    with (
        course_at(directory, disk, lsn, note=note) as course,
        course.state_at(lsn, progress) as state,
    ):
        yield state


@contextmanager
def course_at(
    directory: Path,
    disk: Disk,
    lsn: int,
    *,
    note: Callable[[str], None],
    earlier: "Reached | None" = None,
) -> Iterator["Course"]:
    """Yield a course to an event, with a temporary index; `earlier` as in `nearest_state`.

    Raises as `state_at`.
    """
    with scratch_folder("read") as folder:
        yield Course(directory, disk, lsn, folder / INDEX, note, earlier, few=FEW_EVENTS)


class Reached(NamedTuple):
    """An index at a path that is closed for writing: how far it is, and the hash of the block that
    ends there."""

    path: Path
    lsn: int
    block_hash: bytes


class Course:
    """States after later and later events, from one index that nobody else uses.

    It begins with the nearest state at or before an event. Raises the errors of `state_at`.
    """

    def __init__(
        self,
        directory: Path,
        disk: Disk,
        lsn: int,
        path: Path,
        note: Callable[[str], None],
        earlier: Reached | None = None,
        *,
        few: int = 0,
    ) -> None:
        """Make the index at a path; `note` as in `state_at`, `earlier` as in `nearest_state`.

        `few` is up to how many events a state may be after that of the index.
        """
        self._disk: Final = disk
        self._few: Final = few
        first_lsn = first_lsn_of(disk)
        known = nearest_state(directory, disk, lsn, path, note, earlier)
        if known > lsn or (not known and first_lsn != FIRST_LSN):
            raise NoJournal(_unknown(directory, first_lsn, lsn, known))
        path.mkdir(parents=True, exist_ok=True)
        self.index: Final = Index(path, data_id_of(disk), clusters=False)

    def advance(self, lsn: int, progress: Callable[[int, int], None] | None = None) -> Block | None:
        """Fold all whole blocks up to an event into the index; return the block that has more
        events up to it, if any."""
        begun, last = self.index.lsn, None
        for batch in folded(self.index, self._disk, lsn):
            last = batch[-1]
            if progress is not None:
                progress(self.index.lsn - begun, lsn - begun)
        return last if last is not None and last.last_lsn > lsn else None

    @contextmanager
    def state_at(
        self, lsn: int, progress: Callable[[int, int], None] | None = None
    ) -> Iterator[State]:
        """Yield the state after an event, which must not be before that of an earlier call."""
        with ExitStack() as opened:
            with collected_rarely():
                blocks = self._blocks_left(lsn)
                if blocks is None:
                    rest = self.advance(lsn, progress)
                    blocks = [rest] if rest is not None else []
                    self.close()
                    # The fold has as many objects as the state that is loaded next.
                    free_what_was_built()
                self.close()
                state, _ = opened.enter_context(checkpoint_in(self.index.path, self._disk))
                for block in blocks:
                    fold_block(block, state, lsn)
            yield state

    def _blocks_left(self, lsn: int) -> list[Block] | None:
        """Return the blocks between the index and an event, None if these are not few events."""
        if not self._few:
            return None
        found: list[Block] = []
        after = self.index.lsn
        left, size = self._few, 0
        for block in read_blocks(self._disk, LAYOUT, from_lsn=after + 1, to_lsn=lsn):
            if not block.count or block.last_lsn <= after:
                continue
            last = found[-1].last_lsn if found else after
            assert block.first_lsn == last + 1, "blocks follow the index"
            left -= block.count - NAME_EVENTS * _names_in(block)
            size += block.header.heap_raw_bytes
            if left < 0 or size > FEW_BYTES:
                return None
            found.append(block)
        return found

    @property
    def reached(self) -> Reached:
        """Its index, for another course that begins there while this one is not advanced."""
        return Reached(self.index.path, self.index.lsn, self.index.last_hash)

    def close(self) -> None:
        """Close the index, so that others can open it; going on opens it again."""
        self.index.close()


def _names_in(block: Block) -> int:
    """Return how many queues and addresses a block makes."""
    kinds = block.columns()[KIND].tolist()
    return sum(map(kinds.count, _NAMES))


def nearest_state(
    directory: Path,
    disk: Disk,
    lsn: int,
    path: Path,
    note: Callable[[str], None],
    earlier: Reached | None = None,
) -> int:
    """Put the state from which the fold to an event is shortest into a new index; return its event.

    That is the newest sound snapshot up to the event, or the index of an `earlier` moment that is
    nearer, else the base. Where the first segments left, the base may be later than the event. The
    result is 0, and no index is made, if the fold begins with the first event of the journal.
    Raises as `state_at`.
    """
    data_id, first_lsn = data_id_of(disk), first_lsn_of(disk)
    if earlier is not None and not _leads_to(earlier, disk, lsn):
        earlier = None
    after = earlier.lsn if earlier is not None else 0
    snapshots = directory / SNAPSHOTS
    found = restore_nearest(snapshots, disk, data_id, lsn, path, note, after=after) if lsn else 0
    if not found and earlier is not None:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        shutil.copyfile(earlier.path / TABLES, path / TABLES)
        return earlier.lsn
    if found or not (directory / BASE / BASE_DESCRIPTION).exists():
        return found
    if first_lsn == FIRST_LSN:
        base = describe(directory / BASE, data_id)
        if base is None or base.lsn > lsn:
            return 0
    return restore(directory / BASE, data_id, path, first_lsn)


def _leads_to(earlier: Reached, disk: Disk, lsn: int) -> bool:
    """Whether the journal has everything between an index and an event, and the index is of it."""
    if not 0 < earlier.lsn <= lsn or earlier.lsn < first_lsn_of(disk) - 1:
        return False
    return not why_not_of(disk, earlier.lsn, earlier.block_hash)


@contextmanager
def checkpoint_in(path: Path, disk: Disk) -> Iterator[tuple[State, IndexStore]]:
    """Yield the state that an index has, and the store that its queues read their entries from."""
    store = IndexStore(open_for_reading(path, data_id_of(disk)), disk, map_bytes=0)
    try:
        yield store.checkpoint(), store
    finally:
        store.close()


def _unknown(directory: Path, first_lsn: int, lsn: int, known: int) -> str:
    """Say why there is no state at an event; `known` is the event of a later state, 0 for none."""
    begins = f"the journal in {directory} begins with event {first_lsn}, and"
    if known and lsn >= first_lsn - 1:
        # Retention leaves a base that ends where the journal begins.
        return (
            f"{begins} the first known state is that after event {known}, as in a fork and "
            f"after a salvage. Name a moment from there on, or ask the directory that this "
            f"one was made from about event {lsn}"
        )
    exported = range_of(directory)
    if exported:
        return f"{exported}: ask the journal that it was made from"
    return (
        f"{begins} the state at {lsn} is unknown here: add --with-archive if the events before "
        "it were archived"
    )
