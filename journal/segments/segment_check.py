"""Checks one segment by itself: crcs, the hash chain in it, LSNs, its footer against its blocks.

The result has the expected end of the segment before it, for `journal.segments.verify` to compare:
so segments can be checked in any order, by several processes, and an unchanged one need not be
checked again. It continues after damage as far as possible.

Must never know: what a column means.
"""

from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from daybook.journal.blocks.block import Block, BlockCodec, RawBlock
from daybook.journal.blocks.format import (
    BLOCK_HEADER_BYTES,
    Damage,
    Footer,
    SegmentHeader,
    UnknownVersion,
    manifest_name,
    pack_footer_entry,
    segment_first_lsn,
    unpack_block_header,
)
from daybook.journal.blocks.summaries import summary_of_block
from daybook.journal.disk import Disk, File
from daybook.journal.segments.repair import check_link, cut_short, footer_entry
from daybook.journal.segments.segment import (
    NEXT_IS_MISSING,
    Segment,
    left_meanwhile,
    look_behind,
    newer_format,
    read_segment_header,
    reserve_is_begun,
    segment_names,
)

OTHER_SEGMENT_BEFORE: Final = "the segment does not carry the hash of the last block before it"
OTHER_BLOCK_BEFORE: Final = "the block does not carry the hash of the block before it"


class Fault(msgspec.Struct, frozen=True):
    """A damaged place: file, offset, first affected LSN (as far as known), and a description."""

    segment: str
    offset: int
    lsn: int
    what: str


class SegmentCheck(msgspec.Struct):
    """The result of the check of one segment, and the values that join it to its neighbours.

    `carried_hash` is the required hash of the block before the segment, "" if it is not known; it
    is written at `carried_at`. The first `header_faults` are about the header. `next_lsn` and
    `end_hash` are the required beginning of the next segment: 0 and "" if damage hides them.
    `data_id` is the same in all segments but those before one that `is_fork`. Hashes and ids are
    hexadecimal.
    """

    segment: str
    first_lsn: int
    blocks: int = 0
    marks: int = 0
    events: int = 0
    last_lsn: int = 0
    last_hash: str = ""
    faults: list[Fault] = []
    tail: Fault | None = None
    archived: bool = False
    carried_hash: str = ""
    carried_at: int = 0
    header_faults: int = 0
    next_lsn: int = 0
    end_hash: str = ""
    data_id: str = ""
    is_fork: bool = False

    @property
    def if_it_differs(self) -> str:
        """The description of the fault if another hash is carried."""
        return OTHER_BLOCK_BEFORE if self.carried_at else OTHER_SEGMENT_BEFORE


def check_segment(
    disk: Disk,
    name: str,
    names: Sequence[str],
    reference: SegmentHeader | None,
    *,
    progress: Callable[[int], None] | None = None,
    observe: Callable[[Block], None] | None = None,
) -> SegmentCheck:
    """Check a segment; `names` are all of the journal, `reference` is any sound header of it.

    `progress` is called with the number of bytes just checked, `observe` with each sound block, in
    order. Raises NewerFormat, OSError, and JournalError if the segment is removed meanwhile.
    """
    checker = _Checker(disk, name, names, reference, progress, observe)
    checker.check()
    return checker.done()


def sound_header(disk: Disk, names: Sequence[str]) -> SegmentHeader | None:
    """Find any sound header: it supplies data id and layout for segments with a damaged one.

    Raises as `check_segment`.
    """
    for name in names:
        file = _open(disk, name)
        try:
            return read_segment_header(file)
        except Damage:
            continue
        except UnknownVersion as unknown:
            raise newer_format(name, unknown) from unknown
        finally:
            file.close()
    return None


def _open(disk: Disk, name: str) -> File:
    try:
        return disk.open(name)
    except FileNotFoundError as error:
        raise left_meanwhile(name) from error


class _Checker:
    """The state of the walk. After damage, `_last_hash` is empty and `_lsn` is 0: unknown."""

    def __init__(
        self,
        disk: Disk,
        name: str,
        names: Sequence[str],
        reference: SegmentHeader | None,
        progress: Callable[[int], None] | None,
        observe: Callable[[Block], None] | None,
    ) -> None:
        self.report = SegmentCheck(name, segment_first_lsn(name) or 0, faults=[])
        self._disk = disk
        self._name = name
        self._names = names
        self._reference = reference
        self._progress = progress
        self._observe = observe
        self._lsn = self.report.first_lsn
        self._last_hash = b""
        self._first_offset = 0

    def done(self) -> SegmentCheck:
        """Return the result."""
        self.report.next_lsn = self._lsn
        self.report.end_hash = self._last_hash.hex()
        return self.report

    def _fault(self, offset: int, what: str) -> None:
        self.report.faults.append(Fault(self._name, offset, self._lsn, what))

    def check(self) -> None:
        """Check the segment."""
        first_lsn = self._lsn
        file = _open(self._disk, self._name)
        try:
            header = self._header(read_segment_header(file), first_lsn)
        except Damage as damage:
            self._fault(0, str(damage))
            if self._reference is None:
                file.close()
                return
            header = self._reference._replace(first_lsn=first_lsn)
        except UnknownVersion as unknown:
            file.close()
            raise newer_format(self._name, unknown) from unknown
        segment = Segment(file, self._name, header)
        try:
            self._walk(segment, segment.codec())
        except Damage as damage:
            self._fault(0, str(damage))
        finally:
            segment.close()

    def _header(self, header: SegmentHeader, first_lsn: int) -> SegmentHeader:
        """Check a sound header against the file name and the other segments."""
        assert self._reference is not None
        if header.first_lsn != first_lsn:
            self._fault(0, f"the segment header says LSN {header.first_lsn}, the name {first_lsn}")
        if header.layout != self._reference.layout:
            self._fault(0, "the segment has other columns than the first one")
        self._last_hash = header.previous_hash
        self.report.data_id, self.report.is_fork = header.data_id.hex(), header.is_fork
        self.report.carried_hash = header.previous_hash.hex()
        self.report.header_faults = len(self.report.faults)
        return header

    def _walk(self, segment: Segment, codec: BlockCodec) -> None:
        """Check all blocks of a segment, then its footer."""
        footer, problem = _footer_of(segment)
        faults_before = len(self.report.faults)
        entries = bytearray()
        end = offset = self._first_offset = segment.first_offset
        while footer is None or offset < footer.footer_offset:
            try:
                block = self._block(segment, offset)
            except Damage as damage:
                offset = self._behind(segment, footer, offset, str(damage))
                if offset == 0:
                    break
                continue
            self._sound_block(codec, block, entries)
            end = offset = offset + block.header.block_bytes
            if self._progress is not None:
                self._progress(block.header.block_bytes)
        if self._name == self._names[-1]:
            self._check_newest(segment, end)
        elif footer is None:
            self._fault(end, f"the footer is damaged: {problem}")
        if footer is not None and len(self.report.faults) == faults_before:
            self._check_footer(footer, entries)

    def _check_newest(self, segment: Segment, end: int) -> None:
        """Check that the end is complete; a broker may be sealing the segment now."""
        is_short = segment.is_cut_short
        segment.window.refresh()
        footer, _ = _footer_of(segment)
        if footer is None:
            if is_short:
                self._fault(segment.file.size(), cut_short(segment))
        elif manifest_name(self._name) in self._disk.names():
            self.report.archived = True
        elif not reserve_is_begun(self._disk) and segment_names(self._disk)[-1] == self._name:
            self._fault(end, NEXT_IS_MISSING)

    def _block(self, segment: Segment, offset: int) -> RawBlock:
        """Read a block, twice if needed: a writer may just have finished it. Raises Damage."""
        try:
            return segment.block_at(offset, with_heap=True)
        except Damage:
            segment.window.refresh()
            return segment.block_at(offset, with_heap=True)

    def _sound_block(self, codec: BlockCodec, raw: RawBlock, entries: bytearray) -> None:
        """Check that a block whose crcs match belongs here and can be decoded."""
        header = raw.header
        if not self._last_hash and raw.offset == self._first_offset:
            # The segment's own header is damaged; the segment still begins here.
            self.report.carried_hash = header.previous_hash.hex()
            self.report.carried_at = raw.offset
        block = Block(codec, raw, self._name)
        try:
            check_link(
                raw,
                self._lsn or header.first_lsn,
                self._last_hash or header.previous_hash,
            )
            entries += pack_footer_entry(footer_entry(raw, raw.offset, summary_of_block(block)))
            block.heaps()
        except Damage as damage:
            self._fault(raw.offset, str(damage))
        else:
            if self._observe is not None:
                self._observe(block)
        self._lsn = header.next_lsn
        self._last_hash = raw.hash
        self._count(header.event_count)

    def _count(self, event_count: int) -> None:
        report = self.report
        report.events += event_count
        report.blocks += event_count > 0
        report.marks += event_count == 0
        report.last_lsn = self._lsn - 1
        report.last_hash = self._last_hash.hex()

    def _behind(self, segment: Segment, footer: Footer | None, offset: int, what: str) -> int:
        """Report a place without a sound block; return where to continue, 0 at the end."""
        if footer is None:
            end = self._end(segment, offset, what)
            if end is not None:
                return end
        self._fault(offset, what)
        self._last_hash = b""
        try:
            packed = segment.window.take(BLOCK_HEADER_BYTES, offset)
            header = unpack_block_header(packed, segment.salt)
            self._lsn = header.next_lsn
            return offset + header.block_bytes
        except Damage:
            pass
        if footer is not None:
            later = next((entry for entry in footer.entries() if entry.offset > offset), None)
            if later is not None:
                self._lsn = later.first_lsn
                return later.offset
            self._lsn = footer.last_lsn + 1
            self._last_hash = footer.last_hash
            return 0
        evidence = look_behind(segment, offset, self._lsn).evidence_offset
        self._lsn = 0
        return evidence

    def _end(self, segment: Segment, offset: int, what: str) -> int | None:
        """Return 0 if a segment without a footer ends here, None if this is damage.

        Returns the offset itself if the writer has finished the block meanwhile.
        """
        behind = look_behind(segment, offset, self._lsn)
        if behind.evidence_offset:
            segment.window.refresh()
            try:
                segment.block_at(offset, with_heap=True)
            except Damage:
                return 0 if behind.evidence_offset == offset else None
            return offset
        if behind.end > offset and self._name == self._names[-1]:
            self.report.tail = Fault(self._name, offset, self._lsn, what)
        return 0

    def _check_footer(self, footer: Footer, entries: bytearray) -> None:
        """Check a footer against the blocks."""
        if footer.packed_entries != entries:
            self._fault(footer.footer_offset, "the footer lists other blocks than there are")
        elif footer.last_lsn != self._lsn - 1 or footer.last_hash != self._last_hash:
            self._fault(footer.footer_offset, "the footer ends with another block than the last")


def _footer_of(segment: Segment) -> tuple[Footer | None, str]:
    try:
        return segment.footer(), ""
    except Damage as damage:
        return None, str(damage)
