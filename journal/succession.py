"""Whether the segments of a journal follow each other: none between the first and the last is lost.

Asked at every start, so it must cost little: of each segment the beginning and the end are read,
never a block. What a sealed segment says at its end, the hash of its last block, the next one says
at its beginning. Only where these differ more is read. Fault model: a segment may be gone, or be
that of another journal. What is damaged says nothing about its neighbours: it is found by who reads
it, and by `verify`. Must never know what a block holds.
"""

from daybook.journal.disk import Disk
from daybook.journal.errors import Corruption, JournalError
from daybook.journal.format import (
    SEGMENT_HEADER,
    SEGMENT_HEADER_BYTES,
    TRAILER,
    TRAILER_BYTES,
    Damage,
    segment_first_lsn,
)
from daybook.journal.segment import Segment, open_segment

_PREVIOUS_HASH = 6
_LAST_HASH = 1


def check_succession(disk: Disk, names: list[str]) -> None:
    """Check that each of these segments, oldest first, goes on where the one before it ended.

    All but the newest are sealed. Raises Corruption, naming the events that are missing, and
    OSError.
    """
    ended = b""
    for place, name in enumerate(names):
        begins, ends = _outline(disk, name)
        if place and begins != ended:
            _look_closer(disk, names[place - 1], name)
        ended = ends


def _outline(disk: Disk, name: str) -> tuple[bytes, bytes]:
    """The hash before the first block of a segment, and that of its last; whatever stands there."""
    file = disk.open(name)
    try:
        header = file.pread(SEGMENT_HEADER_BYTES, 0)
        trailer = file.pread(TRAILER_BYTES, max(0, file.size() - TRAILER_BYTES))
    finally:
        file.close()
    begins = SEGMENT_HEADER.unpack(header)[_PREVIOUS_HASH] if _is_whole(header) else b""
    ends = TRAILER.unpack(trailer)[_LAST_HASH] if len(trailer) == TRAILER_BYTES else b""
    return begins, ends


def _is_whole(header: bytes) -> bool:
    return len(header) == SEGMENT_HEADER_BYTES


def _look_closer(disk: Disk, before: str, name: str) -> None:
    """Say what is missing between two segments, if what they say checks out."""
    first_lsn = segment_first_lsn(name)
    assert first_lsn is not None
    segment = _opened(disk, before)
    if segment is None:
        return
    try:
        footer = segment.footer()
    except Damage:
        # Footers are derived; `verify` reports a damaged one, and readers do without.
        return
    finally:
        segment.close()
    if footer.last_lsn + 1 != first_lsn:
        raise Corruption(
            name,
            0,
            footer.last_lsn + 1,
            f"events {footer.last_lsn + 1} to {first_lsn - 1} are missing: segment {before} ends "
            f"with event {footer.last_lsn}, and this is the next one that is there",
        )
    segment = _opened(disk, name)
    if segment is None:
        return
    segment.close()
    if segment.header.previous_hash != footer.last_hash:
        raise Corruption(name, 0, first_lsn, f"it does not follow segment {before}")


def _opened(disk: Disk, name: str) -> Segment | None:
    """A segment whose header checks out, None if it does not."""
    try:
        return open_segment(disk, name)
    except JournalError:
        return None
