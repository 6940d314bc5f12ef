"""Finding the newest anchor of a journal: the last signed statement, or the newest block."""

from pathlib import Path

import click

from daybook.journal.blocks.block import Block
from daybook.journal.blocks.format import segment_first_lsn
from daybook.journal.data_directory import NOTARY
from daybook.journal.disk import Disk
from daybook.journal.errors import NoJournal
from daybook.journal.pins import Pin
from daybook.journal.segments.reader import read_blocks
from daybook.journal.segments.segment import data_id_of, segment_names
from daybook.recovery.signing.statements import Statement, noted_in
from daybook.tools.terminal.failures import Failure
from daybook.tools.terminal.opening import opened


def newest_anchor(ctx: click.Context, path: Path, *, unsigned: bool) -> Statement:
    """Return the newest statement of a data directory. Raises JournalError, Failure, OSError."""
    ctx.with_resource(Pin(path))
    disk = opened(path)
    statement: Statement | None = None
    if unsigned:
        statement = newest_block(disk)
    elif (noted := noted_in(path / NOTARY)) is not None:
        statement = noted.statement
    if statement is None:
        raise Failure(
            f"{path} has no signatures; a broker signs its history with signing-key in "
            "[journal], and --unsigned prints an anchor without a signature"
        )
    if statement.data_id != data_id_of(disk).hex():
        raise Failure(f"{path / NOTARY} is of another data directory; delete it")
    return statement


def newest_block(disk: Disk) -> Statement:
    """Return a statement about the newest block that is proven durable. Raises JournalError."""
    newest: Block | None = None
    for name in reversed(segment_names(disk)):
        for block in read_blocks(disk, from_lsn=segment_first_lsn(name) or 1, proven=True):
            newest = block if block.count else newest
        if newest is not None:
            return Statement(data_id_of(disk).hex(), newest.last_lsn, newest.hash.hex())
    raise NoJournal("the journal has no event yet")
