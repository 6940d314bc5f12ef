"""Finding the newest anchor of a journal: the last signed statement, or the newest block."""

from pathlib import Path

from daybook.errors import DaybookError
from daybook.journal.blocks.block import Block
from daybook.journal.blocks.format import segment_first_lsn
from daybook.journal.data_directory import NOTARY
from daybook.journal.disk import Disk
from daybook.journal.errors import NoJournal
from daybook.journal.segments.reader import read_blocks
from daybook.journal.segments.segment import data_id_of, segment_names
from daybook.recovery.signing.statements import Statement, noted_in


class NoAnchor(DaybookError):
    """A data directory has no signatures, or those of another one."""


def newest_anchor(path: Path, disk: Disk, *, unsigned: bool) -> Statement:
    """Return the newest statement of a data directory, or one about its newest block.

    Raises NoAnchor, JournalError and OSError.
    """
    if unsigned:
        return newest_block(disk)
    noted = noted_in(path / NOTARY)
    if noted is None:
        raise NoAnchor(
            f"{path} has no signatures; a broker signs its history with signing-key in "
            "[journal], and --unsigned prints an anchor without a signature"
        )
    if noted.statement.data_id != data_id_of(disk).hex():
        raise NoAnchor(f"{path / NOTARY} is of another data directory; delete it")
    return noted.statement


def newest_block(disk: Disk) -> Statement:
    """Return a statement about the newest block that is proven durable. Raises JournalError."""
    newest: Block | None = None
    for name in reversed(segment_names(disk)):
        for block in read_blocks(disk, from_lsn=segment_first_lsn(name) or 1, proven=True):
            newest = block if block.count else newest
        if newest is not None:
            return Statement(data_id_of(disk).hex(), newest.last_lsn, newest.hash.hex())
    raise NoJournal("the journal has no event yet")
