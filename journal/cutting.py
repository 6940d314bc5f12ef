"""Cutting the end of a journal off, where another machine's history goes another way (ADR 118).

The part that is cut is copied first: as a journal of its own, which begins behind the cut and which
`journal salvage` reads. The cut is decided by a file, so one that was interrupted is finished at
the next start, before anything reads the journal.

Invariants: until the decision is durable, nothing has changed; from then on, whatever happens, the
journal ends at the place of the decision and the copy has all that was behind it. Must never know
why there is a cut.
"""

from struct import Struct
from typing import Final

from crc32c import crc32c

from daybook.journal.blocks.format import (
    Damage,
    pack_segment_header,
    segment_first_lsn,
    segment_name,
)
from daybook.journal.disk import Disk, write_all
from daybook.journal.errors import JournalError
from daybook.journal.places import Place, end_in
from daybook.journal.segments.segment import Segment, open_segment, segment_names

CUT_NAME: Final = "next.cut"
"""The file with a decision."""
_UNFINISHED: Final = "next.cut.part"
_DECISION: Final = Struct("<QQI")
_COPY_BYTES: Final = 1 << 20


def decide_cut(disk: Disk, place: Place) -> None:
    """Decide to cut off everything behind a place; `finish_cut` carries it out. Raises OSError."""
    packed = _DECISION.pack(*place, crc32c(_DECISION.pack(*place, 0)))
    file = disk.open_for_writing(_UNFINISHED)
    try:
        write_all(file, packed, 0)
        file.fdatasync()
    finally:
        file.close()
    disk.rename(_UNFINISHED, CUT_NAME)
    disk.sync_directory()


def decided_cut(disk: Disk) -> Place | None:
    """Return the place of a cut that was decided and not finished. Raises JournalError."""
    try:
        file = disk.open(CUT_NAME)
    except FileNotFoundError:
        return None
    try:
        packed = file.pread(_DECISION.size, 0)
    finally:
        file.close()
    if len(packed) == _DECISION.size:
        segment, offset, crc = _DECISION.unpack(packed)
        if crc == crc32c(_DECISION.pack(segment, offset, 0)):
            return Place(segment, offset)
    raise JournalError(
        f"{CUT_NAME} says where the journal is to be cut, and is damaged: take the file away, and"
        " the cut is decided again"
    )


def finish_cut(disk: Disk, kept: Disk) -> None:
    """Carry out a cut that was decided, if one was; `kept` gets what is cut off.

    Raises JournalError and OSError; then it may be tried again.
    """
    place = decided_cut(disk)
    if place is None:
        return
    # The process that decided may have ended before the decision was on the disk.
    disk.sync_directory()
    later = [name for name in segment_names(disk) if (segment_first_lsn(name) or 0) > place.segment]
    _keep(disk, kept, place, later)
    for name in reversed(later):
        disk.remove(name)
        # One by one: a journal without a segment in the middle cannot be continued.
        disk.sync_directory()
    blank_behind(disk, place)
    disk.remove(CUT_NAME)
    disk.sync_directory()


def _keep(disk: Disk, kept: Disk, place: Place, later: list[str]) -> None:
    """Copy everything behind a place. Files that are there already are part of the same copy."""
    segment = open_segment(disk, segment_name(place.segment))
    try:
        first_lsn, previous_hash = end_in(segment, place)
        end = end_of_sound_blocks(segment, place)
        if end > place.offset:
            header = pack_segment_header(
                first_lsn=first_lsn,
                data_id=segment.header.data_id,
                previous_hash=previous_hash,
                segment_bytes=segment.header.segment_bytes,
                layout=segment.header.layout,
                level=segment.header.level,
                flags=segment.header.flags,
            )
            size = segment.header.segment_bytes
            _copy(segment, kept, segment_name(first_lsn), header, place.offset, end, size)
    finally:
        segment.close()
    for name in later:
        following = open_segment(disk, name)
        try:
            _copy(following, kept, name, b"", 0, following.file.size(), 0)
        finally:
            following.close()
    kept.sync_directory()


def end_of_sound_blocks(segment: Segment, place: Place) -> int:
    """Return where the sound blocks behind a place end."""
    offset = place.offset
    try:
        while True:
            offset += segment.block_at(offset, with_heap=True).header.block_bytes
    except Damage:
        return offset


def _copy(
    segment: Segment, kept: Disk, name: str, header: bytes, start: int, end: int, size: int
) -> None:
    file = kept.open_for_writing(name)
    try:
        write_all(file, header, 0)
        at = len(header)
        while start < end:
            part = segment.file.pread(min(_COPY_BYTES, end - start), start)
            write_all(file, part, at)
            start, at = start + len(part), at + len(part)
        if size:
            file.allocate(size)
        file.fdatasync()
    finally:
        file.close()


def blank_behind(disk: Disk, place: Place) -> None:
    """Fill the segment with zeros behind a place, up to the size that was reserved for it; durable
    when this returns. Raises JournalError and OSError."""
    name = segment_name(place.segment)
    segment = open_segment(disk, name)
    size = segment.header.segment_bytes
    segment.close()
    file = disk.open_for_writing(name)
    try:
        file.truncate(place.offset)
        file.allocate(size)
        file.fdatasync()
    finally:
        file.close()
