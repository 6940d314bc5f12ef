"""The points of a journal at which a machine may have died: its blocks, found by footers.

Reads headers and footers only, so that a journal of any size is listed in seconds. Must never know
the possible states of a block on disk.
"""

import random
from collections.abc import Iterator
from typing import NamedTuple

from daybook.errors import DaybookError
from daybook.journal.blocks.format import (
    BLOCK_HEADER_BYTES,
    Damage,
    FooterEntry,
    segment_first_lsn,
    unpack_block_header,
)
from daybook.journal.disk import Disk
from daybook.journal.errors import Corruption
from daybook.journal.segments.reader import read_blocks
from daybook.journal.segments.segment import Segment, open_segment, segment_names
from daybook.paging.tables.layout import LAYOUT


class Point(NamedTuple):
    """A block that was being written: its segment and place, its first event and their number (0:
    a mark), the block before it in the segment (0: none), and whether the segment was sealed
    behind it."""

    segment: str
    offset: int
    first_lsn: int
    events: int
    before: int
    is_last: bool

    @property
    def last_lsn(self) -> int:
        """LSN of the last event; of a mark, of the event before it."""
        return self.first_lsn + self.events - 1


class NoSuchPoint(DaybookError):
    """The journal has no block with the event that was asked for."""


def points_of(disk: Disk) -> Iterator[Point]:
    """Yield all blocks of a journal in order. Raises JournalError and OSError."""
    names = segment_names(disk)
    for number, name in enumerate(names):
        before = 0
        previous: Point | None = None
        for offset, first_lsn, count in _blocks(disk, name):
            if previous is not None:
                yield previous
            previous = Point(name, offset, first_lsn, count, before, False)
            before = offset
        if previous is not None:
            yield previous._replace(is_last=number + 1 < len(names))


def _blocks(disk: Disk, name: str) -> Iterator[tuple[int, int, int]]:
    """Yield place, first event and number of events of the blocks of a segment."""
    segment = open_segment(disk, name, LAYOUT)
    try:
        entries = [(each.offset, each.first_lsn, each.event_count) for each in _footer(segment)]
    finally:
        segment.close()
    if entries:
        yield from entries
        return
    for block in read_blocks(disk, LAYOUT, from_lsn=segment_first_lsn(name) or 1, heaps=False):
        if block.segment != name:
            return
        yield block.offset, block.first_lsn, block.count


def _footer(segment: Segment) -> list[FooterEntry]:
    try:
        return list(segment.footer().entries())
    except Damage:
        return []


def block_bytes(disk: Disk, point: Point) -> bytes:
    """Return the block of a point as it is on disk. Raises JournalError and OSError."""
    segment = open_segment(disk, point.segment, LAYOUT)
    try:
        packed = segment.file.pread(BLOCK_HEADER_BYTES, point.offset)
        return segment.file.pread(
            unpack_block_header(packed, segment.salt).block_bytes, point.offset
        )
    except Damage as damage:
        raise Corruption(point.segment, point.offset, point.first_lsn, str(damage)) from damage
    finally:
        segment.close()


def drawn(points: list[Point], wanted: int, seed: int) -> list[Point]:
    """Return a sample in order: the first and the last block, a quarter of blocks at the borders of
    segments, and of the others whatever the seed draws."""
    if wanted >= len(points):
        return points
    chance = random.Random(f"points {seed}")
    borders = {number for number, point in enumerate(points) if point.is_last or not point.before}
    chosen = set([0, len(points) - 1][:wanted])
    chosen |= set(chance.sample(sorted(borders), min(len(borders), wanted // 4)))
    others = [number for number in range(len(points)) if number not in chosen]
    chosen |= set(chance.sample(others, max(0, wanted - len(chosen))))
    return [points[number] for number in sorted(chosen)]


def point_at(points: list[Point], place: str) -> Point:
    """Return the point that is named by an event or as SEGMENT:OFFSET. Raises NoSuchPoint."""
    for point in points:
        by_lsn = place.isdecimal() and point.first_lsn <= int(place) <= point.last_lsn
        if by_lsn or place == named(point):
            return point
    raise NoSuchPoint(
        f"no block has event {place}, or begins at that SEGMENT:OFFSET: the journal has events "
        f"{points[0].first_lsn} to {points[-1].last_lsn}"
    )


def named(point: Point) -> str:
    """Return the place of a block as SEGMENT:OFFSET."""
    return f"{point.segment}:{point.offset}"
