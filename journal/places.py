"""Places in a journal: where a block begins, or the next one will (ADR 118).

A place is the same in each copy of a journal, since the copies have the same bytes. Must never know
why somebody asks.
"""

from contextlib import suppress
from typing import Final, NamedTuple

from daybook.journal.blocks.format import (
    FIRST_LSN,
    NO_HASH,
    SEGMENT_HEADER_BYTES,
    TRAILER_BYTES,
    Damage,
    peek_footer_offset,
    peek_segment_header_bytes,
    segment_first_lsn,
    segment_name,
)
from daybook.journal.disk import Disk
from daybook.journal.errors import Corruption, NoJournal
from daybook.journal.segments.segment import Segment, open_segment, segment_names


class Place(NamedTuple):
    """The offset of a byte in the segment that begins with an LSN; later places are greater."""

    segment: int
    offset: int


BEFORE_ALL: Final = Place(0, 0)
"""The place of a copy that has no segment yet."""


class Run(NamedTuple):
    """Whole blocks, in one segment: where they begin, and how many bytes they have."""

    place: Place
    size: int


class Begun(NamedTuple):
    """The next segment, with the bytes of its header."""

    place: Place
    header: bytes


def next_part(disk: Disk, place: Place, until: Place) -> Run | Begun | None:
    """Return what follows in a journal behind a place, up to another one; None if nothing does.

    Raises NoJournal if the segment left meanwhile, Corruption and OSError.
    """
    if place >= until:
        return None
    end = until.offset if place.segment == until.segment else _end_of_blocks(disk, place.segment)
    if place.offset < end:
        return Run(place, end - place.offset)
    begun = _begun(disk, place)
    # A segment without blocks may yet be replaced by a larger one of the same name.
    return begun if begun.place < until else None


def bytes_between(disk: Disk, place: Place, end: Place) -> int:
    """Return how many bytes of the journal are between two places, as far as they are still there.
    Raises OSError."""
    if place >= end:
        return 0
    if place.segment == end.segment:
        return end.offset - place.offset
    found = end.offset - place.offset
    for name in segment_names(disk):
        first = segment_first_lsn(name)
        if first is not None and place.segment <= first < end.segment:
            with suppress(FileNotFoundError):
                file = disk.open(name)
                try:
                    found += file.size()
                finally:
                    file.close()
    return max(found, 0)


def end_at(disk: Disk, place: Place) -> tuple[int, bytes]:
    """Return the LSN of the next event at a place, and the hash of the block before it. Raises
    NoJournal if the segment is not there, Corruption if no block ends there, and OSError."""
    if place == BEFORE_ALL:
        return FIRST_LSN, NO_HASH
    try:
        segment = open_segment(disk, segment_name(place.segment))
    except FileNotFoundError:
        raise NoJournal(f"there is no segment {segment_name(place.segment)}") from None
    try:
        return end_in(segment, place)
    finally:
        segment.close()


def end_in(segment: Segment, place: Place) -> tuple[int, bytes]:
    """As `end_at`, in an open segment."""
    offset, lsn = segment.first_offset, segment.header.first_lsn
    hashed = segment.header.previous_hash
    try:
        while offset < place.offset:
            block = segment.block_at(offset, with_heap=True)
            offset += block.header.block_bytes
            lsn, hashed = block.header.next_lsn, block.hash
    except Damage as damage:
        raise Corruption(segment.name, offset, lsn, str(damage)) from damage
    if offset != place.offset:
        raise Corruption(segment.name, place.offset, lsn, "no block ends there")
    return lsn, hashed


def _begun(disk: Disk, place: Place) -> Begun:
    for name in segment_names(disk):
        first = segment_first_lsn(name)
        if first is not None and first > place.segment:
            break
    else:
        raise NoJournal(f"there is no segment behind {segment_name(place.segment)}")
    return segment_begun(disk, first)


def segment_begun(disk: Disk, first: int) -> Begun:
    """Return the header of a segment, and the place of its first block. Raises Corruption and
    OSError."""
    name = segment_name(first)
    file = disk.open(name)
    try:
        size = peek_segment_header_bytes(file.pread(SEGMENT_HEADER_BYTES, 0))
        return Begun(Place(first, size), file.pread(size, 0))
    except Damage as damage:
        raise Corruption(name, 0, first, str(damage)) from damage
    finally:
        file.close()


def _end_of_blocks(disk: Disk, segment: int) -> int:
    """Return where the blocks of a sealed segment end."""
    if segment == BEFORE_ALL.segment:
        return 0
    name = segment_name(segment)
    try:
        file = disk.open(name)
    except FileNotFoundError:
        raise NoJournal(f"segment {name} has left") from None
    try:
        return peek_footer_offset(file.pread(TRAILER_BYTES, max(0, file.size() - TRAILER_BYTES)))
    except Damage as damage:
        raise Corruption(name, 0, segment, str(damage)) from damage
    finally:
        file.close()
