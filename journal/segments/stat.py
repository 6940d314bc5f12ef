"""Sizes, ratios and counts of a journal, segment by segment, as data.

Read from footers, or from the rows frames where there is no sound footer. Bodies are never read.
Must never know: what a column means.
"""

import msgspec

from daybook.journal.blocks.format import Damage, FooterEntry
from daybook.journal.disk import Disk
from daybook.journal.errors import Corruption, NoJournal
from daybook.journal.segments.repair import footer_entry, summary_of
from daybook.journal.segments.segment import Segment, left_meanwhile, open_segment, segment_names


class SegmentStat(msgspec.Struct, frozen=True):
    """The figures of a segment. Times are microseconds since 1970 UTC, 0 if there are no events;
    `level` is its feature level."""

    name: str
    sealed: bool
    first_lsn: int
    last_lsn: int
    blocks: int
    marks: int
    events: int
    file_bytes: int
    used_bytes: int
    rows_raw_bytes: int
    rows_stored_bytes: int
    heap_raw_bytes: int
    heap_stored_bytes: int
    time_min: int
    time_max: int
    level: int


class JournalStat(msgspec.Struct, frozen=True):
    """The figures of all segments, oldest first, and their sums."""

    segments: tuple[SegmentStat, ...]
    data_id: str

    @property
    def levels(self) -> dict[int, int]:
        """The feature levels of the segments, and the first LSN of the first segment of each."""
        return {segment.level: segment.first_lsn for segment in reversed(self.segments)}

    @property
    def events(self) -> int:
        """Number of events."""
        return sum(segment.events for segment in self.segments)

    @property
    def file_bytes(self) -> int:
        """Bytes of all segment files, including reserved space in the newest."""
        return sum(segment.file_bytes for segment in self.segments)

    @property
    def raw_bytes(self) -> int:
        """Bytes of rows and heaps before compression."""
        return sum(segment.rows_raw_bytes + segment.heap_raw_bytes for segment in self.segments)

    @property
    def stored_bytes(self) -> int:
        """Bytes of rows and heaps after compression."""
        return sum(
            segment.rows_stored_bytes + segment.heap_stored_bytes for segment in self.segments
        )

    @property
    def ratio(self) -> float:
        """Compression ratio: raw bytes divided by stored bytes; 1 for an empty journal."""
        return self.raw_bytes / self.stored_bytes if self.stored_bytes else 1.0


def stat(disk: Disk) -> JournalStat:
    """Return the figures of the journal; raises JournalError and OSError."""
    names = segment_names(disk)
    if not names:
        raise NoJournal("there is no journal in the directory")
    figures = []
    data_id = b""
    for name in names:
        try:
            segment = open_segment(disk, name)
        except FileNotFoundError as error:
            raise left_meanwhile(name) from error
        try:
            data_id = segment.header.data_id
            figures.append(_segment_stat(segment))
        except Damage as damage:
            raise Corruption(name, 0, segment.header.first_lsn, str(damage)) from damage
        finally:
            segment.close()
    return JournalStat(tuple(figures), data_id.hex())


def _segment_stat(segment: Segment) -> SegmentStat:
    try:
        entries = tuple(segment.footer().entries())
        sealed = True
    except Damage:
        entries = _walked(segment)
        sealed = False
    data = [entry for entry in entries if entry.event_count]
    events = sum(entry.event_count for entry in data)
    file_bytes = segment.file.size()
    end = entries[-1].end if entries else segment.first_offset
    return SegmentStat(
        name=segment.name,
        sealed=sealed,
        first_lsn=segment.header.first_lsn,
        last_lsn=segment.header.first_lsn + events - 1,
        blocks=len(data),
        marks=len(entries) - len(data),
        events=events,
        file_bytes=file_bytes,
        used_bytes=file_bytes if sealed else end,
        rows_raw_bytes=events * segment.codec().layout.stored_row_bytes(),
        rows_stored_bytes=sum(entry.rows_stored_bytes for entry in data),
        heap_raw_bytes=sum(entry.heap_raw_bytes for entry in data),
        heap_stored_bytes=sum(entry.heap_stored_bytes for entry in data),
        time_min=min((entry.time_min for entry in data), default=0),
        time_max=max((entry.time_max for entry in data), default=0),
        level=segment.header.level,
    )


def _walked(segment: Segment) -> tuple[FooterEntry, ...]:
    """Return the entries that a footer would have, up to the first block that is not sound."""
    codec = segment.codec()
    entries = []
    offset = segment.first_offset
    while True:
        try:
            block = segment.block_at(offset, with_heap=False)
            entries.append(footer_entry(block, offset, summary_of(codec, block)))
        except Damage:
            return tuple(entries)
        offset += block.header.block_bytes
