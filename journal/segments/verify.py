"""Checks a whole journal: crcs, the hash chain across segments, LSNs, footers against blocks.

Each segment is checked by itself (`journal.segments.segment_check`), in any order and in any
process; then the checks are joined, which compares where each segment begins with where the one
before it ended. It continues after damage as far as possible, so that one report names every
damaged place. Bytes at the very end that were never proven durable are not a fault but the `tail`:
torn, or being written now. The journal may begin at any LSN, because retention removes the oldest
segments. If the newest segment has a manifest beside it, the segments come from an archive and end
with a sealed one.

Must never know: what a column means.
"""

from collections.abc import Callable, Iterable

import msgspec

from daybook.journal.blocks.block import Block
from daybook.journal.disk import Disk
from daybook.journal.errors import NoJournal
from daybook.journal.segments.segment import segment_names
from daybook.journal.segments.segment_check import Fault, SegmentCheck, check_segment, sound_header


class Report(msgspec.Struct):
    """The result of `verify`. `tail` is an unfinished last block; the next start cuts it.

    History begins at `first_lsn`; earlier events have left the journal. `archived` is set if the
    segments come from an archive, so others may have followed.
    """

    segments: int = 0
    blocks: int = 0
    marks: int = 0
    events: int = 0
    first_lsn: int = 0
    last_lsn: int = 0
    last_hash: str = ""
    faults: list[Fault] = []
    tail: Fault | None = None
    archived: bool = False

    @property
    def ok(self) -> bool:
        """Whether there is no fault."""
        return not self.faults


def verify(
    disk: Disk,
    *,
    progress: Callable[[int], None] | None = None,
    observe: Callable[[Block], None] | None = None,
) -> Report:
    """Check the whole journal; `progress` is called with the number of bytes just checked, and
    `observe` with each sound block, in order.

    Damage is in the report. Raises NoJournal, NewerFormat, OSError, and JournalError if a segment
    is removed meanwhile.
    """
    names = segment_names(disk)
    if not names:
        raise NoJournal("there is no journal in the directory")
    reference = sound_header(disk, names)
    return join(
        check_segment(disk, name, names, reference, progress=progress, observe=observe)
        for name in names
    )


def verify_segment(disk: Disk, name: str) -> Report:
    """Check one segment by itself; raises as `verify`."""
    return join([check_segment(disk, name, [name], sound_header(disk, [name]))])


def join(checks: Iterable[SegmentCheck]) -> Report:
    """Return the report on segments that were checked apart, in order, and on their joints."""
    report = Report()
    lsn, last_hash = 0, b""
    data_id = ""
    for check in checks:
        report.segments += 1
        report.first_lsn = report.first_lsn or check.first_lsn
        report.blocks += check.blocks
        report.marks += check.marks
        report.events += check.events
        if check.blocks or check.marks:
            report.last_lsn, report.last_hash = check.last_lsn, check.last_hash
        if data_id and check.data_id not in ("", data_id) and not check.is_fork:
            what = "the segment belongs to another data directory"
            report.faults.append(Fault(check.segment, 0, check.first_lsn, what))
        data_id = check.data_id or data_id
        report.faults += check.faults[: check.header_faults]
        if lsn and lsn != check.first_lsn:
            what = _gap(lsn, check.first_lsn)
            report.faults.append(Fault(check.segment, 0, lsn, what))
        elif last_hash and check.carried_hash and check.carried_hash != last_hash.hex():
            report.faults.append(
                Fault(check.segment, check.carried_at, check.first_lsn, check.if_it_differs)
            )
        report.faults += check.faults[check.header_faults :]
        report.tail = check.tail or report.tail
        report.archived = report.archived or check.archived
        lsn, last_hash = check.next_lsn, bytes.fromhex(check.end_hash)
    return report


def _gap(expected_lsn: int, first_lsn: int) -> str:
    """Return the error text for a segment that does not begin where the one before it ended."""
    if first_lsn < expected_lsn:
        return f"LSN {expected_lsn} should follow: the segment repeats earlier events"
    last_lsn = first_lsn - 1
    missing = f"LSN {expected_lsn}" + (f" to {last_lsn}" if last_lsn > expected_lsn else "")
    return f"{missing} should come before: blocks or a segment are missing"
