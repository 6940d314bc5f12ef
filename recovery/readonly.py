"""The state of a data directory for other processes than its broker: read-only, without a lock.

Works while a broker runs on the directory: it reads the durable part of the journal.
"""

from pathlib import Path
from tempfile import TemporaryDirectory

from daybook.engine.state.state import State
from daybook.journal.data_directory import BASE, INDEX, JOURNAL
from daybook.journal.disk import RealDisk
from daybook.journal.errors import NoJournal
from daybook.journal.segments.reader import read_blocks
from daybook.journal.segments.segment import data_id_of, first_lsn_of
from daybook.paging.content.store import IndexStore
from daybook.paging.snapshots.base import restore
from daybook.paging.tables.layout import LAYOUT
from daybook.paging.tables.tables import open_for_reading
from daybook.recovery.fold import fold


def journal_disk(directory: Path) -> RealDisk:
    """Return the disk of a data directory's journal; raises NoJournal if there is none."""
    path = directory / JOURNAL
    if not path.is_dir():
        raise NoJournal(
            f"{directory} is no data directory: it has no folder '{JOURNAL}'; name the directory "
            "given to 'daybook serve --data'"
        )
    return RealDisk(path)


def read_state(directory: Path, to_lsn: int | None = None) -> tuple[State, int]:
    """Fold the journal up to `to_lsn`; return the state and its LSN.

    Raises JournalError, FoldError, BaseDamaged, IndexDamaged and OSError.
    """
    disk = journal_disk(directory)
    if first_lsn_of(disk) > 1:
        return _read_from_base(directory, disk, to_lsn)
    state = State()
    return state, fold(read_blocks(disk, LAYOUT, to_lsn=to_lsn), state, to_lsn)


def _read_from_base(directory: Path, disk: RealDisk, to_lsn: int | None) -> tuple[State, int]:
    """Read the state where the first segments left: earlier entries are not in memory."""
    data_id = data_id_of(disk)
    with TemporaryDirectory(prefix="daybook-read-") as folder:
        index = Path(folder) / INDEX
        first = restore(directory / BASE, data_id, index, first_lsn_of(disk))
        if to_lsn is not None and to_lsn < first:
            raise NoJournal(
                f"the journal in {directory} begins after event {first}: only its archive knows "
                f"the state at {to_lsn}"
            )
        tables = open_for_reading(index, data_id)
        try:
            store = IndexStore(tables, disk, map_bytes=0)
            state = store.checkpoint()
            blocks = read_blocks(disk, LAYOUT, from_lsn=first + 1, to_lsn=to_lsn)
            last_lsn = fold(blocks, state, to_lsn)
        finally:
            tables.close()
    return state, max(last_lsn, first)
