"""The state of a data directory for other processes than its broker: read-only, without a lock.

Works while a broker runs on the directory: it reads the durable part of the journal.
"""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from daybook.engine.state.state import State
from daybook.journal.data_directory import INDEX, JOURNAL
from daybook.journal.disk import RealDisk
from daybook.journal.errors import NoJournal
from daybook.journal.segments.reader import read_blocks
from daybook.journal.segments.segment import first_lsn_of
from daybook.paging.tables.layout import LAYOUT
from daybook.recovery.fold import fold
from daybook.recovery.moments import begin_index, checkpoint_in


def journal_disk(directory: Path) -> RealDisk:
    """Return the disk of a data directory's journal; raises NoJournal if there is none."""
    path = directory / JOURNAL
    if not path.is_dir():
        raise NoJournal(
            f"{directory} is not a data directory: it has no folder '{JOURNAL}'; name the "
            f"directory "
            "given to 'daybook serve --data'"
        )
    return RealDisk(path)


def read_state(directory: Path, to_lsn: int | None = None) -> tuple[State, int]:
    """Fold the journal up to `to_lsn` in memory; return the state and its LSN.

    Drills hold it against the state of a broker; `recovery.moments.state_at` is quicker and needs
    less memory. Raises the errors of that.
    """
    disk = journal_disk(directory)
    if first_lsn_of(disk) > 1:
        return _read_from_known(directory, disk, to_lsn)
    state = State()
    return state, fold(read_blocks(disk, LAYOUT, to_lsn=to_lsn), state, to_lsn)


def _read_from_known(directory: Path, disk: RealDisk, to_lsn: int | None) -> tuple[State, int]:
    """Read the state where the first segments left: earlier entries are not in memory."""
    with TemporaryDirectory(prefix="daybook-read-") as folder:
        index = Path(folder) / INDEX
        until = sys.maxsize if to_lsn is None else to_lsn
        known = begin_index(directory, disk, until, index, lambda _: None)
        with checkpoint_in(index, disk) as (state, _):
            blocks = read_blocks(disk, LAYOUT, from_lsn=known + 1, to_lsn=to_lsn)
            return state, max(fold(blocks, state, to_lsn), known)
