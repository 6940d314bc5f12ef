"""Checks that the segments of a journal follow each other, so that none between them is missing.

This runs at every start, so it must be cheap: it reads only the beginning and the end of each
segment, never a block. A sealed segment ends with the hash of its last block, and the next segment
begins with the same hash. More is read only where these differ. Fault model: a segment may be
missing, or belong to another journal. Damage in a segment is not reported here: its readers and
`verify` find it. Must never know what a block contains.
"""

from daybook.journal.blocks.format import (
    SEGMENT_HEADER,
    SEGMENT_HEADER_BYTES,
    TRAILER,
    TRAILER_BYTES,
    Damage,
    segment_first_lsn,
)
from daybook.journal.disk import Disk
from daybook.journal.errors import Corruption, JournalError
from daybook.journal.segments.segment import Segment, open_segment

_PREVIOUS_HASH = 6
_LAST_HASH = 1


def check_succession(disk: Disk, names: list[str]) -> None:
    """Check that each of these segments, oldest first, continues the one before it.

    All but the newest are sealed. Raises Corruption, which names the missing events, and OSError.
    """
    ended = b""
    for place, name in enumerate(names):
        begins, ends = _outline(disk, name)
        if place and begins != ended:
            _look_closer(disk, names[place - 1], name)
        ended = ends


def _outline(disk: Disk, name: str) -> tuple[bytes, bytes]:
    """Return the hashes at the beginning and the end of a segment, unchecked."""
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
    """Raise Corruption if events are missing between two segments, unless these are damaged."""
    first_lsn = segment_first_lsn(name)
    assert first_lsn is not None
    segment = _opened(disk, before)
    if segment is None:
        return
    try:
        footer = segment.footer()
    except Damage:
        # Footers are derived data: `verify` reports a damaged one, and readers work without it.
        return
    finally:
        segment.close()
    if footer.last_lsn + 1 != first_lsn:
        raise Corruption(
            name,
            0,
            footer.last_lsn + 1,
            f"events {footer.last_lsn + 1} to {first_lsn - 1} are missing: segment {before} ends "
            f"with event {footer.last_lsn}, and this is the next existing one",
        )
    segment = _opened(disk, name)
    if segment is None:
        return
    segment.close()
    if segment.header.previous_hash != footer.last_hash:
        raise Corruption(name, 0, first_lsn, f"it does not follow segment {before}")


def _opened(disk: Disk, name: str) -> Segment | None:
    """Open a segment; return None if its header is not sound."""
    try:
        return open_segment(disk, name)
    except JournalError:
        return None
