"""Deciding whether an index can be used for a journal, with the reason if not (ADR 8).

Only reads. Fault model: the files of the index may contain anything; checks that
could end the process run in another one. Must never know how the answer is used.
"""

import signal
import subprocess
from pathlib import Path
from typing import Final, NamedTuple

from daybook.journal.data_directory import TABLES
from daybook.journal.disk import Disk
from daybook.journal.segments.reader import read_blocks
from daybook.paging.tables.child_processes import child_command
from daybook.paging.tables.layout import LAYOUT
from daybook.paging.tables.tables import IndexDamaged, IndexUnwritable, open_for_reading

DAMAGED: Final = 3
"""Exit code of the process that reads a whole index and finds it damaged."""
DEADLY: Final = (signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT)
"""The signals that reading a damaged map can raise."""


class Judgement(NamedTuple):
    """Whether the index can be used. If so, `lsn` is its LSN, else `why` is the reason."""

    usable: bool
    lsn: int
    why: str


def judge(path: Path, data_id: bytes, disk: Disk) -> Judgement:
    """Compare the index in a directory with the journal on a disk.

    It must have our format and the journal's data id, an LSN that the journal has, and the hash of
    the block that ends there. Its contents are not checked (`check_apart` does that). Raises
    IndexUnwritable if the files cannot be opened, and JournalError.
    """
    if not (path / TABLES).exists():
        return Judgement(False, 0, "there is none")
    try:
        tables = open_for_reading(path, data_id)
        try:
            with tables.read() as txn:
                lsn, block_hash, _ = tables.position(txn)
        finally:
            tables.close()
    except IndexDamaged as damage:
        return Judgement(False, 0, str(damage))
    why = why_not_of(disk, lsn, block_hash)
    return Judgement(not why, lsn, why)


def why_not_of(disk: Disk, lsn: int, block_hash: bytes) -> str:
    """Return why tables are not of a journal, "" if they are: they end with the event `lsn`, the
    last of a block with this hash. Raises JournalError."""
    if lsn == 0:
        return ""
    for block in read_blocks(disk, LAYOUT, from_lsn=lsn):
        if block.count and block.last_lsn == lsn and block.hash == block_hash:
            return ""
        if block.first_lsn == lsn + 1 and block.header.previous_hash == block_hash:
            # The block itself has left the journal; the next block identifies it.
            return ""
        if block.first_lsn <= lsn <= block.last_lsn:
            return (
                f"it is of another journal: its block that ends with event {lsn} is not this one's"
            )
        if block.count:
            return f"it ends with event {lsn}, and the journal begins with {block.first_lsn}"
    return f"it ends with event {lsn}, which the journal does not have"


def older_format(path: Path) -> int:
    """Let another process read of which older format the tables in a directory are.

    Return 0 if they are of none, or cannot be read.
    """
    command = child_command("daybook.paging.fold.upgrade", str(path.absolute()))
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    said = done.stdout.strip()
    return int(said) if done.returncode == 0 and said.isdigit() else 0


def check_apart(path: Path, journal: Path | None = None) -> str:
    """Let another process read the whole index; return its fault, empty without one.

    With `journal`, a directory, that must also contain the events that the index refers to.

    Only errors found by reading, or a signal that ended that process, count as wrong. Raises
    IndexUnwritable if it could not read, which does not mean that the index is damaged.
    """
    words = [str(each.absolute()) for each in (path, journal) if each is not None]
    command = child_command("daybook.paging.checks.index_check", *words)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return ""
    said = done.stderr.strip().rpartition("\n")[2]
    if -done.returncode in DEADLY:
        return (
            f"the index in {path} is damaged: the process that reads it dies "
            f"(exit code {done.returncode})"
        )
    if done.returncode == DAMAGED:
        return said
    raise IndexUnwritable(
        f"the index in {path} could not be checked: the process that reads it ended with exit "
        f"code {done.returncode}{': ' if said else ''}{said}"
    )
