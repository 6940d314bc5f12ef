"""Everything sound in a damaged journal: blocks in the order of their events, and the gaps.

Fault model: any segment may be missing, cut short, or contain anything anywhere, and may refuse to
be read. A block is sound if the crcs of its header (which begin with the data id) and of both its
frames match, and if it can be decoded. All other events are gaps. Only reads.
Must never know what a column means.
"""

from collections.abc import Callable, Iterator
from typing import TypeAlias

import msgspec

from daybook.journal.blocks.block import Block, BlockCodec
from daybook.journal.blocks.format import (
    BLOCK_HEADER_BYTES,
    FIRST_LSN,
    Damage,
    Footer,
    FooterEntry,
    SegmentHeader,
    UnknownVersion,
    segment_first_lsn,
    unpack_block_header,
)
from daybook.journal.disk import Disk
from daybook.journal.errors import NoJournal
from daybook.journal.segments.segment import (
    Segment,
    look_behind,
    newer_format,
    read_segment_header,
    segment_names,
)


class Gap(msgspec.Struct, frozen=True):
    """Events that are missing, and where: the segment, the offset and the number of bytes there.

    `what` says why. If the footer of the segment is sound, `blocks` are its entries for the damaged
    blocks, which tell times, messages, kinds and queues.
    """

    first_lsn: int
    last_lsn: int
    segment: str
    offset: int
    bytes: int
    what: str
    blocks: tuple[FooterEntry, ...] = ()


class Broken(msgspec.Struct, frozen=True):
    """A place where the hash chain is broken although no event is missing."""

    segment: str
    offset: int
    lsn: int


Piece: TypeAlias = Block | Gap | Broken


def pieces(
    disk: Disk, data_id: bytes = b"", *, progress: Callable[[int], None] | None = None
) -> Iterator[Piece]:
    """Yield every sound block, and before it a Gap if events are missing before it.

    `data_id` serves segments with a damaged header if no other has a sound one. A gap before the
    first segment is not reported: retention removes segments there. `progress` is called with the
    number of bytes just read. Raises NoJournal and NewerFormat.
    """
    names = segment_names(disk)
    if not names:
        raise NoJournal("there are no segments: the journal cannot be salvaged")
    walk = _Walk(disk, names, data_id, progress)
    for name in names:
        yield from walk.segment(name)
    yield from walk.end()


class _Walk:
    """The state of a walk: the next LSN that is expected, and the hash that it follows."""

    def __init__(
        self,
        disk: Disk,
        names: list[str],
        data_id: bytes,
        progress: Callable[[int], None] | None,
    ) -> None:
        self._disk = disk
        self._progress = progress
        self._headers = {name: self._sound_header(name) for name in names}
        known = [header for header in self._headers.values() if header is not None]
        if not known and not data_id:
            raise NoJournal(
                "no segment has a sound header, and the file 'data-id' does not identify the "
                "journal: its content cannot be distinguished from damage"
            )
        self._reference = known[0] if known else None
        self._data_id = data_id
        self._lsn = segment_first_lsn(names[0]) or FIRST_LSN
        self._hash = b""
        self._why = ("", 0, 0, "")
        self._blocks: list[FooterEntry] = []
        self._newest = names[-1]
        self._sealed_at = 0

    def _sound_header(self, name: str) -> SegmentHeader | None:
        try:
            file = self._disk.open(name)
        except OSError:
            return None
        try:
            return read_segment_header(file)
        except UnknownVersion as unknown:
            raise newer_format(name, unknown) from unknown
        except (Damage, OSError):
            return None
        finally:
            file.close()

    def _header_of(self, name: str) -> SegmentHeader | None:
        """Return the header of a segment, or one made of another's if its own is damaged."""
        found = self._headers[name]
        first_lsn = segment_first_lsn(name) or FIRST_LSN
        if found is not None and found.first_lsn == first_lsn:
            self._reference = found
            return found
        self._note(name, 0, 0, "the segment header is damaged")
        if self._reference is None:
            return None
        return self._reference._replace(first_lsn=first_lsn, previous_hash=b"")

    def _note(self, name: str, offset: int, size: int, what: str) -> None:
        """Remember the first damage since the last sound block."""
        if not self._why[0]:
            self._why = (name, offset, size, what)
        else:
            first = self._why
            self._why = (first[0], first[1], first[2] + size, first[3])

    def segment(self, name: str) -> Iterator[Piece]:
        """Yield the sound blocks of one segment."""
        self._sealed_at = 0
        header = self._header_of(name)
        if header is None:
            return
        if header.first_lsn > self._lsn:
            self._note(name, 0, 0, "blocks or segments before this one are missing")
        try:
            file = self._disk.open(name)
        except OSError as error:
            self._note(name, 0, 0, f"the segment cannot be read: {error.strerror}")
            return
        segment = Segment(file, name, header)
        try:
            yield from self._within(segment, segment.codec())
        except Damage as damage:
            self._note(name, 0, 0, str(damage))
        finally:
            segment.close()

    def _within(self, segment: Segment, codec: BlockCodec) -> Iterator[Piece]:
        footer = _footer_of(segment)
        offset = segment.first_offset
        while footer is None or offset < footer.footer_offset:
            try:
                raw = segment.block_at(offset, with_heap=True)
                block = Block(codec, raw, segment.name)
                block.heaps()
            except (Damage, OSError) as error:
                behind = self._behind(segment, footer, offset)
                if behind or footer is not None or not _is_empty(segment, offset):
                    size = (behind or _size(segment)) - offset
                    self._note(segment.name, offset, max(size, 0), str(error))
                if not behind:
                    break
                offset = behind
                continue
            yield from self._sound(block)
            offset += block.header.block_bytes
            if self._progress is not None:
                self._progress(block.header.block_bytes)
        if footer is not None and footer.last_lsn >= self._lsn:
            yield from self._gap(footer.last_lsn + 1)
        if footer is not None or _begins_footer(segment, offset):
            self._sealed_at = offset

    def _sound(self, block: Block) -> Iterator[Piece]:
        if block.first_lsn < self._lsn or block.last_lsn < block.first_lsn - 1:
            self._note(block.segment, block.offset, 0, "a block repeats earlier events")
            return
        if block.first_lsn > self._lsn:
            yield from self._gap(block.first_lsn)
        elif self._hash and block.header.previous_hash != self._hash and not self._why[0]:
            yield Broken(block.segment, block.offset, block.first_lsn)
        self._why = ("", 0, 0, "")
        self._blocks.clear()
        yield block
        self._lsn = block.last_lsn + 1
        self._hash = block.hash

    def _gap(self, next_lsn: int) -> Iterator[Gap]:
        name, offset, size, what = self._why
        yield Gap(
            self._lsn, next_lsn - 1, name, offset, size, what or "blocks are missing",
            tuple(self._blocks),
        )  # fmt: skip
        self._lsn = next_lsn
        self._hash = b""
        self._why = ("", 0, 0, "")
        self._blocks.clear()

    def end(self) -> Iterator[Piece]:
        """Yield a gap of unknown length if the journal ends with damage, or with a segment that had
        a successor.
        """
        if self._sealed_at:
            what = "this segment is sealed, so another one followed it, which is missing"
            self._note(self._newest, self._sealed_at, 0, what)
        name, offset, size, what = self._why
        if name:
            yield Gap(self._lsn, self._lsn - 1, name, offset, size, what)

    def _behind(self, segment: Segment, footer: Footer | None, offset: int) -> int:
        """Return where to continue behind damage, 0 if no sound block follows in this segment."""
        segment.window.refresh()
        if footer is not None:
            entries = [entry for entry in footer.entries() if entry.offset >= offset]
            if entries and entries[0].offset == offset:
                self._blocks.append(entries.pop(0))
            return entries[0].offset if entries else 0
        try:
            packed = segment.window.take(BLOCK_HEADER_BYTES, offset)
            end = offset + unpack_block_header(packed, segment.salt).block_bytes
            unpack_block_header(segment.window.take(BLOCK_HEADER_BYTES, end), segment.salt)
            return end
        except (Damage, OSError):
            pass
        try:
            return look_behind(segment, offset, self._lsn).evidence_offset
        except OSError:
            return 0


def _footer_of(segment: Segment) -> Footer | None:
    try:
        return segment.footer()
    except (Damage, OSError):
        return None


def _begins_footer(segment: Segment, offset: int) -> bool:
    try:
        return segment.begins_footer_at(offset)
    except OSError:
        return False


def _size(segment: Segment) -> int:
    try:
        return segment.file.size()
    except OSError:
        return 0


def _is_empty(segment: Segment, offset: int) -> bool:
    """Whether only zeros follow: room that was never used."""
    try:
        return look_behind(segment, offset, 1).end <= offset or _begins_footer(segment, offset)
    except OSError:
        return False
