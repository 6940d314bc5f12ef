"""The first command of a broker, which depends on how the broker before it ended.

After a clean stop every event is durable. After any other end, events may be lost whose ids clients
have seen: their LSNs are skipped, so that no id is ever used twice (ADR 23). Must never know which
process calls it.
"""

from daybook.engine.commands import Start
from daybook.engine.core.core import LSNS_RESERVED
from daybook.engine.facts.events import BROKER_STOPPED, KIND
from daybook.journal.disk import Disk
from daybook.journal.segments.reader import read_blocks
from daybook.paging.tables.layout import LAYOUT
from daybook.recovery.directory import Recovered


def start_after(
    recovered: Recovered, disk: Disk, version: str, reserved: int = LSNS_RESERVED
) -> Start:
    """Return the command with which a broker starts on the state recovered from a disk.

    `reserved` is `lsns_reserved` of the broker before. Raises JournalError.
    """
    start = Start(version=version, level=recovered.journal.level)
    repair = recovered.repair
    if repair is not None and repair.cut_bytes:
        start.cut_bytes = repair.cut_bytes
        start.cut_segment = repair.segment
        start.cut_offset = repair.cut_offset
    last_lsn = recovered.journal.next_lsn - 1
    if last_lsn and not ended_cleanly(disk, last_lsn):
        start.skipped = reserved
    return start


def ended_cleanly(disk: Disk, last_lsn: int) -> bool:
    """Return whether the last event of a journal records a clean stop. Raises JournalError."""
    kind = 0
    for block in read_blocks(disk, LAYOUT, from_lsn=last_lsn, heaps=False):
        if block.count:
            kind = int(block.columns()[KIND][-1])
    return kind == BROKER_STOPPED
