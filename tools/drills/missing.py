"""Counting what a journal lacks of the messages that clients have receipts for.

A start that is refused after a crash may be right, because the journal is damaged. What then
matters is whether messages are gone. Reads the sound part of a journal, up to the first damage;
changes nothing. Must never know which broker wrote it.
"""

from contextlib import suppress
from pathlib import Path

from daybook.engine.facts.events import KIND, RELATED, ROUTED
from daybook.errors import DaybookError
from daybook.journal.blocks.format import FIRST_LSN
from daybook.journal.disk import RealDisk
from daybook.journal.segments.reader import read_blocks
from daybook.journal.segments.segment import first_lsn_of, segment_names
from daybook.paging.tables.layout import LAYOUT


def missing_messages(journal: Path, receipted: int) -> str:
    """Return a sentence if the sound part of a journal has fewer messages than so many; "" if it
    has them, or does not have its beginning."""
    found = 0
    disk = RealDisk(journal)
    with suppress(DaybookError, OSError):
        if segment_names(disk) and first_lsn_of(disk) > FIRST_LSN:
            return ""
        for block in read_blocks(disk, LAYOUT, heaps=False):
            if block.count:
                columns = block.columns()
                kinds, related = columns[KIND], columns[RELATED]
                # A copy, of a dead letter for example, names its original.
                found += sum(
                    kind == ROUTED and not original
                    for kind, original in zip(kinds, related, strict=True)
                )
    if found >= receipted:
        return ""
    return (
        f"{receipted - found} of {receipted} messages with a receipt are not in the journal, as "
        "far as it can be read"
    )
