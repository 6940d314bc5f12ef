"""Whether a broker would start on a data directory as it is: found out without touching it.

A drill that rehearses crashes of a journal that no broker opens would prove nothing. Reads the
directory only; must never know the work of a drill.
"""

import os
from contextlib import closing
from pathlib import Path

from daybook.client.control import ControlError, ask
from daybook.history.verification.index_verification import copied_index
from daybook.journal.data_directory import INDEX, TABLES
from daybook.journal.disk import RealDisk
from daybook.journal.errors import JournalError
from daybook.journal.segments.segment import data_id_of
from daybook.recovery.directory import open_journal, why_foreign
from daybook.tools.drills.disks.overlay import Overlay
from daybook.tools.terminal.failures import Failure


def is_in_use(directory: Path) -> bool:
    """Return whether a broker runs on a data directory, or may be about to."""
    try:
        return ask(directory, {"do": "status"}) is not None
    except ControlError:
        return True


def refuse_unstartable(directory: Path, disk: RealDisk) -> None:
    """Raise Failure if no broker starts on a data directory. Raises JournalError and OSError."""
    why = why_no_start(directory, disk)
    if why:
        raise no_start(directory, why)


def no_start(directory: Path, why: str) -> Failure:
    """Return the failure of a drill on a directory on which no broker starts."""
    return Failure(
        f"no broker starts on {directory} as it is, so there is nothing to rehearse: {why}"
    )


def why_no_start(directory: Path, disk: RealDisk) -> str:
    """Return why no broker starts on a data directory, "" if no obstacle is known.

    The journal is opened as a start does, with the events that the index proves durable; repairs
    happen in memory only. A journal that a broker is writing is not opened.
    """
    foreign = why_foreign(directory, data_id_of(disk).hex())
    if foreign or is_in_use(directory):
        return foreign
    known = _known_durable_lsn(directory)
    with closing(Overlay(disk)) as overlay:
        for name in disk.names():
            overlay.show(name)
        try:
            journal, _ = open_journal(overlay, data_id=os.urandom(16), known_durable_lsn=known)
        except JournalError as error:
            return str(error)
        journal.close()
    return ""


def _known_durable_lsn(directory: Path) -> int:
    """Return the highest event that the index proves durable; 0 if it is damaged or missing."""
    if not (directory / INDEX / TABLES).is_file():
        return 0
    # A copy: LMDB writes to the lock file beside the data.
    with copied_index(directory) as index:
        return index.lsn
