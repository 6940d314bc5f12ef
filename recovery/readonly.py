"""The state of a data directory as somebody else sees it: read, never written, never locked.

Works while a broker runs on the directory: what is read is the durable part of its journal.
"""

from pathlib import Path

from engine.state import State
from journal.disk import RealDisk
from journal.errors import NoJournal
from journal.reader import read_blocks
from paging.layout import LAYOUT
from recovery.directory import JOURNAL
from recovery.fold import fold


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
    """Fold the journal up to `to_lsn`; return the state and the LSN that it stands for.

    Raises JournalError and FoldError.
    """
    state = State()
    last_lsn = fold(read_blocks(journal_disk(directory), LAYOUT, to_lsn=to_lsn), state, to_lsn)
    return state, last_lsn
