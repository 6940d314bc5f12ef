"""Checks a whole journal: crcs, the hash chain across segments, LSNs, footers against blocks.

It continues after damage as far as possible, so that one report names every damaged place. Bytes at
the very end that were never proven durable are not a fault but the `tail`: torn, or being written
now. The journal may begin at any LSN, because retention removes the oldest segments. If the newest
segment has a manifest beside it, the segments come from an archive and end with a sealed one.

Must never know: what a column means.
"""

from collections.abc import Callable

import msgspec

from daybook.journal.block import Block, BlockCodec, RawBlock
from daybook.journal.disk import Disk, File
from daybook.journal.errors import NewerFormat, NoJournal
from daybook.journal.format import (
    BLOCK_HEADER_BYTES,
    FORMAT_VERSION,
    Damage,
    Footer,
    SegmentHeader,
    UnknownVersion,
    manifest_name,
    pack_footer_entry,
    segment_first_lsn,
    unpack_block_header,
)
from daybook.journal.repair import check_link, cut_short, footer_entry, summary_of
from daybook.journal.segment import (
    NEXT_IS_MISSING,
    Segment,
    left_meanwhile,
    look_behind,
    read_segment_header,
    reserve_is_begun,
    segment_names,
)


class Fault(msgspec.Struct, frozen=True):
    """A damaged place: file, offset, first affected LSN (as far as known), and a description."""

    segment: str
    offset: int
    lsn: int
    what: str


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


def verify(disk: Disk, *, progress: Callable[[int], None] | None = None) -> Report:
    """Check the whole journal; `progress` is called with the number of bytes just checked.

    Damage is in the report. Raises NoJournal, NewerFormat, OSError, and JournalError if a segment
    is removed meanwhile.
    """
    names = segment_names(disk)
    if not names:
        raise NoJournal("there is no journal in the directory")
    verifier = _Verifier(disk, names, progress)
    for name in names:
        verifier.check(name)
    return verifier.report


def verify_segment(disk: Disk, name: str) -> Report:
    """Check one segment by itself; raises as `verify`."""
    verifier = _Verifier(disk, [name], None)
    verifier.check(name)
    return verifier.report


class _Verifier:
    """The state of the walk. After damage, `last_hash` is empty and `lsn` is 0: unknown."""

    def __init__(
        self, disk: Disk, names: list[str], progress: Callable[[int], None] | None
    ) -> None:
        self.report = Report()
        self._disk = disk
        self._names = names
        self._progress = progress
        self._reference = self._first_sound_header()
        self._name = ""
        self._lsn = 0
        self._last_hash = b""

    def _first_sound_header(self) -> SegmentHeader | None:
        """Find any sound header: it supplies data id and layout for segments with a damaged one."""
        for name in self._names:
            header = self._sound_header(name)
            if header is not None:
                return header
        return None

    def _sound_header(self, name: str) -> SegmentHeader | None:
        file = self._open(name)
        try:
            return read_segment_header(file)
        except Damage:
            return None
        except UnknownVersion as unknown:
            raise NewerFormat(name, unknown.version, FORMAT_VERSION) from unknown
        finally:
            file.close()

    def _open(self, name: str) -> File:
        try:
            return self._disk.open(name)
        except FileNotFoundError as error:
            raise left_meanwhile(name) from error

    def _fault(self, offset: int, what: str) -> None:
        self.report.faults.append(Fault(self._name, offset, self._lsn, what))

    def check(self, name: str) -> None:
        """Check one segment."""
        self._name = name
        self.report.segments += 1
        first_lsn = segment_first_lsn(name) or 0
        if self._lsn and self._lsn != first_lsn:
            self._fault(0, _gap(self._lsn, first_lsn))
            # Only the missing blocks could tell what the next hash should be.
            self._last_hash = b""
        self._lsn = first_lsn
        self.report.first_lsn = self.report.first_lsn or first_lsn
        file = self._open(name)
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
            raise NewerFormat(name, unknown.version, FORMAT_VERSION) from unknown
        segment = Segment(file, name, header)
        try:
            self._walk(segment, segment.codec())
        except Damage as damage:
            self._fault(0, str(damage))
        finally:
            segment.close()

    def _header(self, header: SegmentHeader, first_lsn: int) -> SegmentHeader:
        """Check a sound header against the file name and the segment before."""
        assert self._reference is not None
        if header.first_lsn != first_lsn:
            self._fault(0, f"the segment header says LSN {header.first_lsn}, the name {first_lsn}")
        if header.data_id != self._reference.data_id:
            self._fault(0, "the segment belongs to another data directory")
        if header.layout != self._reference.layout:
            self._fault(0, "the segment has other columns than the first one")
        if self._last_hash and header.previous_hash != self._last_hash:
            self._fault(0, "the segment does not carry the hash of the last block before it")
        self._last_hash = header.previous_hash
        return header

    def _walk(self, segment: Segment, codec: BlockCodec) -> None:
        """Check all blocks of a segment, then its footer."""
        footer, problem = _footer_of(segment)
        faults_before = len(self.report.faults)
        entries = bytearray()
        end = offset = segment.first_offset
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
        """Check that nothing is missing at the end; a broker may be sealing the segment now."""
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

    def _sound_block(self, codec: BlockCodec, block: RawBlock, entries: bytearray) -> None:
        """Check that a block whose crcs match belongs here and can be decoded."""
        header = block.header
        try:
            check_link(
                block,
                self._lsn or header.first_lsn,
                self._last_hash or header.previous_hash,
            )
            entry = footer_entry(block, block.offset, summary_of(codec, block))
            entries += pack_footer_entry(entry)
            Block(codec, block, self._name).heaps()
        except Damage as damage:
            self._fault(block.offset, str(damage))
        self._lsn = header.next_lsn
        self._last_hash = block.hash
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


def _gap(expected_lsn: int, first_lsn: int) -> str:
    """Return the error text for a segment that does not begin where the one before it ended."""
    if first_lsn < expected_lsn:
        return f"LSN {expected_lsn} should follow: the segment repeats earlier events"
    last_lsn = first_lsn - 1
    missing = f"LSN {expected_lsn}" + (f" to {last_lsn}" if last_lsn > expected_lsn else "")
    return f"{missing} should come before: blocks or a segment are missing"


def _footer_of(segment: Segment) -> tuple[Footer | None, str]:
    try:
        return segment.footer(), ""
    except Damage as damage:
        return None, str(damage)
